#include "storage/zarr_json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "storage/error.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

// Puts bare NaN, Infinity and -Infinity between quotes; everything else is left for the parser to judge.
std::string quote_bare_words(std::string_view text) {
  std::string quoted;
  quoted.reserve(text.size());
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\' && at + 1 < text.size()) quoted += text[at++];
      in_string = c != '"';
      quoted += text[at++];
      continue;
    }
    in_string = c == '"';
    bool replaced = false;
    if (c == 'N' || c == 'I' || c == '-') {
      for (std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
        if (!text.substr(at).starts_with(word)) continue;
        quoted.append("\"").append(word).append("\"");
        at += word.size();
        replaced = true;
        break;
      }
    }
    if (!replaced) quoted += text[at++];
  }
  return quoted;
}

}  // namespace

json parse_json(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) {
      throw Error(ErrorKind::invalid, std::string(what) + " is nested deeper than 64 levels");
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Error(ErrorKind::invalid, std::string(what) + " has the key " + parsed.dump() + " twice: remove one");
    }
    return true;
  };
  try {
    return json::parse(quote_bare_words(text), check);
  } catch (const json::exception& error) {
    throw Error(ErrorKind::invalid, std::string(what) + " is no valid JSON: " + error.what());
  }
}

void throw_bad_key(const char* key, const json& found, std::string_view expected) {
  std::string shown = found.dump(-1, ' ', false, json::error_handler_t::replace);
  if (shown.size() > 200) shown = shown.substr(0, 200) + "...";
  throw Error(ErrorKind::invalid, "'" + std::string(key) + "' is " + shown + ": expected " + std::string(expected));
}

const json& required(const json& object, const char* key, std::string_view expected) {
  const auto it = object.find(key);
  if (it == object.end()) {
    throw Error(ErrorKind::invalid, "'" + std::string(key) + "' is missing: expected " + std::string(expected));
  }
  return *it;
}

Shape shape_from_json(const json& found, const char* key) {
  if (!found.is_array()) throw_bad_key(key, found, "a list of integers");
  if (found.size() > kMaxRank) throw_bad_key(key, found, "at most 32 axes");
  Shape shape;
  for (const json& extent : found) {
    if (!extent.is_number_integer() || (extent.is_number_unsigned() && extent.get<std::uint64_t>() > INT64_MAX) ||
        extent.get<std::int64_t>() < 0) {
      throw_bad_key(key, found, "integers of at least 0 and below 2^63");
    }
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

StoredDType numpy_dtype(const json& found, const char* key) {
  const char* expected = "|b1, <i2, >f8, |u1, <c16 or the like";
  if (!found.is_string()) {
    throw Error(ErrorKind::unsupported,
                "'" + std::string(key) + "' is " + found.dump() + ": structured types are not read");
  }
  const auto& text = found.get_ref<const std::string&>();
  if (text.size() < 3 || std::string_view("<>|").find(text[0]) == std::string_view::npos) {
    throw_bad_key(key, found, expected);
  }
  constexpr struct {
    char code;
    const char* name;
  } kKinds[] = {{'b', "bool"}, {'i', "int"}, {'u', "uint"}, {'f', "float"}, {'c', "complex"}};
  const std::string digits = text.substr(2);
  for (const auto& kind : kKinds) {
    if (kind.code != text[1]) continue;
    const std::string bits = digits.size() <= 2 && digits.find_first_not_of("0123456789") == std::string::npos
                                 ? std::to_string(8 * std::stoi(digits))
                                 : "?";
    const auto dtype = dtype_from_name(kind.code == 'b' && digits == "1" ? "bool" : kind.name + bits);
    if (!dtype) break;
    if (dtype->size == 1) return {*dtype, nullptr};
    if (text[0] == '|') throw_bad_key(key, found, "a byte order, < or >");
    return {*dtype, text[0] == '<' ? "little" : "big"};
  }
  throw Error(ErrorKind::unsupported,
              "'" + std::string(key) + "' is \"" + text + "\", which is not read: expected " + expected);
}

// --- Fill values ----------------------------------------------------------------------------------------------------

namespace {

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

void any_float_fill(const json& found, DType dtype, std::size_t size, std::byte* to) {
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

json any_float_to_json(const std::byte* from, std::size_t size, int zarr_format) {
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
  }
  return nullptr;
}

}  // namespace cuboid
