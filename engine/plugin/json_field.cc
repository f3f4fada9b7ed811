#include "engine/plugin/json_field.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/expr/kernel.h"
#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {

namespace {

constexpr std::size_t kMaxKeys = 256;  // of one object: looking one up takes time in proportion

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, std::size_t max_bytes, int max_depth) {
  using Json = nlohmann::ordered_json;
  if (text.size() > max_bytes)
    throw Error(ErrorKind::plugin, "JSON of " + std::to_string(text.size()) + " bytes, at most " +
                                       std::to_string(max_bytes) + " are allowed");
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= max_depth)
      throw Error(ErrorKind::plugin, "JSON is nested deeper than " + std::to_string(max_depth) + " levels");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event != Json::parse_event_t::key) return true;
    if (!keys.back().insert(parsed.get<std::string>()).second)
      throw Error(ErrorKind::plugin, "key " + in_quotes(parsed.get<std::string>()) + " occurs twice in one object");
    if (keys.back().size() > kMaxKeys)
      throw Error(ErrorKind::plugin, "an object has more than " + std::to_string(kMaxKeys) + " keys");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::plugin, "no valid JSON: " + printable(error.what(), 200));
  }
}

void JsonField::object() const {
  if (!value_->is_object()) expected("an object");
}

void JsonField::object(std::initializer_list<std::string_view> allowed,
                       std::initializer_list<std::string_view> required) const {
  object();
  const std::vector<std::string> names(allowed.begin(), allowed.end());
  for (const auto& [key, member] : value_->items()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    const std::optional<std::string> near = nearest_name(key, names);
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    fail("unknown field " + in_quotes(key) + (near ? ", did you mean " + *near + "?" : ", expected one of " + all));
  }
  for (const std::string_view key : required)
    if (!value_->contains(key)) fail("lacks the field " + std::string(key));
}

JsonField JsonField::at(std::string_view key) const {
  const std::optional<JsonField> field = find(key);
  if (!field) fail("lacks the field " + std::string(key));
  return *field;
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonField(*found, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
}

std::vector<std::pair<std::string, JsonField>> JsonField::members() const {
  object();
  std::vector<std::pair<std::string, JsonField>> result;
  for (const auto& [key, member] : value_->items()) result.emplace_back(key, JsonField(member, path_ + "." + key));
  return result;
}

std::vector<JsonField> JsonField::list(std::size_t least, std::size_t most) const {
  if (!value_->is_array() || value_->size() < least || value_->size() > most)
    expected("a list of " + std::to_string(least) + " to " + std::to_string(most) + " entries");
  std::vector<JsonField> result;
  for (std::size_t k = 0; k < value_->size(); ++k)
    result.emplace_back((*value_)[k], path_ + "[" + std::to_string(k) + "]");
  return result;
}

std::string JsonField::text(std::size_t max_bytes) const {
  if (!value_->is_string()) expected("a string");
  std::string result = value_->get<std::string>();
  if (result.size() > max_bytes) expected("at most " + std::to_string(max_bytes) + " bytes of text");
  if (result.find('\0') != std::string::npos) expected("text without NUL");
  return result;
}

std::int64_t JsonField::integer(std::int64_t least, std::int64_t most) const {
  const std::string range = "an integer from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value_->is_number_integer()) expected(range);
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    expected(range);
  const auto result = value_->get<std::int64_t>();
  if (result < least || result > most) expected(range);
  return result;
}

double JsonField::number() const {
  if (!value_->is_number()) expected("a number");
  const auto result = value_->get<double>();
  if (!std::isfinite(result)) expected("a finite number");
  return result;
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}

std::size_t JsonField::choice(const std::vector<std::string_view>& words) const {
  if (value_->is_string()) {
    const auto found = std::find(words.begin(), words.end(), value_->get<std::string>());
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  }
  std::string all;
  for (const std::string_view word : words) all += (all.empty() ? "" : ", ") + std::string(word);
  expected("one of " + all);
}

std::vector<std::size_t> JsonField::choices(const std::vector<std::string_view>& words, std::size_t least) const {
  std::vector<std::size_t> result;
  for (const JsonField& entry : list(least, words.size())) {
    const std::size_t chosen = entry.choice(words);
    if (std::find(result.begin(), result.end(), chosen) != result.end()) entry.fail("occurs twice");
    result.push_back(chosen);
  }
  return result;
}

void JsonField::expected(const std::string& what) const {
  const std::string shown = value_->is_string()       ? in_quotes(value_->get<std::string>())
                            : value_->is_structured() ? std::string(value_->type_name()) + " of " +
                                                            std::to_string(value_->size()) + " entries"
                                                      : value_->dump();
  fail("is " + shown + ", expected " + what);
}

void JsonField::fail(const std::string& why) const {
  throw Error(ErrorKind::plugin, (path_.empty() ? "manifest" : path_) + ": " + why);
}

}  // namespace cuboid
