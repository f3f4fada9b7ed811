// The table of built-in functions. A family lists its functions; a new one is an entry in its family's list.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/expr/kernel.h"

namespace cuboid {

struct BuiltinFunction {
  FunctionDoc doc;
  // Throws Error{invalid} for wrong arguments or parameters.
  std::function<std::shared_ptr<const Kernel>(KernelSpec)> make;
};

std::vector<BuiltinFunction> elementwise_builtins();
std::vector<BuiltinFunction> reduction_builtins();
std::vector<BuiltinFunction> conversion_builtins();
std::vector<BuiltinFunction> creation_builtins();
std::vector<BuiltinFunction> movement_builtins();
std::vector<BuiltinFunction> join_builtins();
std::vector<BuiltinFunction> take_builtins();
std::vector<BuiltinFunction> unique_builtins();
std::vector<BuiltinFunction> selection_builtins();
std::vector<BuiltinFunction> search_builtins();
std::vector<BuiltinFunction> rearranging_builtins();
std::vector<BuiltinFunction> reshape_builtins();
std::vector<BuiltinFunction> cumulative_builtins();
std::vector<BuiltinFunction> histogram_builtins();
std::vector<BuiltinFunction> quantile_builtins();

// A parameter's line of documentation; no default: required.
inline ParamDoc param(std::string name, std::string type, std::string doc,
                      std::optional<ParamValue> default_value = std::nullopt) {
  return {std::move(name), std::move(type), std::move(doc), std::move(default_value)};
}
// Null: the default of a parameter that may be left out.
inline const ParamValue kNull = std::monostate{};

// The block of at most 8 MiB that an array without chunks of its own is computed in: the longest axes are halved until
// it fits. Axes listed in `fixed` (may be empty) keep their extents.
Shape default_block(const Shape& shape, std::size_t item_size, const std::vector<bool>& fixed = {});
// The block made of as many whole `block`s as have at most `elements` elements, the last axes first; clipped at the
// shape, extents at least 1.
Shape grow_block(Shape block, const Shape& shape, std::int64_t elements);
// All elements of argument 0 as one array in ascending order, sorted out of core (unique.cc).
std::shared_ptr<const Kernel> make_sorted_run(KernelSpec spec);
// A data-dependent extent of output k, lowered by what the user says of the whole result (max_shape), then a guess.
Extent user_bound(const KernelSpec& spec, std::size_t k, Extent extent, std::size_t axis = 0);

}  // namespace cuboid
