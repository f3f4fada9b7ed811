// Rules between the fields of a manifest: which names a formula may mention, which axes may be cut into blocks.
#pragma once
#include <string>
#include <vector>

#include "engine/plugin/manifest.h"

namespace cuboid {

// Throws Error{plugin}, "FIELD: what is wrong", for a function whose fields are each valid but do not agree.
void check_function(const FunctionManifest& function);

// The axes that a block may cut: those of the first input that are neither named as core nor bound to be whole, because
// an output is not tiled by them or an input has them twice. In the order of the first input.
std::vector<std::string> cut_axes(const FunctionManifest& function);

}  // namespace cuboid
