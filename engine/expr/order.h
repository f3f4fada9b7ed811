// Order of elements as NumPy defines it: NaN propagates through minimum and maximum, complex numbers are ordered
// lexicographically. Used by elementwise functions and by reductions.
#pragma once
#include <cmath>

#include "engine/expr/elements.h"

namespace cuboid {

// Lexicographic order of complex numbers as NumPy defines it; false where a NaN takes part in what decides.
template <Complex T>
bool complex_less(T a, T b, bool or_equal) {
  if (a.real() < b.real()) return !std::isnan(a.imag()) && !std::isnan(b.imag());
  return a.real() == b.real() && (or_equal ? a.imag() <= b.imag() : a.imag() < b.imag());
}
template <class T>
bool is_nan(T a) {
  if constexpr (Complex<T>)
    return std::isnan(a.real()) || std::isnan(a.imag());
  else if constexpr (Float<T>)
    return std::isnan(a);
  else
    return false;
}

// The order in which NumPy sorts, a total one: NaN comes last, -0.0 is 0.0; complex numbers by their real parts, then
// by their imaginary ones, those with a NaN real part after all others.
template <Real T>
bool sorts_before(T a, T b) {
  if constexpr (Float<T>) return a < b || (std::isnan(b) && !std::isnan(a));
  return a < b;
}
inline bool sorts_before(Bool a, Bool b) { return a.byte == 0 && b.byte != 0; }
template <Complex T>
bool sorts_before(T a, T b) {
  const bool nan_a = std::isnan(a.real()), nan_b = std::isnan(b.real());
  // [R + Rj, R + nan j, nan + Rj, nan + nan j]
  if (nan_a != nan_b) return nan_b;
  const bool part_a = std::isnan(a.imag()), part_b = std::isnan(b.imag());
  if (!nan_a && part_a != part_b) return part_b;
  if (!nan_a && a.real() != b.real()) return a.real() < b.real();
  return sorts_before(a.imag(), b.imag());
}

struct Minimum {
  template <Real T>
  T operator()(T a, T b) const {
    return (a < b || is_nan(a)) ? a : b;
  }
  template <Complex T>
  T operator()(T a, T b) const {
    return (complex_less(a, b, true) || is_nan(a)) ? a : b;
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) & (b.byte != 0)); }
};
struct Maximum {
  template <Real T>
  T operator()(T a, T b) const {
    return (a > b || is_nan(a)) ? a : b;
  }
  template <Complex T>
  T operator()(T a, T b) const {
    return (complex_less(b, a, true) || is_nan(a)) ? a : b;
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) | (b.byte != 0)); }
};
}  // namespace cuboid
