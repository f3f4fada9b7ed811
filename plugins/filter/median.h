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
          .call_bytes("(size > 9 ? size_T : 172)*size*size + 2*64", cuboid::sdk::bound)
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
    if (size > kLargestNetwork) return select_all(call, image, median, size);
    const Network network(call, size * size);
    const auto values = call.scratch<T>(size * size * kLanes<T>);
    const auto row = __builtin_cpu_supports("avx2") ? network_row_avx2<T> : network_row<T>;
    for (std::int64_t y = 0; y < median.extent(0); ++y) {
      call.poll();
      row(image, median, y, size, network, values.data());
    }
  }

 private:
  static constexpr std::int64_t kLargestNetwork = 9;
  template <class T>
  static constexpr std::int64_t kLanes = 128 / std::int64_t(sizeof(T));  // pixels that go through the network at once

  // A strict weak order also with NaN.
  template <class T>
  [[gnu::always_inline]] static inline bool before(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return (a < b) | ((b != b) & (a == a));
    return a < b;
  }

  // The exchanges of Batcher's odd-even merge sort (Knuth, TAOCP 3, 5.2.2 M) that reach the middle value. A network
  // sorts many windows at once without a branch: 5 x 5 in 23 ns a pixel, where std::nth_element takes 345.
  struct Network {
    struct Exchange {
      std::uint16_t a, b;
    };
    cuboid::sdk::Span<Exchange> exchanges;  // the first `count` of them
    std::int64_t count = 0;

    Network(cuboid::sdk::Call& call, std::int64_t n) : exchanges(call.scratch<Exchange>(11 * n)) {
      for (std::int64_t p = 1; p < n; p *= 2)
        for (std::int64_t k = p; k >= 1; k /= 2)
          for (std::int64_t j = k % p; j < n - k; j += 2 * k)
            for (std::int64_t i = j; i < std::min(j + k, n - k); ++i)
              if (i / (2 * p) == (i + k) / (2 * p))
                exchanges[std::size_t(count++)] = {std::uint16_t(i), std::uint16_t(i + k)};
      prune(n);
    }

   private:
    // From the end: an exchange counts if one of its places reaches the middle.
    void prune(std::int64_t n) {
      bool needed[kLargestNetwork * kLargestNetwork] = {};
      needed[n / 2] = true;
      std::int64_t kept = count;
      for (std::int64_t i = count; i-- > 0;) {
        const Exchange e = exchanges[std::size_t(i)];
        if (!needed[e.a] && !needed[e.b]) continue;
        needed[e.a] = needed[e.b] = true;
        exchanges[std::size_t(--kept)] = e;
      }
      std::copy(exchanges.begin() + kept, exchanges.begin() + count, exchanges.begin());
      count -= kept;
    }
  };

  template <class T>
  [[gnu::always_inline]] static inline void network_body(const cuboid::sdk::View<const T, 2>& image,
                                                         const cuboid::sdk::View<T, 2>& median, std::int64_t y,
                                                         std::int64_t size, const Network& network, T* values) {
    constexpr std::int64_t lanes = kLanes<T>;
    const std::int64_t width = median.extent(1);
    for (std::int64_t x = 0; x < width; x += lanes) {
      const std::int64_t count = std::min(lanes, width - x);
      T* to = values;
      for (std::int64_t i = 0; i < size; ++i)
        for (std::int64_t j = 0; j < size; ++j, to += lanes) {
          if (count == lanes && image.unit_stride())
            std::memcpy(to, image.row(y + i) + x + j, sizeof(T) * lanes);
          else
            for (std::int64_t lane = 0; lane < lanes; ++lane)
              to[lane] = image(y + i, x + j + std::min(lane, count - 1));
        }
      for (std::int64_t e = 0; e < network.count; ++e) {
        T* __restrict a = values + network.exchanges[std::size_t(e)].a * lanes;
        T* __restrict b = values + network.exchanges[std::size_t(e)].b * lanes;
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
          const T first = a[lane], second = b[lane];
          // As `before` orders them, written so that GCC makes vector code of it. Two NaN may change places.
          const T low = second < first ? second : first, high = second < first ? first : second;
          a[lane] = first != first ? second : low;
          b[lane] = first != first ? first : high;
        }
      }
      const T* middle = values + size * size / 2 * lanes;
      for (std::int64_t lane = 0; lane < count; ++lane) median(y, x + lane) = middle[lane];
    }
  }
  template <class T>
  static void network_row(const cuboid::sdk::View<const T, 2>& image, const cuboid::sdk::View<T, 2>& median,
                          std::int64_t y, std::int64_t size, const Network& network, T* values) {
    network_body(image, median, y, size, network, values);
  }
  template <class T>
  [[gnu::target("avx2")]] static void network_row_avx2(const cuboid::sdk::View<const T, 2>& image,
                                                       const cuboid::sdk::View<T, 2>& median, std::int64_t y,
                                                       std::int64_t size, const Network& network, T* values) {
    network_body(image, median, y, size, network, values);
  }

  template <class T>
  static void select_all(cuboid::sdk::Call& call, const cuboid::sdk::View<const T, 2>& image,
                         const cuboid::sdk::View<T, 2>& median, std::int64_t size) {
    const auto window = call.scratch<T>(size * size);
    T* middle = window.data() + size * size / 2;
    for (std::int64_t y = 0; y < median.extent(0); ++y) {
      call.poll();
      for (std::int64_t x = 0; x < median.extent(1); ++x) {
        T* to = window.data();
        for (std::int64_t i = 0; i < size; ++i)
          for (std::int64_t j = 0; j < size; ++j) *to++ = image(y + i, x + j);
        std::nth_element(window.begin(), middle, window.end(), [](T a, T b) { return before(a, b); });
        median(y, x) = *middle;
      }
    }
  }
};

}  // namespace filter
