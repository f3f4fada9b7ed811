// histogram: counts between edges, as a reduction over all axes of the input; the edges are a small array of their own.
#include <algorithm>
#include <cmath>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/expansion.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

constexpr std::int64_t kMostBins = 1 << 20;

// Over the axes of x, all reduced, and, last and kept, the bins.
class HistogramKernel final : public Kernel {
 public:
  explicit HistogramKernel(KernelSpec spec) : Kernel(std::move(spec)), input_(std::get<ArraySpec>(spec_.args[0])) {
    bins_ = std::get<ArraySpec>(spec_.args[1]).extents[0].value - 1;
    outputs_.push_back({"hist", ArraySpec(kInt64, {bins_}), std::nullopt});
    form_ = {{}, false, {kInt64}, {}};
    for (std::size_t axis = 0; axis < input_.rank(); ++axis) form_.axes.push_back(axis);
  }
  std::string identity() const override { return "histogram#1"; }
  Shape domain() const override {
    Shape domain = input_.max_shape();
    domain.push_back(bins_);
    return domain;
  }
  std::vector<bool> whole_axes() const override {
    std::vector<bool> whole(input_.rank() + 1, false);
    whole.back() = true;
    return whole;
  }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    Shape block = input_chunks.at(0);
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(input_.extents[axis].value, 1));
    block.push_back(bins_);
    return block;
  }
  Box input_box(std::size_t k, const Box& block) const override {
    if (k == 1) return Box::whole({bins_ + 1});
    Box box = block;
    box.origin.pop_back();
    box.shape.pop_back();
    return box;
  }
  Shape input_extents(std::size_t k, const Shape& block) const override {
    return input_box(k, Box::whole(block)).shape;
  }
  Box output_box(std::size_t, const Box& block) const override { return {{block.origin.back()}, {block.shape.back()}}; }
  Shape output_extents(std::size_t, const Shape& block) const override { return {block.back()}; }
  const ReductionForm* reduction() const override { return &form_; }
  CallMemory memory(Phase phase, const Shape&) const override {
    CallMemory memory;
    if (phase == Phase::accumulate) memory.sure = class_bytes(static_cast<std::size_t>(bins_ + 1) * sizeof(double));
    return memory;
  }

  void run(KernelCall& call) const override {
    switch (call.phase) {
      case Phase::init: {
        const std::int64_t zero = 0;
        return fill_elements(call.out[0], reinterpret_cast<const std::byte*>(&zero));
      }
      case Phase::accumulate:
        return accumulate(call);
      case Phase::merge: {
        const ConstView from = bins_of(call.in[0]);
        const View to = bins_of(call.out[0]);
        for (std::int64_t k = 0; k < bins_; ++k) *count_at(to, k) += *count_at(from, k);
        return;
      }
      case Phase::finalize:
        return copy_elements(bins_of(call.in[0]), call.out[0]);
      case Phase::map:
        break;
    }
    throw Error(ErrorKind::invalid, "histogram: a reduction has no map phase");
  }

 private:
  template <class View>
  View bins_of(const View& state) const {
    return {state.dtype, state.data, {bins_}, {state.strides.back()}};
  }
  static std::int64_t* count_at(const View& view, std::int64_t k) {
    return reinterpret_cast<std::int64_t*>(view.data + k * view.strides[0]);
  }
  static const std::int64_t* count_at(const ConstView& view, std::int64_t k) {
    return reinterpret_cast<const std::int64_t*>(view.data + k * view.strides[0]);
  }

  void accumulate(KernelCall& call) const {
    const std::int64_t total = element_count(call.in[0].shape);
    if (total == 0) return;
    const Buffer memory = call.memory->acquire(static_cast<std::size_t>(bins_ + 1) * sizeof(double));
    auto* edges = reinterpret_cast<double*>(memory.data());
    cast_elements(call.in[1], make_view(memory.data(), kFloat64, {bins_ + 1}));
    for (std::int64_t k = 0; k < bins_; ++k)
      if (!(edges[k] <= edges[k + 1])) fail_call(spec_, "the edges of bins must be in ascending order");
    const double low = edges[0], high = edges[bins_], per_width = static_cast<double>(bins_) / (high - low);
    const View counts = bins_of(call.out[0]);
    StripReader reader;
    reader.reset(call.in[0], kFloat64);
    for (std::int64_t done = 0; done < total;) {
      const std::int64_t n = std::min(kStrip, total - done);
      const auto* x = reinterpret_cast<const double*>(reader.next(n));
      for (std::int64_t k = 0; k < n; ++k)
        if (x[k] >= low && x[k] <= high) ++*count_at(counts, bin_of(x[k], edges, low, per_width));
      done += n;
    }
  }

  // Bins are half open, but for the last. Of equal widths a guess is right or nearly; the edges decide.
  std::int64_t bin_of(double x, const double* edges, double low, double per_width) const {
    const double guess = (x - low) * per_width;
    std::int64_t bin = guess >= 0 && guess < static_cast<double>(bins_) ? static_cast<std::int64_t>(guess) : bins_ - 1;
    if (x >= edges[bin] && (x < edges[bin + 1] || bin == bins_ - 1)) return bin;
    bin = std::upper_bound(edges, edges + bins_ + 1, x) - edges - 1;
    return std::min(bin, bins_ - 1);
  }

  ArraySpec input_;
  std::int64_t bins_ = 0;
  ReductionForm form_;
};

// Edges of bins of one width between the least and the greatest element.
class EdgesKernel final : public Kernel {
 public:
  EdgesKernel(KernelSpec spec, std::int64_t bins, DType dtype) : Kernel(std::move(spec)), bins_(bins) {
    outputs_.push_back({"bin_edges", ArraySpec(dtype, {bins + 1}), std::nullopt});
  }
  std::string identity() const override { return "histogram.edges#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  Shape preferred_block(const std::vector<Shape>&) const override { return domain(); }
  Box input_box(std::size_t, const Box&) const override { return {}; }
  Shape input_extents(std::size_t, const Shape&) const override { return {}; }
  void run(KernelCall& call) const override {
    double low = 0, high = 0;
    cast_loop(call.in[0].dtype, kFloat64)(call.in[0].data, 0, reinterpret_cast<std::byte*>(&low), 0, 1);
    cast_loop(call.in[1].dtype, kFloat64)(call.in[1].data, 0, reinterpret_cast<std::byte*>(&high), 0, 1);
    if (!std::isfinite(low) || !std::isfinite(high))
      fail_call(spec_, "the elements are not all finite, so that they have no range; state one (range: [low, high])");
    if (low == high) low -= 0.5, high += 0.5;
    if (outputs_[0].spec.dtype == kFloat32)
      write_edges(call, static_cast<float>(low), static_cast<float>(high));
    else
      write_edges(call, low, high);
  }

 private:
  // In the arithmetic of the edges' own type, as NumPy does.
  template <class T>
  void write_edges(const KernelCall& call, T low, T high) const {
    const T step = (high - low) / static_cast<T>(bins_);
    for (std::int64_t k = 0; k < call.block.shape[0]; ++k) {
      const std::int64_t at = call.block.origin[0] + k;
      const T scaled = static_cast<T>(at) * step;
      *reinterpret_cast<T*>(call.out[0].data + k * call.out[0].strides[0]) = at == bins_ ? high : scaled + low;
    }
  }

  std::int64_t bins_;
};

std::int64_t bins_param(const ParamReader& params) {
  const std::int64_t bins = params.integer("bins", 10);
  if (bins < 1 || bins > kMostBins) params.fail("bins", "1 to " + std::to_string(kMostBins) + ", or a list of edges");
  return bins;
}

// The edges of a call: a list, or bins of one width in a range that is stated or found.
Expansion::Ref edges_of(Expanding& made, const ParamReader& params, const ArraySpec& x) {
  const ParamValue* bins = params.find("bins");
  if (bins != nullptr && !std::holds_alternative<std::int64_t>(*bins)) {
    const auto* numbers = std::get_if<std::vector<double>>(bins);
    const auto* whole = std::get_if<std::vector<std::int64_t>>(bins);
    const std::size_t count = numbers ? numbers->size() : whole ? whole->size() : 0;
    if (count < 2 || (numbers && !std::is_sorted(numbers->begin(), numbers->end())) ||
        (whole && !std::is_sorted(whole->begin(), whole->end())))
      params.fail("bins", "a number of bins, or a list of at least two edges in ascending order");
    return made.call("asarray", {}, {{"data", *bins}});
  }
  const std::int64_t count = bins_param(params);
  const std::string dtype = x.dtype == kFloat32 ? "float32" : "float64";
  std::vector<double> range;
  if (const ParamValue* given = params.find("range")) {
    if (const auto* numbers = std::get_if<std::vector<double>>(given)) range = *numbers;
    if (const auto* whole = std::get_if<std::vector<std::int64_t>>(given)) range.assign(whole->begin(), whole->end());
    if (range.size() != 2 || !std::isfinite(range[0]) || !std::isfinite(range[1]) || range[0] > range[1])
      params.fail("range", "two finite numbers in ascending order");
  } else if (x.exact() && element_count(x.max_shape()) == 0) {
    range = {0, 1};
  }
  if (range.empty())
    return made.call("histogram", {made.call("min", {made.input(0)}), made.call("max", {made.input(0)})},
                     {{"bins", count}, {"part", std::string("edges." + dtype)}});
  if (range[0] == range[1]) range[0] -= 0.5, range[1] += 0.5;
  return made.call("linspace", {Scalar(range[0]), Scalar(range[1]), Scalar(count + 1)}, {{"dtype", dtype}});
}

std::shared_ptr<const Kernel> make_histogram(KernelSpec spec) {
  const ParamReader params(spec, {"bins", "density", "part", "range"});
  const ArraySpec x = array_arg(spec, 0);
  if (x.dtype.kind == Kind::complex_float) params.fail("not defined for " + to_string(x.dtype));
  if (x.rank() + 1 > kMaxRank) params.fail("the array has too many axes");
  if (params.given("part")) {  // which the function itself calls for
    if (params.text("part") == "counts") return std::make_shared<HistogramKernel>(std::move(spec));
    const DType dtype = params.text("part") == "edges.float32" ? kFloat32 : kFloat64;
    const std::int64_t bins = bins_param(params);
    return std::make_shared<EdgesKernel>(std::move(spec), bins, dtype);
  }
  expect_args(spec, 1, 1);
  Expanding made(spec);
  const Expansion::Ref edges = edges_of(made, params, x);
  Expansion::Ref counts = made.call("histogram", {made.input(0), edges}, {{"part", std::string("counts")}});
  if (params.flag("density", false)) {
    const Expansion::Ref widths =
        made.call("astype", {made.call("diff", {edges})}, {{"dtype", std::string("float64")}});
    counts = made.call("divide", {made.call("divide", {counts, widths}), made.call("sum", {counts})});
  }
  return made.finish(std::move(spec), {counts, edges}, {"hist", "bin_edges"});
}

}  // namespace

std::vector<BuiltinFunction> histogram_builtins() {
  return {{{"histogram",
            "builtin",
            "histogram(x, *, bins=10, range=null, density=false)",
            "How many elements lie between edges (hist), and the edges (bin_edges).",
            "the edges; without a range x is read twice",
            {param("bins", "int or list of numbers", "how many bins of one width, or their edges", std::int64_t{10}),
             param("range", "list of two numbers", "where bins begin and end; null: least and greatest element", kNull),
             param("density", "bool", "shares of a density, whose integral is 1, for counts", false)}},
           make_histogram}};
}

}  // namespace cuboid
