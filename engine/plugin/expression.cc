#include "engine/plugin/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {

// Recursive descent, one function per level of the grammar. Depth is counted where the grammar recurses.
class ExpressionParser {
 public:
  explicit ExpressionParser(Expression& target) : out_(target), text_(target.text_) {}

  void parse() {
    if (text_.size() > Expression::kMaxLength)
      throw Error(ErrorKind::invalid, "formula of " + std::to_string(text_.size()) + " bytes: at most " +
                                          std::to_string(Expression::kMaxLength) + " are allowed");
    expression();
    skip_spaces();
    if (at_ != text_.size()) expected("an operator or the end");
    sort_names();
  }

 private:
  using Op = Expression::Op;

  std::uint32_t expression() {
    if (++depth_ > Expression::kMaxDepth)
      expected("less nesting (at most " + std::to_string(Expression::kMaxDepth) + " levels)");
    std::uint32_t result = comparison();
    if (take("?")) {
      const std::uint32_t yes = expression();
      if (!take(":")) expected("':' of a condition");
      const std::uint32_t no = expression();
      result = add(Op::choose, {result, yes, no});
    }
    --depth_;
    return result;
  }

  std::uint32_t comparison() {
    const std::uint32_t left = sum();
    static constexpr std::pair<std::string_view, Op> kOperators[] = {{"<=", Op::less_equal}, {">=", Op::greater_equal},
                                                                     {"==", Op::equal},      {"!=", Op::not_equal},
                                                                     {"<", Op::less},        {">", Op::greater}};
    for (const auto& [sign, op] : kOperators) {
      if (!take(sign)) continue;
      const std::uint32_t right = sum();
      return add(op, {left, right});
    }
    return left;
  }

  std::uint32_t sum() {
    std::uint32_t left = term();
    for (;;) {
      const Op op = take("+") ? Op::add : take("-") ? Op::subtract : Op::number;
      if (op == Op::number) return left;
      const std::uint32_t right = term();
      left = add(op, {left, right});
    }
  }

  std::uint32_t term() {
    std::uint32_t left = unary();
    for (;;) {
      const Op op = take("*") ? Op::multiply : take("/") ? Op::divide : Op::number;
      if (op == Op::number) return left;
      const std::uint32_t right = unary();
      left = add(op, {left, right});
    }
  }

  std::uint32_t unary() {
    if (!take("-")) return primary();
    return add(Op::negate, {primary()});
  }

  std::uint32_t primary() {
    skip_spaces();
    if (take("(")) {
      const std::uint32_t inner = expression();
      if (!take(")")) expected("')'");
      return inner;
    }
    if (at_ < text_.size() && is_digit(text_[at_])) return number();
    const std::string word = name();
    if (word.empty()) expected("a number, a name or '('");
    if (!take("(")) return variable(word);
    return function(word);
  }

  std::uint32_t function(const std::string& word) {
    static const std::map<std::string_view, Op> kFunctions = {
        {"min", Op::min}, {"max", Op::max}, {"floor", Op::floor}, {"ceil", Op::ceil}, {"log2", Op::log2}};
    const auto known = kFunctions.find(word);
    if (known == kFunctions.end()) expected("a function (min, max, floor, ceil, log2), not '" + word + "'");
    std::vector<std::uint32_t> arguments{expression()};
    while (take(",")) {
      if (arguments.size() == Expression::kMaxArguments) expected("at most 16 arguments of " + word);
      arguments.push_back(expression());
    }
    if (!take(")")) expected("',' or ')' in " + word + "(...)");
    if (arguments.size() > 1 && known->second != Op::min && known->second != Op::max)
      expected("one argument of " + word + ", not " + std::to_string(arguments.size()));
    return add(known->second, std::move(arguments));
  }

  // digits [ "." digits ] [ "e" [sign] digits ]
  std::uint32_t number() {
    const std::size_t start = at_;
    digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      if (digits() == 0) expected("a digit after '.'");
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      if (digits() == 0) expected("a digit of the exponent");
    }
    Expression::Node node;
    const auto parsed = std::from_chars(text_.data() + start, text_.data() + at_, node.number);
    if (parsed.ec != std::errc() || parsed.ptr != text_.data() + at_) expected("a number that a double can hold");
    if (at_ < text_.size() && (is_letter(text_[at_]) || text_[at_] == '.')) expected("an operator after a number");
    return push(std::move(node));
  }

  std::size_t digits() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ - start;
  }

  std::string name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > start && is_digit(text_[at_])))) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  std::uint32_t variable(const std::string& word) {
    Expression::Node node;
    node.op = Op::name;
    auto found = std::find(out_.names_.begin(), out_.names_.end(), word);
    node.name = static_cast<std::uint32_t>(found - out_.names_.begin());
    if (found == out_.names_.end()) out_.names_.push_back(word);
    return push(std::move(node));
  }

  // Names were numbered as they came; number them in sorted order, as names() promises.
  void sort_names() {
    std::vector<std::string> sorted = out_.names_;
    std::sort(sorted.begin(), sorted.end());
    for (Expression::Node& node : out_.nodes_) {
      if (node.op != Op::name) continue;
      const auto found = std::lower_bound(sorted.begin(), sorted.end(), out_.names_[node.name]);
      node.name = static_cast<std::uint32_t>(found - sorted.begin());
    }
    out_.names_ = std::move(sorted);
  }

  std::uint32_t add(Op op, std::vector<std::uint32_t> operands) {
    Expression::Node node;
    node.op = op;
    node.operands = std::move(operands);
    return push(std::move(node));
  }

  std::uint32_t push(Expression::Node node) {
    out_.nodes_.push_back(std::move(node));
    return static_cast<std::uint32_t>(out_.nodes_.size() - 1);
  }

  bool take(std::string_view sign) {
    skip_spaces();
    if (text_.substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  [[noreturn]] void expected(const std::string& what) const {
    out_.fail("expected " + what + " at position " + std::to_string(at_ + 1));
  }

  Expression& out_;
  const std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Expression::Expression(std::string_view text) : text_(text) { ExpressionParser(*this).parse(); }

bool Expression::mentions(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

std::string Expression::bare_name() const { return nodes_.back().op == Op::name ? names_[nodes_.back().name] : ""; }

double Expression::value(const Variables& variables) const {
  std::vector<const double*> values;
  for (const std::string& name : names_) {
    const auto found = variables.find(name);
    values.push_back(found == variables.end() ? nullptr : &found->second);
  }
  return evaluate(static_cast<std::uint32_t>(nodes_.size() - 1), values);
}

std::int64_t Expression::count(const Variables& variables) const {
  const double exact = value(variables);
  const double nearest = std::nearbyint(exact);
  const double tolerance = std::min(1e-9 * std::max(1.0, std::abs(nearest)), 1e-3);
  const double result = std::abs(exact - nearest) <= tolerance ? nearest : std::ceil(exact);
  if (result < 0) fail("is negative (" + std::to_string(exact) + "), expected a number from 0 to 2^53");
  if (result > kMaxValue) fail("is above 2^53 (" + std::to_string(exact) + ")");
  return static_cast<std::int64_t>(result);
}

double Expression::evaluate(std::uint32_t index, const std::vector<const double*>& values) const {
  const Node& node = nodes_[index];
  const auto operand = [&](std::size_t k) { return evaluate(node.operands[k], values); };
  double result = 0;
  switch (node.op) {
    case Op::number:
      result = node.number;
      break;
    case Op::name:
      if (!values[node.name]) fail("mentions '" + names_[node.name] + "', which has no value here");
      result = *values[node.name];
      break;
    case Op::negate:
      result = -operand(0);
      break;
    case Op::add:
      result = operand(0) + operand(1);
      break;
    case Op::subtract:
      result = operand(0) - operand(1);
      break;
    case Op::multiply:
      result = operand(0) * operand(1);
      break;
    case Op::divide: {
      const double divisor = operand(1);
      if (divisor == 0) fail("divides by zero");
      result = operand(0) / divisor;
      break;
    }
    case Op::less:
      result = operand(0) < operand(1);
      break;
    case Op::less_equal:
      result = operand(0) <= operand(1);
      break;
    case Op::greater:
      result = operand(0) > operand(1);
      break;
    case Op::greater_equal:
      result = operand(0) >= operand(1);
      break;
    case Op::equal:
      result = operand(0) == operand(1);
      break;
    case Op::not_equal:
      result = operand(0) != operand(1);
      break;
    case Op::choose:
      result = operand(0) != 0 ? operand(1) : operand(2);
      break;
    case Op::min:
    case Op::max:
      result = operand(0);
      for (std::size_t k = 1; k < node.operands.size(); ++k)
        result = node.op == Op::min ? std::min(result, operand(k)) : std::max(result, operand(k));
      break;
    case Op::floor:
      result = std::floor(operand(0));
      break;
    case Op::ceil:
      result = std::ceil(operand(0));
      break;
    case Op::log2: {
      const double argument = operand(0);
      if (argument <= 0) fail("takes log2 of " + std::to_string(argument));
      result = std::log2(argument);
      break;
    }
  }
  if (!std::isfinite(result)) fail("does not give a finite number");
  return result;
}

void Expression::fail(const std::string& why) const {
  throw Error(ErrorKind::invalid, "formula '" + printable(text_, kMaxLength) + "': " + why);
}

}  // namespace cuboid
