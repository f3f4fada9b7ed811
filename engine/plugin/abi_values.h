// Engine types as the plugin ABI spells them.
#pragma once
#include <cuboid/plugin.h>

#include <deque>
#include <optional>
#include <vector>

#include "engine/expr/kernel.h"

namespace cuboid {

cuboid_dtype abi_dtype(DType dtype);
std::optional<DType> dtype_of(cuboid_dtype dtype);  // nullopt for one that is none

// Parameters for one call; points into `values`, which must outlive it. Not copied, so that its pointers stay valid.
class AbiParams {
 public:
  AbiParams() = default;
  explicit AbiParams(const std::vector<ParamValue>& values);
  AbiParams(const AbiParams&) = delete;
  AbiParams& operator=(const AbiParams&) = delete;
  AbiParams(AbiParams&&) = default;
  AbiParams& operator=(AbiParams&&) = default;

  const cuboid_value* const* data() const { return pointers_.data(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(pointers_.size()); }

 private:
  std::vector<cuboid_value> values_;
  std::vector<const cuboid_value*> pointers_;
  std::deque<std::vector<const char*>> texts_;  // of lists of strings
};

}  // namespace cuboid
