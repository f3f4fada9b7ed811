// Rounding, signs and parts of numbers, and questions about floats.
#include <cmath>

#include "engine/expr/loops.h"

namespace cuboid {
namespace {

// Integers and bool are whole already (NumPy 2.1 keeps their type too).
struct Floor {
  template <Float T>
  T operator()(T a) const {
    return std::floor(a);
  }
  template <Integer T>
  T operator()(T a) const {
    return a;
  }
  Bool operator()(Bool a) const { return a; }
};
struct Ceil {
  template <Float T>
  T operator()(T a) const {
    return std::ceil(a);
  }
  template <Integer T>
  T operator()(T a) const {
    return a;
  }
  Bool operator()(Bool a) const { return a; }
};
struct Trunc {
  template <Float T>
  T operator()(T a) const {
    return std::trunc(a);
  }
  template <Integer T>
  T operator()(T a) const {
    return a;
  }
  Bool operator()(Bool a) const { return a; }
};
// Halves go to the even neighbour: the default rounding mode of the processor.
struct Round {
  template <Float T>
  T operator()(T a) const {
    return std::nearbyint(a);
  }
  template <Complex T>
  T operator()(T a) const {
    return {std::nearbyint(a.real()), std::nearbyint(a.imag())};
  }
  template <Integer T>
  T operator()(T a) const {
    return a;
  }
};
struct Sign {
  template <Integer T>
  T operator()(T a) const {
    return static_cast<T>((a > 0) - (a < 0));
  }
  template <Float T>
  T operator()(T a) const {
    return std::isnan(a) ? a : static_cast<T>((a > 0) - (a < 0));
  }
  template <Complex T>
  T operator()(T a) const {
    const auto size = std::hypot(a.real(), a.imag());
    if (size == 0) return T{0};
    return {a.real() / size, a.imag() / size};
  }
};
struct SignBit {
  template <Float T>
  Bool operator()(T a) const {
    return Bool(std::signbit(a));
  }
};
struct IsNan {
  template <Float T>
  Bool operator()(T a) const {
    return Bool(std::isnan(a));
  }
  template <Complex T>
  Bool operator()(T a) const {
    return Bool(std::isnan(a.real()) || std::isnan(a.imag()));
  }
  template <Integer T>
  Bool operator()(T) const {
    return Bool(false);
  }
  Bool operator()(Bool) const { return Bool(false); }
};
struct IsInf {
  template <Float T>
  Bool operator()(T a) const {
    return Bool(std::isinf(a));
  }
  template <Complex T>
  Bool operator()(T a) const {
    return Bool(std::isinf(a.real()) || std::isinf(a.imag()));
  }
  template <Integer T>
  Bool operator()(T) const {
    return Bool(false);
  }
  Bool operator()(Bool) const { return Bool(false); }
};
struct IsFinite {
  template <Float T>
  Bool operator()(T a) const {
    return Bool(std::isfinite(a));
  }
  template <Complex T>
  Bool operator()(T a) const {
    return Bool(std::isfinite(a.real()) && std::isfinite(a.imag()));
  }
  template <Integer T>
  Bool operator()(T) const {
    return Bool(true);
  }
  Bool operator()(Bool) const { return Bool(true); }
};
struct RealPart {
  template <Complex T>
  typename T::value_type operator()(T a) const {
    return a.real();
  }
  template <class T>
  requires(!Complex<T>) T operator()(T a) const { return a; }
};
struct ImaginaryPart {
  template <Complex T>
  typename T::value_type operator()(T a) const {
    return a.imag();
  }
  template <class T>
  requires(!Complex<T>) T operator()(T) const { return T(0); }
};
struct Conjugate {
  template <Complex T>
  T operator()(T a) const {
    return {a.real(), -a.imag()};
  }
  template <Real T>
  T operator()(T a) const {
    return a;
  }
};

constexpr ElementwiseFunction kFunctions[]{
    {.name = "floor", .arity = 1, .loops = unary_table<Floor>(), .doc = "Rounded down."},
    {.name = "ceil", .arity = 1, .loops = unary_table<Ceil>(), .doc = "Rounded up."},
    {.name = "trunc", .arity = 1, .loops = unary_table<Trunc>(), .doc = "Rounded towards 0."},
    {.name = "round",
     .arity = 1,
     .loops = unary_table<Round>(),
     .doc = "Rounded to the nearest integer, halves to the even one."},
    {.name = "sign",
     .arity = 1,
     .loops = unary_table<Sign>(),
     .doc = "-1, 0 or 1; NaN of NaN; x / abs(x) of complex numbers.",
     .refuses_bool = true},
    {.name = "signbit", .arity = 1, .loops = unary_table<SignBit>(), .doc = "True where the sign bit is set."},
    {.name = "isnan", .arity = 1, .loops = unary_table<IsNan>(), .doc = "True where x is NaN."},
    {.name = "isinf", .arity = 1, .loops = unary_table<IsInf>(), .doc = "True where x is infinite."},
    {.name = "isfinite",
     .arity = 1,
     .loops = unary_table<IsFinite>(),
     .doc = "True where x is neither NaN nor infinite."},
    {.name = "real", .arity = 1, .loops = unary_table<RealPart>(), .doc = "The real part."},
    {.name = "imag", .arity = 1, .loops = unary_table<ImaginaryPart>(), .doc = "The imaginary part."},
    {.name = "conj", .arity = 1, .loops = unary_table<Conjugate>(), .doc = "The complex conjugate."},
};

}  // namespace

std::span<const ElementwiseFunction> rounding_functions() { return kFunctions; }

}  // namespace cuboid
