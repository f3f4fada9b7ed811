#include "engine/cli/element_text.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "storage/error.h"

namespace cuboid {
namespace {

template <class T>
T load(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

template <class T>
void append_integer(std::string& text, T value) {
  char digits[24];
  const auto [end, code] = std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, end);
}

template <class T>
void append_float(std::string& text, T value, ElementForm form) {
  if (std::isfinite(value)) {
    char digits[64];
    const auto [end, code] = std::to_chars(digits, digits + sizeof digits, value);
    const std::string_view written(digits, static_cast<std::size_t>(end - digits));
    text += written;
    // Readers of JSON would take "-0" and "1" for integers.
    if (form == ElementForm::json && written.find_first_of(".e") == std::string_view::npos) text += ".0";
    return;
  }
  if (form == ElementForm::json) {
    text += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    text += std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
}

template <class T>
void append_complex(std::string& text, const std::byte* element, ElementForm form) {
  const T real = load<T>(element), imaginary = load<T>(element + sizeof(T));
  if (form == ElementForm::json) {
    text += '[';
    append_float(text, real, form);
    text += ", ";
    append_float(text, imaginary, form);
    text += ']';
    return;
  }
  append_float(text, real, form);
  if (!std::signbit(imaginary) || std::isnan(imaginary)) text += '+';
  append_float(text, imaginary, form);
  text += 'j';
}

}  // namespace

void append_element(std::string& text, DType dtype, const std::byte* element, ElementForm form) {
  switch (dtype.kind) {
    case Kind::boolean:
      text += *element != std::byte{0} ? "true" : "false";
      return;
    case Kind::signed_int:
      switch (dtype.size) {
        case 1:
          return append_integer(text, static_cast<int>(load<std::int8_t>(element)));
        case 2:
          return append_integer(text, load<std::int16_t>(element));
        case 4:
          return append_integer(text, load<std::int32_t>(element));
        case 8:
          return append_integer(text, load<std::int64_t>(element));
        default:
          break;
      }
      break;
    case Kind::unsigned_int:
      switch (dtype.size) {
        case 1:
          return append_integer(text, static_cast<unsigned>(load<std::uint8_t>(element)));
        case 2:
          return append_integer(text, load<std::uint16_t>(element));
        case 4:
          return append_integer(text, load<std::uint32_t>(element));
        case 8:
          return append_integer(text, load<std::uint64_t>(element));
        default:
          break;
      }
      break;
    case Kind::floating:
      if (dtype.size == 4) return append_float(text, load<float>(element), form);
      if (dtype.size == 8) return append_float(text, load<double>(element), form);
      break;
    case Kind::complex_float:
      if (dtype.size == 8) return append_complex<float>(text, element, form);
      if (dtype.size == 16) return append_complex<double>(text, element, form);
      break;
  }
  throw Error(ErrorKind::unsupported, "elements of type " + to_string(dtype) + " cannot be printed");
}

void for_each_element(const ConstView& view, const std::function<void(const std::byte*)>& each) {
  const auto walk = [&](const auto& self, std::size_t axis, const std::byte* at) -> void {
    if (axis == view.shape.size()) {
      each(at);
      return;
    }
    for (std::int64_t k = 0; k < view.shape[axis]; ++k) self(self, axis + 1, at + k * view.strides[axis]);
  };
  walk(walk, 0, view.data);
}

std::string npy_descriptor(DType dtype) {
  const char letter = dtype.kind == Kind::boolean        ? 'b'
                      : dtype.kind == Kind::signed_int   ? 'i'
                      : dtype.kind == Kind::unsigned_int ? 'u'
                      : dtype.kind == Kind::floating     ? 'f'
                                                         : 'c';
  return std::string(dtype.size == 1 ? "|" : "<") + letter + std::to_string(dtype.size);
}

std::string npy_header(DType dtype, const Shape& shape) {
  std::string extents;
  for (std::int64_t extent : shape) extents += std::to_string(extent) + ", ";
  std::string header =
      "{'descr': '" + npy_descriptor(dtype) + "', 'fortran_order': False, 'shape': (" + extents + "), }";
  const std::size_t whole = (10 + header.size() + 1 + 63) / 64 * 64;
  header.append(whole - 10 - header.size() - 1, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header;
}

}  // namespace cuboid
