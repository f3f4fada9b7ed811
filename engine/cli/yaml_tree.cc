#include "engine/cli/yaml_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

namespace cuboid {
namespace {

bool all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool looks_float(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  auto take_digits = [&text, kDigits] {
    const std::size_t count = std::min(text.find_first_not_of(kDigits), text.size());
    text.remove_prefix(count);
    return count;
  };
  std::size_t mantissa = take_digits();
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    mantissa += take_digits();
  }
  if (mantissa == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return all_of(text, kDigits);
}

// nullopt where it is no integer; fails where it is one beyond int64.
std::optional<std::int64_t> as_integer(std::string_view text, const YamlNode& node) {
  int base = 10;
  std::string_view digits = text;
  bool negative = false;
  if (text.starts_with("0x") || text.starts_with("0o")) {
    base = text[1] == 'x' ? 16 : 8;
    digits.remove_prefix(2);
    if (!all_of(digits, base == 16 ? "0123456789abcdefABCDEF" : "01234567")) return std::nullopt;
  } else {
    if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
      negative = digits[0] == '-';
      digits.remove_prefix(1);
    }
    if (!all_of(digits, "0123456789")) return std::nullopt;
  }
  std::uint64_t magnitude = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  const std::uint64_t limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) + (negative ? 1 : 0);
  if (code != std::errc() || end != digits.data() + digits.size() || magnitude > limit)
    node.fail("the integer " + std::string(text) + " is outside the range of int64");
  return static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
}

YamlScalar resolve_plain(const std::string& text, const YamlNode& node) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return std::monostate{};
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (const auto integer = as_integer(text, node)) return *integer;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == ".inf" || text == ".Inf" || text == ".INF" || text == "+.inf" || text == "+.Inf" || text == "+.INF")
    return kInfinity;
  if (text == "-.inf" || text == "-.Inf" || text == "-.INF") return -kInfinity;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return std::numeric_limits<double>::quiet_NaN();
  if (looks_float(text)) {
    // from_chars takes neither a leading '+' nor reports overflow as infinity; strtod does both and needs no locale
    // here, for the program never leaves the "C" locale.
    return std::strtod(text.c_str(), nullptr);
  }
  return text;
}

YamlScalar resolve(const std::string& tag, const std::string& text, const YamlNode& node) {
  if (tag == "!" || tag == "tag:yaml.org,2002:str") return text;
  const YamlScalar plain = resolve_plain(text, node);
  if (tag.empty() || tag == "?") return plain;
  const auto wrong = [&](const char* what) { node.fail("'" + text + "' is not " + what + " as its tag says"); };
  if (tag == "tag:yaml.org,2002:int") {
    if (!std::holds_alternative<std::int64_t>(plain)) wrong("an integer");
  } else if (tag == "tag:yaml.org,2002:float") {
    if (const auto* integer = std::get_if<std::int64_t>(&plain)) return static_cast<double>(*integer);
    if (!std::holds_alternative<double>(plain)) wrong("a number");
  } else if (tag == "tag:yaml.org,2002:bool") {
    if (!std::holds_alternative<bool>(plain)) wrong("true or false");
  } else if (tag == "tag:yaml.org,2002:null") {
    if (!std::holds_alternative<std::monostate>(plain)) wrong("null");
  } else {
    node.fail("the tag '" + tag + "' is not of the core schema: remove it");
  }
  return plain;
}

// Turns the parser's events into the tree; everything that an untrusted file could blow up is bounded here.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& text, const std::string& file, const YamlLimits& limits)
      : text_(text), file_(std::make_shared<const std::string>(file)), limits_(limits) {
    line_starts_.push_back(0);
    for (std::size_t at = 0; at < text.size(); ++at)
      if (text[at] == '\n') line_starts_.push_back(at + 1);
  }

  YamlNodePtr root() const { return root_; }

  std::shared_ptr<YamlNode> node_at(const YAML::Mark& mark, YamlNode::Type type = YamlNode::Type::scalar) const {
    auto node = std::make_shared<YamlNode>();
    node->type = type;
    node->file = file_;
    node->line = std::max(mark.line, 0) + 1;
    node->column = column_of(mark);
    return node;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_) node_at(mark)->fail("a second document starts here; a pipeline file is one document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(node_at(mark), anchor, 1); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) node_at(mark)->fail("an alias stands inside the value that it is an alias of");
    add(found->second.first, 0, found->second.second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = node_at(mark);
    node->text = value;
    node->scalar = resolve(tag, value, *node);
    add(node, anchor, 1);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(node_at(mark, YamlNode::Type::sequence), tag, "tag:yaml.org,2002:seq", anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(node_at(mark, YamlNode::Type::map), tag, "tag:yaml.org,2002:map", anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor;
    std::size_t size = 1;
    YamlNodePtr key;
    std::set<std::string> keys;
  };

  // The parser counts bytes; people count characters.
  int column_of(const YAML::Mark& mark) const {
    const std::size_t line = static_cast<std::size_t>(std::max(mark.line, 0));
    if (line >= line_starts_.size()) return 1;
    const std::size_t start = line_starts_[line];
    const std::size_t end = std::min(text_.size(), start + static_cast<std::size_t>(std::max(mark.column, 0)));
    int column = 1;
    for (std::size_t at = start; at < end; ++at) column += (text_[at] & 0xC0) != 0x80 ? 1 : 0;
    return column;
  }

  void open(std::shared_ptr<YamlNode> node, const std::string& tag, const char* expected, YAML::anchor_t anchor) {
    if (!tag.empty() && tag != "?" && tag != "!" && tag != expected)
      node->fail("the tag '" + tag + "' is not of the core schema: remove it");
    if (levels_.size() >= limits_.depth)
      node->fail("values are nested deeper than " + std::to_string(limits_.depth) + " levels");
    if (!levels_.empty() && levels_.back().node->type == YamlNode::Type::map && !levels_.back().key)
      node->fail("a key must be a single word or a quoted text, not " + node->describe());
    levels_.push_back({std::move(node), anchor, 1, nullptr, {}});
  }
  void close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    add(level.node, level.anchor, level.size);
  }
  void add(YamlNodePtr node, YAML::anchor_t anchor, std::size_t size) {
    if (anchor != 0) anchors_[anchor] = {node, size};
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    level.size += size;
    if (level.size > limits_.nodes)
      level.node->fail("more than " + std::to_string(limits_.nodes) + " values, aliases counted in full");
    if (level.node->type == YamlNode::Type::sequence) {
      level.node->items.push_back(std::move(node));
    } else if (!level.key) {
      if (node->type != YamlNode::Type::scalar)
        node->fail("a key must be a single word or a quoted text, not " + node->describe());
      if (!level.keys.insert(node->text).second)
        node->fail("the key '" + node->text + "' appears twice here; keys are unique");
      level.key = std::move(node);
    } else {
      level.node->entries.emplace_back(std::move(level.key), std::move(node));
      level.key = nullptr;
    }
  }

  const std::string& text_;
  std::shared_ptr<const std::string> file_;
  YamlLimits limits_;
  std::vector<std::size_t> line_starts_;
  std::vector<Level> levels_;
  std::map<YAML::anchor_t, std::pair<YamlNodePtr, std::size_t>> anchors_;
  YamlNodePtr root_;
};

// The offset of the first byte that is not part of well-formed UTF-8 (or is NUL).
std::optional<std::size_t> first_bad_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    if (byte == 0 || (byte >= 0x80 && byte < 0xC2) || byte > 0xF4 || at + length > text.size()) return at;
    std::uint32_t code = length == 1 ? byte : byte & (0x7Fu >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[at + k]);
      if ((next & 0xC0) != 0x80) return at;
      code = code << 6 | (next & 0x3F);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return at;
    at += length;
  }
  return std::nullopt;
}

// JSON is YAML but for two things that the parser does not take: surrogate pairs in escapes and tabs between tokens.
// Positions outside of strings with such escapes stay as they are.
std::string json_as_yaml(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '{' && text[first] != '[')) return text;
  if (!nlohmann::json::accept(text)) return text;
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned high = 0, low = 0;
    if (text[at] == '\t') {
      result += ' ';  // raw tabs never occur inside of JSON strings
    } else if (text[at] == '\\' && std::sscanf(text.c_str() + at, "\\u%4x\\u%4x", &high, &low) == 2 && high >= 0xD800 &&
               high < 0xDC00) {
      const unsigned code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
      result += static_cast<char>(0xF0 | code >> 18);
      result += static_cast<char>(0x80 | (code >> 12 & 0x3F));
      result += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      result += static_cast<char>(0x80 | (code & 0x3F));
      at += 11;
    } else if (text[at] == '\\') {
      result += text.substr(at++, 2);
    } else {
      result += text[at];
    }
  }
  return result;
}

}  // namespace

std::string YamlNode::where() const {
  return (file ? *file : std::string("?")) + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string YamlNode::describe() const {
  if (type == Type::sequence) return "a list";
  if (type == Type::map) return "a map";
  if (std::holds_alternative<std::string>(scalar)) return "'" + text + "'";
  if (std::holds_alternative<std::monostate>(scalar)) return "nothing";
  return text;
}

void YamlNode::fail(const std::string& message) const { throw Error(ErrorKind::invalid, where() + ": " + message); }

YamlNodePtr parse_yaml(const std::string& original, const std::string& file, const YamlLimits& limits) {
  if (original.size() > limits.bytes)
    throw Error(ErrorKind::invalid, file + ": is larger than " + std::to_string(limits.bytes) + " bytes");
  const std::string text = json_as_yaml(original);
  TreeBuilder builder(text, file, limits);
  if (const auto bad = first_bad_byte(text)) {
    YAML::Mark mark;
    const std::size_t line_start = *bad == 0 ? std::string::npos : text.rfind('\n', *bad - 1);
    mark.line = static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n'));
    mark.column = static_cast<int>(*bad - (line_start == std::string::npos ? 0 : line_start + 1));
    builder.node_at(mark)->fail("a byte that is not UTF-8 text");
  }
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& fault) {
    builder.node_at(fault.mark)->fail("not valid YAML: " + fault.msg);
  }
  if (!builder.root()) throw Error(ErrorKind::invalid, file + ":1:1: the file is empty");
  return builder.root();
}

std::string read_file(const std::string& path, std::size_t limit) {
  const auto fail = [&path](ErrorKind kind, const std::string& why) { throw Error(kind, path + ": " + why); };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not make us wait
  if (file < 0) fail(errno == ENOENT ? ErrorKind::not_found : ErrorKind::invalid, std::strerror(errno));
  struct Closer {
    int file;
    ~Closer() { ::close(file); }
  } closer{file};
  struct stat status {};
  if (::fstat(file, &status) != 0) fail(ErrorKind::invalid, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::invalid, "is not a regular file");
  if (static_cast<std::size_t>(status.st_size) > limit)
    fail(ErrorKind::invalid, "is larger than " + std::to_string(limit) + " bytes");
  std::string text(limit + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorKind::invalid, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > limit) fail(ErrorKind::invalid, "is larger than " + std::to_string(limit) + " bytes");
  text.resize(size);
  return text;
}

}  // namespace cuboid
