// Reading untrusted JSON: a value together with its path in the document, so that every complaint names the field and
// what was expected there. Strings are UTF-8 (the parser checks), keys distinct, depth and size limited.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cuboid {

// Throws Error{plugin}: larger than max_bytes, nested deeper than max_depth, an object of more than 256 keys, a
// duplicate key, no JSON.
nlohmann::ordered_json parse_json(std::string_view text, std::size_t max_bytes, int max_depth);

class JsonField {
 public:
  using Json = nlohmann::ordered_json;
  JsonField(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const Json& value() const { return *value_; }

  // All of these throw Error{plugin} where the value is something else.
  void object(std::initializer_list<std::string_view> allowed, std::initializer_list<std::string_view> required) const;
  void object() const;
  JsonField at(std::string_view key) const;  // of an object that has it
  std::optional<JsonField> find(std::string_view key) const;
  std::vector<std::pair<std::string, JsonField>> members() const;
  std::vector<JsonField> list(std::size_t least, std::size_t most) const;
  std::string text(std::size_t max_bytes) const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double number() const;  // finite
  bool boolean() const;
  // The index of the text among `words`.
  std::size_t choice(const std::vector<std::string_view>& words) const;
  // Distinct texts, each a choice.
  std::vector<std::size_t> choices(const std::vector<std::string_view>& words, std::size_t least) const;

  [[noreturn]] void expected(const std::string& what) const;  // "PATH: is VALUE, expected WHAT"
  [[noreturn]] void fail(const std::string& why) const;       // "PATH: WHY"

 private:
  const Json* value_;
  std::string path_;
};

}  // namespace cuboid
