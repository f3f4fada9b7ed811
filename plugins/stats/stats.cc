// The plugin `stats`: reductions of whole arrays.
#include "histogram2d.h"

CUBOID_PLUGIN("stats", "1.0.0", stats::Histogram2d)
