// Memory for the arrays of a trial call: between pages that end the process when touched, or with canaries between the
// elements, or backwards; whatever a function may be handed and must bear.
#pragma once
#include <cstddef>
#include <vector>

#include "storage/types.h"

namespace cuboid::check {

// How elements lie. padded: rows with a gap of three elements between them, aligned as an element and no better.
// reversed: negative strides along every axis.
enum class Layout : std::uint8_t { contiguous, padded, reversed };
// none: room on either side. before, behind: an unmapped page directly at the first or behind the last byte.
enum class Fence : std::uint8_t { none, before, behind };

class ArrayMemory {
 public:
  // Every byte is `filler` at first.
  ArrayMemory(DType dtype, const Shape& shape, Layout layout, Fence fence, std::byte filler);
  ~ArrayMemory();
  ArrayMemory(const ArrayMemory&) = delete;
  ArrayMemory& operator=(const ArrayMemory&) = delete;
  ArrayMemory(ArrayMemory&& other) noexcept;

  const View& view() const { return view_; }
  // From now on a write ends the process.
  void protect();
  // Whether every byte that is no element is still the filler.
  bool intact() const;

 private:
  std::byte* region_ = nullptr;
  std::size_t region_bytes_ = 0;
  std::byte* room_ = nullptr;  // the accessible part
  std::size_t room_bytes_ = 0;
  std::byte filler_;
  View view_;
};

}  // namespace cuboid::check
