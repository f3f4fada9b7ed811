// Comparisons and logical functions. Complex numbers are ordered lexicographically, as NumPy orders them.
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/expr/loops.h"

namespace cuboid {
namespace {

// Compares after C++20's value-preserving rules, so that int64 and uint64 compare exactly.
template <class A, class B>
constexpr bool kComparable = Real<A>&& Real<B>;

struct Less {
  template <class A, class B>
  requires kComparable<A, B> Bool operator()(A a, B b) const {
    if constexpr (Integer<A> && Integer<B>)
      return Bool(std::cmp_less(a, b));
    else
      return Bool(a < b);
  }
  template <Complex T>
  Bool operator()(T a, T b) const {
    return Bool((a.real() < b.real() && !std::isnan(a.imag()) && !std::isnan(b.imag())) ||
                (a.real() == b.real() && a.imag() < b.imag()));
  }
  Bool operator()(Bool a, Bool b) const { return Bool(a.byte == 0 && b.byte != 0); }
};
struct LessEqual {
  template <class A, class B>
  requires kComparable<A, B> Bool operator()(A a, B b) const {
    if constexpr (Integer<A> && Integer<B>)
      return Bool(std::cmp_less_equal(a, b));
    else
      return Bool(a <= b);
  }
  template <Complex T>
  Bool operator()(T a, T b) const {
    return Bool((a.real() < b.real() && !std::isnan(a.imag()) && !std::isnan(b.imag())) ||
                (a.real() == b.real() && a.imag() <= b.imag()));
  }
  Bool operator()(Bool a, Bool b) const { return Bool(a.byte == 0 || b.byte != 0); }
};
struct Greater {
  template <class A, class B>
  requires requires(A a, B b) { Less{}(b, a); }
  Bool operator()(A a, B b) const { return Less{}(b, a); }
};
struct GreaterEqual {
  template <class A, class B>
  requires requires(A a, B b) { LessEqual{}(b, a); }
  Bool operator()(A a, B b) const { return LessEqual{}(b, a); }
};
struct Equal {
  template <class A, class B>
  requires kComparable<A, B> Bool operator()(A a, B b) const {
    if constexpr (Integer<A> && Integer<B>)
      return Bool(std::cmp_equal(a, b));
    else
      return Bool(a == b);
  }
  template <Complex T>
  Bool operator()(T a, T b) const {
    return Bool(a == b);
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) == (b.byte != 0)); }
};
struct NotEqual {
  template <class A, class B>
  requires requires(A a, B b) { Equal{}(a, b); }
  Bool operator()(A a, B b) const { return Bool(Equal{}(a, b).byte == 0); }
};

template <class T>
bool truth(T a) {
  if constexpr (Boolean<T>)
    return a.byte != 0;
  else if constexpr (Complex<T>)
    return a.real() != 0 || a.imag() != 0;
  else
    return a != 0;
}
struct LogicalAnd {
  template <class T>
  Bool operator()(T a, T b) const {
    return Bool(truth(a) & truth(b));
  }
};
struct LogicalOr {
  template <class T>
  Bool operator()(T a, T b) const {
    return Bool(truth(a) | truth(b));
  }
};
struct LogicalXor {
  template <class T>
  Bool operator()(T a, T b) const {
    return Bool(truth(a) != truth(b));
  }
};
struct LogicalNot {
  template <class T>
  Bool operator()(T a) const {
    return Bool(!truth(a));
  }
};

constexpr ElementwiseFunction compare(const char* name, LoopTable loops, const char* doc) {
  return {.name = name, .arity = 2, .loops = loops, .doc = doc, .compares = true};
}

constexpr ElementwiseFunction kFunctions[]{
    compare("equal", binary_table<Equal>(), "x1 == x2."),
    compare("not_equal", binary_table<NotEqual>(), "x1 != x2."),
    compare("less", binary_table<Less>(), "x1 < x2."),
    compare("less_equal", binary_table<LessEqual>(), "x1 <= x2."),
    compare("greater", binary_table<Greater>(), "x1 > x2."),
    compare("greater_equal", binary_table<GreaterEqual>(), "x1 >= x2."),
    {.name = "logical_and", .arity = 2, .loops = binary_table<LogicalAnd>(), .doc = "True where both are not 0."},
    {.name = "logical_or", .arity = 2, .loops = binary_table<LogicalOr>(), .doc = "True where either is not 0."},
    {.name = "logical_xor", .arity = 2, .loops = binary_table<LogicalXor>(), .doc = "True where one alone is not 0."},
    {.name = "logical_not", .arity = 1, .loops = unary_table<LogicalNot>(), .doc = "True where x is 0."},
};

template <class F>
ElementLoop mixed(bool unsigned_first) {
  return unsigned_first ? &binary_loop<F, std::uint64_t, std::int64_t> : &binary_loop<F, std::int64_t, std::uint64_t>;
}

}  // namespace

std::span<const ElementwiseFunction> comparison_functions() { return kFunctions; }

ElementLoop mixed_comparison(const std::string& name, bool unsigned_first) {
  if (name == "equal") return mixed<Equal>(unsigned_first);
  if (name == "not_equal") return mixed<NotEqual>(unsigned_first);
  if (name == "less") return mixed<Less>(unsigned_first);
  if (name == "less_equal") return mixed<LessEqual>(unsigned_first);
  if (name == "greater") return mixed<Greater>(unsigned_first);
  return mixed<GreaterEqual>(unsigned_first);
}

}  // namespace cuboid
