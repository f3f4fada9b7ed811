// sort along an axis, and quantile. What is sorted fits one block where it is an axis of moderate length; the quantiles of
// a whole large array are picked from a run of all its elements, which is sorted out of core.
#include <algorithm>
#include <cmath>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/elements.h"
#include "engine/expr/expansion.h"
#include "engine/expr/order.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

// Elements that are sorted within a block at most; beyond that they are runs.
constexpr std::int64_t kMostInBlock = 1 << 20;

using SortLoop = void (*)(std::byte* elements, std::int64_t n);
const std::array<SortLoop, kDTypeCount> kSorts =
    table_over_types<SortLoop>([]<class T>(std::type_identity<T>) -> SortLoop {
      return [](std::byte* elements, std::int64_t n) {
        T* keys = reinterpret_cast<T*>(elements);
        std::sort(keys, keys + n, [](const T& a, const T& b) { return sorts_before(a, b); });
      };
    });

// Where in n sorted elements a quantile lies: between two, by a share of the way.
struct Place {
  std::int64_t low = 0, high = 0;
  double share = 0;
};
enum class Method : std::uint8_t { linear, lower, higher, midpoint, nearest };
constexpr const char* kMethods[] = {"linear", "lower", "higher", "midpoint", "nearest"};

Place place_of(double q, std::int64_t n, Method method) {
  const double at = static_cast<double>(n - 1) * q;
  const auto low = static_cast<std::int64_t>(std::floor(at));
  const double share = at - std::floor(at);
  const std::int64_t high = std::min(low + 1, n - 1);
  switch (method) {
    case Method::linear:
      return {low, high, share};
    case Method::lower:
      return {low, low, 0};
    case Method::higher:
      return {share > 0 ? high : low, share > 0 ? high : low, 0};
    case Method::midpoint:
      return {low, high, share > 0 ? 0.5 : 0};
    case Method::nearest: {
      const bool up = share > 0.5 || (share == 0.5 && low % 2 == 1);
      return {up ? high : low, up ? high : low, 0};
    }
  }
  return {};
}

// As NumPy does, from the nearer end.
double between(double a, double b, double share) {
  const double distance = b - a;
  return share >= 0.5 ? b - distance * (1 - share) : a + distance * share;
}

struct Wanted {
  std::vector<double> q;
  bool list = false;
  Method method = Method::linear;
  DType result;
};

double number_at(const std::byte* at, DType dtype) {
  double number = 0;
  cast_loop(dtype, kFloat64)(at, 0, reinterpret_cast<std::byte*>(&number), 0, 1);
  return number;
}

// Writes a quantile of n sorted elements; at(k) is where element k lies.
template <class At>
void write_quantile(double q, const Wanted& wanted, std::int64_t n, DType dtype, At at, std::byte* to) {
  double number = std::nan("");
  if (n > 0 && !std::isnan(number_at(at(n - 1), dtype))) {
    const Place place = place_of(q, n, wanted.method);
    if (place.low == place.high) return cast_loop(dtype, wanted.result)(at(place.low), 0, to, 0, 1);
    number = between(number_at(at(place.low), dtype), number_at(at(place.high), dtype), place.share);
  }
  cast_loop(kFloat64, wanted.result)(reinterpret_cast<const std::byte*>(&number), 0, to, 0, 1);
}

// Picks from sorted elements (both inputs): those around each quantile, and the last, which is NaN where any is.
class PickKernel final : public Kernel {
 public:
  PickKernel(KernelSpec spec, Wanted wanted) : Kernel(std::move(spec)), wanted_(std::move(wanted)) {
    n_ = std::get<ArraySpec>(spec_.args[0]).extents[0].value;
    Shape shape;
    if (wanted_.list) shape = {static_cast<std::int64_t>(wanted_.q.size())};
    outputs_.push_back({"0", ArraySpec(wanted_.result, shape), std::nullopt});
  }
  std::string identity() const override { return "quantile.pick#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  Shape preferred_block(const std::vector<Shape>&) const override { return Shape(domain().size(), 1); }
  Box input_box(std::size_t k, const Box& block) const override {
    if (n_ == 0) return {{0}, {0}};
    if (k == 1) return {{n_ - 1}, {1}};
    std::int64_t first = n_, last = -1;
    for (std::int64_t i = begin(block); i < end(block); ++i) {
      const Place place = place_of(wanted_.q[static_cast<std::size_t>(i)], n_, wanted_.method);
      first = std::min(first, place.low);
      last = std::max(last, place.high);
    }
    return last < 0 ? Box{{0}, {0}} : Box{{first}, {last - first + 1}};
  }
  Shape input_extents(std::size_t k, const Shape& block) const override {
    const bool one = block.empty() || block[0] == 1;
    return {std::min<std::int64_t>(n_, k == 1 ? 1 : one ? 2 : n_)};
  }
  bool inlinable() const override { return false; }
  void run(KernelCall& call) const override {
    const DType dtype = call.in[0].dtype;
    const std::int64_t origin = n_ > 0 ? call.in_box[0].origin[0] : 0;
    const auto at = [&](std::int64_t index) {
      return index == n_ - 1 ? call.in[1].data : call.in[0].data + (index - origin) * call.in[0].strides[0];
    };
    for (std::int64_t i = begin(call.block); i < end(call.block); ++i) {
      std::byte* to = call.out[0].data;
      if (wanted_.list) to += (i - call.block.origin[0]) * call.out[0].strides[0];
      write_quantile(wanted_.q[static_cast<std::size_t>(i)], wanted_, n_, dtype, at, to);
    }
  }

 private:
  std::int64_t begin(const Box& block) const { return wanted_.list ? block.origin[0] : 0; }
  std::int64_t end(const Box& block) const { return wanted_.list ? block.end(0) : 1; }

  Wanted wanted_;
  std::int64_t n_;
};

// The elements along some axes, all in one block, for each index of the others.
class AxesKernel final : public Kernel {
 public:
  AxesKernel(KernelSpec spec, Wanted wanted, const std::vector<std::size_t>& axes, bool keepdims)
      : Kernel(std::move(spec)), wanted_(std::move(wanted)), input_(std::get<ArraySpec>(spec_.args[0])) {
    ArraySpec result;
    result.dtype = wanted_.result;
    if (wanted_.list) result.extents.push_back({static_cast<std::int64_t>(wanted_.q.size()), Trust::exact});
    places_.assign(input_.rank(), std::nullopt);
    reduced_ = axes;
    for (std::size_t axis = 0; axis < input_.rank(); ++axis) {
      const bool gone = std::count(axes.begin(), axes.end(), axis) > 0;
      if (gone && !keepdims) continue;
      if (!gone) places_[axis] = result.extents.size();
      result.extents.push_back(gone ? Extent{1, Trust::exact} : input_.extents[axis]);
    }
    for (std::size_t axis : axes) n_ *= input_.extents[axis].value;
    outputs_.push_back({"0", std::move(result), std::nullopt});
  }
  std::string identity() const override { return "quantile#1"; }
  std::vector<bool> whole_axes() const override {
    std::vector<bool> whole(domain().size(), false);
    if (wanted_.list) whole[0] = true;
    return whole;
  }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape shape = domain();
    Shape block(shape.size(), 1);
    std::vector<bool> fixed(shape.size(), true);
    if (wanted_.list) block[0] = shape[0];
    for (std::size_t axis = 0; axis < places_.size(); ++axis)
      if (places_[axis]) {
        block[*places_[axis]] =
            std::clamp<std::int64_t>(input_chunks.at(0)[axis], 1, std::max<std::int64_t>(shape[*places_[axis]], 1));
        fixed[*places_[axis]] = false;
      }
    return default_block(block, input_.dtype.size * static_cast<std::size_t>(std::max<std::int64_t>(n_, 1)), fixed);
  }
  Box input_box(std::size_t, const Box& block) const override {
    Box box = Box::whole(input_.max_shape());
    for (std::size_t axis = 0; axis < places_.size(); ++axis)
      if (places_[axis]) box.origin[axis] = block.origin[*places_[axis]], box.shape[axis] = block.shape[*places_[axis]];
    return box;
  }
  Shape input_extents(std::size_t, const Shape& block) const override { return input_box(0, Box::whole(block)).shape; }
  CallMemory memory(Phase, const Shape&) const override {
    CallMemory memory;
    memory.sure = class_bytes(static_cast<std::size_t>(n_) * input_.dtype.size);
    return memory;
  }
  void run(KernelCall& call) const override {
    const ConstView& in = call.in[0];
    const View& out = call.out[0];
    const Buffer scratch = call.memory->acquire(static_cast<std::size_t>(n_) * in.dtype.size);
    Shape lines = out.shape;
    if (wanted_.list) lines[0] = 1;
    Shape index(lines.size(), 0);
    ConstView line{in.dtype, in.data, {}, {}};
    for (std::size_t axis : reduced_) line.shape.push_back(in.shape[axis]), line.strides.push_back(in.strides[axis]);
    const View sorted = make_view(scratch.data(), in.dtype, line.shape);
    for (std::int64_t left = element_count(lines); left > 0; --left) {
      line.data = in.data;
      for (std::size_t axis = 0; axis < places_.size(); ++axis)
        if (places_[axis]) line.data += index[*places_[axis]] * in.strides[axis];
      copy_elements(line, sorted);
      kSorts[dtype_index(in.dtype)](scratch.data(), n_);
      write_line(scratch.data(), in.dtype, out, index);
      for (std::size_t axis = index.size(); axis-- > 0;) {
        if (++index[axis] < lines[axis]) break;
        index[axis] = 0;
      }
    }
  }

 private:
  void write_line(const std::byte* sorted, DType dtype, const View& out, const Shape& index) const {
    std::byte* to = out.data;
    for (std::size_t axis = 0; axis < index.size(); ++axis) to += index[axis] * out.strides[axis];
    const auto at = [&](std::int64_t k) { return sorted + k * static_cast<std::int64_t>(dtype.size); };
    for (std::size_t k = 0; k < wanted_.q.size(); ++k) {
      write_quantile(wanted_.q[k], wanted_, n_, dtype, at, to);
      if (wanted_.list) to += out.strides[0];
    }
  }

  Wanted wanted_;
  ArraySpec input_;
  std::vector<std::size_t> reduced_;
  std::vector<std::optional<std::size_t>> places_;  // by axis of the input: its axis of the result
  std::int64_t n_ = 1;
};

// One axis as a whole in every block.
class SortKernel final : public Kernel {
 public:
  SortKernel(KernelSpec spec, std::size_t axis) : Kernel(std::move(spec)), axis_(axis) {
    outputs_.push_back({"0", std::get<ArraySpec>(spec_.args[0]), std::nullopt});
  }
  std::string identity() const override { return "sort#1"; }
  std::vector<bool> whole_axes() const override {
    std::vector<bool> whole(domain().size(), false);
    whole[axis_] = true;
    return whole;
  }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape shape = domain();
    Shape block = input_chunks.at(0);
    block[axis_] = shape[axis_];
    std::vector<bool> fixed(shape.size(), false);
    fixed[axis_] = true;
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return default_block(block, outputs_[0].spec.dtype.size, fixed);
  }
  Box input_box(std::size_t, const Box& block) const override {
    Box box = block;
    box.origin[axis_] = 0;
    box.shape[axis_] = domain()[axis_];
    return box;
  }
  Shape input_extents(std::size_t, const Shape& block) const override { return input_box(0, Box::whole(block)).shape; }
  bool inlinable() const override { return false; }
  CallMemory memory(Phase, const Shape&) const override {
    CallMemory memory;
    memory.sure = class_bytes(static_cast<std::size_t>(domain()[axis_]) * outputs_[0].spec.dtype.size);
    return memory;
  }
  void run(KernelCall& call) const override {
    const ConstView& in = call.in[0];
    const View& out = call.out[0];
    const std::int64_t n = in.shape[axis_];
    const Buffer scratch = call.memory->acquire(static_cast<std::size_t>(n) * in.dtype.size);
    const View sorted = make_view(scratch.data(), in.dtype, {n});
    Shape lines = out.shape;
    lines[axis_] = 1;
    Shape index(lines.size(), 0);
    for (std::int64_t left = element_count(lines); left > 0; --left) {
      ConstView from{in.dtype, in.data, {n}, {in.strides[axis_]}};
      View to{in.dtype, out.data, {n}, {out.strides[axis_]}};
      for (std::size_t axis = 0; axis < index.size(); ++axis)
        from.data += index[axis] * in.strides[axis], to.data += index[axis] * out.strides[axis];
      copy_elements(from, sorted);
      kSorts[dtype_index(in.dtype)](scratch.data(), n);
      copy_elements(sorted, to);
      for (std::size_t axis = index.size(); axis-- > 0;) {
        if (++index[axis] < lines[axis]) break;
        index[axis] = 0;
      }
    }
  }

 private:
  std::size_t axis_;
};

std::shared_ptr<const Kernel> make_sort(KernelSpec spec) {
  expect_args(spec, 1, 1);
  const ArraySpec& x = array_arg(spec, 0);
  const ParamReader params(spec, {"axis", "descending", "part", "stable"});
  dtype_index(x.dtype);
  if (params.given("part")) return make_sorted_run(std::move(spec));  // which quantile and sort itself call for
  if (x.rank() == 0) params.fail("expected an array with axes, this one has none");
  const std::size_t axis = params.axis("axis", x.rank(), -1);
  params.flag("stable", true);  // equal elements cannot be told apart
  const bool descending = params.flag("descending", false);
  const bool runs = x.rank() == 1 && x.extents[0].value > kMostInBlock;
  if (!descending && !runs) return std::make_shared<SortKernel>(std::move(spec), axis);
  Expanding made(spec);
  Expansion::Ref now = runs ? made.call("sort", {made.input(0)}, {{"part", std::string("run")}})
                            : made.call("sort", {made.input(0)}, {{"axis", static_cast<std::int64_t>(axis)}});
  if (descending) now = made.call("flip", {now}, {{"axis", static_cast<std::int64_t>(axis)}});
  return made.finish(std::move(spec), {now});
}

Wanted read_wanted(const ParamReader& params, const ArraySpec& x) {
  Wanted wanted;
  const ParamValue* q = params.find("q");
  if (q == nullptr) params.fail("q", "a number of 0 to 1, or a list of them");
  if (const auto* list = std::get_if<std::vector<double>>(q)) wanted.q = *list, wanted.list = true;
  if (const auto* whole = std::get_if<std::vector<std::int64_t>>(q))
    wanted.q.assign(whole->begin(), whole->end()), wanted.list = true;
  if (!wanted.list) wanted.q = {params.number("q", 0)};
  if (wanted.q.empty() || wanted.q.size() > 100000 ||
      std::any_of(wanted.q.begin(), wanted.q.end(), [](double p) { return !(p >= 0 && p <= 1); }))
    params.fail("q", "a number of 0 to 1, or a list of them");
  const std::string method = params.given("method") ? params.text("method") : kMethods[0];
  const auto* found = std::find(std::begin(kMethods), std::end(kMethods), method);
  if (found == std::end(kMethods)) params.fail("method", "one of linear, lower, higher, midpoint, nearest");
  wanted.method = static_cast<Method>(found - std::begin(kMethods));
  // As NumPy: a single number takes the type of a float array; picked elements stay what they are.
  const bool floating = x.dtype.kind == Kind::floating;
  wanted.result = floating && !wanted.list ? x.dtype : kFloat64;
  if (wanted.method == Method::lower || wanted.method == Method::higher) wanted.result = x.dtype;
  return wanted;
}

std::shared_ptr<const Kernel> make_quantile(KernelSpec spec) {
  const ArraySpec x = array_arg(spec, 0);
  const ParamReader params(spec, {"axis", "keepdims", "method", "part", "q"});
  if (x.dtype.kind == Kind::complex_float || x.dtype == kBool) params.fail("not defined for " + to_string(x.dtype));
  Wanted wanted = read_wanted(params, x);
  if (params.given("part")) {  // which the function itself calls for
    expect_args(spec, 2, 2);
    return std::make_shared<PickKernel>(std::move(spec), std::move(wanted));
  }
  expect_args(spec, 1, 1);
  const std::vector<std::size_t> axes = params.axes("axis", x.rank());
  const bool keepdims = params.flag("keepdims", false);
  std::int64_t n = 1;
  for (std::size_t axis : axes) n *= x.extents[axis].value;
  if (axes.size() != x.rank() || (n <= kMostInBlock && x.exact()))
    return std::make_shared<AxesKernel>(std::move(spec), std::move(wanted), axes, keepdims);
  Expanding made(spec);
  Params pick{{"part", std::string("pick")}, {"q", *params.find("q")}};
  if (params.given("method")) pick["method"] = *params.find("method");
  const Expansion::Ref sorted = made.call("sort", {made.input(0)}, {{"part", std::string("run")}});
  Expansion::Ref now = made.call("quantile", {sorted, sorted}, std::move(pick));
  if (keepdims) {
    std::vector<std::int64_t> added;
    for (std::size_t axis = 0; axis < x.rank(); ++axis) added.push_back(static_cast<std::int64_t>(axis + wanted.list));
    now = made.call("expand_dims", {now}, {{"axis", added}});
  }
  return made.finish(std::move(spec), {now});
}

}  // namespace

std::vector<BuiltinFunction> quantile_builtins() {
  return {
      {{"sort",
        "builtin",
        "sort(x, *, axis=-1, descending=false)",
        "The elements along an axis in ascending order, NaN last.",
        "the axis; an array of one axis with more than 2^20 elements is sorted out of core",
        {param("axis", "int", "the axis", std::int64_t{-1}), param("descending", "bool", "the other way round", false),
         param("stable", "bool", "equal elements keep their order in any case", true)}},
       make_sort},
      {{"quantile",
        "builtin",
        "quantile(x, *, q, axis=null, method=\"linear\", keepdims=false)",
        "What a share q of the elements does not exceed; NaN where there is one.",
        "the elements along the axes; over all axes, more than 2^20 elements are sorted out of core",
        {param("q", "number or list of numbers", "the shares, 0 to 1; of a list the result has an axis in front"),
         param("axis", "int or list of ints", "the axes; null: all", kNull),
         param("method", "string", "between two elements: linear, lower, higher, midpoint or nearest",
               std::string("linear")),
         param("keepdims", "bool", "keep the reduced axes with extent 1", false)}},
       make_quantile},
  };
}

}  // namespace cuboid
