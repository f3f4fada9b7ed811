#include "storage/types.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "storage/error.h"
#include "storage/opaque_type.h"

namespace cuboid {
namespace {

struct NamedDType {
  std::string_view name;
  DType dtype;
};
constexpr NamedDType kNamedDTypes[] = {
    {"bool", kBool},           {"int8", kInt8},
    {"int16", kInt16},         {"int32", kInt32},
    {"int64", kInt64},         {"uint8", kUint8},
    {"uint16", kUint16},       {"uint32", kUint32},
    {"uint64", kUint64},       {"float16", kFloat16},
    {"float32", kFloat32},     {"float64", kFloat64},
    {"complex64", kComplex64}, {"complex128", kComplex128},
};

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

std::int64_t checked_product(std::int64_t a, std::int64_t b, const Shape& shape) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxElements) {
    throw Error(ErrorKind::invalid, "shape " + to_string(shape) + " is too large: expected at most 2^62 in all");
  }
  return product;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

}  // namespace

std::string to_string(DType dtype) {
  for (const NamedDType& named : kNamedDTypes) {
    if (named.dtype == dtype) return std::string(named.name);
  }
  if (dtype.opaque) return dtype.opaque->text;
  return "dtype(kind " + std::to_string(static_cast<int>(dtype.kind)) + ", " + std::to_string(dtype.size) + " bytes)";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const NamedDType& named : kNamedDTypes) {
    if (named.name == name) return named.dtype;
  }
  return opaque_from_text(name);
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + ")";
}

std::int64_t element_count(const Shape& shape) {
  // An extent of 0 makes the product 0 whatever the others are, but a negative one is never right.
  bool none = false;
  for (std::int64_t extent : shape) {
    if (extent < 0) throw Error(ErrorKind::invalid, "shape " + to_string(shape) + " has a negative extent");
    none = none || extent == 0;
  }
  if (none) return 0;
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count = checked_product(count, extent, shape);
  return count;
}

std::size_t byte_count(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(checked_product(element_count(shape), dtype.size, shape));
}

bool Box::empty() const {
  return std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent == 0; });
}

Box intersect(const Box& a, const Box& b) {
  Box common{a.origin, a.shape};
  for (std::size_t axis = 0; axis < a.origin.size(); ++axis) {
    common.origin[axis] = std::max(a.origin[axis], b.origin[axis]);
    common.shape[axis] = std::max<std::int64_t>(0, std::min(a.end(axis), b.end(axis)) - common.origin[axis]);
  }
  return common;
}

Box hull(const Box& a, const Box& b) {
  Box both{a.origin, a.shape};
  for (std::size_t axis = 0; axis < a.origin.size(); ++axis) {
    both.origin[axis] = std::min(a.origin[axis], b.origin[axis]);
    both.shape[axis] = std::max(a.end(axis), b.end(axis)) - both.origin[axis];
  }
  return both;
}

bool advance(Shape& index, const Box& range) {
  for (std::size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < range.end(axis)) return true;
    index[axis] = range.origin[axis];
  }
  return false;
}

Shape contiguous_strides(const Shape& shape, std::size_t item_size) {
  Shape strides(shape.size());
  std::int64_t stride = static_cast<std::int64_t>(item_size);
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(1, shape[axis]);
  }
  return strides;
}

Grid::Grid(Shape shape, Shape block) : shape_(std::move(shape)), block_(std::move(block)) {
  if (shape_.size() != block_.size()) {
    throw Error(ErrorKind::invalid, "blocks " + to_string(block_) + " have " + std::to_string(block_.size()) +
                                        " axes: expected " + std::to_string(shape_.size()) + ", as shape " +
                                        to_string(shape_));
  }
  counts_.resize(shape_.size());
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    if (block_[axis] < 1) {
      throw Error(ErrorKind::invalid, "blocks " + to_string(block_) + ": expected extents of at least 1");
    }
    counts_[axis] = ceil_div(shape_[axis], block_[axis]);
  }
  size_ = element_count(counts_);
}

Shape Grid::index(std::int64_t linear) const {
  Shape index(counts_.size());
  for (std::size_t axis = counts_.size(); axis-- > 0;) {
    index[axis] = linear % counts_[axis];
    linear /= counts_[axis];
  }
  return index;
}

std::int64_t Grid::linear(const Shape& index) const {
  std::int64_t linear = 0;
  for (std::size_t axis = 0; axis < counts_.size(); ++axis) linear = linear * counts_[axis] + index[axis];
  return linear;
}

Box Grid::box(const Shape& index) const {
  Box box{Shape(index.size()), Shape(index.size())};
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    box.origin[axis] = index[axis] * block_[axis];
    box.shape[axis] = std::min(block_[axis], shape_[axis] - box.origin[axis]);
  }
  return box;
}

Box Grid::blocks_meeting(const Box& box) const {
  Box blocks{Shape(counts_.size()), Shape(counts_.size(), 0)};
  const bool none = box.empty();
  for (std::size_t axis = 0; axis < counts_.size(); ++axis) {
    blocks.origin[axis] = box.origin[axis] / block_[axis];
    if (!none) blocks.shape[axis] = ceil_div(box.end(axis), block_[axis]) - blocks.origin[axis];
  }
  return blocks;
}

namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"k", std::uint64_t{1} << 10},
    {"m", std::uint64_t{1} << 20},
    {"g", std::uint64_t{1} << 30},
    {"t", std::uint64_t{1} << 40},
    {"kb", 1'000},
    {"mb", 1'000'000},
    {"gb", 1'000'000'000},
    {"tb", 1'000'000'000'000},
    {"kib", std::uint64_t{1} << 10},
    {"mib", std::uint64_t{1} << 20},
    {"gib", std::uint64_t{1} << 30},
    {"tib", std::uint64_t{1} << 40},
};

[[noreturn]] void throw_bad_size(std::string_view text) {
  throw Error(ErrorKind::invalid, "size '" + std::string(text) +
                                      "' is not valid: expected a number of bytes below 2^63 or one with a unit, as "
                                      "512MiB, 2GB or 1.5GiB");
}

}  // namespace

std::uint64_t parse_size(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.')) {
    ++digits;
  }
  std::string_view number = text.substr(0, digits);
  std::string_view rest = text.substr(digits);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  std::string suffix(rest);
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  const Unit* unit =
      std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& u) { return u.name == suffix; });
  if (number.empty() || unit == std::end(kUnits)) throw_bad_size(text);

  constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
  std::uint64_t whole = 0;
  const char* end = number.data() + number.size();
  auto [whole_end, whole_error] = std::from_chars(number.data(), end, whole);
  if (whole_error == std::errc() && whole_end == end) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(whole, unit->bytes, &bytes) || bytes >= kLimit) throw_bad_size(text);
    return bytes;
  }
  double fraction = 0;
  auto [fraction_end, fraction_error] = std::from_chars(number.data(), end, fraction);
  const double bytes = std::floor(fraction * static_cast<double>(unit->bytes));
  if (fraction_error != std::errc() || fraction_end != end || !(bytes < static_cast<double>(kLimit))) {
    throw_bad_size(text);
  }
  return static_cast<std::uint64_t>(bytes);
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.5 and more would round to four digits: the next unit shows it with three.
  while (unit + 1 < kNames.size() && value >= (unit == 0 ? 1024 : 1023.5)) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  std::string number = text.data();
  if (decimals > 0) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
  }
  return number + " " + kNames[unit];
}

}  // namespace cuboid
