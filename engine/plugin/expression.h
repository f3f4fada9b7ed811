// The formulas of a manifest: extents, halos and bytes over axis names and numeric parameters. Grammar, names and
// limits are those of docs/plugin-manifest.md. The text comes from a file that nobody vouches for: length, nesting and
// every arithmetic step are checked.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cuboid {

// A formula, parsed once. Immutable value; thread-safe.
class Expression {
 public:
  using Variables = std::map<std::string, double, std::less<>>;
  static constexpr std::size_t kMaxLength = 1024;          // bytes of text
  static constexpr int kMaxDepth = 32;                     // nesting
  static constexpr std::size_t kMaxArguments = 16;         // of min and max
  static constexpr double kMaxValue = 9007199254740992.0;  // 2^53: beyond it a double skips integers

  Expression() : Expression("0") {}
  // Throws Error{invalid} with the text, the position and what was expected there.
  explicit Expression(std::string_view text);

  const std::string& text() const { return text_; }
  // The variables it mentions: distinct, sorted.
  const std::vector<std::string>& names() const { return names_; }
  bool mentions(std::string_view name) const;
  // The variable that is the whole formula, or "".
  std::string bare_name() const;

  // Evaluated in double; only the chosen branch of a condition counts. Throws Error{invalid} that names the formula: an
  // unknown name, a division by zero, log2 of nothing positive, a step that is no finite number.
  double value(const Variables& variables) const;
  // value() rounded up to an integer, where a value within 1e-9 of an integer (relative to it, but never by more than
  // 1e-3) is that integer, so that 0.1*30 is 3. Throws Error{invalid} where it is negative or above 2^53.
  std::int64_t count(const Variables& variables) const;

  friend bool operator==(const Expression& a, const Expression& b) { return a.text_ == b.text_; }

 private:
  friend class ExpressionParser;
  enum class Op : std::uint8_t {
    number,
    name,
    negate,
    add,
    subtract,
    multiply,
    divide,
    less,
    less_equal,
    greater,
    greater_equal,
    equal,
    not_equal,
    choose,
    min,
    max,
    floor,
    ceil,
    log2
  };
  struct Node {
    Op op = Op::number;
    double number = 0;                    // Op::number
    std::uint32_t name = 0;               // Op::name: index into names_
    std::vector<std::uint32_t> operands;  // indices into nodes_
  };
  double evaluate(std::uint32_t node, const std::vector<const double*>& values) const;
  [[noreturn]] void fail(const std::string& why) const;

  std::string text_;
  std::vector<std::string> names_;
  std::vector<Node> nodes_;  // the root is the last
};

}  // namespace cuboid
