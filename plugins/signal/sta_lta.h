// signal.sta_lta: onsets of events in seismic traces and the like, where the short-time average of a signal's energy rises
// above its long-time average. Method: Allen, Automatic earthquake recognition and timing from single traces, BSSA 68
// (1978), in the form of the classic STA/LTA ratio.
#pragma once
#include <algorithm>
#include <cuboid/plugin.hpp>

namespace signals {

// Sums of squares over any stretch of a signal, added up in pieces whose borders are multiples of kPiece in the whole
// signal: the same bits whatever block the stretch is computed in.
template <class T>
class Energy {
 public:
  static constexpr std::int64_t kPiece = 64;
  Energy(cuboid::sdk::Call& call, const cuboid::sdk::View<const T, 1>& signal)
      : signal_(signal),
        first_((signal.origin(0) + kPiece - 1) / kPiece),
        pieces_(call.scratch<double>(signal.extent(0) / kPiece + 1)) {
    const std::int64_t last = (signal.origin(0) + signal.extent(0)) / kPiece;
    for (std::int64_t piece = first_; piece < last; ++piece)
      pieces_[std::size_t(piece - first_)] = plain(piece * kPiece, (piece + 1) * kPiece);
  }
  // Of the samples begin <= t < end of the whole signal, which must be in view.
  double sum(std::int64_t begin, std::int64_t end) const {
    const std::int64_t from = (begin + kPiece - 1) / kPiece, to = end / kPiece;
    if (from >= to) return plain(begin, end);
    double total = plain(begin, from * kPiece);
    for (std::int64_t piece = from; piece < to; ++piece) total += pieces_[std::size_t(piece - first_)];
    return total + plain(to * kPiece, end);
  }

 private:
  double plain(std::int64_t begin, std::int64_t end) const {
    double total = 0;
    for (std::int64_t t = begin; t < end; ++t) {
      const double value = double(signal_(t - signal_.origin(0)));
      total += value * value;
    }
    return total;
  }

  const cuboid::sdk::View<const T, 1>& signal_;
  std::int64_t first_;
  cuboid::sdk::Span<double> pieces_;
};

struct StaLta {
  static constexpr auto meta =
      cuboid::decl(
          "signal.sta_lta/1", "signal:T[t] -> picks:f8[<=ceil(t/2), 2]",
          "Onsets: samples at which the mean square of the last `short` samples, over that of the last `long` ones, "
          "rises to the threshold. Rows t (index in the whole signal), ratio. Before `long` samples there is none.")
          .types("T=f4|f8|i2|i4")
          .param(cuboid::sdk::integer("short", 50).min(1).max(1 << 20).help("Samples of the short-time average."))
          .param(cuboid::sdk::integer("long", 1000).min(1).max(1 << 20).help("Samples of the long-time average."))
          .param(cuboid::sdk::real("threshold", 3).min(0).help("The ratio that makes an onset."))
          .halo("t", "long")
          .modes("clip")
          .output("picks", cuboid::sdk::Delivery::trim, "ceil(t/1000)")
          .call_bytes("8*((t + 2*halo_t)/64 + 1) + 64", cuboid::sdk::bound)
          .outside_bytes("0", cuboid::sdk::exact)
          .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe)
          .splittable("t")
          .example(
              R"({"params":{"short":1,"long":4,"threshold":2},"in":[{"dtype":"f8","shape":[8],)"
              R"("data":[1,1,1,1,3,1,1,5]}],"out":[{"dtype":"f8","shape":[2,2],"data":[4,3, 7,2.7777777777777777]}],)"
              R"("tolerance":1e-15})");

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto signal = call.in<T, 1>(0);
    auto picks = call.rows<double>(0);
    const std::int64_t narrow = call.integer("short"), wide = call.integer("long");
    const double threshold = call.real("threshold");
    const Energy<T> energy(call, signal);
    const auto ratio = [&](std::int64_t t) {
      if (t + 1 < std::max(wide, narrow)) return 0.0;
      const double mean = energy.sum(t + 1 - wide, t + 1) / double(wide);
      return mean > 0 ? energy.sum(t + 1 - narrow, t + 1) / double(narrow) / mean : 0.0;
    };
    if (narrow > wide) throw cuboid::sdk::Failure(CUBOID_E_PARAM, "signal.sta_lta: short must not be above long");
    const std::int64_t begin = signal.origin(0) + signal.inner_origin(0), end = begin + signal.inner_extent(0);
    double before = begin > 0 ? ratio(begin - 1) : 0;
    for (std::int64_t t = begin; t < end; ++t) {
      if ((t - begin) % 4096 == 0) call.poll();
      const double now = ratio(t);
      if (now >= threshold && !(before >= threshold)) picks.add({double(t), now});
      before = now;
    }
    picks.finish();
  }
};

}  // namespace signals
