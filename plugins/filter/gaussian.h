// filter.gaussian: a separable Gaussian as scipy.ndimage.gaussian_filter does it, the sums in the same order.
#pragma once
#include <cuboid/plugin.hpp>

namespace filter {

// out[i] = w[0] c[i] + sum over j of w[j] (c[i - j] + c[i + j]), farthest neighbours first; `step` and `item` are the
// bytes from one tap, and from one element, to the next. Sums are kept in registers for kTile elements at a time: a
// fifth faster than a whole row of sums, and twice as fast as 16, whose additions wait for each other (GCC 12, AVX2).
template <class T, bool kContiguous>
[[gnu::always_inline]] inline void symmetric_taps(const char* centre, std::int64_t step, std::int64_t item,
                                                  const double* w, std::int64_t radius, std::int64_t count, T* out) {
  constexpr std::int64_t kTile = 32;
  if constexpr (kContiguous) item = sizeof(T);
  const auto at = [item](const char* row, std::int64_t i) {
    return double(*reinterpret_cast<const T*>(row + i * item));
  };
  for (std::int64_t x = 0; x < count; x += kTile, centre += kTile * item) {
    double sum[kTile];
    const auto tile = [&](std::int64_t n) __attribute__((always_inline)) {
      for (std::int64_t i = 0; i < n; ++i) sum[i] = at(centre, i) * w[0];
      for (std::int64_t j = radius; j > 0; --j) {
        const char *before = centre - j * step, *behind = centre + j * step;
        for (std::int64_t i = 0; i < n; ++i) sum[i] += (at(before, i) + at(behind, i)) * w[j];
      }
      for (std::int64_t i = 0; i < n; ++i) out[x + i] = T(sum[i]);
    };
    if (count - x >= kTile)
      tile(kTile);
    else
      tile(count - x);
  }
}

struct Gaussian {
  static constexpr auto meta =
      cuboid::decl("filter.gaussian/1", "image:T[y,x] -> smooth:T[y,x]",
                   "Gaussian filter, equal to scipy.ndimage.gaussian_filter(image, sigma, truncate=truncate). Integers "
                   "are truncated after each axis, as there.")
          .types("T=f4|f8|i2|i4|u1|u2")
          .param(cuboid::sdk::real("sigma").min(0).max(10000).help("Standard deviation in pixels."))
          .param(cuboid::sdk::real("truncate", 4).min(0).max(100).help("Radius of the kernel in standard deviations."))
          .halo("y", "floor(truncate*sigma + 0.5)")
          .halo("x", "floor(truncate*sigma + 0.5)")
          .modes("reflect|nearest|constant|wrap")
          .call_bytes("8*(halo_y+1) + size_T*(2*x + 2*halo_x) + 3*64", cuboid::sdk::bound)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("y, x")
          .example(R"({"params":{"sigma":0.5,"truncate":2},"in":[{"dtype":"f8","shape":[1,3],"data":[0,1,0]}],)"
                   R"("out":[{"dtype":"f8","shape":[1,3],"data":[0.10650697891920077,0.7869860421615985,)"
                   R"(0.10650697891920077]}],"tolerance":1e-12})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto image = call.in<T, 2>(0);
    const auto smooth = call.out<T, 2>(0);
    const auto radius = std::int64_t(call.real("truncate") * call.real("sigma") + 0.5);
    if (image.extent(0) != smooth.extent(0) + 2 * radius || image.extent(1) != smooth.extent(1) + 2 * radius)
      throw cuboid::sdk::Failure(CUBOID_E_SHAPE, "filter.gaussian: the image does not come with a halo of its radius");
    const auto weights = half_kernel(call, call.real("sigma"), radius);
    const auto columns = call.scratch<T>(image.extent(1));
    const auto spare = call.scratch<T>(smooth.unit_stride() ? 0 : smooth.extent(1));
    const bool wide = __builtin_cpu_supports("avx2");
    for (std::int64_t y = 0; y < smooth.extent(0); ++y) {
      call.poll();
      T* to = smooth.begin_row(spare.data(), y);
      (wide ? row_avx2<T> : row<T>)(image, y + radius, weights.data(), radius, columns.data(), to, smooth.extent(1));
      smooth.end_row(to, y);
    }
  }

 private:
  // w[0] to w[radius] of the normalised kernel.
  static cuboid::sdk::Span<double> half_kernel(cuboid::sdk::Call& call, double sigma, std::int64_t radius) {
    const auto w = call.scratch<double>(radius + 1);
    double total = w[0] = 1;
    for (std::int64_t j = 1; j <= radius; ++j) {
      w[std::size_t(j)] = std::exp(-0.5 / (sigma * sigma) * double(j * j));
      total += 2 * w[std::size_t(j)];
    }
    for (double& weight : w) weight /= total;
    return w;
  }

  // Down the columns into one row, then along it.
  template <class T>
  [[gnu::always_inline]] static inline void row_body(const cuboid::sdk::View<const T, 2>& image, std::int64_t y,
                                                     const double* w, std::int64_t radius, T* columns, T* to,
                                                     std::int64_t width) {
    const auto* centre = reinterpret_cast<const char*>(image.row(y));
    if (image.unit_stride())
      symmetric_taps<T, true>(centre, image.stride_bytes(0), 0, w, radius, image.extent(1), columns);
    else
      symmetric_taps<T, false>(centre, image.stride_bytes(0), image.stride_bytes(1), w, radius, image.extent(1),
                               columns);
    symmetric_taps<T, true>(reinterpret_cast<const char*>(columns + radius), sizeof(T), 0, w, radius, width, to);
  }
  template <class T>
  static void row(const cuboid::sdk::View<const T, 2>& image, std::int64_t y, const double* w, std::int64_t radius,
                  T* columns, T* to, std::int64_t width) {
    row_body(image, y, w, radius, columns, to, width);
  }
  // The same operations on wider registers, without fused ones: the same bits.
  template <class T>
  [[gnu::target("avx2")]] static void row_avx2(const cuboid::sdk::View<const T, 2>& image, std::int64_t y,
                                               const double* w, std::int64_t radius, T* columns, T* to,
                                               std::int64_t width) {
    row_body(image, y, w, radius, columns, to, width);
  }
};

}  // namespace filter
