#include "engine/cli/pipeline_values.h"

#include <algorithm>
#include <cmath>

namespace cuboid {
namespace {

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t k = 0; k < words.size(); ++k)
    text += (k == 0 ? "" : k + 1 == words.size() ? " or " : ", ") + words[k];
  return text;
}

// Numbers of a list of one kind; integers among floats are floats. Anything else is refused where it stands.
struct NumberList {
  bool any_float = false, any_int = false, any_bool = false;
  std::vector<std::int64_t> integers;
  std::vector<double> floats;

  void add(const YamlNode& item, const std::string& what) {
    if (item.type != YamlNode::Type::scalar) item.fail(what + ": expected a number, got " + item.describe());
    if (const auto* integer = std::get_if<std::int64_t>(&item.scalar)) {
      any_int = true;
      integers.push_back(*integer);
      floats.push_back(static_cast<double>(*integer));
    } else if (const auto* number = std::get_if<double>(&item.scalar)) {
      any_float = true;
      floats.push_back(*number);
    } else if (const auto* flag = std::get_if<bool>(&item.scalar)) {
      any_bool = true;
      integers.push_back(*flag ? 1 : 0);
    } else {
      item.fail(what + ": expected a number, got " + item.describe());
    }
    if (any_bool && (any_int || any_float)) item.fail(what + ": a list holds numbers or true and false, not both");
  }
};

}  // namespace

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  if (const auto near = nearest_name(word, candidates)) return ", did you mean '" + *near + "'?";
  if (candidates.empty()) return "; there are none";
  if (candidates.size() > 16) return "";
  return "; expected " + join_words(candidates);
}

const YamlNode* find_entry(const YamlNode& map, const std::string& key) {
  for (const auto& [name, value] : map.entries)
    if (name->text == key) return value.get();
  return nullptr;
}

void check_keys(const YamlNode& node, const std::vector<std::string>& allowed, const std::string& what) {
  if (node.type != YamlNode::Type::map)
    node.fail(what + ": expected a map with the keys " + join_words(allowed) + ", got " + node.describe());
  for (const auto& [key, value] : node.entries)
    if (std::find(allowed.begin(), allowed.end(), key->text) == allowed.end())
      key->fail(what + ": unknown key '" + key->text + "'" + suggestion(key->text, allowed));
}

const std::string& string_value(const YamlNode& node, const std::string& what) {
  const std::string* text = node.as_string();
  if (!text) node.fail(what + ": expected text, got " + node.describe());
  if (text->empty()) node.fail(what + ": expected text, got ''");
  if (text->find('\0') != std::string::npos) node.fail(what + ": expected text without the character of code 0");
  return *text;
}

bool bool_value(const YamlNode& node, const std::string& what) {
  const bool* flag = node.type == YamlNode::Type::scalar ? std::get_if<bool>(&node.scalar) : nullptr;
  if (!flag) node.fail(what + ": expected true or false, got " + node.describe());
  return *flag;
}

std::uint64_t size_value(const YamlNode& node, const std::string& what) {
  std::uint64_t bytes = 0;
  const auto* integer = node.type == YamlNode::Type::scalar ? std::get_if<std::int64_t>(&node.scalar) : nullptr;
  if (integer) {
    bytes = *integer > 0 ? static_cast<std::uint64_t>(*integer) : 0;
  } else if (const std::string* text = node.as_string()) {
    try {
      bytes = parse_size(*text);
    } catch (const Error& error) {
      node.fail(what + ": " + error.message());
    }
  } else {
    node.fail(what + ": expected a size such as 512MiB or a number of bytes, got " + node.describe());
  }
  if (bytes == 0) node.fail(what + ": expected a size of at least one byte, got " + node.describe());
  return bytes;
}

Shape extents_value(const YamlNode& node, const std::string& what, std::int64_t least) {
  if (node.type != YamlNode::Type::sequence)
    node.fail(what + ": expected a list of integers, one per axis, got " + node.describe());
  Shape shape;
  for (const YamlNodePtr& item : node.items) {
    const auto* extent = item->type == YamlNode::Type::scalar ? std::get_if<std::int64_t>(&item->scalar) : nullptr;
    if (!extent || *extent < least)
      node.fail(what + ": expected integers of at least " + std::to_string(least) + ", one per axis, got " +
                item->describe());
    shape.push_back(*extent);
  }
  if (shape.size() > kMaxRank) node.fail(what + ": more than " + std::to_string(kMaxRank) + " axes");
  return shape;
}

std::chrono::milliseconds duration_value(const YamlNode& node, const std::string& what) {
  const auto wrong = [&] {
    node.fail(what + ": expected a duration such as 500ms, 2s, 5m or 1h, got " + node.describe());
  };
  const std::string* text = node.as_string();
  if (!text) wrong();
  const std::size_t digits = std::min(text->find_first_not_of("0123456789."), text->size());
  const std::string number = text->substr(0, digits), unit = text->substr(digits);
  const double milliseconds = unit == "ms" ? 1 : unit == "s" ? 1e3 : unit == "m" ? 6e4 : unit == "h" ? 3.6e6 : 0;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end) * milliseconds;
  if (number.empty() || number[0] == '.' || *end != '\0' || milliseconds == 0) wrong();
  if (!(value >= 1) || value > 1e12)
    node.fail(what + ": expected a duration between 1ms and 277777h, got '" + *text + "'");
  return std::chrono::milliseconds(static_cast<std::int64_t>(value));
}

ExceedAction exceed_action(const YamlNode& node, const std::string& word, const std::string& what) {
  if (word == "ask") return ExceedAction::ask;
  if (word == "grow") return ExceedAction::grow;
  if (word == "park") return ExceedAction::park;
  if (word == "fail") return ExceedAction::fail;
  node.fail(what + ": unknown action '" + word + "'" + suggestion(word, {"ask", "grow", "park", "fail"}));
}

ExceedPolicy exceed_policy_value(const YamlNode& node, const std::string& what) {
  check_keys(node, {"action", "factor", "max_task_memory", "max_attempts"}, what);
  ExceedPolicy policy;
  if (const YamlNode* action = find_entry(node, "action"))
    policy.action = exceed_action(*action, string_value(*action, what + ": action"), what + ": action");
  if (const YamlNode* factor = find_entry(node, "factor")) {
    const auto* integer = factor->type == YamlNode::Type::scalar ? std::get_if<std::int64_t>(&factor->scalar) : nullptr;
    const auto* number = factor->type == YamlNode::Type::scalar ? std::get_if<double>(&factor->scalar) : nullptr;
    policy.factor = integer ? static_cast<double>(*integer) : number ? *number : 0;
    if (!(*policy.factor > 1) || !std::isfinite(*policy.factor))
      factor->fail(what + ": factor: expected a number above 1, got " + factor->describe());
  }
  if (const YamlNode* memory = find_entry(node, "max_task_memory"))
    policy.max_task_memory = size_value(*memory, what + ": max_task_memory");
  if (const YamlNode* attempts = find_entry(node, "max_attempts")) {
    const auto* count =
        attempts->type == YamlNode::Type::scalar ? std::get_if<std::int64_t>(&attempts->scalar) : nullptr;
    if (!count || *count < 1 || *count > 1000)
      attempts->fail(what + ": max_attempts: expected an integer from 1 to 1000, got " + attempts->describe());
    policy.max_attempts = static_cast<int>(*count);
  }
  return policy;
}

ParamValue param_value(const YamlNode& node, const std::string& what) {
  if (node.type == YamlNode::Type::map) node.fail(what + ": expected a value or a list, got a map");
  if (node.type == YamlNode::Type::scalar)
    return std::visit([](const auto& value) { return ParamValue(value); }, node.scalar);
  if (std::any_of(node.items.begin(), node.items.end(), [](const auto& item) { return item->as_string(); })) {
    std::vector<std::string> words;
    for (const YamlNodePtr& item : node.items) {
      if (!item->as_string()) item->fail(what + ": a list holds texts or numbers, not both; got " + item->describe());
      words.push_back(*item->as_string());
    }
    return words;
  }
  NumberList list;
  for (const YamlNodePtr& item : node.items) list.add(*item, what);
  if (list.any_float) return list.floats;
  return list.integers;
}

Params small_array_params(const YamlNode& list, const std::string& what) {
  Shape shape;
  NumberList numbers;
  // Descends row by row; every row of one depth has the length of the first.
  const auto add = [&](const auto& self, const YamlNode& node, std::size_t depth) -> void {
    if (shape.size() == depth) shape.push_back(static_cast<std::int64_t>(node.items.size()));
    if (static_cast<std::int64_t>(node.items.size()) != shape[depth])
      node.fail(what + ": rows of a small array must have one length: expected " + std::to_string(shape[depth]) +
                " numbers, got " + std::to_string(node.items.size()));
    for (const YamlNodePtr& item : node.items) {
      const bool row = item->type == YamlNode::Type::sequence;
      if (row && depth + 1 >= kMaxRank) item->fail(what + ": more than " + std::to_string(kMaxRank) + " axes");
      if (row && depth + 1 == shape.size() && item != node.items.front())
        item->fail(what + ": expected a number, got a list");
      if (!row && depth + 1 != shape.size()) item->fail(what + ": expected a list, got " + item->describe());
      if (row) {
        self(self, *item, depth + 1);
      } else {
        numbers.add(*item, what);
      }
    }
  };
  add(add, list, 0);
  Params params;
  params["shape"] = shape;
  const bool floats = numbers.any_float || (!numbers.any_bool && !numbers.any_int);  // as NumPy has it: [] is float64
  params["dtype"] = std::string(floats ? "float64" : numbers.any_bool ? "bool" : "int64");
  if (floats) {
    params["data"] = numbers.floats;
  } else {
    params["data"] = numbers.integers;
  }
  return params;
}

}  // namespace cuboid
