// The plugin `terrain`: elevation models.
#include "peaks.h"
#include "relief.h"

CUBOID_PLUGIN("terrain", "1.0.0", terrain::Slope, terrain::Hillshade, terrain::Peaks)
