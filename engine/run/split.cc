#include "engine/run/split.h"

#include <algorithm>
#include <utility>

#include "storage/error.h"

namespace cuboid {
namespace {

// The longest axis of the block along which the kernel may be cut; -1: none.
std::ptrdiff_t axis_to_cut(const Kernel& kernel, const Shape& extents) {
  const std::vector<bool> safe = kernel.splittable_axes();
  std::ptrdiff_t best = -1;
  for (std::size_t axis = 0; axis < std::min(safe.size(), extents.size()); ++axis)
    if (safe[axis] && extents[axis] > 1 && (best < 0 || extents[axis] > extents[static_cast<std::size_t>(best)]))
      best = static_cast<std::ptrdiff_t>(axis);
  return best;
}

}  // namespace

std::int64_t most_splits(const Stage& stage, std::int64_t block) {
  const std::vector<Box> boxes = op_boxes(stage.program, stage.grid.box(block));
  std::int64_t most = 1;
  for (std::size_t op = 0; op < boxes.size(); ++op) {
    const Kernel& kernel = *stage.program.ops[op].kernel;
    const std::ptrdiff_t axis = kernel.reduction() ? -1 : axis_to_cut(kernel, boxes[op].shape);
    if (axis >= 0) most = std::max(most, boxes[op].shape[static_cast<std::size_t>(axis)]);
  }
  return most;
}

std::vector<Box> split_block(const Kernel& kernel, const Box& block, std::int64_t pieces) {
  const std::ptrdiff_t found = axis_to_cut(kernel, block.shape);
  if (found < 0 || pieces < 2) return {block};
  const auto axis = static_cast<std::size_t>(found);
  const std::int64_t extent = block.shape[axis];
  const std::int64_t step = (extent + std::min(pieces, extent) - 1) / std::min(pieces, extent);
  std::vector<Box> result;
  for (std::int64_t begin = 0; begin < extent; begin += step) {
    Box piece = block;
    piece.origin[axis] += begin;
    piece.shape[axis] = std::min(step, extent - begin);
    result.push_back(std::move(piece));
  }
  return result;
}

void run_in_pieces(const Kernel& kernel, KernelCall& call, std::int64_t pieces,
                   const std::function<void(KernelCall&)>& run) {
  const std::vector<Box> blocks = split_block(kernel, call.block, pieces);
  if (blocks.size() == 1) return run(call);
  std::vector<std::int64_t> filled(call.out.size(), 0);
  // What comes in slabs: the part's leave as they fill, and what is left of it before the next part begins.
  const auto in_slabs = [&](std::size_t k) {
    return call.store && kernel.room(k, call.block.shape) != kernel.output_extents(k, call.block.shape);
  };
  for (const Box& block : blocks) {
    KernelCall part;
    part.store = call.store;
    part.phase = call.phase;
    part.block = block;
    part.memory = call.memory;
    part.monitor = call.monitor;
    for (std::size_t k = 0; k < call.in.size(); ++k) {
      part.in_box.push_back(kernel.input_box(k, block));
      part.in.push_back(part_of(call.in[k], call.in_box[k], part.in_box.back()));
    }
    for (std::size_t k = 0; k < call.out.size(); ++k) {
      const auto ragged = kernel.outputs()[k].ragged_axis;
      if (in_slabs(k)) {
        part.out.push_back(call.out[k]);
      } else if (!ragged) {
        part.out.push_back(part_of(call.out[k], kernel.output_box(k, call.block), kernel.output_box(k, block)));
      } else {
        Shape origin(call.out[k].shape.size(), 0), extents = kernel.output_extents(k, block.shape);
        for (std::size_t axis = 0; axis < extents.size(); ++axis)
          extents[axis] = std::min(extents[axis], call.out[k].shape[axis]);
        origin[*ragged] = filled[k];
        extents[*ragged] = std::min(extents[*ragged], call.out[k].shape[*ragged] - filled[k]);
        part.out.push_back(call.out[k].sub(origin, extents));
      }
      part.produced.push_back(part.out.back().shape);
    }
    run(part);
    for (std::size_t k = 0; k < call.out.size(); ++k) {
      const auto ragged = kernel.outputs()[k].ragged_axis;
      if (!ragged) continue;
      filled[k] += std::clamp<std::int64_t>(part.produced[k][*ragged], 0, part.out[k].shape[*ragged]);
      if (in_slabs(k)) call.store(k, std::exchange(filled[k], 0));
    }
  }
  for (std::size_t k = 0; k < call.out.size(); ++k)
    if (const auto ragged = kernel.outputs()[k].ragged_axis) call.produced[k][*ragged] = filled[k];
}

}  // namespace cuboid
