// JSON forms of the vocabulary of expressions, for plans, journals and attributes. Without loss.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/expr/array.h"

namespace cuboid {

nlohmann::json params_to_json(const Params& params);
Params params_from_json(const nlohmann::json& json);
nlohmann::json spec_to_json(const ArraySpec& spec);
ArraySpec spec_from_json(const nlohmann::json& json);
nlohmann::json kernel_spec_to_json(const KernelSpec& spec);
KernelSpec kernel_spec_from_json(const nlohmann::json& json);
// A shape whose bounded extents are written {"max": n}: the public form.
nlohmann::json extents_to_public_json(const ArraySpec& spec);

}  // namespace cuboid
