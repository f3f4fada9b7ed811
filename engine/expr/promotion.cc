#include "engine/expr/promotion.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "storage/error.h"

namespace cuboid {
namespace {

// bool < int < float < complex, as NEP 50 ranks the kinds of Python numbers.
int rank_of(Kind kind) {
  switch (kind) {
    case Kind::boolean:
      return 0;
    case Kind::signed_int:
    case Kind::unsigned_int:
      return 1;
    case Kind::floating:
      return 2;
    case Kind::complex_float:
    case Kind::opaque:
      break;
  }
  return 3;
}

bool is_int(DType dtype) { return dtype.kind == Kind::signed_int || dtype.kind == Kind::unsigned_int; }

// The smallest float type that NumPy pairs with an integer: 8 and 16 bits fit float32, wider ones need float64.
std::uint32_t float_size(DType dtype) {
  if (dtype.kind == Kind::floating) return dtype.size;
  if (dtype.kind == Kind::complex_float) return dtype.size / 2;
  return dtype.size <= 2 ? 4 : 8;
}

DType promote_ints(DType a, DType b) {
  if (a.kind == b.kind) return a.size >= b.size ? a : b;
  const DType sign = a.kind == Kind::signed_int ? a : b;
  const DType unsign = a.kind == Kind::signed_int ? b : a;
  if (sign.size > unsign.size) return sign;
  if (unsign.size == 8) return kFloat64;
  return {Kind::signed_int, unsign.size * 2};
}

std::string what_else_to_do(DType dtype) {
  return dtype == kFloat16 ? " is not computed in: convert the array first, as astype with dtype: float32 does"
                           : " is not computed on: such elements can only be moved, stored and copied";
}

}  // namespace

std::size_t dtype_index(DType dtype) {
  const auto found = std::find(kDTypes.begin(), kDTypes.end(), dtype);
  if (found == kDTypes.end()) throw Error(ErrorKind::unsupported, to_string(dtype) + what_else_to_do(dtype));
  return static_cast<std::size_t>(found - kDTypes.begin());
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  for (const DType dtype : {a, b}) dtype_index(dtype);  // refuses what has no place in the order of types
  if (a.kind == Kind::boolean) return b;
  if (b.kind == Kind::boolean) return a;
  if (is_int(a) && is_int(b)) return promote_ints(a, b);
  const std::uint32_t part = std::max(float_size(a), float_size(b));
  const bool complex = a.kind == Kind::complex_float || b.kind == Kind::complex_float;
  return complex ? DType{Kind::complex_float, part * 2} : DType{Kind::floating, part};
}

// NumPy also calls int64 -> float64 and uint64 -> float64 safe; promote() says the same.
bool casts_safely(DType from, DType to) { return promote(from, to) == to; }

DType default_dtype(const Scalar& scalar) {
  constexpr DType kTypes[]{kBool, kInt64, kFloat64, kComplex128};
  return kTypes[scalar.index()];
}

DType result_type(const std::vector<std::variant<ArraySpec, Scalar>>& args) {
  std::optional<DType> type;
  for (const auto& arg : args)
    if (const auto* array = std::get_if<ArraySpec>(&arg)) type = type ? promote(*type, array->dtype) : array->dtype;
  const bool have_arrays = type.has_value();
  for (const auto& arg : args) {
    const auto* scalar = std::get_if<Scalar>(&arg);
    if (scalar == nullptr) continue;
    const DType own = default_dtype(*scalar);
    if (!type || (!have_arrays && rank_of(own.kind) > rank_of(type->kind))) type = own;
    if (rank_of(own.kind) <= rank_of(type->kind)) continue;
    // The number's kind is above the arrays': float32 with a complex number is complex64, ints go to the widest.
    if (own.kind == Kind::complex_float && type->kind == Kind::floating)
      type = DType{Kind::complex_float, type->size * 2};
    else
      type = own;
  }
  return type.value_or(kFloat64);
}

bool fits(const Scalar& scalar, DType dtype) {
  if (rank_of(default_dtype(scalar).kind) > rank_of(dtype.kind)) return false;
  const auto* number = std::get_if<std::int64_t>(&scalar);
  if (number == nullptr || !is_int(dtype)) return true;
  if (dtype.kind == Kind::unsigned_int) {
    if (*number < 0) return false;
    return dtype.size == 8 || *number < (std::int64_t{1} << (8 * dtype.size));
  }
  if (dtype.size == 8) return true;
  const std::int64_t limit = std::int64_t{1} << (8 * dtype.size - 1);
  return *number >= -limit && *number < limit;
}

std::string to_string(const Scalar& scalar) {
  std::ostringstream text;
  text.precision(17);
  if (const auto* truth = std::get_if<bool>(&scalar)) return *truth ? "true" : "false";
  std::visit([&text](const auto& value) { text << value; }, scalar);
  return text.str();
}

}  // namespace cuboid
