// filter.sobel: the Sobel operator, as scipy.ndimage.sobel.
#pragma once
#include <cuboid/plugin.hpp>

namespace filter {

struct Sobel {
  static constexpr auto meta =
      cuboid::decl("filter.sobel/1", "image:T[y,x] -> edges:T[y,x]",
                   "Sobel operator: scipy.ndimage.sobel(image, axis) along y (axis 0) or x (axis 1), or the magnitude "
                   "sqrt(sy^2 + sx^2) of both. With boundary constant the image is padded, not, as in SciPy, the "
                   "derivative too.")
          .types("T=f4|f8")
          .param(cuboid::sdk::text("axis", "magnitude").choices("magnitude|y|x").help("Direction of the derivative."))
          .halo("y", "1")
          .halo("x", "1")
          .modes("reflect|nearest|constant|wrap")
          .call_bytes("0", cuboid::sdk::exact)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("y, x")
          .example(R"({"params":{"axis":"x"},"in":[{"dtype":"f8","shape":[2,3],"data":[0,1,3,0,1,3]}],)"
                   R"("out":[{"dtype":"f8","shape":[2,3],"data":[4,12,8,4,12,8]}]})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto image = call.in<T, 2>(0);
    const auto edges = call.out<T, 2>(0);
    if (image.extent(0) != edges.extent(0) + 2 || image.extent(1) != edges.extent(1) + 2)
      throw cuboid::sdk::Failure(CUBOID_E_SHAPE, "filter.sobel: the image does not come with a halo of one pixel");
    const auto axis = call.text("axis");
    const bool contiguous = image.unit_stride() && edges.unit_stride();
    for (std::int64_t y = 0; y < edges.extent(0); ++y) {
      call.poll();
      const auto along = axis == "y" ? row<T, 'y', false> : axis == "x" ? row<T, 'x', false> : row<T, 'm', false>;
      const auto fast = axis == "y" ? row<T, 'y', true> : axis == "x" ? row<T, 'x', true> : row<T, 'm', true>;
      (contiguous ? fast : along)(image, edges, y);
    }
  }

 private:
  // The 3 x 3 neighbours of one pixel are differenced along one axis first, then summed as 1 2 1 along the other:
  // scipy's order, so that both round alike.
  template <class T, char kAxis, bool kContiguous>
  static void row(const cuboid::sdk::View<const T, 2>& image, const cuboid::sdk::View<T, 2>& edges, std::int64_t y) {
    const T *above = image.row(y), *here = image.row(y + 1), *below = image.row(y + 2);
    T* out = edges.row(y);
    const std::int64_t from = kContiguous ? 1 : image.stride_bytes(1) / std::int64_t(sizeof(T));
    const std::int64_t to = kContiguous ? 1 : edges.stride_bytes(1) / std::int64_t(sizeof(T));
    const auto blur = [](T first, T middle, T last) { return T(double(middle) * 2 + (double(first) + double(last))); };
    for (std::int64_t x = 0; x < edges.extent(1); ++x) {
      const std::int64_t a = x * from, b = (x + 1) * from, c = (x + 2) * from;
      const T down = kAxis == 'x' ? T() : blur(below[a] - above[a], below[b] - above[b], below[c] - above[c]);
      // Along x scipy differences rows of the image, then sums down the columns; a sum of differences either way.
      const T right = kAxis == 'y' ? T() : blur(above[c] - above[a], here[c] - here[a], below[c] - below[a]);
      out[x * to] = kAxis == 'y' ? down : kAxis == 'x' ? right : std::sqrt(down * down + right * right);
    }
  }
};

}  // namespace filter
