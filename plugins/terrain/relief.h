// terrain.slope and terrain.hillshade: derivatives of an elevation model, a row at a time on xtensor expressions.
#pragma once
#include <cuboid/plugin.hpp>
#include <cuboid/xtensor.hpp>

namespace terrain {

inline constexpr double kDegrees = 57.295779513082320876798;  // of one radian

// The rows that a pixel row's central differences need, as doubles without the halo along x.
class Stencil {
  auto row(const double* data) const { return cuboid::sdk::adapt_row(data, width_); }

 public:
  template <class T>
  Stencil(cuboid::sdk::Call& call, const cuboid::sdk::View<const T, 2>& height, std::int64_t width)
      : width_(width),
        north_(call.scratch<double>(width)),
        south_(call.scratch<double>(width)),
        here_(call.scratch<double>(width + 2)) {
    if (height.extent(1) != width + 2)
      throw cuboid::sdk::Failure(CUBOID_E_SHAPE, "terrain: the elevation does not come with a halo of one cell");
  }
  // For the row y of the interior.
  template <class T>
  void load(const cuboid::sdk::View<const T, 2>& height, std::int64_t y) {
    copy(height, y, 1, north_);
    copy(height, y + 1, 0, here_);
    copy(height, y + 2, 1, south_);
  }
  // Rise towards the east and the north over one cell (rows run from north to south); lazy expressions on these rows.
  auto east(double cell) const { return (row(here_.data() + 2) - row(here_.data())) * (0.5 / cell); }
  auto north(double cell) const { return (row(north_.data()) - row(south_.data())) * (0.5 / cell); }

 private:
  template <class T>
  static void copy(const cuboid::sdk::View<const T, 2>& height, std::int64_t y, std::int64_t from,
                   const cuboid::sdk::Span<double>& to) {
    for (std::size_t x = 0; x < to.size(); ++x) to[x] = double(height(y, from + std::int64_t(x)));
  }

  std::int64_t width_;
  cuboid::sdk::Span<double> north_, south_, here_;
};

// Fills the output row by row: `formula(stencil)` is the expression of one row.
template <class T, class Formula>
void fill_rows(cuboid::sdk::Call& call, const Formula& formula) {
  const auto height = call.in<T, 2>(0);
  const auto out = call.out<double, 2>(0);
  if (height.extent(0) != out.extent(0) + 2)
    throw cuboid::sdk::Failure(CUBOID_E_SHAPE, "terrain: the elevation does not come with a halo of one cell");
  Stencil stencil(call, height, out.extent(1));
  const auto spare = call.scratch<double>(out.extent(1));
  for (std::int64_t y = 0; y < out.extent(0); ++y) {
    call.poll();
    stencil.load(height, y);
    double* to = out.begin_row(spare.data(), y);
    auto row = cuboid::sdk::adapt_row(to, out.extent(1));
    xt::noalias(row) = formula(stencil);
    out.end_row(to, y);
  }
}

struct Slope {
  static constexpr auto meta =
      cuboid::decl(
          "terrain.slope/1", "height:T[y,x] -> slope:f8[y,x]",
          "Slope in degrees: atan(sqrt(e^2 + n^2)) of the central differences e and n of the elevation along x "
          "and y, divided by twice the cell size.")
          .types("T=f4|f8|i2|i4|u1|u2")
          .param(cuboid::sdk::real("cell_size", 1).min(1e-9).help("Edge of a cell, in the unit of the elevation."))
          .halo("y", "1")
          .halo("x", "1")
          .modes("nearest|reflect|wrap")
          .call_bytes("8*(4*x + 2) + 4*64", cuboid::sdk::bound)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("y, x")
          .example(R"({"in":[{"dtype":"f8","shape":[1,3],"data":[0,1,2]}],)"
                   R"("out":[{"dtype":"f8","shape":[1,3],"data":[26.565051177077990,45,26.565051177077990]}],)"
                   R"("tolerance":1e-12})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const double cell = call.real("cell_size");
    fill_rows<T>(call, [cell](const Stencil& s) {
      return xt::atan(xt::sqrt(xt::square(s.east(cell)) + xt::square(s.north(cell)))) * kDegrees;
    });
  }
};

struct Hillshade {
  static constexpr auto meta =
      cuboid::decl(
          "terrain.hillshade/1", "height:T[y,x] -> shade:f8[y,x]",
          "Brightness 0 to 255 of the relief under a light from `azimuth` (degrees clockwise from north; rows run "
          "from north to south) and `altitude` (degrees above the horizon): 255 max(0, n.l), n the unit normal of "
          "the central differences, l the direction of the light.")
          .types("T=f4|f8|i2|i4|u1|u2")
          .param(cuboid::sdk::real("azimuth", 315).min(0).max(360).help("Where the light comes from, degrees."))
          .param(cuboid::sdk::real("altitude", 45).min(0).max(90).help("Height of the light, degrees."))
          .param(cuboid::sdk::real("cell_size", 1).min(1e-9).help("Edge of a cell, in the unit of the elevation."))
          .halo("y", "1")
          .halo("x", "1")
          .modes("nearest|reflect|wrap")
          .call_bytes("8*(4*x + 2) + 4*64", cuboid::sdk::bound)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("y, x")
          .example(R"({"params":{"altitude":90},"in":[{"dtype":"i2","shape":[2,2],"data":[7,7,7,7]}],)"
                   R"("out":[{"dtype":"f8","shape":[2,2],"data":[255,255,255,255]}],"tolerance":1e-12})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const double azimuth = call.real("azimuth") / kDegrees, altitude = call.real("altitude") / kDegrees;
    const double east = std::sin(azimuth) * std::cos(altitude), north = std::cos(azimuth) * std::cos(altitude);
    const double up = std::sin(altitude), cell = call.real("cell_size");
    fill_rows<T>(call, [=](const Stencil& s) {
      return 255 * xt::fmax(0.0, (up - east * s.east(cell) - north * s.north(cell)) /
                                     xt::sqrt(1 + xt::square(s.east(cell)) + xt::square(s.north(cell))));
    });
  }
};

}  // namespace terrain
