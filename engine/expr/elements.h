// The C++ types of elements, for the translation units that hold typed loops. Nothing above a kernel includes this.
#pragma once
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "engine/expr/promotion.h"

namespace cuboid {

// A stored boolean: any byte but 0 is true, so that foreign bytes are read without undefined behaviour.
struct Bool {
  std::uint8_t byte = 0;
  Bool() = default;
  constexpr explicit Bool(bool value) : byte(value ? 1 : 0) {}
  constexpr explicit operator bool() const { return byte != 0; }
};

// In the order of kDTypes.
using ElementTypes =
    std::tuple<Bool, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
               std::uint64_t, float, double, std::complex<float>, std::complex<double>>;
static_assert(std::tuple_size_v<ElementTypes> == kDTypeCount);

template <class T>
concept Boolean = std::is_same_v<T, Bool>;
template <class T>
concept Integer = std::is_integral_v<T>;
template <class T>
concept Float = std::is_floating_point_v<T>;
template <class T>
concept Complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <class T>
concept Real = Integer<T> || Float<T>;

template <class T, std::size_t I = 0>
constexpr std::size_t index_of() {
  if constexpr (std::is_same_v<T, std::tuple_element_t<I, ElementTypes>>)
    return I;
  else
    return index_of<T, I + 1>();
}
template <class T>
inline constexpr DType kDTypeOf = kDTypes[index_of<T>()];

// A table over all element types: make(type_identity<T>{}) for each T.
template <class Entry, class Make>
constexpr std::array<Entry, kDTypeCount> table_over_types(Make make) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Entry, kDTypeCount>{make(std::type_identity<std::tuple_element_t<I, ElementTypes>>{})...};
  }
  (std::make_index_sequence<kDTypeCount>{});
}

// Arithmetic that wraps around, as NumPy's integers do, without undefined behaviour: at least 32 bits, unsigned.
template <Integer T>
using Wrap = std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>;

}  // namespace cuboid
