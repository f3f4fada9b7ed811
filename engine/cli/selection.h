// A part of an array as NumPy's basic indexing selects it, read piece by piece in bounded memory.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "storage/zarr.h"

namespace cuboid {

struct Selection {
  struct Axis {
    std::int64_t start = 0, step = 1, count = 0;  // indices start, start + step, ...; step may be negative
    bool drop = false;                            // chosen by an integer: not an axis of the result
  };
  std::vector<Axis> axes;
  Shape shape() const;  // of the result
};

// "0:10,:,5", "-1", "::2,...": integers, slices and one ellipsis, separated by commas; missing axes are whole.
// Throws Error{invalid} naming the entry, what was expected and the axis's extent.
Selection parse_selection(const std::string& text, const Shape& shape);

// Hands the selected elements over in C order, as views of full rank (dropped axes have extent 1) whose elements follow
// one another. Each read covers at most `limit` bytes, but at least one element; reads meet chunk borders where the
// limit allows.
void read_selection(const ZarrArray& array, const Selection& selection, std::size_t limit, MemoryAccount& account,
                    const std::function<void(const ConstView&)>& each);

}  // namespace cuboid
