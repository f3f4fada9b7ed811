// xtensor.hpp - views of plugin.hpp as xtensor expressions. Optional; needs xtensor. No copy is made.
//
//   const auto image = cuboid::sdk::adapt(call.in<double, 2>(0));         // any strides
//   auto row = cuboid::sdk::adapt_row(call.out<double, 2>(0), y);         // contiguous, so assignments become vector
//   code xt::noalias(row) = xt::sqrt(adapt_row(image_view, y));
//
// Assign to contiguous rows, and with xt::noalias: an expression over strided views runs about three times as long, one
// without noalias six times. Temporaries of xtensor come from malloc and count as outside_bytes; lazy expressions over
// adapted views make none.
#ifndef CUBOID_XTENSOR_HPP
#define CUBOID_XTENSOR_HPP

#if defined(__GNUC__) && !defined(__clang__) && __cplusplus > 201703L && defined(__cpp_template_template_args)
#error "xtensor gives wrong results with these flags: add -fno-new-ttp-matching (the CMake target cuboid::sdk does)"
#endif

#include <xtensor/xadapt.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>

#include "plugin.hpp"

namespace cuboid::sdk {

// The whole view. Throws Failure where a stride is no multiple of the element size.
template <class T, int R>
auto adapt(const View<T, R>& view) {
  std::array<std::size_t, std::size_t(R)> shape{};
  std::array<std::ptrdiff_t, std::size_t(R)> strides{};
  for (int d = 0; d < R; ++d) {
    if (view.stride_bytes(d) % std::int64_t(sizeof(T)) != 0)
      throw Failure(CUBOID_E_UNSUPPORTED, "a stride that is no multiple of the element size");
    shape[std::size_t(d)] = std::size_t(view.extent(d));
    // xtensor wants the stride of an axis with one element to be 0.
    strides[std::size_t(d)] = view.extent(d) == 1 ? 0 : view.stride_bytes(d) / std::int64_t(sizeof(T));
  }
  return xt::adapt(static_cast<T*>(view.raw().data), std::size_t(view.size()), xt::no_ownership(), shape, strides);
}

// `count` contiguous elements.
template <class T>
auto adapt_row(T* data, std::int64_t count) {
  return xt::adapt(data, std::size_t(count), xt::no_ownership(), std::array<std::size_t, 1>{std::size_t(count)});
}
// The row at the given leading indices. Throws Failure where rows are not contiguous.
template <class T, int R, class... I>
auto adapt_row(const View<T, R>& view, I... i) {
  if (!view.unit_stride()) throw Failure(CUBOID_E_UNSUPPORTED, "adapt_row: rows of the view are not contiguous");
  return adapt_row(view.row(i...), view.extent(R - 1));
}

}  // namespace cuboid::sdk

#endif  // CUBOID_XTENSOR_HPP
