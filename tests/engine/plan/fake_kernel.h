// A kernel of which tests choose every number; it computes nothing.
#pragma once
#include "engine/expr/kernel.h"

namespace cuboid {

class FakeKernel : public Kernel {
 public:
  // An elementwise kernel over `shape` with `inputs` arguments of that very shape.
  FakeKernel(std::string function, const Shape& shape, std::size_t inputs, DType dtype = kFloat64)
      : Kernel({std::move(function), {}, {}, {}, {}}) {
    for (std::size_t k = 0; k < inputs; ++k) spec_.args.emplace_back(ArraySpec(dtype, shape));
    outputs_.push_back({"0", ArraySpec(dtype, shape), {}});
  }
  std::string identity() const override { return spec_.function + "#fake"; }
  bool foreign() const override { return is_foreign; }
  Shape domain() const override { return spec_.args.empty() ? Kernel::domain() : spec_.inputs()[0].max_shape(); }
  Shape preferred_block(const std::vector<Shape>& chunks) const override { return chunks.at(0); }
  Box input_box(std::size_t, const Box& block) const override {
    Box box = block;
    const Shape whole = spec_.inputs()[0].max_shape();
    for (std::size_t axis = 0; axis < box.shape.size(); ++axis) {
      const std::int64_t begin = std::max<std::int64_t>(0, block.origin[axis] - halo);
      box.shape[axis] = std::min(whole[axis], block.end(axis) + halo) - begin;
      box.origin[axis] = begin;
    }
    return box;
  }
  Shape input_extents(std::size_t, const Shape& block) const override {
    Shape extents = block;
    const Shape whole = spec_.inputs()[0].max_shape();
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      extents[axis] = std::min(whole[axis], block[axis] + 2 * halo);
    return extents;
  }
  bool input_is_block(std::size_t) const override { return halo == 0; }
  Shape output_extents(std::size_t k, const Shape& block) const override {
    return outputs_[k].ragged_axis ? piece : block;
  }
  CallMemory memory(Phase, const Shape&) const override { return call; }
  std::vector<bool> splittable_axes() const override { return splittable; }
  void run(KernelCall&) const override {}

  // Results of data-dependent extent: at most `rows` times `columns` a block.
  void make_ragged(std::int64_t rows, std::int64_t columns, Trust trust) {
    piece = {rows, columns};
    outputs_[0].spec.extents = {{rows, trust}, {columns, Trust::exact}};
    outputs_[0].ragged_axis = 0;
  }

  std::int64_t halo = 0;
  bool is_foreign = false;
  CallMemory call;
  Shape piece;
  std::vector<bool> splittable;
};

}  // namespace cuboid
