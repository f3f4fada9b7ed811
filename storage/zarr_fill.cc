// Fill values: the JSON of one element, in both formats.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "storage/error.h"
#include "storage/half.h"
#include "storage/opaque_type.h"
#include "storage/text_codec.h"
#include "storage/zarr_json.h"

namespace cuboid {

namespace {

using nlohmann::json;

[[noreturn]] void throw_bad_fill(const json& found, DType dtype, std::string_view expected) {
  throw_bad_key("fill_value", found, std::string(expected) + " for data type " + to_string(dtype));
}

template <class Value>
void put(std::byte* to, Value value) {
  std::memcpy(to, &value, sizeof value);
}
template <class Value>
Value get(const std::byte* from) {
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// All integers that any writer may mean, as sign and magnitude: the only form that holds both int64 and uint64.
struct Integer {
  bool negative = false;
  std::uint64_t magnitude = 0;
};

std::optional<Integer> integer_from_json(const json& found) {
  if (found.is_number_unsigned()) return Integer{false, found.get<std::uint64_t>()};
  if (found.is_number_integer()) {
    const auto value = found.get<std::int64_t>();
    return value < 0 ? Integer{true, ~static_cast<std::uint64_t>(value) + 1}
                     : Integer{false, static_cast<std::uint64_t>(value)};
  }
  if (found.is_number_float()) {  // some writers say 0.0
    const double value = found.get<double>();
    if (value != std::trunc(value) || std::abs(value) > 9007199254740992.0) return std::nullopt;
    return Integer{value < 0, static_cast<std::uint64_t>(std::abs(value))};
  }
  if (found.is_string()) {  // some say "0"
    const auto& text = found.get_ref<const std::string&>();
    const bool negative = text.starts_with('-');
    std::uint64_t magnitude = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + negative, end, magnitude);
    if (error == std::errc() && stop == end) return Integer{negative, magnitude};
  }
  return std::nullopt;
}

void integer_fill(const json& found, DType dtype, std::byte* to) {
  const std::optional<Integer> integer = integer_from_json(found);
  if (!integer) throw_bad_fill(found, dtype, "an integer");
  const bool is_signed = dtype.kind == Kind::signed_int;
  const std::uint64_t largest = UINT64_MAX >> (64 - 8 * dtype.size + (is_signed ? 1 : 0));
  const std::uint64_t lowest = is_signed ? largest + 1 : 0;
  if (integer->magnitude > (integer->negative ? lowest : largest)) throw_bad_fill(found, dtype, "a value in range");
  const std::uint64_t bits = integer->negative ? ~integer->magnitude + 1 : integer->magnitude;
  // Native little-endian or big-endian: the low bytes of the two's complement.
  const std::size_t offset = std::endian::native == std::endian::little ? 0 : sizeof bits - dtype.size;
  std::memcpy(to, reinterpret_cast<const std::byte*>(&bits) + offset, dtype.size);
}

template <class Float, class Bits>
bool float_from_text(const std::string& text, Float& value) {
  if (text == "NaN") {
    value = std::numeric_limits<Float>::quiet_NaN();
  } else if (text == "Infinity" || text == "-Infinity") {
    value = text[0] == '-' ? -std::numeric_limits<Float>::infinity() : std::numeric_limits<Float>::infinity();
  } else if (text.starts_with("0x")) {
    Bits bits = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 2, end, bits, 16);
    if (error != std::errc() || stop != end || text.size() != 2 + 2 * sizeof(Float)) return false;
    value = std::bit_cast<Float>(bits);
  } else {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end && std::isfinite(value);
  }
  return true;
}

template <class Float, class Bits>
void float_fill(const json& found, DType dtype, std::byte* to) {
  Float value = 0;
  if (found.is_number_unsigned()) {
    value = static_cast<Float>(found.get<std::uint64_t>());
  } else if (found.is_number_integer()) {
    value = static_cast<Float>(found.get<std::int64_t>());
  } else if (found.is_number_float()) {
    value = static_cast<Float>(found.get<double>());
    if (!std::isfinite(value)) throw_bad_fill(found, dtype, "a value in range");
  } else if (!found.is_string() || !float_from_text<Float, Bits>(found.get_ref<const std::string&>(), value)) {
    throw_bad_fill(found, dtype, "a number, \"NaN\", \"Infinity\", \"-Infinity\" or the bits as \"0x...\"");
  }
  put(to, value);
}

// A half is read as the double nearest to what is written, then rounded; its bits and NaN are what they are.
void half_fill(const json& found, DType dtype, std::byte* to) {
  if (found.is_string()) {
    const auto& text = found.get_ref<const std::string&>();
    std::uint16_t bits = 0;
    const char* end = text.data() + text.size();
    if (text.starts_with("0x")) {
      const auto [stop, error] = std::from_chars(text.data() + 2, end, bits, 16);
      if (error != std::errc() || stop != end || text.size() != 6)
        throw_bad_fill(found, dtype, "the bits as \"0x7e00\"");
      return put(to, bits);
    }
    if (text == "NaN") return put(to, std::uint16_t{0x7e00});
  }
  std::byte wide[sizeof(double)];
  float_fill<double, std::uint64_t>(found, dtype, wide);
  const auto value = get<double>(wide);
  const std::uint16_t half = half_from(value);
  if (std::isinf(half_to_float(half)) && std::isfinite(value)) throw_bad_fill(found, dtype, "a value in range");
  put(to, half);
}

void any_float_fill(const json& found, DType dtype, std::size_t size, std::byte* to) {
  if (size == 2) return half_fill(found, dtype, to);
  size == 4 ? float_fill<float, std::uint32_t>(found, dtype, to) : float_fill<double, std::uint64_t>(found, dtype, to);
}

void bool_fill(const json& found, DType dtype, std::byte* to) {
  bool value = false;
  if (found.is_boolean()) {
    value = found.get<bool>();
  } else if (const auto integer = integer_from_json(found); integer && !integer->negative && integer->magnitude <= 1) {
    value = integer->magnitude == 1;
  } else {
    throw_bad_fill(found, dtype, "true or false");
  }
  *to = std::byte{value};
}

template <class Float, class Bits>
json float_to_json(const std::byte* from, int zarr_format) {
  const auto value = get<Float>(from);
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (!std::isnan(value)) return value;
  const auto bits = get<Bits>(from);
  if (zarr_format == 2 || bits == std::bit_cast<Bits>(std::numeric_limits<Float>::quiet_NaN())) return "NaN";
  char digits[2 + 2 * sizeof(Float) + 1];
  std::snprintf(digits, sizeof digits, "0x%0*llx", static_cast<int>(2 * sizeof(Float)),
                static_cast<unsigned long long>(bits));
  return digits;
}

json half_to_json(const std::byte* from, int zarr_format) {
  const auto bits = get<std::uint16_t>(from);
  const float value = half_to_float(bits);
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (!std::isnan(value)) return value;
  if (zarr_format == 2 || bits == 0x7e00) return "NaN";
  char digits[7];
  std::snprintf(digits, sizeof digits, "0x%04x", static_cast<unsigned>(bits));
  return digits;
}

json any_float_to_json(const std::byte* from, std::size_t size, int zarr_format) {
  if (size == 2) return half_to_json(from, zarr_format);
  return size == 4 ? float_to_json<float, std::uint32_t>(from, zarr_format)
                   : float_to_json<double, std::uint64_t>(from, zarr_format);
}

template <class Value8, class Value16, class Value32, class Value64>
json integer_to_json(const std::byte* from, std::size_t size) {
  switch (size) {
    case 1:
      return get<Value8>(from);
    case 2:
      return get<Value16>(from);
    case 4:
      return get<Value32>(from);
    default:
      return get<Value64>(from);
  }
}

// --- Opaque elements ------------------------------------------------------------------------------------------------

void bytes_fill(const json& found, DType dtype, std::vector<std::byte>& fill) {
  if (found.is_string()) {
    const auto bytes = base64_decoded(found.get_ref<const std::string&>());
    const bool exact = dtype.opaque->form != OpaqueType::Form::bytes;
    if (!bytes || bytes->size() > fill.size() || (exact && !bytes->empty() && bytes->size() != fill.size()))
      throw_bad_fill(found, dtype, std::to_string(fill.size()) + " bytes in base64");
    return void(std::copy(bytes->begin(), bytes->end(), fill.begin()));
  }
  if (found.is_array() && found.size() == fill.size()) {  // the specification's form of raw bits
    for (std::size_t i = 0; i < fill.size(); ++i) {
      const auto byte = integer_from_json(found[i]);
      if (!byte || byte->negative || byte->magnitude > 255) throw_bad_fill(found, dtype, "bytes from 0 to 255");
      fill[i] = static_cast<std::byte>(byte->magnitude);
    }
    return;
  }
  if (const auto zero = integer_from_json(found); !zero || zero->magnitude != 0)  // 0: all zeros, as NumPy casts it
    throw_bad_fill(found, dtype, "base64, a list of bytes, or 0");
}

void text_fill(const json& found, DType dtype, std::vector<std::byte>& fill) {
  if (const auto zero = integer_from_json(found); !found.is_string() && zero && zero->magnitude == 0) return;
  const auto points = found.is_string() ? utf32_from_utf8(found.get_ref<const std::string&>()) : std::nullopt;
  if (!points || points->size() * 4 > fill.size())
    throw_bad_fill(found, dtype, "a string of at most " + std::to_string(fill.size() / 4) + " characters");
  const auto bytes = std::as_bytes(std::span(*points));
  std::copy(bytes.begin(), bytes.end(), fill.begin());
}

void structure_fill(const json& found, DType dtype, std::vector<std::byte>& fill) {
  if (!found.is_object()) return bytes_fill(found, dtype, fill);
  for (const auto& field : dtype.opaque->fields) {
    const auto value = found.find(field.name);
    if (value == found.end() || !field.shape.empty()) throw_bad_fill(found, dtype, "a value for each field");
    const std::vector<std::byte> bytes = fill_from_json(*value, field.dtype);
    std::copy(bytes.begin(), bytes.end(), fill.begin() + static_cast<std::ptrdiff_t>(field.offset));
  }
}

void opaque_fill(const json& found, DType dtype, std::vector<std::byte>& fill) {
  switch (dtype.opaque->form) {
    case OpaqueType::Form::datetime:
    case OpaqueType::Form::timedelta:
      return found == "NaT" ? put(fill.data(), INT64_MIN) : integer_fill(found, kInt64, fill.data());
    case OpaqueType::Form::text:
      return text_fill(found, dtype, fill);
    case OpaqueType::Form::structure:
      return structure_fill(found, dtype, fill);
    case OpaqueType::Form::bytes:
    case OpaqueType::Form::raw:
      return bytes_fill(found, dtype, fill);
  }
}

json opaque_to_json(const std::byte* from, DType dtype, int zarr_format) {
  const OpaqueType& type = *dtype.opaque;
  switch (type.form) {
    case OpaqueType::Form::datetime:
    case OpaqueType::Form::timedelta:
      return get<std::int64_t>(from);
    case OpaqueType::Form::text:
      return utf8_from_utf32({from, type.size});
    case OpaqueType::Form::bytes: {
      std::size_t length = type.size;
      while (length > 0 && from[length - 1] == std::byte{0}) --length;
      return base64({from, length});
    }
    case OpaqueType::Form::raw: {
      if (type.name == "raw_bytes" || zarr_format == 2) return base64({from, type.size});
      json list = json::array();
      for (std::size_t i = 0; i < type.size; ++i) list.push_back(std::to_integer<int>(from[i]));
      return list;
    }
    case OpaqueType::Form::structure: {
      if (type.name != "struct" || zarr_format == 2) return base64({from, type.size});
      json fields = json::object();
      for (const auto& field : type.fields) {
        const std::vector<std::byte> bytes(from + field.offset, from + field.offset + field.dtype.size);
        fields[field.name] = fill_to_json(bytes, field.dtype, zarr_format);
      }
      return fields;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<std::byte> fill_from_json(const json& found, DType dtype) {
  std::vector<std::byte> fill(dtype.size);
  switch (dtype.kind) {
    case Kind::boolean:
      bool_fill(found, dtype, fill.data());
      break;
    case Kind::signed_int:
    case Kind::unsigned_int:
      integer_fill(found, dtype, fill.data());
      break;
    case Kind::floating:
      any_float_fill(found, dtype, dtype.size, fill.data());
      break;
    case Kind::complex_float: {
      const std::size_t half = dtype.size / 2;
      if (found.is_number()) {
        any_float_fill(found, dtype, half, fill.data());
      } else if (found.is_array() && found.size() == 2) {
        any_float_fill(found[0], dtype, half, fill.data());
        any_float_fill(found[1], dtype, half, fill.data() + half);
      } else {
        throw_bad_fill(found, dtype, "a pair [real, imaginary]");
      }
      break;
    }
    case Kind::opaque:
      opaque_fill(found, dtype, fill);
      break;
  }
  return fill;
}

json fill_to_json(const std::vector<std::byte>& fill, DType dtype, int zarr_format) {
  const std::byte* from = fill.data();
  switch (dtype.kind) {
    case Kind::boolean:
      return *from != std::byte{0};
    case Kind::signed_int:
      return integer_to_json<std::int8_t, std::int16_t, std::int32_t, std::int64_t>(from, dtype.size);
    case Kind::unsigned_int:
      return integer_to_json<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(from, dtype.size);
    case Kind::floating:
      return any_float_to_json(from, dtype.size, zarr_format);
    case Kind::complex_float: {
      const std::size_t half = dtype.size / 2;
      return json::array(
          {any_float_to_json(from, half, zarr_format), any_float_to_json(from + half, half, zarr_format)});
    }
    case Kind::opaque:
      return opaque_to_json(from, dtype, zarr_format);
  }
  return nullptr;
}

}  // namespace cuboid
