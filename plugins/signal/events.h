// signal.events: stretches of a signal above a threshold, written in slabs, so that the list never has to fit in
// memory.
#pragma once
#include <algorithm>
#include <cuboid/plugin.hpp>

namespace signals {

struct Events {
  static constexpr std::int64_t kSlab = 256;  // rows
  static constexpr auto meta =
      cuboid::decl(
          "signal.events/1", "signal:T[t] -> events:f8[<=ceil(t/2), 4]",
          "Events: runs of samples above the threshold. Rows start (index in the whole signal), length, peak, sum. "
          "A run is followed for `longest` samples and cut there; what is left of it is no event of its own.")
          .types("T=f4|f8|i2|i4|u1|u2")
          .param(cuboid::sdk::real("threshold").help("Least value of an event's sample, exclusive."))
          .param(cuboid::sdk::integer("longest", 4096).min(1).max(1 << 24).help("Samples that one event may have."))
          .halo("t", "longest")
          .modes("clip")
          .output("events", cuboid::sdk::Delivery::push, "ceil(t/100)", "256")
          .call_bytes("256*4*8", cuboid::sdk::exact)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("t")
          .example(R"({"params":{"threshold":1},"in":[{"dtype":"f8","shape":[6],"data":[2,0,3,4,1,5]}],)"
                   R"("out":[{"dtype":"f8","shape":[3,4],"data":[0,1,2,2, 2,2,4,7, 5,1,5,5]}]})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto signal = call.in<T, 1>(0);
    const double threshold = call.real("threshold");
    const std::int64_t longest = call.integer("longest");
    const auto slab = call.scratch<double>(kSlab * 4);
    std::int64_t rows = 0;
    const std::int64_t begin = signal.inner_origin(0), end = begin + signal.inner_extent(0);
    const auto above = [&](std::int64_t t) { return double(signal(t)) > threshold; };
    for (std::int64_t t = begin; t < end; ++t) {
      if ((t - begin) % 65536 == 0) call.poll();
      if (!above(t) || (t > 0 && above(t - 1)))
        continue;  // with clip, 0 is the start of the signal or lies in the halo
      double peak = double(signal(t)), sum = 0;
      std::int64_t length = 0;
      for (; length < longest && t + length < signal.extent(0) && above(t + length); ++length) {
        const double value = double(signal(t + length));
        peak = std::max(peak, value);
        sum += value;
      }
      const double row[] = {double(signal.origin(0) + t), double(length), peak, sum};
      std::copy_n(row, 4, slab.data() + 4 * rows);
      if (++rows < kSlab) continue;
      call.push(0, slab.data(), rows);
      rows = 0;
    }
    if (rows > 0) call.push(0, slab.data(), rows);
  }
};

}  // namespace signals
