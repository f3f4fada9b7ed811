// The plugin `filter`: filters over a two-dimensional neighbourhood.
#include "gaussian.h"
#include "median.h"
#include "sobel.h"

CUBOID_PLUGIN("filter", "1.0.0", filter::Gaussian, filter::Median, filter::Sobel)
