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
