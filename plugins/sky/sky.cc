// The plugin `sky`: catalogues of astronomical images.
#include "sources.h"

CUBOID_PLUGIN("sky", "1.0.0", sky::Sources)
