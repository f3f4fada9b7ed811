#include "engine/plugin/signature.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "storage/error.h"

namespace cuboid {
namespace {

constexpr std::pair<std::string_view, DType> kCodes[] = {
    {"b1", kBool},    {"i1", kInt8},      {"i2", kInt16},      {"i4", kInt32},  {"i8", kInt64},
    {"u1", kUint8},   {"u2", kUint16},    {"u4", kUint32},     {"u8", kUint64}, {"f4", kFloat32},
    {"f8", kFloat64}, {"c8", kComplex64}, {"c16", kComplex128}};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class SignatureParser {
 public:
  explicit SignatureParser(std::string_view text) : text_(text) {
    if (text.size() > kMaxSignatureLength)
      throw Error(ErrorKind::invalid, "signature of " + std::to_string(text.size()) + " bytes: at most " +
                                          std::to_string(kMaxSignatureLength) + " are allowed");
  }

  Signature signature() {
    Signature result;
    result.text = std::string(text_);
    if (!take("->")) {
      result.inputs = arrays(false);
      if (!take("->")) expected("',' or '->'");
    }
    result.outputs = arrays(true);
    end();
    check_names(result.inputs, result.outputs);
    result.axes = axes_of(result.inputs);
    for (ArrayPattern& output : result.outputs) check_output(result, output);
    return result;
  }

  std::vector<ArrayPattern> partials() {
    std::vector<ArrayPattern> result = arrays(true);
    end();
    for (const ArrayPattern& partial : result)
      for (const ExtentPattern& extent : partial.extents)
        if (extent.form != ExtentPattern::Form::exact) fail(partial.name + ": a partial has exact extents only");
    check_names({}, result);
    return result;
  }

 private:
  using Form = ExtentPattern::Form;

  std::vector<ArrayPattern> arrays(bool output) {
    std::vector<ArrayPattern> result;
    do {
      if (result.size() == kMaxPluginArrays) expected("at most 16 arrays on a side");
      result.push_back(array(output));
    } while (take(","));
    return result;
  }

  ArrayPattern array(bool output) {
    ArrayPattern result;
    result.name = word();
    if (!is_identifier(result.name)) expected("an array's name ([a-z][a-z0-9_]*)");
    if (!take(":")) expected("':' after the name " + result.name);
    type(result);
    if (!take("[")) expected("'[' of the extents of " + result.name);
    if (take("]")) return result;
    do {
      if (result.extents.size() == kMaxPluginRank) expected("at most 16 axes of " + result.name);
      result.extents.push_back(extent(result, output));
    } while (take(","));
    if (!take("]")) expected("',' or ']' after an extent of " + result.name);
    return result;
  }

  void type(ArrayPattern& array) {
    const std::string code = word();
    if (const std::optional<DType> dtype = dtype_from_code(code)) {
      array.dtype = *dtype;
      return;
    }
    const bool variable =
        !code.empty() && code.size() <= 16 && is_upper(code[0]) && code.find('_') == std::string::npos;
    if (!variable) expected("an element type (b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16) or a type variable");
    array.variable = code;
  }

  ExtentPattern extent(const ArrayPattern& array, bool output) {
    const std::string_view body = extent_text();
    ExtentPattern result;
    if (!output) return input_extent(array, body);
    std::string_view formula = body;
    result.form = Form::exact;
    if (body == "?") {
      result.form = Form::inferred;
      return result;
    }
    if (formula.substr(0, 3) == "~<=") {
      result.form = Form::guess;
      formula.remove_prefix(3);
    } else if (formula.substr(0, 2) == "<=") {
      result.form = Form::bound;
      formula.remove_prefix(2);
    }
    if (result.data_dependent() && !array.extents.empty())
      fail(array.name + ": only the first extent of an output may depend on data, not '" + std::string(body) + "'");
    result.formula = Expression(formula);
    return result;
  }

  ExtentPattern input_extent(const ArrayPattern& array, std::string_view body) {
    ExtentPattern result;
    if (!body.empty() && is_digit(body[0])) {
      result.form = Form::fixed;
      const auto parsed = std::from_chars(body.data(), body.data() + body.size(), result.fixed);
      if (parsed.ec == std::errc() && parsed.ptr == body.data() + body.size() &&
          result.fixed <= static_cast<std::int64_t>(Expression::kMaxValue))
        return result;
    }
    result.axis = std::string(body);
    if (!is_identifier(body) || is_reserved_word(body))
      fail(array.name + ": extent '" + result.axis +
           "' of an input, expected an axis name or an integer from 0 to 2^53");
    return result;
  }

  // Up to the ',' or ']' that ends it: those inside parentheses belong to the formula.
  std::string_view extent_text() {
    skip_spaces();
    const std::size_t start = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if (c == ']' || (c == ',' && depth <= 0)) break;
    }
    std::string_view body = text_.substr(start, at_ - start);
    while (!body.empty() && (body.back() == ' ' || body.back() == '\n')) body.remove_suffix(1);
    if (body.empty()) expected("an extent");
    return body;
  }

  void check_output(const Signature& signature, ArrayPattern& output) const {
    if (!output.variable.empty() &&
        std::none_of(signature.inputs.begin(), signature.inputs.end(),
                     [&](const ArrayPattern& input) { return input.variable == output.variable; }))
      fail(output.name + ": type variable " + output.variable + " of an output is in no input");
    for (ExtentPattern& extent : output.extents) {
      const std::string bare = extent.form == Form::exact ? extent.formula.bare_name() : "";
      if (std::find(signature.axes.begin(), signature.axes.end(), bare) != signature.axes.end()) extent.axis = bare;
    }
  }

  void check_names(const std::vector<ArrayPattern>& inputs, const std::vector<ArrayPattern>& outputs) const {
    std::set<std::string> seen;
    for (const auto* side : {&inputs, &outputs})
      for (const ArrayPattern& array : *side)
        if (!seen.insert(array.name).second) fail("two arrays are named '" + array.name + "'");
  }

  static std::vector<std::string> axes_of(const std::vector<ArrayPattern>& inputs) {
    std::vector<std::string> axes;
    for (const ArrayPattern& input : inputs)
      for (const ExtentPattern& extent : input.extents)
        if (extent.form == Form::axis && std::find(axes.begin(), axes.end(), extent.axis) == axes.end())
          axes.push_back(extent.axis);
    return axes;
  }

  std::string word() {
    skip_spaces();
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           (is_lower(text_[at_]) || is_upper(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '_'))
      ++at_;
    return std::string(text_.substr(start, at_ - start));
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

  void end() {
    skip_spaces();
    if (at_ != text_.size()) expected("',' or the end");
  }

  [[noreturn]] void expected(const std::string& what) const {
    fail("expected " + what + " at position " + std::to_string(at_ + 1));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::invalid, "signature '" + std::string(text_) + "': " + why);
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Signature parse_signature(std::string_view text) { return SignatureParser(text).signature(); }
std::vector<ArrayPattern> parse_partials(std::string_view text) { return SignatureParser(text).partials(); }

std::optional<DType> dtype_from_code(std::string_view code) {
  for (const auto& [name, dtype] : kCodes)
    if (name == code) return dtype;
  return std::nullopt;
}

std::string dtype_code(DType dtype) {
  for (const auto& [name, known] : kCodes)
    if (known == dtype) return std::string(name);
  return to_string(dtype);
}

bool is_identifier(std::string_view word) {
  return !word.empty() && word.size() <= 64 && is_lower(word[0]) &&
         std::all_of(word.begin(), word.end(), [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

bool is_reserved_word(std::string_view word) {
  static constexpr std::array<std::string_view, 9> kReserved = {
      "min", "max", "floor", "ceil", "log2", "unknown", "callback", "boundary", "boundary_value"};
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end() || word.substr(0, 5) == "halo_" ||
         word.substr(0, 5) == "size_";
}

}  // namespace cuboid
