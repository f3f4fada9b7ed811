// stats.histogram2d: how often pairs of values occur in two images; a reduction over blocks with a state.
#pragma once
#include <algorithm>
#include <cuboid/plugin.hpp>
#include <vector>

namespace stats {

struct Histogram2d {
  // The edges of the bins of one image, as numpy.linspace makes them.
  struct Edges {
    std::pmr::vector<double> at;
    double per_unit;
    Edges(double low, double high, std::int64_t bins, std::pmr::memory_resource* memory)
        : at(std::size_t(bins) + 1, memory), per_unit(double(bins) / (high - low)) {
      if (!(high > low)) throw cuboid::sdk::Failure(CUBOID_E_PARAM, "stats.histogram2d: max must be above min");
      const double step = (high - low) / double(bins);
      for (std::int64_t i = 0; i < bins; ++i) at[std::size_t(i)] = double(i) * step + low;
      at.back() = high;
    }
    // The bin of a value, or -1: half-open but for the last, which holds its upper edge. The quotient may be off by one
    // bin; the edges decide.
    std::int64_t find(double value) const {
      if (!(value >= at.front() && value <= at.back())) return -1;
      const auto last = std::int64_t(at.size()) - 2;
      auto bin = std::min(std::int64_t((value - at.front()) * per_unit), last);
      if (value < at[std::size_t(bin)])
        --bin;
      else if (bin < last && value >= at[std::size_t(bin) + 1])
        ++bin;
      return bin;
    }
  };
  struct State {
    Edges a, b;
    explicit State(cuboid::sdk::Call& call)
        : a(call.real("min_a"), call.real("max_a"), call.integer("bins_a"), call.memory()),
          b(call.real("min_b"), call.real("max_b"), call.integer("bins_b"), call.memory()) {}
  };

  static constexpr auto meta =
      cuboid::decl(
          "stats.histogram2d/1", "a:T[y,x], b:T[y,x] -> counts:i8[bins_a, bins_b]",
          "Counts of the pairs (a, b) in equal bins between min and max, as numpy.histogram2d with these bins and "
          "ranges: bins are half-open but for the last; pairs outside, or with NaN, are not counted.")
          .types("T=f4|f8|i2|i4|u1|u2")
          .param(cuboid::sdk::integer("bins_a", 10).min(1).max(4096))
          .param(cuboid::sdk::integer("bins_b", 10).min(1).max(4096))
          .param(cuboid::sdk::real("min_a"))
          .param(cuboid::sdk::real("max_a"))
          .param(cuboid::sdk::real("min_b"))
          .param(cuboid::sdk::real("max_b"))
          .combine("counts:i8[bins_a, bins_b]")
          .call_bytes("0", cuboid::sdk::exact)
          .state_bytes("8*(bins_a + bins_b + 2) + 6*64", cuboid::sdk::bound)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .example(
              R"({"params":{"bins_a":2,"bins_b":2,"min_a":0,"max_a":2,"min_b":0,"max_b":2},)"
              R"("in":[{"dtype":"f8","shape":[1,4],"data":[0,1,2,3]},{"dtype":"f8","shape":[1,4],"data":[0,0,2,1]}],)"
              R"("out":[{"dtype":"i8","shape":[2,2],"data":[1,0,1,1]}]})");

  static void init(cuboid::sdk::Call&, cuboid::sdk::Partial partial) {
    const auto counts = partial.at<std::int64_t, 2>(0);
    std::fill_n(counts.row(0), counts.size(), 0);
  }

  static void accumulate(cuboid::sdk::Call& call, cuboid::sdk::Partial partial) {
    cuboid::sdk::for_type<Histogram2d>(call, [&](auto typed) { count<decltype(typed)>(call, partial); });
  }

  static void merge(cuboid::sdk::Call&, cuboid::sdk::Partial into, cuboid::sdk::Partial from) {
    const auto to = into.at<std::int64_t, 2>(0);
    const auto counts = from.at<std::int64_t, 2>(0);
    for (std::int64_t i = 0; i < to.size(); ++i) to.row(0)[i] += counts.row(0)[i];
  }

  static void finalize(cuboid::sdk::Call& call, cuboid::sdk::Partial partial) {
    const auto counts = partial.at<std::int64_t, 2>(0);
    const auto out = call.out<std::int64_t, 2>(0);
    for (std::int64_t i = 0; i < out.extent(0); ++i)
      for (std::int64_t j = 0; j < out.extent(1); ++j) out(i, j) = counts(i, j);
  }

 private:
  template <class T>
  static void count(cuboid::sdk::Call& call, cuboid::sdk::Partial partial) {
    const auto a = call.in<T, 2>(0), b = call.in<T, 2>(1);
    const auto counts = partial.at<std::int64_t, 2>(0);
    const State& state = call.state<State>();
    for (std::int64_t y = 0; y < a.extent(0); ++y) {
      call.poll();
      for (std::int64_t x = 0; x < a.extent(1); ++x) {
        const std::int64_t i = state.a.find(double(a(y, x))), j = state.b.find(double(b(y, x)));
        if (i >= 0 && j >= 0) ++counts(i, j);
      }
    }
  }
};

}  // namespace stats
