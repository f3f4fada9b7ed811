#include "engine/cli/element_text.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>

#include "storage/error.h"
#include "storage/half.h"
#include "storage/opaque_type.h"
#include "storage/text_codec.h"
#include "storage/zarr_dtype.h"

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

// "2026-11-29T10:15:00.000", as NumPy prints it; nullopt where the calendar does not reach.
std::optional<std::string> calendar_text(std::int64_t count, const OpaqueType& type) {
  std::int64_t value = 0;
  if (__builtin_mul_overflow(count, type.scale, &value)) return std::nullopt;
  char line[64];
  if (type.unit == "Y" || type.unit == "M") {
    if (std::abs(value) > 1'000'000) return std::nullopt;
    const std::int64_t months = type.unit == "Y" ? value * 12 : value;
    const std::int64_t year = 1970 + (months >= 0 ? months / 12 : -((11 - months) / 12));
    if (year < -9999 || year > 9999) return std::nullopt;
    const int month = static_cast<int>(months - (year - 1970) * 12) + 1;
    std::snprintf(line, sizeof line, type.unit == "Y" ? "%04d" : "%04d-%02d", static_cast<int>(year), month);
    return line;
  }
  struct Unit {
    std::string_view name;
    std::int64_t seconds;  // of one, or
    int digits;            // decimal places of a second
  };
  constexpr Unit kUnits[] = {{"W", 604800, 0}, {"D", 86400, 0}, {"h", 3600, 0}, {"m", 60, 0},
                             {"s", 1, 0},      {"ms", 0, 3},    {"us", 0, 6},   {"ns", 0, 9},
                             {"ps", 0, 12},    {"fs", 0, 15},   {"as", 0, 18}};
  const auto unit =
      std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& u) { return u.name == type.unit; });
  if (unit == std::end(kUnits)) return std::nullopt;
  std::int64_t places = 1;
  for (int k = 0; k < unit->digits; ++k) places *= 10;
  std::int64_t fraction = 0, seconds = 0;
  if (__builtin_mul_overflow(value, unit->seconds, &seconds)) return std::nullopt;
  if (unit->seconds == 0) {
    seconds = value / places;
    fraction = value % places;
    if (fraction < 0) fraction += places, --seconds;
  }
  std::int64_t day = seconds / 86400;
  if (seconds % 86400 < 0) --day;
  if (day < -4000000 || day > 2932896) return std::nullopt;  // to the end of the year 9999
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{static_cast<int>(day)}}};
  const int second = static_cast<int>(seconds - day * 86400);
  std::snprintf(line, sizeof line, "%04d-%02u-%02u", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()));
  std::string text = line;
  if (unit->name == "W" || unit->name == "D") return text;
  std::snprintf(line, sizeof line,
                unit->name == "h"   ? "T%02d"
                : unit->name == "m" ? "T%02d:%02d"
                                    : "T%02d:%02d:%02d",
                second / 3600, second / 60 % 60, second % 60);
  text += line;
  if (unit->digits > 0) {
    std::snprintf(line, sizeof line, ".%0*lld", unit->digits, static_cast<long long>(fraction));
    text += line;
  }
  return text;
}

void append_time(std::string& text, const OpaqueType& type, std::int64_t count, ElementForm form) {
  const bool json = form == ElementForm::json;
  if (count == INT64_MIN) {
    text += json ? "\"NaT\"" : "NaT";
  } else if (json) {
    append_integer(text, count);
  } else if (const auto date = type.form == OpaqueType::Form::datetime ? calendar_text(count, type) : std::nullopt) {
    text += *date;
  } else {
    append_integer(text, count);
    text += ' ' + (type.scale == 1 ? "" : std::to_string(type.scale)) + type.unit;
  }
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_bytes(std::string& text, std::span<const std::byte> bytes, ElementForm form) {
  if (form == ElementForm::json) {
    text += '"' + base64(bytes) + '"';
    return;
  }
  text += "b\"";
  for (const std::byte byte : bytes) {
    const auto c = static_cast<char>(byte);
    char escaped[8];
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      text += c;
    } else {
      std::snprintf(escaped, sizeof escaped, "\\x%02x", std::to_integer<unsigned>(byte));
      text += escaped;
    }
  }
  text += '"';
}

void append_opaque(std::string& text, DType dtype, const std::byte* element, ElementForm form) {
  const OpaqueType& type = *dtype.opaque;
  switch (type.form) {
    case OpaqueType::Form::datetime:
    case OpaqueType::Form::timedelta:
      return append_time(text, type, load<std::int64_t>(element), form);
    case OpaqueType::Form::text:
      text += quoted(utf8_from_utf32({element, type.size}));
      return;
    case OpaqueType::Form::raw:
      return append_bytes(text, {element, type.size}, form);
    case OpaqueType::Form::bytes: {
      std::size_t length = type.size;
      while (length > 0 && element[length - 1] == std::byte{0}) --length;
      return append_bytes(text, {element, length}, form);
    }
    case OpaqueType::Form::structure:
      break;
  }
  const bool json = form == ElementForm::json;
  text += json ? '[' : '(';
  for (const auto& field : type.fields) {
    if (field.offset > 0) text += ", ";
    const std::int64_t count = element_count(field.shape);
    if (!field.shape.empty()) text += '[';
    for (std::int64_t i = 0; i < count; ++i) {
      if (i > 0) text += ", ";
      append_element(text, field.dtype, element + field.offset + static_cast<std::size_t>(i) * field.dtype.size, form);
    }
    if (!field.shape.empty()) text += ']';
  }
  text += json ? ']' : ')';
}

// A name between quotes, as Python's source has it.
std::string python_text(const std::string& text) {
  std::string result = "'";
  for (const std::uint32_t point : utf32_from_utf8(text).value_or(std::vector<std::uint32_t>{'?'})) {
    char escaped[16];
    if (point >= ' ' && point <= '~' && point != '\'' && point != '\\') {
      result += static_cast<char>(point);
    } else {
      std::snprintf(escaped, sizeof escaped, "\\U%08x", point);
      result += escaped;
    }
  }
  return result + "'";
}

// What stands after 'descr': a type's text in quotes, or the list of fields.
std::string npy_literal(const nlohmann::json& numpy) {
  if (numpy.is_string()) return python_text(numpy.get<std::string>());
  std::string text = "[";
  for (const nlohmann::json& field : numpy) {
    text += "(" + python_text(field[0].get<std::string>()) + ", " + npy_literal(field[1]);
    if (field.size() > 2) {
      text += ", (";
      for (const nlohmann::json& extent : field[2]) text += extent.dump() + ", ";
      text += ")";
    }
    text += "), ";
  }
  return text + "]";
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
      if (dtype.size == 2) return append_float(text, half_to_float(load<std::uint16_t>(element)), form);
      if (dtype.size == 4) return append_float(text, load<float>(element), form);
      if (dtype.size == 8) return append_float(text, load<double>(element), form);
      break;
    case Kind::complex_float:
      if (dtype.size == 8) return append_complex<float>(text, element, form);
      if (dtype.size == 16) return append_complex<double>(text, element, form);
      break;
    case Kind::opaque:
      return append_opaque(text, dtype, element, form);
  }
  throw Error(ErrorKind::unsupported, "elements of type " + to_string(dtype) + " cannot be printed");
}

void append_string(std::string& text, std::string_view element, bool is_text, ElementForm form) {
  if (is_text)
    text += quoted(std::string(element));
  else
    append_bytes(text, std::as_bytes(std::span(element)), form);
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

std::string npy_descriptor(DType dtype) { return npy_literal(numpy_dtype_to_json(dtype, "little")); }

std::string npy_header(DType dtype, const Shape& shape) {
  std::string extents;
  for (std::int64_t extent : shape) extents += std::to_string(extent) + ", ";
  std::string header = "{'descr': " + npy_descriptor(dtype) + ", 'fortran_order': False, 'shape': (" + extents + "), }";
  // Version 2 for headers beyond 64 KiB, as structures of many fields have.
  const bool wide = header.size() > 65000;
  const std::size_t before = wide ? 12 : 10;
  const std::size_t whole = (before + header.size() + 1 + 63) / 64 * 64;
  header.append(whole - before - header.size() - 1, ' ');
  header += '\n';
  std::string bytes = std::string("\x93NUMPY") + (wide ? '\x02' : '\x01') + '\0';
  for (std::size_t k = 0; k < before - 8; ++k) bytes += static_cast<char>(header.size() >> (8 * k) & 0xff);
  return bytes + header;
}

}  // namespace cuboid
