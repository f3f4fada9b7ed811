// Type promotion: which element type a function computes in. Follows the Python array API standard 2024.12 and, where
// the standard leaves a mix of kinds open (int with float, bool with int), NumPy 2 (NEP 50). Pure functions.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/expr/kernel.h"
#include "storage/types.h"

namespace cuboid {

// Every element type that built-in functions know, in NumPy's order of preference: tables are indexed by it.
inline constexpr std::array<DType, 13> kDTypes{kBool,  kInt8,   kUint8,   kInt16,   kUint16,    kInt32,     kUint32,
                                               kInt64, kUint64, kFloat32, kFloat64, kComplex64, kComplex128};
inline constexpr std::size_t kDTypeCount = kDTypes.size();
// The position in kDTypes. Throws Error{unsupported} for a type that is not there.
std::size_t dtype_index(DType dtype);

// The type that holds the values of both, as NumPy's promote_types: int64 with uint64 gives float64.
DType promote(DType a, DType b);
// True where every value of `from` is kept by `to` in NumPy's sense (casting="safe").
bool casts_safely(DType from, DType to);

// The type of a number on its own: bool, int64, float64 or complex128.
DType default_dtype(const Scalar& scalar);
// The promoted type of arrays and numbers: a number takes the arrays' type where its kind fits, else the smallest
// type of its own kind that goes with them (int8 with 1.5: float64; float32 with 2j: complex64; bool with 1: int64).
DType result_type(const std::vector<std::variant<ArraySpec, Scalar>>& args);

// True where the number is a value of the type (floats may round).
bool fits(const Scalar& scalar, DType dtype);
// "3", "true", "1.5": for messages.
std::string to_string(const Scalar& scalar);

}  // namespace cuboid
