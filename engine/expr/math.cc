// Transcendental functions from the C library: correct to the last bit or two, and the same for an element wherever it
// stands in a block (vector libraries differ between the body and the tail of a loop).
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "engine/expr/loops.h"

namespace cuboid {
namespace {

// A function of floats and complex numbers under one name in namespace std.
#define CUBOID_UNARY(Name, function)                                                      \
  struct Name {                                                                           \
    template <class T>                                                                    \
    requires(Float<T> || Complex<T>) T operator()(T a) const { return std::function(a); } \
  };
CUBOID_UNARY(Sqrt, sqrt)
CUBOID_UNARY(Exp, exp)
CUBOID_UNARY(Log, log)
CUBOID_UNARY(Log10, log10)
CUBOID_UNARY(Sin, sin)
CUBOID_UNARY(Cos, cos)
CUBOID_UNARY(Tan, tan)
CUBOID_UNARY(Asin, asin)
CUBOID_UNARY(Acos, acos)
CUBOID_UNARY(Atan, atan)
CUBOID_UNARY(Sinh, sinh)
CUBOID_UNARY(Cosh, cosh)
CUBOID_UNARY(Tanh, tanh)
CUBOID_UNARY(Asinh, asinh)
CUBOID_UNARY(Acosh, acosh)
CUBOID_UNARY(Atanh, atanh)
#undef CUBOID_UNARY

struct Log2 {
  template <Float T>
  T operator()(T a) const {
    return std::log2(a);
  }
  template <Complex T>
  T operator()(T a) const {
    const T log = std::log(a);
    constexpr auto kScale = std::numbers::log2e_v<typename T::value_type>;
    return {log.real() * kScale, log.imag() * kScale};
  }
};
struct Log1p {
  template <Float T>
  T operator()(T a) const {
    return std::log1p(a);
  }
  template <Complex T>
  T operator()(T a) const {
    return {std::log(std::hypot(a.real() + 1, a.imag())), std::atan2(a.imag(), a.real() + 1)};
  }
};
struct Expm1 {
  template <Float T>
  T operator()(T a) const {
    return std::expm1(a);
  }
  template <Complex T>
  T operator()(T a) const {
    const auto half = std::sin(a.imag() / 2);
    return {std::expm1(a.real()) * std::cos(a.imag()) - 2 * half * half, std::exp(a.real()) * std::sin(a.imag())};
  }
};
struct Reciprocal {
  // Integer division: what is left of 1 / x for all but 1 and -1 is 0.
  template <Integer T>
  T operator()(T a) const {
    return a == 1 || (std::is_signed_v<T> && a == static_cast<T>(-1)) ? a : T{0};
  }
  template <Float T>
  T operator()(T a) const {
    return 1 / a;
  }
  template <Complex T>
  T operator()(T a) const {
    using P = typename T::value_type;
    if (std::abs(a.imag()) <= std::abs(a.real())) {
      const P ratio = a.imag() / a.real(), scale = a.real() + a.imag() * ratio;
      return {1 / scale, -ratio / scale};
    }
    const P ratio = a.real() / a.imag(), scale = a.imag() + a.real() * ratio;
    return {ratio / scale, P{-1} / scale};
  }
};
struct Atan2 {
  template <Float T>
  T operator()(T a, T b) const {
    return std::atan2(a, b);
  }
};
struct Hypot {
  template <Float T>
  T operator()(T a, T b) const {
    return std::hypot(a, b);
  }
};
struct CopySign {
  template <Float T>
  T operator()(T a, T b) const {
    return std::copysign(a, b);
  }
};
struct NextAfter {
  template <Float T>
  T operator()(T a, T b) const {
    return std::nextafter(a, b);
  }
};
struct LogAddExp {
  template <Float T>
  T operator()(T a, T b) const {
    if (a == b) return a + std::numbers::ln2_v<T>;  // infinities of one sign too
    const T difference = a - b;
    if (difference > 0) return a + std::log1p(std::exp(-difference));
    if (difference <= 0) return b + std::log1p(std::exp(difference));
    return difference;  // NaN
  }
};

template <class F>
constexpr ElementwiseFunction unary(const char* name, const char* doc) {
  return {.name = name, .arity = 1, .loops = unary_table<F>(), .doc = doc};
}
template <class F>
constexpr ElementwiseFunction binary(const char* name, const char* doc) {
  return {.name = name, .arity = 2, .loops = binary_table<F>(), .doc = doc};
}

constexpr ElementwiseFunction kFunctions[]{
    unary<Sqrt>("sqrt", "Square root; NaN of negative numbers."),
    unary<Exp>("exp", "e to the power x."),
    unary<Expm1>("expm1", "exp(x) - 1, precise near 0."),
    unary<Log>("log", "Natural logarithm."),
    unary<Log1p>("log1p", "log(1 + x), precise near 0."),
    unary<Log2>("log2", "Logarithm to base 2."),
    unary<Log10>("log10", "Logarithm to base 10."),
    unary<Sin>("sin", "Sine; x in radians."),
    unary<Cos>("cos", "Cosine; x in radians."),
    unary<Tan>("tan", "Tangent; x in radians."),
    unary<Asin>("asin", "Inverse sine, in radians."),
    unary<Acos>("acos", "Inverse cosine, in radians."),
    unary<Atan>("atan", "Inverse tangent, in radians."),
    unary<Sinh>("sinh", "Hyperbolic sine."),
    unary<Cosh>("cosh", "Hyperbolic cosine."),
    unary<Tanh>("tanh", "Hyperbolic tangent."),
    unary<Asinh>("asinh", "Inverse hyperbolic sine."),
    unary<Acosh>("acosh", "Inverse hyperbolic cosine."),
    unary<Atanh>("atanh", "Inverse hyperbolic tangent."),
    unary<Reciprocal>("reciprocal", "1 / x; of integers rounded towards 0 (0 where x is 0)."),
    binary<Atan2>("atan2", "Angle of the point (x2, x1), in radians."),
    binary<Hypot>("hypot", "sqrt(x1^2 + x2^2) without overflow."),
    binary<CopySign>("copysign", "x1 with the sign of x2."),
    binary<NextAfter>("nextafter", "The float next to x1 towards x2."),
    binary<LogAddExp>("logaddexp", "log(exp(x1) + exp(x2)) without overflow."),
};

}  // namespace

std::span<const ElementwiseFunction> math_functions() { return kFunctions; }

}  // namespace cuboid
