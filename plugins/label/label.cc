// The plugin `label`: connected components of images of any size.
#include "components.h"

CUBOID_PLUGIN("label", "1.0.0", label::Blocks, label::Unite, label::Relabel, label::Components)
