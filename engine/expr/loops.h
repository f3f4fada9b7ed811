// Turns a function object into typed loops. Included by the tables of elementwise functions only. `out` may be one of
// `in`: each element depends on those in its place alone, which is what `ivdep` says.
#pragma once
#include "engine/expr/elementwise.h"

namespace cuboid {

template <class F, class T>
void unary_loop(const std::byte* const* in, std::byte* out, std::int64_t n) {
  using R = decltype(F{}(T{}));
  const T* a = reinterpret_cast<const T*>(in[0]);
  R* to = reinterpret_cast<R*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) to[i] = F{}(a[i]);
}

template <class F, class A, class B = A>
void binary_loop(const std::byte* const* in, std::byte* out, std::int64_t n) {
  using R = decltype(F{}(A{}, B{}));
  const A* a = reinterpret_cast<const A*>(in[0]);
  const B* b = reinterpret_cast<const B*>(in[1]);
  R* to = reinterpret_cast<R*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) to[i] = F{}(a[i], b[i]);
}

template <class F, class T, class First = T>
void ternary_loop(const std::byte* const* in, std::byte* out, std::int64_t n) {
  const First* a = reinterpret_cast<const First*>(in[0]);
  const T* b = reinterpret_cast<const T*>(in[1]);
  const T* c = reinterpret_cast<const T*>(in[2]);
  T* to = reinterpret_cast<T*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) to[i] = F{}(a[i], b[i], c[i]);
}

// A loop for every type that F accepts. The type of the result is what F returns.
template <class F>
constexpr LoopTable unary_table() {
  return table_over_types<TypedLoop>([]<class T>(std::type_identity<T>) -> TypedLoop {
    if constexpr (requires(T a) { F{}(a); })
      return {&unary_loop<F, T>, kDTypeOf<decltype(F{}(T{}))>};
    else
      return {};
  });
}
template <class F>
constexpr LoopTable binary_table() {
  return table_over_types<TypedLoop>([]<class T>(std::type_identity<T>) -> TypedLoop {
    if constexpr (requires(T a) { F{}(a, a); })
      return {&binary_loop<F, T>, kDTypeOf<decltype(F{}(T{}, T{}))>};
    else
      return {};
  });
}

}  // namespace cuboid
