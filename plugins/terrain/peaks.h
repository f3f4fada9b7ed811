// terrain.peaks: summits of an elevation model.
#pragma once
#include <algorithm>
#include <cuboid/plugin.hpp>

namespace terrain {

struct Peaks {
  static constexpr auto meta =
      cuboid::decl(
          "terrain.peaks/1", "height:T[y,x] -> peaks:f8[<=ceil(y/(radius+1))*ceil(x/(radius+1)), 3]",
          "Peaks: cells not below min_height that are the highest of their (2 radius + 1)^2 window, clipped at "
          "the array; of equal ones the first in C order. Rows y, x (cells of the whole array), elevation.")
          .types("T=f4|f8|i2|i4|u1|u2")
          .param(cuboid::sdk::integer("radius", 5).min(1).max(1000).help("Half width of the window in cells."))
          .param(cuboid::sdk::real("min_height", 0).help("Least elevation of a peak."))
          .halo("y", "radius")
          .halo("x", "radius")
          .modes("clip")
          .call_bytes("0", cuboid::sdk::exact)
          .outside_bytes("0", cuboid::sdk::exact)
          .output("peaks", cuboid::sdk::Delivery::trim, "ceil(y*x/1000)")
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("y")
          .example(R"({"params":{"radius":1},"in":[{"dtype":"i2","shape":[2,3],"data":[1,5,5, 0,1,1]}],)"
                   R"("out":[{"dtype":"f8","shape":[1,3],"data":[0,1,5]}]})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto height = call.in<T, 2>(0);
    auto rows = call.rows<double>(0);
    const double least = call.real("min_height");
    const std::int64_t radius = call.integer("radius");
    for (std::int64_t i = 0; i < height.inner_extent(0); ++i) {
      call.poll();
      for (std::int64_t j = 0; j < height.inner_extent(1); ++j) {
        const std::int64_t y = height.inner_origin(0) + i, x = height.inner_origin(1) + j;
        if (double(height(y, x)) >= least && is_highest(height, y, x, radius))
          rows.add({double(height.origin(0) + y), double(height.origin(1) + x), double(height(y, x))});
      }
    }
    rows.finish();
  }

 private:
  template <class T>
  static bool is_highest(const cuboid::sdk::View<const T, 2>& height, std::int64_t y, std::int64_t x,
                         std::int64_t radius) {
    const T value = height(y, x);
    if (x > 0 && !(value > height(y, x - 1))) return false;  // most cells end here
    const std::int64_t y1 = std::min(y + radius + 1, height.extent(0)), x1 = std::min(x + radius + 1, height.extent(1));
    for (std::int64_t i = std::max<std::int64_t>(y - radius, 0); i < y1; ++i)
      for (std::int64_t j = std::max<std::int64_t>(x - radius, 0); j < x1; ++j) {
        const bool precedes = i < y || (i == y && j < x);
        if (precedes ? !(value > height(i, j)) : value < height(i, j)) return false;
      }
    return true;
  }
};

}  // namespace terrain
