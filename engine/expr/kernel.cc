#include "engine/expr/kernel.h"

namespace cuboid {

ArraySpec::ArraySpec(DType type, const Shape& shape) : dtype(type) {
  for (std::int64_t extent : shape) extents.push_back({extent, Trust::exact});
}

Shape ArraySpec::max_shape() const {
  Shape shape;
  for (const Extent& extent : extents) shape.push_back(extent.value);
  return shape;
}

bool ArraySpec::exact() const {
  for (const Extent& extent : extents)
    if (extent.trust != Trust::exact) return false;
  return true;
}

std::vector<ArraySpec> KernelSpec::inputs() const {
  std::vector<ArraySpec> arrays;
  for (const auto& arg : args)
    if (const auto* array = std::get_if<ArraySpec>(&arg)) arrays.push_back(*array);
  return arrays;
}

}  // namespace cuboid
