#include "engine/plugin/parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

std::string show(bool value) { return value ? "true" : "false"; }
std::string show(std::int64_t value) { return std::to_string(value); }
std::string show(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}
std::string show(const std::string& value) { return in_quotes(value); }
std::string show(std::monostate) { return "null"; }
template <class T>
std::string show(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t k = 0; k < values.size() && k < 8; ++k) text += (k ? ", " : "") + show(values[k]);
  return text + (values.size() > 8 ? ", ...]" : "]");
}

std::string described(const ParamManifest& param) {
  std::string text(to_string(param.type));
  if (param.min) text += " from " + to_string(*param.min);
  if (param.max) text += (param.min ? " to " : " up to ") + to_string(*param.max);
  if (!param.choices.empty()) {
    text += " of";
    for (const ParamValue& choice : param.choices) text += " " + to_string(choice);
  }
  if (param.min_items || param.max_items)
    text += " with " + std::to_string(param.min_items.value_or(0)) + " to " +
            std::to_string(param.max_items.value_or(65536)) + " entries";
  return text;
}

[[noreturn]] void refuse(const ParamManifest& param, const ParamValue& given) {
  throw Error(ErrorKind::invalid,
              "parameter " + param.name + " is " + to_string(given) + ", expected " + described(param));
}

std::vector<double> to_doubles(const std::vector<std::int64_t>& values) {
  return std::vector<double>(values.begin(), values.end());
}

// An empty list has no element to tell its type by.
bool is_empty_list(const ParamValue& value) {
  const auto* integers = std::get_if<std::vector<std::int64_t>>(&value);
  const auto* floats = std::get_if<std::vector<double>>(&value);
  const auto* strings = std::get_if<std::vector<std::string>>(&value);
  return (integers && integers->empty()) || (floats && floats->empty()) || (strings && strings->empty());
}

// The value as the declared type; nullopt where it is none. An integer is taken where a float is expected.
std::optional<ParamValue> converted(ParamType type, const ParamValue& given) {
  const auto as_is = [&](bool fits) { return fits ? std::optional<ParamValue>(given) : std::nullopt; };
  switch (type) {
    case ParamType::boolean:
      return as_is(std::holds_alternative<bool>(given));
    case ParamType::integer:
      return as_is(std::holds_alternative<std::int64_t>(given));
    case ParamType::floating:
      if (const auto* whole = std::get_if<std::int64_t>(&given)) return static_cast<double>(*whole);
      return as_is(std::holds_alternative<double>(given));
    case ParamType::string:
      return as_is(std::holds_alternative<std::string>(given));
    case ParamType::integers:
      if (is_empty_list(given)) return std::vector<std::int64_t>();
      return as_is(std::holds_alternative<std::vector<std::int64_t>>(given));
    case ParamType::floats:
      if (is_empty_list(given)) return std::vector<double>();
      if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&given)) return to_doubles(*whole);
      return as_is(std::holds_alternative<std::vector<double>>(given));
    case ParamType::strings:
      if (is_empty_list(given)) return std::vector<std::string>();
      return as_is(std::holds_alternative<std::vector<std::string>>(given));
  }
  return std::nullopt;
}

template <class T>
bool within(const ParamManifest& param, const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    if (!std::isfinite(value)) return false;
  }
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>) {
    if (param.min && value < std::get<T>(*param.min)) return false;
    if (param.max && value > std::get<T>(*param.max)) return false;
  }
  if constexpr (std::is_same_v<T, std::string>) {
    if (value.find('\0') != std::string::npos) return false;  // the plugin sees it as a C string
  }
  if constexpr (!std::is_same_v<T, std::monostate>) {
    return param.choices.empty() ||
           std::find(param.choices.begin(), param.choices.end(), ParamValue(value)) != param.choices.end();
  }
  return true;
}

template <class T>
bool within(const ParamManifest& param, const std::vector<T>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (count < param.min_items.value_or(0) || count > param.max_items.value_or(65536)) return false;
  return std::all_of(values.begin(), values.end(), [&](const T& value) { return within(param, value); });
}

ParamManifest boundary_param(const RegionManifest& regions) {
  ParamManifest param;
  param.name = "boundary";
  param.type = ParamType::string;
  param.doc = "What lies beyond the border of the array.";
  param.default_value = std::string(to_string(regions.default_mode));
  for (const BoundaryMode mode : regions.modes) param.choices.emplace_back(std::string(to_string(mode)));
  return param;
}

ParamManifest boundary_value_param() {
  ParamManifest param;
  param.name = "boundary_value";
  param.type = ParamType::floating;
  param.doc = "The value beyond the border where boundary is constant.";
  param.default_value = 0.0;
  return param;
}

}  // namespace

std::string to_string(const ParamValue& value) {
  return std::visit([](const auto& v) { return show(v); }, value);
}

ParamValue checked_value(const ParamManifest& param, const ParamValue& given) {
  const std::optional<ParamValue> value = converted(param.type, given);
  if (!value) refuse(param, given);
  const bool fits = std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, bool>)
          return true;
        else
          return within(param, v);
      },
      *value);
  if (!fits) refuse(param, given);
  return *value;
}

std::vector<ParamManifest> user_params(const FunctionManifest& function) {
  std::vector<ParamManifest> all = function.params;
  const std::vector<BoundaryMode>& modes = function.regions.modes;
  if (modes.size() > 1) all.push_back(boundary_param(function.regions));
  if (std::find(modes.begin(), modes.end(), BoundaryMode::constant) != modes.end())
    all.push_back(boundary_value_param());
  return all;
}

BoundParams bind_params(const FunctionManifest& function, const Params& given) {
  const std::vector<ParamManifest> known = user_params(function);
  std::vector<std::string> names;
  for (const ParamManifest& param : known) names.push_back(param.name);
  for (const auto& [name, value] : given) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string all;
    for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
    const std::optional<std::string> near = nearest_name(name, names);
    throw Error(ErrorKind::invalid, function.id + " has no parameter " + in_quotes(name) +
                                        (near            ? ", did you mean " + *near + "?"
                                         : names.empty() ? "; it takes none"
                                                         : "; it takes " + all));
  }
  BoundParams bound;
  bound.boundary = function.regions.default_mode;
  for (std::size_t k = 0; k < known.size(); ++k) {
    const ParamManifest& param = known[k];
    const auto found = given.find(param.name);
    if (found == given.end() && !param.default_value)
      throw Error(ErrorKind::invalid, function.id + " needs the parameter " + param.name + ": " + described(param));
    ParamValue value;
    try {
      value = checked_value(param, found == given.end() ? *param.default_value : found->second);
    } catch (const Error& error) {
      throw Error(error.kind(), function.id + ": " + error.message());
    }
    if (k < function.params.size())
      bound.values.push_back(std::move(value));
    else if (param.name == "boundary_value")
      bound.boundary_value = std::get<double>(value);
    else
      for (const BoundaryMode mode : function.regions.modes)
        if (to_string(mode) == std::get<std::string>(value)) bound.boundary = mode;
  }
  return bound;
}

Expression::Variables BoundParams::numbers(const FunctionManifest& function) const {
  Expression::Variables numbers;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::string& name = function.params[k].name;
    if (const auto* b = std::get_if<bool>(&values[k])) numbers[name] = *b ? 1 : 0;
    if (const auto* i = std::get_if<std::int64_t>(&values[k])) numbers[name] = static_cast<double>(*i);
    if (const auto* f = std::get_if<double>(&values[k])) numbers[name] = *f;
  }
  return numbers;
}

}  // namespace cuboid
