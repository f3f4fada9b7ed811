// `x:T[y,x], w:f8[k] -> rows:f8[<=ceil(y/3)*ceil(x/3), 6]`: the arrays that a function takes and gives.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/plugin/expression.h"
#include "storage/types.h"

namespace cuboid {

// Rank and number of arrays that the plugin ABI can carry.
inline constexpr std::size_t kMaxPluginRank = 16, kMaxPluginArrays = 16;

struct ExtentPattern {
  // axis: a name that takes the extent of the array (inputs). fixed: the integer that is required (inputs).
  // exact, bound (`<=`), guess (`~<=`): a formula (outputs). inferred (`?`): the plugin's `infer` says.
  enum class Form : std::uint8_t { axis, fixed, exact, bound, guess, inferred } form = Form::axis;
  std::string axis;        // Form::axis; and of an exact output the axis whose bare name the formula is, else ""
  std::int64_t fixed = 0;  // Form::fixed
  Expression formula;      // of outputs
  bool data_dependent() const { return form == Form::bound || form == Form::guess || form == Form::inferred; }
};

struct ArrayPattern {
  std::string name;
  DType dtype;           // where `variable` is empty
  std::string variable;  // type variable, "" for a fixed dtype
  std::vector<ExtentPattern> extents;
  bool data_dependent() const { return !extents.empty() && extents[0].data_dependent(); }
};

struct Signature {
  std::string text;
  std::vector<ArrayPattern> inputs, outputs;
  std::vector<std::string> axes;  // of all inputs, in order of appearance, distinct
};

inline constexpr std::size_t kMaxSignatureLength = 4096;

// Checks the grammar, distinct names, ranks, that a data-dependent extent is an output's first, that formulas mention
// no halo, and that a variable in an output is in an input. Throws Error{invalid} with position and what was expected.
Signature parse_signature(std::string_view text);
// "sums:f8[3], hist:i8[bins]": arrays with exact extents, as `combine` states them.
std::vector<ArrayPattern> parse_partials(std::string_view text);

// "b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16": the short names of element types.
std::optional<DType> dtype_from_code(std::string_view code);
std::string dtype_code(DType dtype);

// An identifier of the manifest: [a-z][a-z0-9_]*, at most 64 characters.
bool is_identifier(std::string_view word);
// Words that name neither an axis nor a parameter.
bool is_reserved_word(std::string_view word);

}  // namespace cuboid
