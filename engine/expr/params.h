// Reading a built-in function's arguments and parameters: types checked, unknown names refused with the nearest one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/expr/kernel.h"
#include "storage/error.h"

namespace cuboid {

// "an int", "a string", ...: what kind of value it is, for messages.
std::string describe(const ParamValue& value);

// Every accessor throws Error{invalid} that names the function, the parameter, what was given and what was expected.
class ParamReader {
 public:
  // Throws where `spec` has parameters beside `names`. The spec must outlive the reader.
  ParamReader(const KernelSpec& spec, std::vector<std::string> names);

  bool given(const std::string& name) const;  // present and not null
  bool flag(const std::string& name, bool otherwise) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  std::int64_t integer(const std::string& name) const;  // required
  double number(const std::string& name, double otherwise) const;
  std::string text(const std::string& name) const;  // required
  std::optional<DType> dtype(const std::string& name) const;
  // A list of integers; a single integer is a list of one. Required.
  std::vector<std::int64_t> integers(const std::string& name) const;
  // A number as written.
  std::optional<Scalar> scalar(const std::string& name) const;
  const ParamValue* find(const std::string& name) const;  // nullptr where absent or null

  // Sorted, unique axes of an array of `rank` axes, negative ones counted from the end; all of them where not given.
  std::vector<std::size_t> axes(const std::string& name, std::size_t rank) const;
  // One axis of `rank`.
  std::size_t axis(const std::string& name, std::size_t rank, std::optional<std::int64_t> otherwise) const;
  std::size_t normalize_axis(const std::string& name, std::int64_t axis, std::size_t rank) const;

  [[noreturn]] void fail(const std::string& name, const std::string& expected) const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  const KernelSpec& spec_;
  std::vector<std::string> names_;
};

// The arguments of a function that takes between `least` and `most` of them; throws where there are more or fewer.
void expect_args(const KernelSpec& spec, std::size_t least, std::size_t most);
// Argument k, which must be an array.
const ArraySpec& array_arg(const KernelSpec& spec, std::size_t k);
// Of extents; throw Error{invalid} above 2^62. An array of no elements may have others that overflow.
std::int64_t extent_product(std::int64_t a, std::int64_t b);
std::int64_t extent_sum(std::int64_t a, std::int64_t b);
// The error of a function: "add: MESSAGE".
[[noreturn]] void fail_call(const KernelSpec& spec, const std::string& message);

}  // namespace cuboid
