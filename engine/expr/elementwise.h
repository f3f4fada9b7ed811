// Elementwise functions: what a function is (a loop per type it computes in) and the kernel that broadcasts, converts
// and runs it. A family of functions is a table in a file of its own; a new function is one entry there.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/expr/cast.h"
#include "engine/expr/elements.h"
#include "engine/expr/kernel.h"

namespace cuboid {

// n elements of one type per input and output, contiguous, no overlap. Throws Error where values are not allowed.
using ElementLoop = void (*)(const std::byte* const* in, std::byte* out, std::int64_t n);

struct TypedLoop {
  ElementLoop run = nullptr;  // null: not defined for this type
  DType result;
};
using LoopTable = std::array<TypedLoop, kDTypeCount>;

struct ElementwiseFunction {
  const char* name;
  std::size_t arity;
  LoopTable loops;  // by the type computed in; a type without a loop goes to the first one that holds it safely
  const char* doc;
  bool refuses_bool = false;       // as NumPy refuses subtract and negative of bool
  bool ints_to_float64 = false;    // true division
  bool compares = false;           // exact between int64 and uint64, and with numbers outside the array's type
  bool leading_condition = false;  // the first argument is a bool mask and takes no part in promotion (where)
};

// The families. Each table lives in the file of the same name.
std::span<const ElementwiseFunction> arithmetic_functions();
std::span<const ElementwiseFunction> comparison_functions();
std::span<const ElementwiseFunction> bitwise_functions();
std::span<const ElementwiseFunction> rounding_functions();
std::span<const ElementwiseFunction> math_functions();
// Comparison of int64 with uint64 (in this order; and the other way round) without rounding to float64.
ElementLoop mixed_comparison(const std::string& name, bool unsigned_first);

using ElementArgs = std::vector<std::variant<ArraySpec, Scalar>>;
// The kernel of a call as it was written: positional arguments only.
std::shared_ptr<const Kernel> make_elementwise(const ElementwiseFunction& function, KernelSpec spec);
// The same where some of the arguments came from parameters; `spec` is what the kernel is made again from.
std::shared_ptr<const Kernel> make_elementwise(const ElementwiseFunction& function, KernelSpec spec, ElementArgs args);
FunctionDoc document(const ElementwiseFunction& function);

// The broadcast of shapes whose extents may be bounds. Throws Error{invalid} with the shapes where they do not fit.
std::vector<Extent> broadcast_extents(const KernelSpec& spec, const std::vector<ArraySpec>& arrays);

}  // namespace cuboid
