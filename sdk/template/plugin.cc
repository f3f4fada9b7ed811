#include "above.h"
CUBOID_PLUGIN("@NAME@", "0.1.0", Above)
