// Parameters of a plugin function: a user's values checked against the manifest before the plugin sees them.
#pragma once
#include <string>
#include <vector>

#include "engine/plugin/manifest.h"

namespace cuboid {

struct BoundParams {
  std::vector<ParamValue> values;  // parallel to FunctionManifest::params; of the declared type
  BoundaryMode boundary = BoundaryMode::clip;
  double boundary_value = 0;  // of BoundaryMode::constant

  // Those of type bool, int and float by name, as formulas see them.
  Expression::Variables numbers(const FunctionManifest& function) const;
};

// The function's parameters and those that the host adds (`boundary`, `boundary_value`), as users see them.
std::vector<ParamManifest> user_params(const FunctionManifest& function);

// Defaults filled in, integers made floats where a float is expected, ranges and choices checked. Throws Error{invalid}
// naming function, parameter, what was given, what was expected, and the nearest name for one that is unknown.
BoundParams bind_params(const FunctionManifest& function, const Params& given);

// One value. Throws Error{invalid} without the function's name.
ParamValue checked_value(const ParamManifest& param, const ParamValue& given);

// As people write it: 3, 0.5, "text", [1, 2].
std::string to_string(const ParamValue& value);

}  // namespace cuboid
