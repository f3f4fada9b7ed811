// Arithmetic with NumPy's results: integers wrap around, x // 0 and x % 0 of integers are 0, NaN propagates through
// minimum and maximum, complex products and quotients follow NumPy's formulas.
#include <cmath>
#include <limits>

#include "engine/expr/loops.h"
#include "engine/expr/order.h"
#include "storage/error.h"

namespace cuboid {
namespace {

struct Add {
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  }
  template <Float T>
  T operator()(T a, T b) const {
    return a + b;
  }
  template <Complex T>
  T operator()(T a, T b) const {
    return {a.real() + b.real(), a.imag() + b.imag()};
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) | (b.byte != 0)); }
};
struct Subtract {
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
  }
  template <Float T>
  T operator()(T a, T b) const {
    return a - b;
  }
  template <Complex T>
  T operator()(T a, T b) const {
    return {a.real() - b.real(), a.imag() - b.imag()};
  }
};
struct Multiply {
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
  template <Float T>
  T operator()(T a, T b) const {
    return a * b;
  }
  template <Complex T>
  T operator()(T a, T b) const {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) & (b.byte != 0)); }
};
struct Divide {
  template <Float T>
  T operator()(T a, T b) const {
    return a / b;
  }
  // Smith's method, as NumPy computes it.
  template <Complex T>
  T operator()(T a, T b) const {
    using P = typename T::value_type;
    const P re = std::abs(b.real()), im = std::abs(b.imag());
    if (re >= im) {
      if (re == 0 && im == 0) return {a.real() / re, a.imag() / re};
      const P ratio = b.imag() / b.real(), scale = P{1} / (b.real() + b.imag() * ratio);
      return {(a.real() + a.imag() * ratio) * scale, (a.imag() - a.real() * ratio) * scale};
    }
    const P ratio = b.real() / b.imag(), scale = P{1} / (b.imag() + b.real() * ratio);
    return {(a.real() * ratio + a.imag()) * scale, (a.imag() * ratio - a.real()) * scale};
  }
};

// Python's divmod of floats: the quotient is rounded down, the remainder has the divisor's sign.
template <Float T>
struct DivMod {
  T quotient, remainder;
  DivMod(T a, T b) {
    T mod = std::fmod(a, b);
    if (b == 0) {
      quotient = a / b;
      remainder = mod;
      return;
    }
    T div = (a - mod) / b;
    if (mod == 0) {
      mod = std::copysign(T{0}, b);
    } else if ((b < 0) != (mod < 0)) {
      mod += b;
      div -= 1;
    }
    T floor = std::copysign(T{0}, a / b);
    if (div != 0) {
      floor = std::floor(div);
      if (div - floor > T(0.5)) floor += 1;
    }
    quotient = floor;
    remainder = mod;
  }
};
struct FloorDivide {
  template <Integer T>
  T operator()(T a, T b) const {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
      return static_cast<T>(a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
    } else {
      return static_cast<T>(a / b);
    }
  }
  template <Float T>
  T operator()(T a, T b) const {
    return DivMod<T>(a, b).quotient;
  }
};
struct Remainder {
  template <Integer T>
  T operator()(T a, T b) const {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
      const T mod = static_cast<T>(a % b);
      return static_cast<T>((mod != 0 && (mod < 0) != (b < 0)) ? mod + b : mod);
    } else {
      return static_cast<T>(a % b);
    }
  }
  template <Float T>
  T operator()(T a, T b) const {
    return DivMod<T>(a, b).remainder;
  }
};
struct Power {
  template <Integer T>
  T operator()(T base, T exponent) const {
    if constexpr (std::is_signed_v<T>)
      if (exponent < 0)
        throw Error(ErrorKind::invalid,
                    "pow: integers to negative integer powers are not allowed; convert with astype");
    Wrap<T> result = 1, square = static_cast<Wrap<T>>(base);
    for (auto rest = static_cast<std::make_unsigned_t<T>>(exponent); rest != 0;
         rest = static_cast<decltype(rest)>(rest >> 1)) {
      if ((rest & 1) != 0) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
  template <Float T>
  T operator()(T a, T b) const {
    return std::pow(a, b);
  }
  template <Complex T>
  T operator()(T a, T b) const {
    if (b == T{0}) return T{1};
    if (a == T{0}) {
      using P = typename T::value_type;
      if (b.real() > 0 && b.imag() == 0) return T{0};
      return {std::numeric_limits<P>::quiet_NaN(), std::numeric_limits<P>::quiet_NaN()};
    }
    // Small whole exponents by repeated multiplication, as NumPy does.
    const auto whole = static_cast<int>(std::abs(b.real()) < 100 ? b.real() : 100);
    if (b.imag() == 0 && b.real() == static_cast<typename T::value_type>(whole) && std::abs(whole) < 100) {
      T result{1}, square = a;
      for (int rest = std::abs(whole); rest != 0; rest >>= 1) {
        if ((rest & 1) != 0) result = Multiply{}(result, square);
        square = Multiply{}(square, square);
      }
      return whole < 0 ? Divide{}(T{1}, result) : result;
    }
    return std::pow(a, b);
  }
};
struct Negative {
  template <Integer T>
  T operator()(T a) const {
    return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
  }
  template <Float T>
  T operator()(T a) const {
    return -a;
  }
  template <Complex T>
  T operator()(T a) const {
    return -a;
  }
};
struct Positive {
  template <class T>
  requires(!Boolean<T>) T operator()(T a) const { return a; }
};
struct Absolute {
  template <Integer T>
  T operator()(T a) const {
    return a < 0 ? Negative{}(a) : a;
  }
  template <Float T>
  T operator()(T a) const {
    return std::fabs(a);
  }
  template <Complex T>
  typename T::value_type operator()(T a) const {
    return std::hypot(a.real(), a.imag());
  }
  Bool operator()(Bool a) const { return Bool(a.byte != 0); }
};
struct Square {
  template <class T>
  requires(!Boolean<T>) T operator()(T a) const { return Multiply{}(a, a); }
};
struct Clip {
  template <class T>
  T operator()(T a, T low, T high) const {
    return Minimum{}(Maximum{}(a, low), high);
  }
};
struct Where {
  template <class T>
  T operator()(Bool condition, T a, T b) const {
    return condition.byte != 0 ? a : b;
  }
};

template <class F, bool kMasked>
constexpr LoopTable ternary_table() {
  return table_over_types<TypedLoop>([]<class T>(std::type_identity<T>) -> TypedLoop {
    using First = std::conditional_t<kMasked, Bool, T>;
    return {&ternary_loop<F, T, First>, kDTypeOf<T>};
  });
}

constexpr ElementwiseFunction kFunctions[]{
    {.name = "add", .arity = 2, .loops = binary_table<Add>(), .doc = "x1 + x2; of bool: logical or."},
    {.name = "subtract", .arity = 2, .loops = binary_table<Subtract>(), .doc = "x1 - x2.", .refuses_bool = true},
    {.name = "multiply", .arity = 2, .loops = binary_table<Multiply>(), .doc = "x1 * x2; of bool: logical and."},
    {.name = "divide",
     .arity = 2,
     .loops = binary_table<Divide>(),
     .doc = "x1 / x2; integers are divided as float64.",
     .ints_to_float64 = true},
    {.name = "floor_divide",
     .arity = 2,
     .loops = binary_table<FloorDivide>(),
     .doc = "x1 / x2 rounded down; 0 where an integer is divided by 0."},
    {.name = "remainder",
     .arity = 2,
     .loops = binary_table<Remainder>(),
     .doc = "What floor_divide leaves, with the sign of x2; 0 where an integer is divided by 0."},
    {.name = "pow",
     .arity = 2,
     .loops = binary_table<Power>(),
     .doc = "x1 to the power x2; negative powers of integers are an error."},
    {.name = "negative", .arity = 1, .loops = unary_table<Negative>(), .doc = "-x.", .refuses_bool = true},
    {.name = "positive", .arity = 1, .loops = unary_table<Positive>(), .doc = "+x.", .refuses_bool = true},
    {.name = "abs", .arity = 1, .loops = unary_table<Absolute>(), .doc = "Absolute value; real for complex numbers."},
    {.name = "square", .arity = 1, .loops = unary_table<Square>(), .doc = "x * x."},
    {.name = "minimum", .arity = 2, .loops = binary_table<Minimum>(), .doc = "The smaller one; NaN where either is."},
    {.name = "maximum", .arity = 2, .loops = binary_table<Maximum>(), .doc = "The larger one; NaN where either is."},
    {.name = "clip",
     .arity = 3,
     .loops = ternary_table<Clip, false>(),
     .doc = "x limited to min .. max; either may be null. Both may also be given as parameters."},
    {.name = "where",
     .arity = 3,
     .loops = ternary_table<Where, true>(),
     .doc = "x1 where the condition (bool) holds, else x2.",
     .leading_condition = true},
};

}  // namespace

std::span<const ElementwiseFunction> arithmetic_functions() { return kFunctions; }

}  // namespace cuboid
