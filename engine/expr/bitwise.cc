// Bitwise functions. Shifts by the width of the type or more give 0 (or -1, the sign, to the right), as in NumPy.
#include "engine/expr/loops.h"

namespace cuboid {
namespace {

struct And {
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) & (b.byte != 0)); }
};
struct Or {
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) | (b.byte != 0)); }
};
struct Xor {
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
  Bool operator()(Bool a, Bool b) const { return Bool((a.byte != 0) != (b.byte != 0)); }
};
struct Invert {
  template <Integer T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
  Bool operator()(Bool a) const { return Bool(a.byte == 0); }
};
template <Integer T>
bool within_width(T shift) {
  return shift >= 0 && static_cast<std::uint64_t>(shift) < sizeof(T) * 8;
}
struct ShiftLeft {
  template <Integer T>
  T operator()(T a, T b) const {
    return within_width(b) ? static_cast<T>(static_cast<Wrap<T>>(a) << b) : T{0};
  }
};
struct ShiftRight {
  template <Integer T>
  T operator()(T a, T b) const {
    if (within_width(b)) return static_cast<T>(a >> b);
    return a < 0 ? static_cast<T>(-1) : T{0};
  }
};

constexpr ElementwiseFunction kFunctions[]{
    {.name = "bitwise_and", .arity = 2, .loops = binary_table<And>(), .doc = "Bits set in both."},
    {.name = "bitwise_or", .arity = 2, .loops = binary_table<Or>(), .doc = "Bits set in either."},
    {.name = "bitwise_xor", .arity = 2, .loops = binary_table<Xor>(), .doc = "Bits set in one alone."},
    {.name = "bitwise_invert", .arity = 1, .loops = unary_table<Invert>(), .doc = "All bits flipped; of bool: not."},
    {.name = "bitwise_left_shift",
     .arity = 2,
     .loops = binary_table<ShiftLeft>(),
     .doc = "x1 shifted left by x2 bits; 0 from the type's width on."},
    {.name = "bitwise_right_shift",
     .arity = 2,
     .loops = binary_table<ShiftRight>(),
     .doc = "x1 shifted right by x2 bits, keeping the sign."},
};

}  // namespace

std::span<const ElementwiseFunction> bitwise_functions() { return kFunctions; }

}  // namespace cuboid
