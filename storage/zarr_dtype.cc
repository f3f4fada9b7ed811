#include "storage/zarr_dtype.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "storage/error.h"
#include "storage/opaque_type.h"
#include "storage/zarr.h"
#include "storage/zarr_json.h"

namespace cuboid {
namespace {

using nlohmann::json;
using Form = OpaqueType::Form;

constexpr const char* kExpectedNumpy = "|b1, <i2, >f8, <c16, <M8[ns], |S12, <U5, |V7, a list of fields or the like";
constexpr const char* kExpectedV3 =
    "bool, int8 to int64, uint8 to uint64, float16 to float64, complex64, complex128, numpy.datetime64, "
    "numpy.timedelta64, fixed_length_utf32, null_terminated_bytes, raw_bytes, r8 and so on, or structured";

struct TimeForm {
  Form form;
  char code;
  const char* name;
};
constexpr TimeForm kTimes[] = {{Form::datetime, 'M', "numpy.datetime64"}, {Form::timedelta, 'm', "numpy.timedelta64"}};
struct SizedForm {
  Form form;
  char code;
  std::uint32_t unit;  // bytes that the number after the code counts
  const char* name;
};
constexpr SizedForm kSized[] = {{Form::bytes, 'S', 1, "null_terminated_bytes"},
                                {Form::text, 'U', 4, "fixed_length_utf32"},
                                {Form::raw, 'V', 1, "raw_bytes"}};
struct NumberForm {
  Kind kind;
  char code;
};
constexpr NumberForm kNumbers[] = {{Kind::boolean, 'b'},
                                   {Kind::signed_int, 'i'},
                                   {Kind::unsigned_int, 'u'},
                                   {Kind::floating, 'f'},
                                   {Kind::complex_float, 'c'}};

std::optional<std::int64_t> natural(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || digits[0] == '-' || code != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  return value;
}

// "[10ns]" or nothing, which is generic.
std::optional<DType> time_type(const TimeForm& time, std::string_view rest) {
  OpaqueType type{.form = time.form, .name = time.name, .unit = "generic"};
  if (!rest.starts_with('8')) return std::nullopt;
  rest.remove_prefix(1);
  if (!rest.empty()) {
    if (!rest.starts_with('[') || !rest.ends_with(']')) return std::nullopt;
    rest = rest.substr(1, rest.size() - 2);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto scale = digits > 0 ? natural(rest.substr(0, digits)) : 1;
    type.unit = rest.substr(digits);
    if (!scale || !is_time_unit(type.unit)) return std::nullopt;
    type.scale = *scale;
  }
  return make_opaque(std::move(type));
}

std::optional<DType> numpy_scalar(char code, std::string_view rest) {
  for (const TimeForm& time : kTimes)
    if (time.code == code) return time_type(time, rest);
  const auto count = natural(rest);
  if (!count || *count < 1) return std::nullopt;
  for (const SizedForm& sized : kSized) {
    if (sized.code != code) continue;
    if (*count > kMaxElementBytes / sized.unit) {
      throw Error(ErrorKind::unsupported,
                  "elements of " + std::string(rest) + " characters or bytes: expected at most 1 MiB");
    }
    return make_opaque(
        {.form = sized.form, .name = sized.name, .size = static_cast<std::uint32_t>(*count) * sized.unit});
  }
  for (const NumberForm& number : kNumbers) {
    if (number.code != code || *count > 16) continue;
    const DType dtype{number.kind, static_cast<std::uint32_t>(*count)};
    return dtype_from_name(to_string(dtype)) == dtype ? std::optional(dtype) : std::nullopt;
  }
  return std::nullopt;
}

// [["x", "<f4"], ["y", "<i2", [3]]]: fields of one byte order.
StoredDType numpy_structure(const json& found, const char* key) {
  OpaqueType type{.form = Form::structure, .name = "structured"};
  const char* endian = nullptr;
  for (const json& entry : found) {
    const bool shaped = entry.is_array() && entry.size() == 3;
    if (!entry.is_array() || (entry.size() != 2 && !shaped) || !entry[0].is_string())
      throw_bad_key(key, found, "fields as [name, type] or [name, type, shape]");
    const StoredDType field = numpy_dtype(entry[1], key);
    if (field.endian && endian && std::strcmp(field.endian, endian) != 0) {
      throw Error(ErrorKind::unsupported,
                  "'" + std::string(key) + "' is " + found.dump() + ": fields of different byte orders are not read");
    }
    if (field.endian) endian = field.endian;
    type.fields.push_back({entry[0].get<std::string>(), field.dtype});
    if (!shaped) continue;
    type.fields.back().shape =
        entry[2].is_number() ? shape_from_json(json::array({entry[2]}), key) : shape_from_json(entry[2], key);
  }
  return {make_opaque(std::move(type)), endian};
}

}  // namespace

StoredDType numpy_dtype(const json& found, const char* key) {
  if (found.is_array()) return numpy_structure(found, key);
  if (!found.is_string()) throw_bad_key(key, found, kExpectedNumpy);
  const auto& text = found.get_ref<const std::string&>();
  if (text.size() < 2 || std::string_view("<>|").find(text[0]) == std::string_view::npos) {
    throw_bad_key(key, found, kExpectedNumpy);
  }
  if (text == "|O")
    throw Error(ErrorKind::unsupported,
                "'" + std::string(key) +
                    "' is \"|O\": strings of any length are shown (array "
                    "info, array cat), not computed on or copied; other Python objects are not read");
  const auto dtype = numpy_scalar(text[1], std::string_view(text).substr(2));
  if (!dtype) {
    throw Error(ErrorKind::unsupported,
                "'" + std::string(key) + "' is " + found.dump() + ", which is not read: expected " + kExpectedNumpy);
  }
  if (!has_byte_order(*dtype)) return {*dtype, nullptr};
  if (text[0] == '|') throw_bad_key(key, found, "a byte order, < or >");
  return {*dtype, text[0] == '<' ? "little" : "big"};
}

json numpy_dtype_to_json(DType dtype, const std::string& endian) {
  const std::string order = !has_byte_order(dtype) ? "|" : endian == "big" ? ">" : "<";
  for (const NumberForm& number : kNumbers)
    if (number.kind == dtype.kind) return order + number.code + std::to_string(dtype.size);
  const OpaqueType& type = *dtype.opaque;
  for (const TimeForm& time : kTimes) {
    if (time.form != type.form) continue;
    const std::string scale = type.scale == 1 ? "" : std::to_string(type.scale);
    return order + time.code + "8" + (type.unit == "generic" ? "" : "[" + scale + type.unit + "]");
  }
  for (const SizedForm& sized : kSized)
    if (sized.form == type.form) return order + sized.code + std::to_string(type.size / sized.unit);
  json fields = json::array();
  for (const auto& field : type.fields) {
    json entry = {field.name, numpy_dtype_to_json(field.dtype, endian)};
    if (!field.shape.empty()) entry.push_back(field.shape);
    fields.push_back(std::move(entry));
  }
  return fields;
}

// --- Format 3 -------------------------------------------------------------------------------------------------------

namespace {

std::int64_t length_of(const json& configuration) {
  const json& found = required(configuration, "length_bytes", "a number of bytes");
  const std::int64_t length = shape_from_json(json::array({found}), "length_bytes")[0];
  if (length < 1 || length > kMaxElementBytes) throw_bad_key("length_bytes", found, "1 to 1048576");
  return length;
}

// [name, type], or {"name": ..., "data_type": ...}.
OpaqueType::Field v3_field(const json& entry) {
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string())
    return {entry[0].get<std::string>(), data_type_from_json(entry[1])};
  if (entry.is_object() && entry.contains("name") && entry["name"].is_string() && entry.contains("data_type"))
    return {entry["name"].get<std::string>(), data_type_from_json(entry["data_type"])};
  throw_bad_key("fields", entry, "[name, type] or {\"name\": ..., \"data_type\": ...}");
}

std::optional<DType> configured_type(const std::string& name, const json& configuration, std::size_t& used) {
  for (const TimeForm& time : kTimes) {
    if (name != time.name) continue;
    const json& unit = required(configuration, "unit", "a unit of time");
    const json& scale = required(configuration, "scale_factor", "an integer");
    if (!unit.is_string()) throw_bad_key("unit", unit, "a string");
    const std::int64_t factor = shape_from_json(json::array({scale}), "scale_factor")[0];
    used = 2;
    const auto text = unit.get<std::string>();
    return make_opaque({.form = time.form,
                        .name = name,
                        .unit = text == "\u03bcs" || text == "\u00b5s" ? "us" : text,
                        .scale = factor});
  }
  for (const SizedForm& sized : kSized) {
    if (name != sized.name) continue;
    used = 1;
    return make_opaque(
        {.form = sized.form, .name = name, .size = static_cast<std::uint32_t>(length_of(configuration))});
  }
  if (name == "structured" || name == "struct") {
    const json& fields = required(configuration, "fields", "a list of fields");
    if (!fields.is_array()) throw_bad_key("fields", fields, "a list of fields");
    OpaqueType type{.form = Form::structure, .name = name};
    for (const json& field : fields) type.fields.push_back(v3_field(field));
    used = 1;
    return make_opaque(std::move(type));
  }
  return std::nullopt;
}

}  // namespace

DType data_type_from_json(const json& found) {
  std::string name;
  json configuration = json::object();
  if (found.is_string()) {
    name = found.get<std::string>();
  } else {
    if (!found.is_object() || !found.contains("name") || !found["name"].is_string())
      throw_bad_key("data_type", found, "a name, or {\"name\": ..., \"configuration\": {...}}");
    name = found["name"].get<std::string>();
    if (found.contains("configuration")) configuration = found["configuration"];
    if (!configuration.is_object()) throw_bad_key("data_type", found, "an object as 'configuration'");
  }
  std::size_t used = 0;
  auto dtype = name.find('[') == name.npos ? dtype_from_name(name) : std::nullopt;
  if (!dtype) dtype = configured_type(name, configuration, used);
  if (name == "string" || name == "bytes" || name == "variable_length_bytes")
    throw Error(ErrorKind::unsupported,
                "'data_type' is '" + name +
                    "': strings of any length are shown (array info, array cat), not computed on or copied");
  if (!dtype) {
    throw Error(ErrorKind::unsupported, "'data_type' is '" + name + "', which is not read: expected " + kExpectedV3);
  }
  if (configuration.size() > used) throw_bad_key("data_type", found, "no other configuration");
  return *dtype;
}

json data_type_to_json(DType dtype) {
  if (!dtype.opaque) return to_string(dtype);
  const OpaqueType& type = *dtype.opaque;
  json configuration;
  switch (type.form) {
    case Form::datetime:
    case Form::timedelta:
      configuration = {{"unit", type.unit}, {"scale_factor", type.scale}};
      break;
    case Form::raw:
      if (type.name != "raw_bytes") return type.name;
      [[fallthrough]];
    case Form::bytes:
    case Form::text:
      configuration = {{"length_bytes", type.size}};
      break;
    case Form::structure: {
      json fields = json::array();
      for (const auto& field : type.fields) {
        if (!field.shape.empty()) {
          throw Error(ErrorKind::unsupported, "field '" + field.name + "' is an array of " + to_string(field.shape) +
                                                  ", which Zarr format 3 cannot say: choose format 2");
        }
        json inner = data_type_to_json(field.dtype);
        fields.push_back(type.name == "struct" ? json{{"name", field.name}, {"data_type", std::move(inner)}}
                                               : json::array({field.name, std::move(inner)}));
      }
      configuration = {{"fields", std::move(fields)}};
    }
  }
  return {{"name", type.name}, {"configuration", std::move(configuration)}};
}

}  // namespace cuboid
