// Cutting one call into several along an axis that its function declares safe: each takes less memory, and their
// results joined are those of the uncut call, bit for bit. The blocks of the stage, what is read and what is written
// stay as they are.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/plan/plan.h"

namespace cuboid {

// Into how many calls at most a task's estimated call may be cut; 1 where its function declares no safe axis.
std::int64_t most_splits(const Stage& stage, std::int64_t block);

// The block of a call cut into at most `pieces` along the longest safe axis, in order, none of them empty. One piece
// where no axis is safe.
std::vector<Box> split_block(const Kernel& kernel, const Box& block, std::int64_t pieces);

// The part of `view`, which holds `whole`, that holds `part`.
template <class AnyView>
AnyView part_of(const AnyView& view, const Box& whole, const Box& part) {
  Shape offset(part.origin.size());
  for (std::size_t axis = 0; axis < offset.size(); ++axis) offset[axis] = part.origin[axis] - whole.origin[axis];
  return view.sub(offset, part.shape);
}

// Makes the call in pieces: `run` is called for each, on parts of the same views. Ragged results are put one after
// another and `call.produced` says what they came to.
void run_in_pieces(const Kernel& kernel, KernelCall& call, std::int64_t pieces,
                   const std::function<void(KernelCall&)>& run);

}  // namespace cuboid
