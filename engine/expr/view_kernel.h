// Functions that only move elements along straight lines: permuted, sliced, flipped, broadcast. One kernel computes all
// of them from a description of where each axis of the input runs in the output.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/expr/kernel.h"

namespace cuboid {

// Input index along an axis = offset + step * (output index along `output`), or the offset alone where there is none.
struct AxisMap {
  std::optional<std::size_t> output;
  std::int64_t offset = 0;
  std::int64_t step = 1;  // not 0
};

// `axes`: one per axis of the input; no output axis twice. Output axes that no input axis runs along repeat the
// elements.
std::shared_ptr<const Kernel> make_view_kernel(KernelSpec spec, std::vector<AxisMap> axes, std::vector<Extent> result);

// One item of an index: an integer, a slice, a new axis or the ellipsis.
struct IndexItem {
  enum class What : std::uint8_t { integer, slice, new_axis, ellipsis } what = What::slice;
  std::optional<std::int64_t> start, stop, step;  // an integer is `start`
};
// Reads an index as Python writes it between brackets: "2:10:3, ..., None, -1". Throws Error{invalid} with the item.
std::vector<IndexItem> parse_index(const std::string& text);

}  // namespace cuboid
