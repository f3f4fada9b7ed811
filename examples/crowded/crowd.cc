// crowd.sources: a catalogue in which overlapping sources share the light between them.
//
// Its memory estimate is an honest guess that is too low where sources crowd: a source keeps one profile per neighbour
// whose cut-out overlaps its own, so memory grows with the square of the density, and the author measured an ordinary
// field. The manifest says `guess`; the engine projects the number, enforces it, and gives more where it was too low.
#include <algorithm>
#include <cmath>
#include <cuboid/plugin.hpp>
#include <memory_resource>
#include <vector>

using namespace cuboid::sdk;

namespace {

struct Source {
  std::int64_t y, x;  // in the view
  double peak, flux;
  std::pmr::vector<std::int32_t> neighbours;  // itself first
  std::pmr::vector<double> profiles;          // one plane per entry of `neighbours`, over this source's cut-out
};

struct Crowd {
  static constexpr auto meta =
      decl("crowd.sources/1", "image:T[y,x] -> sources:f8[<=ceil(y/(radius+1))*ceil(x/(radius+1)), 6]",
           "Sources above the threshold with the light of overlapping ones divided: rows y, x (pixels of the whole "
           "image), "
           "peak, flux (the source's share of its (2 stamp + 1)^2 cut-out), total (all light there), neighbours "
           "(sources "
           "that overlap it). Light is shared in proportion to Gaussians of width `sigma`, scaled by the fluxes found "
           "in a "
           "first round.")
          .types("T=f4|f8|u1|u2|i2|i4")
          .param(real("threshold").help("Least value of a source, exclusive."))
          .param(integer("radius", 4).min(1).max(100).help("A source is the greatest pixel within this distance."))
          .param(integer("stamp", 12).min(1).max(100).help("Half width of a cut-out in pixels."))
          .param(real("sigma", 2.5).min(0.1).max(100).help("Width of a source's profile in pixels."))
          .halo("y", "4*stamp + radius")  // two overlaps away, and the window of a peak there
          .halo("x", "4*stamp + radius")
          .modes("clip")
          .call_bytes("32768 + (y+2*halo_y)*(x+2*halo_x)/1000 * 4*8*(2*stamp+1)*(2*stamp+1)", guess)
          .outside_bytes("0", exact)
          .output("sources", Delivery::trim, "ceil(y*x/1000)")
          .flags(pure | reentrant | fork_safe);

  template <class T>
  static void run(Call& c) {
    const auto image = c.in<T, 2>(0);
    auto rows = c.rows<double>(0);
    std::pmr::vector<Source> sources(c.memory());
    find(c, image, sources);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      c.poll();
      prepare(c, sources, i);
    }
    for (int round = 0; round < 2; ++round) share(image, sources, c.integer("stamp"));
    for (const Source& s : sources) {
      if (!interior(image, s)) continue;
      rows.add({double(image.origin(0) + s.y), double(image.origin(1) + s.x), s.peak, s.flux,
                total(image, s, c.integer("stamp")), double(s.neighbours.size() - 1)});
    }
    rows.finish();
  }

 private:
  template <class T>
  static bool interior(const View<const T, 2>& image, const Source& s) {
    return s.y >= image.inner_origin(0) && s.y < image.inner_origin(0) + image.inner_extent(0) &&
           s.x >= image.inner_origin(1) && s.x < image.inner_origin(1) + image.inner_extent(1);
  }

  template <class T>
  static bool is_peak(const View<const T, 2>& image, std::int64_t y, std::int64_t x, std::int64_t radius) {
    for (std::int64_t i = std::max<std::int64_t>(y - radius, 0); i < std::min(y + radius + 1, image.extent(0)); ++i)
      for (std::int64_t j = std::max<std::int64_t>(x - radius, 0); j < std::min(x + radius + 1, image.extent(1)); ++j) {
        const bool precedes = i < y || (i == y && j < x);
        if (precedes ? !(image(y, x) > image(i, j)) : image(y, x) < image(i, j)) return false;
      }
    return true;
  }

  // All peaks that can matter to the interior: those within two overlaps of it.
  template <class T>
  static void find(Call& c, const View<const T, 2>& image, std::pmr::vector<Source>& sources) {
    const double threshold = c.real("threshold");
    const std::int64_t radius = c.integer("radius"), reach = 4 * c.integer("stamp");
    const auto from = [&](int d) { return std::max<std::int64_t>(image.inner_origin(d) - reach, 0); };
    const auto to = [&](int d) {
      return std::min(image.inner_origin(d) + image.inner_extent(d) + reach, image.extent(d));
    };
    for (std::int64_t y = from(0); y < to(0); ++y)
      for (std::int64_t x = from(1); x < to(1); ++x) {
        const double value = double(image(y, x));
        if (!(value > threshold) || !is_peak(image, y, x, radius)) continue;
        sources.push_back(
            {y, x, value, value, std::pmr::vector<std::int32_t>(c.memory()), std::pmr::vector<double>(c.memory())});
      }
  }

  // The neighbours of a source, and everybody's profile over its cut-out.
  static void prepare(Call& c, std::pmr::vector<Source>& sources, std::size_t i) {
    const std::int64_t stamp = c.integer("stamp");
    Source& s = sources[i];
    s.neighbours.push_back(std::int32_t(i));
    for (std::size_t k = 0; k < sources.size(); ++k)
      if (k != i && std::abs(sources[k].y - s.y) <= 2 * stamp && std::abs(sources[k].x - s.x) <= 2 * stamp)
        s.neighbours.push_back(std::int32_t(k));
    const std::int64_t width = 2 * stamp + 1;
    s.profiles.resize(s.neighbours.size() * std::size_t(width * width));
    const double scale = -0.5 / (c.real("sigma") * c.real("sigma"));
    double* plane = s.profiles.data();
    for (const std::int32_t k : s.neighbours)
      for (std::int64_t y = s.y - stamp; y <= s.y + stamp; ++y)
        for (std::int64_t x = s.x - stamp; x <= s.x + stamp; ++x) {
          const auto dy = double(y - sources[std::size_t(k)].y), dx = double(x - sources[std::size_t(k)].x);
          *plane++ = std::exp(scale * (dy * dy + dx * dx));
        }
  }

  // One round: every pixel of a cut-out is divided in proportion to flux times profile.
  template <class T>
  static void share(const View<const T, 2>& image, std::pmr::vector<Source>& sources, std::int64_t stamp) {
    const std::int64_t width = 2 * stamp + 1;
    const auto next = [&](const Source& s) {
      double flux = 0;
      for (std::int64_t y = std::max<std::int64_t>(s.y - stamp, 0); y < std::min(s.y + stamp + 1, image.extent(0)); ++y)
        for (std::int64_t x = std::max<std::int64_t>(s.x - stamp, 0); x < std::min(s.x + stamp + 1, image.extent(1));
             ++x) {
          const double* profile = s.profiles.data() + (y - s.y + stamp) * width + (x - s.x + stamp);
          double all = 0;
          for (std::size_t n = 0; n < s.neighbours.size(); ++n)
            all += sources[std::size_t(s.neighbours[n])].flux * profile[std::int64_t(n) * width * width];
          if (all > 0) flux += double(image(y, x)) * (s.flux * profile[0] / all);
        }
      return flux;
    };
    // The old fluxes are in use until the round ends.
    std::pmr::vector<double> fluxes(sources.get_allocator().resource());
    fluxes.reserve(sources.size());
    for (const Source& s : sources) fluxes.push_back(next(s));
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i].flux = fluxes[i];
  }

  template <class T>
  static double total(const View<const T, 2>& image, const Source& s, std::int64_t stamp) {
    double sum = 0;
    for (std::int64_t y = std::max<std::int64_t>(s.y - stamp, 0); y < std::min(s.y + stamp + 1, image.extent(0)); ++y)
      for (std::int64_t x = std::max<std::int64_t>(s.x - stamp, 0); x < std::min(s.x + stamp + 1, image.extent(1)); ++x)
        sum += double(image(y, x));
    return sum;
  }
};

}  // namespace

CUBOID_PLUGIN("crowd", "1.0.0", Crowd)
