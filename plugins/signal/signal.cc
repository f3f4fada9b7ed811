// The plugin `signal`: one-dimensional signals.
#include "events.h"
#include "sta_lta.h"

CUBOID_PLUGIN("signal", "1.0.0", signals::Events, signals::StaLta)
