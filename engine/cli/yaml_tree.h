// A YAML 1.2 document as a small tree of plain values that know where they stand, so that every message about a file
// can name line and column. Scalars are resolved by the core schema exactly: `y`, `no`, `on` are strings, quoted
// scalars are strings, `010` is ten. JSON is accepted, being YAML.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "storage/error.h"

namespace cuboid {

// A scalar by the core schema. monostate is null.
using YamlScalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

class YamlNode;
using YamlNodePtr = std::shared_ptr<const YamlNode>;

// Immutable. An alias is the node it stands for, at the place of the anchor.
class YamlNode {
 public:
  enum class Type : std::uint8_t { scalar, sequence, map };

  Type type = Type::scalar;
  std::shared_ptr<const std::string> file;                   // for messages, as the caller named it
  int line = 1, column = 1;                                  // of the first character; columns count characters
  YamlScalar scalar;                                         // of a scalar
  std::string text;                                          // of a scalar: as written, quotes and escapes removed
  std::vector<YamlNodePtr> items;                            // of a sequence
  std::vector<std::pair<YamlNodePtr, YamlNodePtr>> entries;  // of a map, in order; keys are scalars and unique

  bool is_null() const { return type == Type::scalar && std::holds_alternative<std::monostate>(scalar); }
  const std::string* as_string() const { return type == Type::scalar ? std::get_if<std::string>(&scalar) : nullptr; }
  // "pipeline.yaml:12:9"
  std::string where() const;
  // What stands here, for messages: "the number 5", "a list", "'text'", "nothing".
  std::string describe() const;
  // Throws Error{invalid} "<where>: <message>".
  [[noreturn]] void fail(const std::string& message) const;
};

struct YamlLimits {
  std::size_t bytes = 1u << 20;
  std::size_t depth = 64;
  std::size_t nodes = 200'000;  // with every alias counted at full size
};

// Parses one document. Throws Error{invalid} naming `file`, line and column: syntax, duplicate keys, keys that are no
// scalars, tags beyond the core schema, a second document, a limit exceeded, bytes that are not UTF-8.
YamlNodePtr parse_yaml(const std::string& text, const std::string& file, const YamlLimits& limits = {});

// Reads a regular file of at most `limit` bytes; anything else (a folder, a pipe, nothing) is Error{invalid |
// not_found}.
std::string read_file(const std::string& path, std::size_t limit);

}  // namespace cuboid
