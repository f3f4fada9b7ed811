// sky.sources: bright local maxima of an image and what can be measured in a window around each.
#pragma once
#include <algorithm>
#include <cuboid/plugin.hpp>

namespace sky {

// A window around one pixel, clipped at the array (mode clip leaves nothing beyond it in the view): half-open.
struct Window {
  std::int64_t y0, y1, x0, x1;
  template <class T>
  Window(const cuboid::sdk::View<const T, 2>& image, std::int64_t y, std::int64_t x, std::int64_t radius)
      : y0(std::max<std::int64_t>(y - radius, 0)),
        y1(std::min(y + radius + 1, image.extent(0))),
        x0(std::max<std::int64_t>(x - radius, 0)),
        x1(std::min(x + radius + 1, image.extent(1))) {}
  std::int64_t size() const { return (y1 - y0) * (x1 - x0); }
};

// Greater than everything before it in C order and not less than what follows: of equal neighbours the first counts, so
// that two peaks are more than `radius` apart along an axis.
template <class T>
bool is_peak(const cuboid::sdk::View<const T, 2>& image, const Window& window, std::int64_t y, std::int64_t x) {
  const T value = image(y, x);
  if (x > window.x0 && !(value > image(y, x - 1))) return false;  // most pixels end here
  for (std::int64_t i = window.y0; i < window.y1; ++i)
    for (std::int64_t j = window.x0; j < window.x1; ++j) {
      const T other = image(i, j);
      const bool precedes = i < y || (i == y && j < x);
      if (precedes ? !(value > other) : value < other) return false;
    }
  return true;
}

struct Sources {
  static constexpr auto meta =
      cuboid::decl(
          "sky.sources/1", "image:T[y,x] -> sources:f8[<=ceil(y/(radius+1))*ceil(x/(radius+1)), 6]",
          "Sources: pixels above the threshold that are the greatest of their window (of equal ones the first in "
          "C order). Rows y, x (pixels of the whole image), area (window pixels above the threshold), peak, flux "
          "(sum of value minus background over these pixels), background (median of the window). Windows are "
          "(2 radius + 1)^2 pixels, clipped at the image.")
          .types("T=f4|f8|i2|i4|u1|u2")
          .param(cuboid::sdk::real("threshold").help("Least value of a source, exclusive, in the unit of the image."))
          .param(cuboid::sdk::integer("radius", 5).min(0).max(1000).help("Half width of the window in pixels."))
          .halo("y", "radius")
          .halo("x", "radius")
          .modes("clip")
          .call_bytes("size_T*(2*radius+1)*(2*radius+1) + 64", cuboid::sdk::bound)
          .outside_bytes("0", cuboid::sdk::exact)
          .output("sources", cuboid::sdk::Delivery::trim, "ceil(y*x/2000)")
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("y")
          .example(R"({"params":{"threshold":4,"radius":1},"in":[{"dtype":"f8","shape":[3,4],)"
                   R"("data":[1,1,1,1, 1,9,5,1, 1,1,1,1]}],)"
                   R"("out":[{"dtype":"f8","shape":[1,6],"data":[1,1,2,9,12,1]}]})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto image = call.in<T, 2>(0);
    auto rows = call.rows<double>(0);
    const double threshold = call.real("threshold");
    const std::int64_t radius = call.integer("radius");
    const auto values = call.scratch<T>((2 * radius + 1) * (2 * radius + 1));
    const std::int64_t y0 = image.inner_origin(0), y1 = y0 + image.inner_extent(0);
    const std::int64_t x0 = image.inner_origin(1), x1 = x0 + image.inner_extent(1);
    for (std::int64_t y = y0; y < y1; ++y) {
      call.poll();
      for (std::int64_t x = x0; x < x1; ++x) {
        if (!(double(image(y, x)) > threshold)) continue;
        const Window window(image, y, x, radius);
        if (is_peak(image, window, y, x)) add(rows, image, window, y, x, threshold, values.data());
      }
    }
    rows.finish();
  }

 private:
  template <class T>
  static void add(cuboid::sdk::Rows<double>& rows, const cuboid::sdk::View<const T, 2>& image, const Window& window,
                  std::int64_t y, std::int64_t x, double threshold, T* values) {
    T* end = values;
    bool nan = false;
    for (std::int64_t i = window.y0; i < window.y1; ++i)
      for (std::int64_t j = window.x0; j < window.x1; ++j) {
        nan = nan || image(i, j) != image(i, j);
        *end++ = image(i, j);
      }
    const double background = nan ? std::numeric_limits<double>::quiet_NaN() : median(values, end);
    double area = 0, flux = 0;
    for (std::int64_t i = window.y0; i < window.y1; ++i)
      for (std::int64_t j = window.x0; j < window.x1; ++j) {
        const double value = double(image(i, j));
        if (!(value > threshold)) continue;
        area += 1;
        flux += value - background;
      }
    rows.add({double(image.origin(0) + y), double(image.origin(1) + x), area, double(image(y, x)), flux, background});
  }

  // As numpy.median: the mean of the two middle ones of an even number. Reorders; no NaN.
  template <class T>
  static double median(T* begin, T* end) {
    const std::int64_t size = end - begin;
    T* middle = begin + size / 2;
    std::nth_element(begin, middle, end);
    if (size % 2) return double(*middle);
    return (double(*std::max_element(begin, middle)) + double(*middle)) / 2;
  }
};

}  // namespace sky
