// The border of an array: a block's halo filled by a boundary mode, as scipy.ndimage defines them.
#pragma once
#include "engine/plugin/manifest.h"
#include "storage/types.h"

namespace cuboid {

struct Padding {
  BoundaryMode mode = BoundaryMode::reflect;  // not clip
  double value = 0;                           // of constant; the dtype can hold it
};

// Fills `to`, the elements with the indices `wanted` of an array of extents `whole` (beyond its border too), from
// `from`, which holds the elements of `held`. `held` must contain what the mode looks up: wanted's part within the
// array and, for wrap along an axis where wanted reaches beyond it, all of that axis. Allocates nothing.
void pad(const ConstView& from, const Box& held, const Shape& whole, const View& to, const Box& wanted,
         const Padding& padding);

}  // namespace cuboid
