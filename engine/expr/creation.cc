// Arrays that come from parameters alone: small constants, and regular arrays whose every block is computed in place.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

// Writes the elements of a block, where it lies in the whole.
using Fill = std::function<void(const Box& block, const View& out)>;

class CreationKernel final : public Kernel {
 public:
  CreationKernel(KernelSpec spec, ArraySpec result, Fill fill) : Kernel(std::move(spec)), fill_(std::move(fill)) {
    outputs_.push_back({"0", std::move(result), std::nullopt});
  }
  std::string identity() const override { return spec_.function + "#1"; }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    if (input_chunks.empty()) return default_block(domain(), outputs_[0].spec.dtype.size);
    Shape block = input_chunks[0];
    const Shape shape = domain();
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return block;
  }
  // zeros_like and its kin take an array for its shape and type alone: no element of it is needed.
  Box input_box(std::size_t, const Box& block) const override {
    return {Shape(block.shape.size(), 0), Shape(block.shape.size(), 0)};
  }
  Shape input_extents(std::size_t, const Shape& block) const override { return Shape(block.size(), 0); }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  void run(KernelCall& call) const override { fill_(call.block, call.out[0]); }

 private:
  Fill fill_;
};

std::shared_ptr<const Kernel> create(KernelSpec spec, ArraySpec result, Fill fill) {
  return std::make_shared<CreationKernel>(std::move(spec), std::move(result), std::move(fill));
}

Fill constant(const KernelSpec& spec, const Scalar& value, DType dtype) {
  if (!fits(value, dtype)) fail_call(spec, "the number " + to_string(value) + " is not a value of " + to_string(dtype));
  std::array<std::byte, kMaxItemSize> item{};
  store_scalar(value, dtype, item.data());
  return [item](const Box&, const View& out) { fill_elements(out, item.data()); };
}

Shape shape_param(const ParamReader& params) {
  const Shape shape = params.integers("shape");
  if (shape.size() > kMaxRank) params.fail("shape", "a list of at most " + std::to_string(kMaxRank) + " integers");
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; }))
    params.fail("shape", "a list of integers that are not negative");
  byte_count(shape, kComplex128);
  return shape;
}

// One number per element, by its index along the only axis that varies.
Fill along(std::size_t axis, std::function<Scalar(std::int64_t)> value) {
  return [axis, value = std::move(value)](const Box& block, const View& out) {
    for (std::int64_t i = 0; i < block.shape[axis]; ++i)
      store_scalar(value(block.origin[axis] + i), out.dtype, out.data + i * out.strides[axis]);
  };
}

std::shared_ptr<const Kernel> make_filled(KernelSpec spec, std::optional<Scalar> value) {
  expect_args(spec, 0, 0);
  const ParamReader params(spec, value ? std::vector<std::string>{"dtype", "shape"}
                                       : std::vector<std::string>{"dtype", "fill_value", "shape"});
  const Shape shape = shape_param(params);
  const bool given = value.has_value();
  if (!value) value = params.scalar("fill_value");
  if (!value) params.fail("fill_value", "a number");
  const DType dtype = params.dtype("dtype").value_or(given ? kFloat64 : default_dtype(*value));
  Fill fill = constant(spec, *value, dtype);
  return create(std::move(spec), ArraySpec(dtype, shape), std::move(fill));
}

std::shared_ptr<const Kernel> make_filled_like(KernelSpec spec, std::optional<Scalar> value) {
  expect_args(spec, 1, 1);
  const ParamReader params(spec,
                           value ? std::vector<std::string>{"dtype"} : std::vector<std::string>{"dtype", "fill_value"});
  ArraySpec result = array_arg(spec, 0);
  if (!value) value = params.scalar("fill_value");
  if (!value) params.fail("fill_value", "a number");
  result.dtype = params.dtype("dtype").value_or(result.dtype);
  Fill fill = constant(spec, *value, result.dtype);
  return create(std::move(spec), std::move(result), std::move(fill));
}

// A small array written in the pipeline file: "data" in C order, "shape" (null: one axis), "dtype" (null: the data's).
std::shared_ptr<const Kernel> make_asarray(KernelSpec spec) {
  expect_args(spec, 0, 0);
  const ParamReader params(spec, {"data", "dtype", "shape"});
  const ParamValue* data = params.find("data");
  if (data == nullptr) params.fail("data", "a number or a list of numbers");
  std::vector<Scalar> values;
  bool single = false;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(data))
    values.assign(list->begin(), list->end());
  else if (const auto* numbers = std::get_if<std::vector<double>>(data))
    values.assign(numbers->begin(), numbers->end());
  else if (const auto* words = std::get_if<std::vector<std::string>>(data); words != nullptr && words->empty())
    values.clear();
  else if (const auto number = params.scalar("data"))
    values.push_back(*number), single = true;
  const DType natural = std::holds_alternative<std::vector<std::int64_t>>(*data) ? kInt64
                        : single                                                 ? default_dtype(values[0])
                                                                                 : kFloat64;
  const DType dtype = params.dtype("dtype").value_or(natural);
  Shape shape;
  if (params.given("shape"))
    shape = shape_param(params);
  else if (!single)
    shape = {static_cast<std::int64_t>(values.size())};
  if (element_count(shape) != static_cast<std::int64_t>(values.size()))
    params.fail("shape", "the shape of the " + std::to_string(values.size()) + " numbers in \"data\"");
  auto bytes = std::make_shared<std::vector<std::byte>>(byte_count(shape, dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto* whole = std::get_if<std::int64_t>(&values[i]);
    const bool truth = dtype == kBool && whole != nullptr && (*whole == 0 || *whole == 1);
    if (!truth && !fits(values[i], dtype))
      params.fail("the number " + to_string(values[i]) + " in \"data\" is not a value of " + to_string(dtype));
    store_scalar(values[i], dtype, bytes->data() + i * dtype.size);
  }
  const ConstView whole = make_view(static_cast<const std::byte*>(bytes->data()), dtype, shape);
  return create(std::move(spec), ArraySpec(dtype, shape), [bytes, whole](const Box& block, const View& out) {
    copy_elements(whole.sub(block.origin, block.shape), out);
  });
}

// A number given by position or by name.
std::optional<Scalar> number_of(const KernelSpec& spec, const ParamReader& params, std::size_t position,
                                const std::string& name) {
  std::optional<Scalar> number;
  if (position >= spec.args.size()) {
    number = params.scalar(name);
  } else {
    if (params.given(name)) params.fail("\"" + name + "\" is given twice, as argument and as parameter");
    const auto* scalar = std::get_if<Scalar>(&spec.args[position]);
    if (scalar == nullptr) params.fail("argument " + std::to_string(position) + " (" + name + ") must be a number");
    number = *scalar;
  }
  if (number && !std::holds_alternative<std::int64_t>(*number) && !std::holds_alternative<double>(*number))
    params.fail("\"" + name + "\" must be an integer or a real number, " + to_string(*number) + " is given");
  return number;
}

double as_double(const Scalar& scalar) {
  if (const auto* whole = std::get_if<std::int64_t>(&scalar)) return static_cast<double>(*whole);
  return std::get<double>(scalar);
}

// The largest number of elements that arange, linspace and eye make along an axis: their extents must be exact doubles.
constexpr double kMostElements = 9007199254740992.0;

// An arange of integers, without a detour over floats.
std::shared_ptr<const Kernel> whole_arange(KernelSpec spec, DType dtype, std::int64_t start, std::int64_t stop,
                                           std::int64_t step) {
  const auto distance = static_cast<double>(stop) - static_cast<double>(start);
  if (std::abs(distance) > kMostElements) fail_call(spec, "more than 2^53 numbers from start to stop");
  const std::int64_t span = stop - start;
  const std::int64_t count = (span > 0) == (step > 0) && span != 0 ? (span - (step > 0 ? 1 : -1)) / step + 1 : 0;
  return create(std::move(spec), ArraySpec(dtype, {count}),
                along(0, [start, step](std::int64_t i) { return Scalar(start + i * step); }));
}

std::shared_ptr<const Kernel> make_arange(KernelSpec spec) {
  expect_args(spec, 0, 3);
  const ParamReader params(spec, {"dtype", "start", "step", "stop"});
  std::optional<Scalar> start = number_of(spec, params, 0, "start"), stop = number_of(spec, params, 1, "stop");
  const Scalar step = number_of(spec, params, 2, "step").value_or(Scalar(std::int64_t{1}));
  if (!start && !stop) params.fail("stop", "a number");
  if (!stop) stop = std::exchange(start, std::nullopt);  // arange(n) counts from 0
  const Scalar first = start.value_or(Scalar(std::int64_t{0}));
  if (!std::isfinite(as_double(first)) || !std::isfinite(as_double(*stop)) || !std::isfinite(as_double(step)))
    params.fail("start, stop and step must be finite");
  if (as_double(step) == 0) params.fail("the step must not be 0");
  const std::vector<std::variant<ArraySpec, Scalar>> numbers{first, *stop, step};
  const DType natural = result_type(numbers) == kFloat64 ? kFloat64 : kInt64;
  const DType dtype = params.dtype("dtype").value_or(natural);
  if (dtype == kBool) params.fail("dtype", "a numeric type");
  if (natural == kInt64)
    return whole_arange(std::move(spec), dtype, std::get<std::int64_t>(first), std::get<std::int64_t>(*stop),
                        std::get<std::int64_t>(step));
  const double from = as_double(first), delta = as_double(step);
  const double count = std::max(0.0, std::ceil((as_double(*stop) - from) / delta));
  if (!(count <= kMostElements)) params.fail("more than 2^53 numbers from start to stop");
  // The difference of the first two elements, as NumPy computes all others from it.
  const double stride = (from + delta) - from;
  return create(std::move(spec), ArraySpec(dtype, {static_cast<std::int64_t>(count)}),
                along(0, [from, stride](std::int64_t i) { return Scalar(from + static_cast<double>(i) * stride); }));
}

std::shared_ptr<const Kernel> make_linspace(KernelSpec spec) {
  expect_args(spec, 0, 3);
  const ParamReader params(spec, {"dtype", "endpoint", "num", "start", "stop"});
  const std::optional<Scalar> start = number_of(spec, params, 0, "start"), stop = number_of(spec, params, 1, "stop");
  if (!start) params.fail("start", "a number");
  if (!stop) params.fail("stop", "a number");
  const std::optional<Scalar> number = number_of(spec, params, 2, "num");
  if (!number || !std::holds_alternative<std::int64_t>(*number)) params.fail("num", "an integer");
  const std::int64_t num = std::get<std::int64_t>(*number);
  if (num < 0) params.fail("num", "an integer that is not negative");
  if (static_cast<double>(num) > kMostElements) params.fail("num", "at most 2^53");
  const bool endpoint = params.flag("endpoint", true);
  const DType dtype = params.dtype("dtype").value_or(kFloat64);
  if (dtype.kind != Kind::floating && dtype.kind != Kind::complex_float) params.fail("dtype", "a floating-point type");
  const double from = as_double(*start), to = as_double(*stop), delta = to - from;
  const auto parts = static_cast<double>(endpoint ? num - 1 : num);
  const double step = delta / parts;
  return create(std::move(spec), ArraySpec(dtype, {num}), along(0, [=](std::int64_t i) {
                  if (endpoint && num > 1 && i == num - 1) return Scalar(to);
                  const auto index = static_cast<double>(i);
                  if (parts <= 0) return Scalar(index * delta + from);
                  return Scalar((step == 0 ? index / parts * delta : index * step) + from);
                }));
}

std::shared_ptr<const Kernel> make_eye(KernelSpec spec) {
  expect_args(spec, 0, 2);
  const ParamReader params(spec, {"dtype", "k", "n_cols", "n_rows"});
  std::int64_t extents[2]{0, 0};
  constexpr const char* kNames[]{"n_rows", "n_cols"};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::optional<Scalar> number = number_of(spec, params, axis, kNames[axis]);
    if (!number && axis == 1)
      extents[1] = extents[0];
    else if (!number || !std::holds_alternative<std::int64_t>(*number) || std::get<std::int64_t>(*number) < 0)
      params.fail(kNames[axis], "an integer that is not negative");
    else
      extents[axis] = std::get<std::int64_t>(*number);
  }
  const DType dtype = params.dtype("dtype").value_or(kFloat64);
  const Shape shape{extents[0], extents[1]};
  byte_count(shape, kComplex128);
  constexpr std::int64_t kFar = std::int64_t{1} << 60;  // beyond any column
  const std::int64_t k = std::clamp(params.integer("k", 0), -kFar, kFar);
  return create(std::move(spec), ArraySpec(dtype, shape), [k](const Box& block, const View& out) {
    std::array<std::byte, kMaxItemSize> zero{};
    fill_elements(out, zero.data());
    for (std::int64_t row = 0; row < block.shape[0]; ++row) {
      const std::int64_t column = block.origin[0] + row + k - block.origin[1];
      if (column >= 0 && column < block.shape[1])
        store_scalar(Scalar(true), out.dtype, out.data + row * out.strides[0] + column * out.strides[1]);
    }
  });
}

}  // namespace

std::vector<BuiltinFunction> creation_builtins() {
  const std::string none = "0: no extra memory";
  const ParamDoc shape = param("shape", "list of ints", "extents of the result");
  const ParamDoc dtype = param("dtype", "string", "element type of the result; null: float64", kNull);
  const ParamDoc like = param("dtype", "string", "element type of the result; null: that of x", kNull);
  const ParamDoc value = param("fill_value", "number", "the value of every element");
  return {
      {{"asarray",
        "builtin",
        "asarray(*, data, dtype=null, shape=null)",
        "A small constant array.",
        "0 beside the numbers themselves",
        {param("data", "number or list of numbers", "the elements in C order"),
         param("dtype", "string", "element type; null: int64, float64 or bool, as the numbers are", kNull),
         param("shape", "list of ints", "extents; null: one axis", kNull)}},
       make_asarray},
      {{"zeros", "builtin", "zeros(*, shape, dtype=null)", "Zeros.", none, {shape, dtype}},
       [](KernelSpec spec) { return make_filled(std::move(spec), Scalar(false)); }},
      {{"ones", "builtin", "ones(*, shape, dtype=null)", "Ones.", none, {shape, dtype}},
       [](KernelSpec spec) { return make_filled(std::move(spec), Scalar(true)); }},
      {{"full",
        "builtin",
        "full(*, shape, fill_value, dtype=null)",
        "One value everywhere.",
        none,
        {shape, value, param("dtype", "string", "element type of the result; null: the value's", kNull)}},
       [](KernelSpec spec) { return make_filled(std::move(spec), std::nullopt); }},
      {{"zeros_like", "builtin", "zeros_like(x, *, dtype=null)", "Zeros in the shape of x.", none, {like}},
       [](KernelSpec spec) { return make_filled_like(std::move(spec), Scalar(false)); }},
      {{"ones_like", "builtin", "ones_like(x, *, dtype=null)", "Ones in the shape of x.", none, {like}},
       [](KernelSpec spec) { return make_filled_like(std::move(spec), Scalar(true)); }},
      {{"full_like",
        "builtin",
        "full_like(x, *, fill_value, dtype=null)",
        "One value in the shape of x.",
        none,
        {value, like}},
       [](KernelSpec spec) { return make_filled_like(std::move(spec), std::nullopt); }},
      {{"arange",
        "builtin",
        "arange(start, stop=null, step=1, *, dtype=null)",
        "Evenly spaced numbers below stop; of one number alone: from 0 up to it.",
        none,
        {param("start", "number", "the first number; the end where stop is null", kNull),
         param("stop", "number", "the end, itself left out", kNull),
         param("step", "number", "the distance", std::int64_t{1}),
         param("dtype", "string", "element type; null: int64 where all are integers, else float64", kNull)}},
       make_arange},
      {{"linspace",
        "builtin",
        "linspace(start, stop, num, *, endpoint=true, dtype=null)",
        "A number of evenly spaced numbers.",
        none,
        {param("start", "number", "the first number"), param("stop", "number", "the end"),
         param("num", "int", "how many"), param("endpoint", "bool", "whether the end is one of them", true), dtype}},
       make_linspace},
      {{"eye",
        "builtin",
        "eye(n_rows, n_cols=null, *, k=0, dtype=null)",
        "Ones on a diagonal, zeros elsewhere.",
        none,
        {param("n_rows", "int", "rows"), param("n_cols", "int", "columns; null: as many", kNull),
         param("k", "int", "which diagonal; 0 is the main one, positive ones lie above", std::int64_t{0}), dtype}},
       make_eye},
  };
}

}  // namespace cuboid
