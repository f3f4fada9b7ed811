#include "engine/expr/params.h"

#include <algorithm>
#include <sstream>

#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

struct Describe {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return "the integer " + std::to_string(value); }
  std::string operator()(double value) const { return "the number " + to_string(Scalar(value)); }
  std::string operator()(const std::string& value) const { return "the string \"" + value + "\""; }
  std::string operator()(const std::vector<std::int64_t>& value) const {
    return value.empty() ? "an empty list" : "a list of integers";
  }
  std::string operator()(const std::vector<double>&) const { return "a list of numbers"; }
  std::string operator()(const std::vector<std::string>&) const { return "a list of strings"; }
};

}  // namespace

std::string describe(const ParamValue& value) { return std::visit(Describe{}, value); }

void fail_call(const KernelSpec& spec, const std::string& message) {
  throw Error(ErrorKind::invalid, spec.function + ": " + message, {{"function", spec.function}});
}

void expect_args(const KernelSpec& spec, std::size_t least, std::size_t most) {
  const std::size_t given = spec.args.size();
  if (given >= least && given <= most) return;
  std::string expected = std::to_string(least);
  if (most > 64)
    expected = "at least " + expected;
  else if (most != least)
    expected += " to " + std::to_string(most);
  fail_call(spec, "expected " + expected + (least == 1 && (most == 1 || most > 64) ? " argument, " : " arguments, ") +
                      std::to_string(given) + (given == 1 ? " is given" : " are given"));
}

const ArraySpec& array_arg(const KernelSpec& spec, std::size_t k) {
  if (k >= spec.args.size()) expect_args(spec, k + 1, SIZE_MAX);
  const auto* array = std::get_if<ArraySpec>(&spec.args[k]);
  if (array == nullptr)
    fail_call(spec, "argument " + std::to_string(k) + " must be an array, the number " +
                        to_string(std::get<Scalar>(spec.args[k])) + " is given");
  return *array;
}

ParamReader::ParamReader(const KernelSpec& spec, std::vector<std::string> names)
    : spec_(spec), names_(std::move(names)) {
  for (const auto& [name, value] : spec_.params) {
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) continue;
    std::string message = "no parameter is called \"" + name + "\"";
    if (const auto near = nearest_name(name, names_)) message += ", did you mean \"" + *near + "\"?";
    message += names_.empty() ? " (it takes no parameters)" : " (it takes: " + join(names_) + ")";
    throw Error(ErrorKind::invalid, spec_.function + ": " + message,
                {{"parameter", name}, {"function", spec_.function}});
  }
}

void ParamReader::fail(const std::string& name, const std::string& expected) const {
  const auto found = spec_.params.find(name);
  const std::string given = found == spec_.params.end() ? "nothing" : describe(found->second);
  throw Error(ErrorKind::invalid,
              spec_.function + ": parameter \"" + name + "\" must be " + expected + ", " + given + " is given",
              {{"parameter", name}, {"function", spec_.function}});
}

void ParamReader::fail(const std::string& message) const { fail_call(spec_, message); }

const ParamValue* ParamReader::find(const std::string& name) const {
  const auto found = spec_.params.find(name);
  if (found == spec_.params.end() || std::holds_alternative<std::monostate>(found->second)) return nullptr;
  return &found->second;
}

bool ParamReader::given(const std::string& name) const { return find(name) != nullptr; }

bool ParamReader::flag(const std::string& name, bool otherwise) const {
  const ParamValue* value = find(name);
  if (value == nullptr) return otherwise;
  if (const auto* truth = std::get_if<bool>(value)) return *truth;
  fail(name, "true or false");
}

std::int64_t ParamReader::integer(const std::string& name, std::int64_t otherwise) const {
  return find(name) == nullptr ? otherwise : integer(name);
}

std::int64_t ParamReader::integer(const std::string& name) const {
  const ParamValue* value = find(name);
  if (value != nullptr)
    if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
  fail(name, "an integer");
}

double ParamReader::number(const std::string& name, double otherwise) const {
  const ParamValue* value = find(name);
  if (value == nullptr) return otherwise;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(value)) return static_cast<double>(*number);
  fail(name, "a number");
}

std::string ParamReader::text(const std::string& name) const {
  const ParamValue* value = find(name);
  if (value != nullptr)
    if (const auto* text = std::get_if<std::string>(value)) return *text;
  fail(name, "a string");
}

std::optional<DType> ParamReader::dtype(const std::string& name) const {
  if (find(name) == nullptr) return std::nullopt;
  const std::string word = text(name);
  if (const auto type = dtype_from_name(word)) {
    dtype_index(*type);
    return type;
  }
  std::vector<std::string> known;
  for (DType type : kDTypes) known.push_back(to_string(type));
  const auto near = nearest_name(word, known);
  fail(name, "an element type (" + join(known) + ")" + (near ? " such as \"" + *near + "\"" : ""));
}

std::vector<std::int64_t> ParamReader::integers(const std::string& name) const {
  const ParamValue* value = find(name);
  if (value != nullptr) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) return *list;
    if (const auto* number = std::get_if<std::int64_t>(value)) return {*number};
    // An empty list in a file has no element type.
    if (const auto* list = std::get_if<std::vector<double>>(value); list != nullptr && list->empty()) return {};
    if (const auto* list = std::get_if<std::vector<std::string>>(value); list != nullptr && list->empty()) return {};
  }
  fail(name, "an integer or a list of integers");
}

std::optional<Scalar> ParamReader::scalar(const std::string& name) const {
  const ParamValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* truth = std::get_if<bool>(value)) return Scalar(*truth);
  if (const auto* number = std::get_if<std::int64_t>(value)) return Scalar(*number);
  if (const auto* number = std::get_if<double>(value)) return Scalar(*number);
  fail(name, "a number");
}

std::size_t ParamReader::normalize_axis(const std::string& name, std::int64_t axis, std::size_t rank) const {
  const auto limit = static_cast<std::int64_t>(rank);
  if (axis >= -limit && axis < limit) return static_cast<std::size_t>(axis < 0 ? axis + limit : axis);
  throw Error(ErrorKind::invalid,
              spec_.function + ": parameter \"" + name + "\": axis " + std::to_string(axis) +
                  " is out of range for an array of " + std::to_string(rank) + (rank == 1 ? " axis" : " axes") +
                  (rank == 0 ? std::string(" (it has none)")
                             : ", expected " + std::to_string(-limit) + " to " + std::to_string(limit - 1)),
              {{"parameter", name}, {"function", spec_.function}});
}

std::vector<std::size_t> ParamReader::axes(const std::string& name, std::size_t rank) const {
  std::vector<std::size_t> axes;
  if (find(name) == nullptr) {
    for (std::size_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
    return axes;
  }
  for (std::int64_t axis : integers(name)) axes.push_back(normalize_axis(name, axis, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) fail(name, "axes that differ from each other");
  return axes;
}

std::size_t ParamReader::axis(const std::string& name, std::size_t rank, std::optional<std::int64_t> otherwise) const {
  if (find(name) == nullptr && otherwise) return normalize_axis(name, *otherwise, rank);
  return normalize_axis(name, integer(name), rank);
}

namespace {

std::int64_t checked_extent(bool overflown, std::int64_t extent) {
  if (overflown || extent > std::int64_t{1} << 62)
    throw Error(ErrorKind::invalid, "the result is too large: expected extents of at most 2^62");
  return extent;
}

}  // namespace

std::int64_t extent_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  const bool overflown = __builtin_mul_overflow(a, b, &product);
  return checked_extent(overflown, product);
}

std::int64_t extent_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  const bool overflown = __builtin_add_overflow(a, b, &sum);
  return checked_extent(overflown, sum);
}

}  // namespace cuboid
