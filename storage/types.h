// The vocabulary of every layer: element types, shapes, boxes and strided views. Plain values; nothing here does I/O.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuboid {

// Extents in elements, one per axis, outermost first. An empty shape is a scalar (one element). At most kMaxRank axes.
using Shape = std::vector<std::int64_t>;
inline constexpr std::size_t kMaxRank = 32;

// The type of an element in memory, always in native byte order (byte order is a matter of codecs). Opaque elements
// (times, strings, raw bytes, structures) are moved, stored and shown, but nothing computes on them.
enum class Kind : std::uint8_t { boolean, signed_int, unsigned_int, floating, complex_float, opaque };
struct OpaqueType;  // storage/opaque_type.h
struct DType {
  Kind kind = Kind::floating;
  std::uint32_t size = 8;              // bytes of one element
  const OpaqueType* opaque = nullptr;  // what opaque elements mean, one object per meaning; else null

  friend bool operator==(const DType&, const DType&) = default;
};
inline constexpr DType kBool{Kind::boolean, 1}, kInt8{Kind::signed_int, 1}, kInt16{Kind::signed_int, 2},
    kInt32{Kind::signed_int, 4}, kInt64{Kind::signed_int, 8}, kUint8{Kind::unsigned_int, 1},
    kUint16{Kind::unsigned_int, 2}, kUint32{Kind::unsigned_int, 4}, kUint64{Kind::unsigned_int, 8},
    kFloat16{Kind::floating, 2}, kFloat32{Kind::floating, 4}, kFloat64{Kind::floating, 8},
    kComplex64{Kind::complex_float, 8}, kComplex128{Kind::complex_float, 16};

// The Zarr v3 name: "bool", "int16", "float64", "complex128"; what configures an opaque type follows in brackets:
// "numpy.datetime64[ns]", "null_terminated_bytes[12]".
std::string to_string(DType dtype);
// The inverse; nullopt for a name that is none.
std::optional<DType> dtype_from_name(std::string_view name);

// "(344, 403)", "(5,)" is written "(5)"; "()" for a scalar.
std::string to_string(const Shape& shape);

// The number of elements. Throws Error{invalid} where an extent is negative or the product exceeds 2^62.
std::int64_t element_count(const Shape& shape);
// element_count * dtype.size with the same checks: bytes.
std::size_t byte_count(const Shape& shape, DType dtype);

// A box of indices: origin <= index < origin + shape, per axis.
struct Box {
  Shape origin;
  Shape shape;

  static Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }
  bool empty() const;
  std::int64_t end(std::size_t axis) const { return origin[axis] + shape[axis]; }
  friend bool operator==(const Box&, const Box&) = default;
};
// The common part; extents of 0 where there is none.
Box intersect(const Box& a, const Box& b);
// The smallest box that holds both.
Box hull(const Box& a, const Box& b);

// Steps `index` through a box of indices in C order; false after the last one, with `index` at the first again.
bool advance(Shape& index, const Box& range);

// C-order strides of a shape, in bytes.
Shape contiguous_strides(const Shape& shape, std::size_t item_size);

// A strided window on elements in memory that somebody else owns. Strides are in bytes, may be zero or negative.
template <class Byte>
struct BasicView {
  DType dtype;
  Byte* data = nullptr;
  Shape shape;
  Shape strides;

  // C order without gaps, whatever the strides of axes of extent 1.
  bool contiguous() const {
    auto expected = static_cast<std::int64_t>(dtype.size);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (shape[axis] == 0) return true;
      if (shape[axis] != 1 && strides[axis] != expected) {
        return std::find(shape.begin(), shape.end(), 0) != shape.end();
      }
      expected *= shape[axis];
    }
    return true;
  }
  // The part of this view that starts at `origin` with extents `extents` (both within the view).
  BasicView sub(const Shape& origin, const Shape& extents) const {
    BasicView part{dtype, data, extents, strides};
    for (std::size_t axis = 0; axis < origin.size(); ++axis) part.data += origin[axis] * strides[axis];
    return part;
  }
  operator BasicView<const std::byte>() const { return {dtype, data, shape, strides}; }
};
using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

// A C-contiguous view over memory of at least byte_count(shape, dtype) bytes.
inline View make_view(std::byte* data, DType dtype, Shape shape) {
  Shape strides = contiguous_strides(shape, dtype.size);
  return {dtype, data, std::move(shape), std::move(strides)};
}
inline ConstView make_view(const std::byte* data, DType dtype, Shape shape) {
  Shape strides = contiguous_strides(shape, dtype.size);
  return {dtype, data, std::move(shape), std::move(strides)};
}

// Copies element by element between views of one shape and item size; long runs become memcpy. They must not overlap.
void copy_elements(const ConstView& from, const View& to);
// Sets every element to the one in `element` (dtype.size bytes).
void fill_elements(const View& view, std::span<const std::byte> element);
// Whether every element is the one in `element`, bit by bit: -0.0 is not 0.0, and NaN payloads are told apart.
bool all_elements_are(const ConstView& view, std::span<const std::byte> element);

// The regular grid of blocks over a shape: block extents, the last one per axis may be ragged.
class Grid {
 public:
  Grid() = default;
  // Throws Error{invalid} where ranks differ or a block extent is < 1.
  Grid(Shape shape, Shape block);
  const Shape& shape() const { return shape_; }
  const Shape& block() const { return block_; }
  const Shape& counts() const { return counts_; }  // blocks per axis; 0 along an axis of extent 0
  std::int64_t size() const { return size_; }      // number of blocks (1 for a scalar)
  Shape index(std::int64_t linear) const;          // C order
  std::int64_t linear(const Shape& index) const;
  Box box(const Shape& index) const;  // clipped at the shape
  Box box(std::int64_t linear_index) const { return box(index(linear_index)); }
  // The range of block indices (as a box in block-index space) that a box of elements meets.
  Box blocks_meeting(const Box& box) const;

 private:
  Shape shape_, block_, counts_;
  std::int64_t size_ = 0;
};

// Sizes as people write them: "512MiB", "2GB", "1.5GiB", "1048576". Throws Error{invalid} with what was expected.
std::uint64_t parse_size(std::string_view text);
// Binary units, three significant digits: "1.5 GiB", "872 KiB", "12 B".
std::string format_size(std::uint64_t bytes);

}  // namespace cuboid
