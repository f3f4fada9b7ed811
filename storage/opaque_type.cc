#include "storage/opaque_type.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "storage/error.h"

namespace cuboid {
namespace {

using nlohmann::json;
using Form = OpaqueType::Form;

constexpr std::size_t kMaxFields = 1000;
constexpr std::size_t kMaxNumbers = 1u << 16;
constexpr int kDeepestType = 8;
constexpr std::string_view kUnits[] = {"Y",  "M",  "W",  "D",  "h",  "m",  "s",
                                       "ms", "us", "ns", "ps", "fs", "as", "generic"};

[[noreturn]] void refuse(const OpaqueType& type, const std::string& why) {
  throw Error(ErrorKind::invalid, "data type '" + type.name + "' " + why);
}

int depth_of(const OpaqueType& type) {
  int depth = 0;
  for (const auto& field : type.fields)
    if (field.dtype.opaque) depth = std::max(depth, depth_of(*field.dtype.opaque));
  return depth + 1;
}

void add_numbers(DType dtype, std::size_t offset, std::vector<OpaqueType::Number>& numbers) {
  if (dtype.opaque) {
    for (const auto& number : dtype.opaque->numbers) numbers.push_back({offset + number.offset, number.size});
  } else if (dtype.kind == Kind::complex_float) {
    numbers.push_back({offset, dtype.size / 2});
    numbers.push_back({offset + dtype.size / 2, dtype.size / 2});
  } else if (dtype.size > 1) {
    numbers.push_back({offset, dtype.size});
  }
}

void lay_out(OpaqueType& type) {
  if (type.fields.empty() || type.fields.size() > kMaxFields) refuse(type, "has no fields, or more than 1000");
  if (depth_of(type) > kDeepestType) refuse(type, "is nested deeper than 8 levels");
  std::set<std::string> names;
  std::size_t offset = 0;
  for (auto& field : type.fields) {
    if (!names.insert(field.name).second) refuse(type, "has the field '" + field.name + "' twice");
    const std::int64_t count = element_count(field.shape);
    if (count < 1 || count > kMaxElementBytes)
      refuse(type, "has the field '" + field.name + "' of no or many elements");
    field.offset = offset;
    offset += static_cast<std::size_t>(count) * field.dtype.size;
    if (offset > kMaxElementBytes) refuse(type, "takes more than 1 MiB an element");
    for (std::int64_t i = 0; i < count && has_byte_order(field.dtype); ++i) {
      add_numbers(field.dtype, field.offset + static_cast<std::size_t>(i) * field.dtype.size, type.numbers);
      if (type.numbers.size() > kMaxNumbers) refuse(type, "holds more than 65536 numbers an element");
    }
  }
  type.size = static_cast<std::uint32_t>(offset);
}

std::string text_of(const OpaqueType& type) {
  switch (type.form) {
    case Form::datetime:
    case Form::timedelta:
      return type.name + "[" + (type.scale == 1 ? "" : std::to_string(type.scale)) + type.unit + "]";
    case Form::raw:
      if (type.name != "raw_bytes") return type.name;  // "r40" says all
      [[fallthrough]];
    case Form::bytes:
    case Form::text:
      return type.name + "[" + std::to_string(type.size) + "]";
    case Form::structure: {
      json fields = json::array();
      for (const auto& field : type.fields) {
        json entry = {field.name, to_string(field.dtype)};
        if (!field.shape.empty()) entry.push_back(field.shape);
        fields.push_back(std::move(entry));
      }
      return type.name + fields.dump(-1, ' ', false, json::error_handler_t::replace);
    }
  }
  return type.name;
}

std::optional<OpaqueType> structure_from(std::string_view name, std::string_view list) {
  const json fields = json::parse(list, nullptr, false);
  if (!fields.is_array()) return std::nullopt;
  OpaqueType type{.form = Form::structure, .name = std::string(name)};
  for (const json& entry : fields) {
    if (!entry.is_array() || entry.size() < 2 || !entry[0].is_string() || !entry[1].is_string()) return std::nullopt;
    const auto dtype = dtype_from_name(entry[1].get_ref<const std::string&>());
    if (!dtype) return std::nullopt;
    OpaqueType::Field field{entry[0].get<std::string>(), *dtype};
    if (entry.size() > 2) field.shape = entry[2].get<Shape>();
    type.fields.push_back(std::move(field));
  }
  return type;
}

std::optional<std::int64_t> integer_from(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

bool is_time_unit(std::string_view unit) {
  return std::find(std::begin(kUnits), std::end(kUnits), unit) != std::end(kUnits);
}

DType make_opaque(OpaqueType type) {
  type.numbers.clear();
  switch (type.form) {
    case Form::datetime:
    case Form::timedelta:
      type.size = 8;
      type.numbers = {{0, 8}};
      if (!is_time_unit(type.unit))
        refuse(type,
               "has the unit '" + type.unit + "': expected Y, M, W, D, h, m, s, ms, us, ns, ps, fs, as or generic");
      if (type.scale < 1 || type.scale > INT32_MAX) refuse(type, "has a scale factor outside of 1 to 2^31 - 1");
      break;
    case Form::text:
      if (type.size % 4 != 0) refuse(type, "of " + std::to_string(type.size) + " bytes: expected a multiple of 4");
      for (std::size_t at = 0; at < type.size && type.size <= kMaxElementBytes; at += 4)
        type.numbers.push_back({at, 4});
      break;
    case Form::bytes:
    case Form::raw:
      break;
    case Form::structure:
      lay_out(type);
  }
  if (type.size < 1 || type.size > kMaxElementBytes)
    refuse(type, "of " + std::to_string(type.size) + " bytes: expected 1 byte to 1 MiB an element");
  type.text = text_of(type);

  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::unique_ptr<const OpaqueType>>;  // lives as long as the process
  const std::lock_guard lock(mutex);
  auto& slot = known[type.text];
  if (!slot) slot = std::make_unique<const OpaqueType>(std::move(type));
  return {Kind::opaque, slot->size, slot.get()};
}

std::optional<DType> opaque_from_text(std::string_view text) {
  const std::size_t bracket = text.find('[');
  const std::string_view name = text.substr(0, bracket);
  if (bracket == text.npos) {
    const auto bits = name.starts_with('r') ? integer_from(name.substr(1)) : std::nullopt;
    if (!bits || *bits < 8 || *bits % 8 != 0 || *bits > 8 * std::int64_t{kMaxElementBytes} || name[1] == '+')
      return std::nullopt;
    return make_opaque({.form = Form::raw, .name = std::string(name), .size = static_cast<std::uint32_t>(*bits / 8)});
  }
  if (!text.ends_with(']')) return std::nullopt;
  const std::string_view inside = text.substr(bracket + 1, text.size() - bracket - 2);
  if (name == "structured" || name == "struct") {
    auto type = structure_from(name, text.substr(bracket));
    return type ? std::optional(make_opaque(std::move(*type))) : std::nullopt;
  }
  if (name == "numpy.datetime64" || name == "numpy.timedelta64") {
    const std::size_t digits = std::min(inside.find_first_not_of("0123456789"), inside.size());
    const auto scale = digits > 0 ? integer_from(inside.substr(0, digits)) : 1;
    if (!scale || !is_time_unit(inside.substr(digits))) return std::nullopt;
    return make_opaque({.form = name == "numpy.datetime64" ? Form::datetime : Form::timedelta,
                        .name = std::string(name),
                        .unit = std::string(inside.substr(digits)),
                        .scale = *scale});
  }
  constexpr std::pair<std::string_view, Form> kSized[] = {
      {"null_terminated_bytes", Form::bytes}, {"fixed_length_utf32", Form::text}, {"raw_bytes", Form::raw}};
  for (const auto& [known, form] : kSized) {
    const auto size = name == known ? integer_from(inside) : std::nullopt;
    if (size && *size >= 1 && *size <= kMaxElementBytes)
      return make_opaque({.form = form, .name = std::string(name), .size = static_cast<std::uint32_t>(*size)});
  }
  return std::nullopt;
}

bool has_byte_order(DType dtype) { return dtype.opaque ? !dtype.opaque->numbers.empty() : dtype.size > 1; }

std::uint32_t uniform_number_size(DType dtype) {
  if (!dtype.opaque) return dtype.kind == Kind::complex_float ? dtype.size / 2 : dtype.size;
  const auto& numbers = dtype.opaque->numbers;
  if (numbers.empty()) return 0;
  const std::uint32_t size = numbers[0].size;
  const bool alike =
      std::all_of(numbers.begin(), numbers.end(), [&](const auto& number) { return number.size == size; });
  return alike && numbers.size() * size == dtype.size ? size : 0;
}

}  // namespace cuboid
