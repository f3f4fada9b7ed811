// IEEE 754 binary16, which C++20 has no type for: its bits to float and back, rounded to nearest even as NumPy does.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cuboid {

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float tiny = static_cast<float>(mantissa) * 0x1p-24f;  // exact: subnormal
  return sign ? -tiny : tiny;
}

// From double, so that nothing is rounded twice; a float is a double.
inline std::uint16_t half_from(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000u);
  if (std::isnan(value)) {  // the payload's upper bits stay, and it stays no infinity
    const auto payload = static_cast<std::uint16_t>(bits >> 42 & 0x3ffu);
    return static_cast<std::uint16_t>(sign | 0x7c00u | (payload ? payload : 1u));
  }
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or is larger
  // In units of the last place, which nearbyint rounds to even (the default rounding mode).
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // 1024 units more than a binade begins the next one: the sum carries into the exponent by itself.
  return static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(exponent + 14) << 10) + units));
}

}  // namespace cuboid
