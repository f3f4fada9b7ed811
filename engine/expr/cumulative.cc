// cumulative_sum and cumulative_prod. A short axis is held as a whole. A long one is cut into segments: their totals are
// accumulated first (by the same function), then every segment starts from what is before it.
#include <algorithm>
#include <complex>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/elements.h"
#include "engine/expr/expansion.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

constexpr std::int64_t kSegment = 1024;    // elements of a segment
constexpr std::int64_t kWholeAxis = 4096;  // an axis of at most so many elements is not cut

// One step of accumulation of contiguous elements in place: to[i] = to[i-1] (+ or *) to[i], from `carry`; updates it.
using Loop = void (*)(std::byte* elements, std::int64_t n, std::byte* carry);

template <class T, bool product>
void accumulate(std::byte* elements, std::int64_t n, std::byte* carry) {
  T* to = reinterpret_cast<T*>(elements);
  T running = *reinterpret_cast<T*>(carry);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (product)
      running = running * to[i];
    else
      running = running + to[i];
    to[i] = running;
  }
  *reinterpret_cast<T*>(carry) = running;
}

// The type that is accumulated in, wide enough that the order of blocks leaves floats alone but for the last bits;
// integers wrap around.
DType wide(DType result) {
  if (result.kind == Kind::floating) return kFloat64;
  if (result.kind == Kind::complex_float) return kComplex128;
  return kUint64;
}
Loop loop_for(DType result, bool product) {
  if (result.kind == Kind::floating) return product ? &accumulate<double, true> : &accumulate<double, false>;
  if (result.kind == Kind::complex_float)
    return product ? &accumulate<std::complex<double>, true> : &accumulate<std::complex<double>, false>;
  return product ? &accumulate<std::uint64_t, true> : &accumulate<std::uint64_t, false>;
}

// whole: all of the axis. totals: one element for each segment. segments: with the accumulated totals as input 1.
enum class Part : std::uint8_t { whole, totals, segments };

class CumulativeKernel final : public Kernel {
 public:
  CumulativeKernel(KernelSpec spec, std::size_t axis, DType result, bool product, Part part)
      : Kernel(std::move(spec)),
        axis_(axis),
        part_(part),
        product_(product),
        wide_(wide(result)),
        loop_(loop_for(result, product)),
        input_(std::get<ArraySpec>(spec_.args[0])) {
    ArraySpec output = input_;
    output.dtype = result;
    if (part == Part::totals) output.extents[axis].value = (output.extents[axis].value + kSegment - 1) / kSegment;
    outputs_.push_back({"0", std::move(output), std::nullopt});
  }
  std::string identity() const override { return spec_.function + "#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  std::vector<bool> whole_axes() const override {
    std::vector<bool> whole(input_.rank(), false);
    whole[axis_] = part_ == Part::whole;
    return whole;
  }
  // Segments of a chunk or so; the other axes are cut where that makes blocks large.
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape shape = domain();
    Shape block = input_chunks.at(0);
    const std::int64_t segments = std::max<std::int64_t>(block[axis_] / kSegment, 1);
    if (part_ == Part::whole) block[axis_] = shape[axis_];
    if (part_ == Part::totals) block[axis_] = segments;
    if (part_ == Part::segments) block[axis_] = segments * kSegment;
    std::vector<bool> fixed(block.size(), false);
    fixed[axis_] = true;
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return default_block(block, part_ == Part::totals ? wide_.size * kSegment : wide_.size, fixed);
  }
  Box input_box(std::size_t k, const Box& block) const override {
    Box box = block;
    if (part_ == Part::totals) {
      box.origin[axis_] = block.origin[axis_] * kSegment;
      box.shape[axis_] = std::min(block.shape[axis_] * kSegment, input_.extents[axis_].value - box.origin[axis_]);
    }
    if (part_ == Part::segments) {
      // A block that begins within a segment needs what is before it there.
      const std::int64_t first = block.origin[axis_] / kSegment, end = block.end(axis_);
      box.origin[axis_] = k == 0 ? first * kSegment : std::max<std::int64_t>(first - 1, 0);
      const std::int64_t last = block.shape[axis_] > 0 ? (end - 1) / kSegment : first;
      box.shape[axis_] = k == 0 ? end - box.origin[axis_] : std::max<std::int64_t>(last, 1) - box.origin[axis_];
    }
    return box;
  }
  Shape input_extents(std::size_t k, const Shape& block) const override {
    Shape extents = block;
    const std::int64_t whole = input_.extents[axis_].value, segments = (whole + kSegment - 1) / kSegment;
    if (part_ == Part::totals) extents[axis_] = std::min(block[axis_] * kSegment, whole);
    if (part_ == Part::segments && k == 0) extents[axis_] = std::min(block[axis_] + kSegment - 1, whole);
    if (part_ == Part::segments && k == 1) extents[axis_] = std::min(block[axis_] / kSegment + 2, segments);
    return extents;
  }
  // Otherwise blocks that begin within segments would be the rule.
  bool inlinable() const override { return part_ != Part::segments; }

  void run(KernelCall& call) const override {
    const View& out = call.out[0];
    if (element_count(out.shape) == 0) return;
    Shape lines = out.shape;
    lines[axis_] = 1;
    const std::int64_t count = element_count(lines);
    Shape index(lines.size(), 0);
    for (std::int64_t line = 0; line < count; ++line) {
      run_line(call, index);
      for (std::size_t axis = index.size(); axis-- > 0;) {
        if (++index[axis] < lines[axis]) break;
        index[axis] = 0;
      }
    }
  }

 private:
  static std::byte* place(std::byte* data, const Shape& strides, const Shape& index) {
    for (std::size_t axis = 0; axis < index.size(); ++axis) data += index[axis] * strides[axis];
    return data;
  }
  static const std::byte* place(const std::byte* data, const Shape& strides, const Shape& index) {
    return place(const_cast<std::byte*>(data), strides, index);  // read only
  }

  void start(std::byte* carry) const {
    const std::complex<double> one(product_ ? 1.0 : 0.0);
    store_scalar(wide_ == kUint64    ? Scalar(std::int64_t{product_})
                 : wide_ == kFloat64 ? Scalar(one.real())
                                     : Scalar(one),
                 wide_, carry);
  }

  // Along the axis at one index of the others.
  void run_line(const KernelCall& call, const Shape& index) const {
    const ConstView& in = call.in[0];
    const View& out = call.out[0];
    const std::int64_t from = in.strides[axis_], to = out.strides[axis_];
    const std::byte* read = place(in.data, in.strides, index);
    std::byte* write = place(out.data, out.strides, index);
    alignas(16) std::byte carry[kMaxItemSize];
    start(carry);
    const std::int64_t begin = call.in_box[0].origin[axis_], end = call.in_box[0].end(axis_);
    const std::int64_t first = part_ == Part::totals ? begin : call.block.origin[axis_];
    alignas(64) std::byte strip[kSegment * kMaxItemSize];
    const CastLoop widen = cast_loop(in.dtype, wide_), narrow = cast_loop(wide_, out.dtype);
    const auto item = static_cast<std::int64_t>(wide_.size);
    for (std::int64_t at = begin; at < end;) {
      if (part_ == Part::segments && at % kSegment == 0) start_segment(call, index, at / kSegment, carry);
      if (part_ == Part::totals) start(carry);
      const std::int64_t n = std::min(end - at, kSegment - at % kSegment);
      widen(read + (at - begin) * from, from, strip, item, n);
      loop_(strip, n, carry);
      if (part_ == Part::totals) {
        narrow(carry, item, write + (at / kSegment - call.block.origin[axis_]) * to, to, 1);
      } else if (const std::int64_t skip = std::clamp<std::int64_t>(first - at, 0, n); skip < n) {
        narrow(strip + skip * item, item, write + (at + skip - first) * to, to, n - skip);
      }
      at += n;
    }
  }

  // What all elements before a segment come to.
  void start_segment(const KernelCall& call, const Shape& index, std::int64_t segment, std::byte* carry) const {
    if (segment == 0) return start(carry);
    const ConstView& totals = call.in[1];
    const std::byte* at = place(totals.data, totals.strides, index);
    at += (segment - 1 - call.in_box[1].origin[axis_]) * totals.strides[axis_];
    cast_loop(totals.dtype, wide_)(at, 0, carry, 0, 1);
  }

  std::size_t axis_;
  Part part_;
  bool product_;
  DType wide_;
  Loop loop_;
  ArraySpec input_;
};

std::shared_ptr<const Kernel> make_cumulative(KernelSpec spec, bool product) {
  expect_args(spec, 1, 2);
  const ArraySpec x = array_arg(spec, 0);
  const ParamReader params(spec, {"axis", "dtype", "include_initial", "part"});
  if (x.rank() == 0) params.fail("expected an array with axes, this one has none");
  if (!params.given("axis") && x.rank() != 1)
    params.fail("axis", "an integer, as the array has " + std::to_string(x.rank()) + " axes");
  const std::size_t axis = params.axis("axis", x.rank(), 0);
  DType natural = x.dtype;
  if (x.dtype.kind == Kind::boolean || x.dtype.kind == Kind::signed_int) natural = kInt64;
  if (x.dtype.kind == Kind::unsigned_int) natural = kUint64;
  const DType result = params.dtype("dtype").value_or(natural);
  if (result == kBool) params.fail("dtype", "a numeric type");
  if (x.dtype.kind == Kind::complex_float && result.kind != Kind::complex_float)
    params.fail("dtype", "a complex type, as the array is complex");
  // The parts of a long axis, which the function itself calls for.
  if (params.given("part")) {
    const Part part = params.text("part") == "totals" ? Part::totals : Part::segments;
    expect_args(spec, part == Part::segments ? 2 : 1, part == Part::segments ? 2 : 1);
    return std::make_shared<CumulativeKernel>(std::move(spec), axis, result, product, part);
  }
  expect_args(spec, 1, 1);
  const bool initial = params.flag("include_initial", false);
  const bool cut = x.extents[axis].value > kWholeAxis;
  if (!initial && !cut) return std::make_shared<CumulativeKernel>(std::move(spec), axis, result, product, Part::whole);
  exact_arg(spec, 0);
  const std::string name = spec.function;
  const ParamValue along = static_cast<std::int64_t>(axis);
  Expanding made(spec);
  Expansion::Ref now;
  if (cut) {
    const ParamValue carried = to_string(wide(result));
    const Expansion::Ref totals =
        made.call(name, {made.input(0)}, {{"axis", along}, {"dtype", carried}, {"part", std::string("totals")}});
    const Expansion::Ref before = made.call(name, {totals}, {{"axis", along}, {"dtype", carried}});
    now = made.call(name, {made.input(0), before},
                    {{"axis", along}, {"dtype", to_string(result)}, {"part", std::string("segments")}});
  } else {
    now = made.call(name, {made.input(0)}, {{"axis", along}, {"dtype", to_string(result)}});
  }
  if (initial) {
    Shape first = x.max_shape();
    first[axis] = 1;
    const Expansion::Ref start =
        made.call(product ? "ones" : "zeros", {}, {{"shape", first}, {"dtype", to_string(result)}});
    now = made.call("concat", {start, now}, {{"axis", along}});
  }
  return made.finish(std::move(spec), {now});
}

BuiltinFunction entry(const char* name, const char* text, bool product) {
  return {{name,
           "builtin",
           std::string(name) + "(x, *, axis=null, dtype=null, include_initial=false)",
           text,
           "0; an axis of more than 4096 elements is cut into segments of 1024, and x is read twice",
           {param("axis", "int", "the axis; null: the only one", kNull),
            param("dtype", "string", "element type of the result; null: int64, uint64 or the input's", kNull),
            param("include_initial", "bool", "begin with what nothing comes to", false)}},
          [product](KernelSpec spec) { return make_cumulative(std::move(spec), product); }};
}

}  // namespace

std::vector<BuiltinFunction> cumulative_builtins() {
  return {entry("cumulative_sum", "Sums of the elements up to each along an axis.", false),
          entry("cumulative_prod", "Products of the elements up to each along an axis.", true)};
}

}  // namespace cuboid
