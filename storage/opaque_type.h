// What the bytes of opaque elements mean: times, strings of a fixed length, raw bytes, structures. The meaning goes
// with the elements wherever they are moved, and is all that writing, showing and copying them needs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/types.h"

namespace cuboid {

struct OpaqueType {
  enum class Form : std::uint8_t {
    datetime,   // int64 counts of `scale` `unit`s since 1970; the lowest int64 is "not a time"
    timedelta,  // likewise, of a span
    bytes,      // padded with NUL
    text,       // UTF-32, padded with NUL
    raw,
    structure  // fields one after another, without gaps
  };
  struct Field {
    std::string name;
    DType dtype;
    Shape shape = {};        // of a field that is an array; else empty
    std::size_t offset = 0;  // in the element, bytes
  };
  // A number within the element that has a byte order.
  struct Number {
    std::size_t offset;
    std::uint32_t size;
  };

  Form form = Form::raw;
  std::string name;        // in Zarr v3, without its configuration: "numpy.datetime64", "structured", "r40"
  std::uint32_t size = 8;  // bytes of an element
  std::string unit = {};   // of times: "ns", "D", ..., "generic"
  std::int64_t scale = 1;
  std::vector<Field> fields = {};
  // Set by make_opaque().
  std::string text = {};  // as to_string(DType) says
  std::vector<Number> numbers = {};
};

// Elements larger than this are not read: an untrusted type must not decide what is allocated.
inline constexpr std::uint32_t kMaxElementBytes = 1u << 20;

// The one DType of this meaning; the object that it points to lives as long as the process. Computes size and offsets
// of structures. Throws Error{invalid} for what is no type. Thread-safe.
DType make_opaque(OpaqueType type);

// The inverse of to_string(DType) for opaque types.
std::optional<DType> opaque_from_text(std::string_view text);

// The units of numpy.datetime64.
bool is_time_unit(std::string_view unit);

// Whether elements have a byte order, and the size of the numbers to reverse where they are all alike; else 0.
bool has_byte_order(DType dtype);
std::uint32_t uniform_number_size(DType dtype);

}  // namespace cuboid
