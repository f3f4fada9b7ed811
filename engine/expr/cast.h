// Conversion between element types, strided, and reading or writing a strided view in strips of one type. Strips let a
// function be written once per type it computes in, with no temporaries on the heap.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/expr/kernel.h"
#include "storage/types.h"

namespace cuboid {

// Converts n elements; strides in bytes; no overlap. Float to integer truncates; values out of range and NaN convert
// as on x86-64 (NumPy's result there), whatever the machine and however the loop is compiled. Complex to real drops
// the imaginary part.
using CastLoop = void (*)(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
                          std::int64_t n);
CastLoop cast_loop(DType from, DType to);

// Converts all elements between views of one shape.
void cast_elements(const ConstView& from, const View& to);
// Writes a number as one element; the number must fit (promotion.h).
void store_scalar(const Scalar& scalar, DType dtype, std::byte* to);
// Writes the one element at `value`, of the view's type, to all elements.
void fill_elements(const View& to, const std::byte* value);

// Elements of a strip at most: the strips of a three-operand function stay within the first-level cache.
inline constexpr std::int64_t kStrip = 1024;
inline constexpr std::size_t kMaxItemSize = 16;

// The dimensions of a view after those of extent 1 are dropped and those that lie in one run are joined: C order stays.
struct Runs {
  std::size_t rank = 0;  // at least 1
  std::int64_t extents[kMaxRank];
  std::int64_t strides[kMaxRank];
  Runs() = default;
  Runs(const Shape& shape, const Shape& byte_strides);
};

// Hands out the elements of a view in C order, in strips, converted to one type. Lives on the stack (16 KiB).
class StripReader {
 public:
  StripReader() {}
  // The view's memory must outlive the reader.
  void reset(const ConstView& view, DType as);
  // The next n <= kStrip elements, contiguous and aligned as the type asks; valid until the next call. The caller never
  // asks for more elements than are left.
  const std::byte* next(std::int64_t n);
  // How many elements can be handed out in place, without a copy, from here; kStrip where any number can.
  std::int64_t in_place() const;

 private:
  void advance_run();

  Runs runs_;
  std::int64_t index_[kMaxRank];
  const std::byte* at_ = nullptr;
  std::int64_t left_ = 0;  // elements of the current innermost run
  std::size_t item_ = 0;
  CastLoop cast_ = nullptr;
  bool direct_ = false, constant_ = false;
  alignas(64) std::byte scratch_[static_cast<std::size_t>(kStrip) * kMaxItemSize];
};

// The inverse: takes strips of the view's own type and puts them in place, in C order.
class StripWriter {
 public:
  explicit StripWriter(const View& view);
  // Where to put the next n <= kStrip elements; then commit(n).
  std::byte* begin(std::int64_t n);
  void commit(std::int64_t n);
  std::int64_t in_place() const { return direct_ ? left_ : kStrip; }

 private:
  void advance_run();

  Runs runs_;
  std::int64_t index_[kMaxRank];
  std::byte* at_ = nullptr;
  std::int64_t left_ = 0;
  std::size_t item_ = 0;
  CastLoop copy_ = nullptr;
  bool direct_ = false, staged_ = false;
  alignas(64) std::byte scratch_[static_cast<std::size_t>(kStrip) * kMaxItemSize];
};

}  // namespace cuboid
