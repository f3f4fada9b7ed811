// filter.median: the median of a square window, as scipy.ndimage.median_filter.
#pragma once
#include <algorithm>
#include <cuboid/plugin.hpp>

namespace filter {

struct Median {
  static constexpr auto meta =
      cuboid::decl(
          "filter.median/1", "image:T[y,x] -> median:T[y,x]",
          "Median of a size x size window, equal to scipy.ndimage.median_filter(image, size). Of an even number "
          "of values the upper middle one; NaN counts as the largest value.")
          .types("T=f4|f8|i1|i2|i4|i8|u1|u2|u4|u8")
          .param(cuboid::sdk::integer("size", 3).min(1).max(255).help("Width of the window in pixels."))
          .halo("y", "floor(size/2)")
          .halo("x", "floor(size/2)")
          .modes("reflect|nearest|constant|wrap")
          .call_bytes("size_T*size*size + 64", cuboid::sdk::bound)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("y, x")
          .example(R"({"in":[{"dtype":"u1","shape":[3,3],"data":[1,2,3,4,99,6,7,8,9]}],)"
                   R"("out":[{"dtype":"u1","shape":[3,3],"data":[2,3,3,4,6,6,7,8,9]}]})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto image = call.in<T, 2>(0);
    const auto median = call.out<T, 2>(0);
    const std::int64_t size = call.integer("size"), halo = size / 2;
    if (image.extent(0) != median.extent(0) + 2 * halo || image.extent(1) != median.extent(1) + 2 * halo)
      throw cuboid::sdk::Failure(CUBOID_E_SHAPE, "filter.median: the image does not come with a halo of size / 2");
    const auto window = call.scratch<T>(size * size);
    for (std::int64_t y = 0; y < median.extent(0); ++y) {
      call.poll();
      if (size == 3 && image.unit_stride() && median.unit_stride())
        row_of_three(image.row(y), image.row(y + 1), image.row(y + 2), median.extent(1), median.row(y));
      else
        for (std::int64_t x = 0; x < median.extent(1); ++x) median(y, x) = select(image, y, x, size, window);
    }
  }

 private:
  // A strict weak order also with NaN.
  template <class T>
  static bool before(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a < b || (b != b && a == a);
    return a < b;
  }

  template <class T>
  static T select(const cuboid::sdk::View<const T, 2>& image, std::int64_t y, std::int64_t x, std::int64_t size,
                  const cuboid::sdk::Span<T>& window) {
    T* to = window.data();
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t j = 0; j < size; ++j) *to++ = image(y + i, x + j);
    T* middle = window.data() + size * size / 2;
    std::nth_element(window.data(), middle, window.end(), before<T>);
    return *middle;
  }

  // Puts the smaller one first; NaN last. Branchless, so that a row becomes vector code.
  template <class T>
  [[gnu::always_inline]] static inline void order(T& a, T& b) {
    const bool swap = before(b, a);
    const T low = swap ? b : a;
    b = swap ? a : b;
    a = low;
  }

  // Nine values by the exchange network of Paeth (Graphics Gems, 1990): columns sorted, then the middle of the largest
  // low, the median middle and the smallest high one.
  template <class T>
  static void row_of_three(const T* above, const T* here, const T* below, std::int64_t count, T* out) {
    for (std::int64_t x = 0; x < count; ++x) {
      T v[9] = {above[x],     here[x],      below[x],    above[x + 1], here[x + 1],
                below[x + 1], above[x + 2], here[x + 2], below[x + 2]};
      for (int c = 0; c < 9; c += 3) order(v[c], v[c + 1]), order(v[c + 1], v[c + 2]), order(v[c], v[c + 1]);
      order(v[0], v[3]), order(v[3], v[6]);                     // v[6]: largest of the low
      order(v[5], v[8]), order(v[2], v[5]);                     // v[2]: smallest of the high
      order(v[1], v[4]), order(v[4], v[7]), order(v[1], v[4]);  // v[4]: median of the middle
      order(v[2], v[4]), order(v[4], v[6]), order(v[2], v[4]);
      out[x] = v[4];
    }
  }
};

}  // namespace filter
