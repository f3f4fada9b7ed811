// roll, tile, repeat, unstack, meshgrid, broadcast_arrays, diff: made of slices, repetitions and joins.
#include <algorithm>

#include "engine/expr/builtin.h"
#include "engine/expr/expansion.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

using Ref = Expansion::Ref;

// The index that takes `part` of one axis.
std::string key_along(std::size_t axis, const std::string& part) {
  std::string key;
  for (std::size_t k = 0; k < axis; ++k) key += ":, ";
  return key + part;
}
Ref slice(Expanding& made, Ref x, std::size_t axis, const std::string& part) {
  return made.call("getitem", {x}, {{"key", key_along(axis, part)}});
}
Ref reshaped(Expanding& made, Ref x, const Shape& shape) { return made.call("reshape", {x}, {{"shape", shape}}); }

std::shared_ptr<const Kernel> make_roll(KernelSpec spec) {
  expect_args(spec, 1, 1);
  const ArraySpec& x = exact_arg(spec, 0);
  const ParamReader params(spec, {"axis", "shift"});
  std::vector<std::int64_t> shifts = params.integers("shift");
  std::vector<std::size_t> axes;
  const bool flat = !params.given("axis");
  const Shape shape = flat ? Shape{element_count(x.max_shape())} : x.max_shape();
  if (flat)
    axes = {0};
  else
    for (std::int64_t axis : params.integers("axis")) axes.push_back(params.normalize_axis("axis", axis, x.rank()));
  if (shifts.size() == 1) shifts.resize(axes.size(), shifts[0]);
  if (axes.size() == 1) axes.resize(shifts.size(), axes[0]);
  if (shifts.size() != axes.size()) params.fail("shift", "as many numbers as \"axis\" has, or one");
  Shape total(shape.size(), 0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::int64_t extent = std::max<std::int64_t>(shape[axes[k]], 1);
    std::int64_t& sum = total[axes[k]];
    sum = (sum + (shifts[k] % extent + extent) % extent) % extent;
  }
  Expanding made(spec);
  Ref now = made.input(0);
  const bool moves = std::any_of(total.begin(), total.end(), [](std::int64_t n) { return n != 0; });
  if (flat && moves && x.rank() != 1) now = reshaped(made, now, shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (total[axis] == 0) continue;
    const std::string cut = std::to_string(shape[axis] - total[axis]);
    const Ref end = slice(made, now, axis, cut + ":"), begin = slice(made, now, axis, ":" + cut);
    now = made.call("concat", {end, begin}, {{"axis", static_cast<std::int64_t>(axis)}});
  }
  if (flat && moves && x.rank() != 1) now = reshaped(made, now, x.max_shape());
  if (!moves) now = made.call("getitem", {now}, {{"key", std::string("...")}});
  return made.finish(std::move(spec), {now});
}

// The array with each axis k repeated `before[k]` times as a whole and each element `behind[k]` times.
Ref repeated(Expanding& made, Ref x, const Shape& before, const Shape& behind) {
  const Shape shape = made.spec(x).max_shape();
  Shape wide, result;
  std::string key;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    key += axis > 0 ? ", " : "";
    if (before[axis] != 1) key += "None, ", wide.push_back(before[axis]);
    key += ":", wide.push_back(shape[axis]);
    if (behind[axis] != 1) key += ", None", wide.push_back(behind[axis]);
    result.push_back(extent_product(extent_product(before[axis], shape[axis]), behind[axis]));
  }
  if (wide.size() > kMaxRank) throw Error(ErrorKind::invalid, "the array has too many axes");
  byte_count(result, kComplex128);
  if (wide.size() == shape.size()) return made.call("getitem", {x}, {{"key", std::string("...")}});
  const Ref added = made.call("getitem", {x}, {{"key", key}});
  return reshaped(made, made.call("broadcast_to", {added}, {{"shape", wide}}), result);
}

std::shared_ptr<const Kernel> make_tile(KernelSpec spec) {
  expect_args(spec, 1, 1);
  const ArraySpec& x = exact_arg(spec, 0);
  const ParamReader params(spec, {"repetitions", "reps"});
  const char* name = params.given("reps") ? "reps" : "repetitions";
  Shape times = params.integers(name);
  if (std::any_of(times.begin(), times.end(), [](std::int64_t n) { return n < 0; }))
    params.fail(name, "integers that are not negative");
  Expanding made(spec);
  Ref now = made.input(0);
  if (times.size() < x.rank()) times.insert(times.begin(), x.rank() - times.size(), 1);
  if (times.size() > kMaxRank) params.fail(name, "at most 32 integers");
  if (times.size() > x.rank()) {
    std::vector<std::int64_t> axes;
    for (std::size_t k = 0; k < times.size() - x.rank(); ++k) axes.push_back(static_cast<std::int64_t>(k));
    now = made.call("expand_dims", {now}, {{"axis", axes}});
  }
  now = repeated(made, now, times, Shape(times.size(), 1));
  return made.finish(std::move(spec), {now});
}

std::shared_ptr<const Kernel> make_repeat(KernelSpec spec) {
  expect_args(spec, 1, 2);
  const ArraySpec& x = exact_arg(spec, 0);
  const ParamReader params(spec, {"axis", "repeats"});
  std::optional<std::int64_t> times;
  if (spec.args.size() == 2) {
    const auto* scalar = std::get_if<Scalar>(&spec.args[1]);
    if (scalar == nullptr || !std::holds_alternative<std::int64_t>(*scalar))
      params.fail("the number of repetitions must be an integer, the same for all elements");
    times = std::get<std::int64_t>(*scalar);
  } else {
    times = params.integer("repeats");
  }
  if (*times < 0) params.fail("the number of repetitions must not be negative");
  Expanding made(spec);
  Ref now = made.input(0);
  std::size_t axis = 0;
  if (params.given("axis"))
    axis = params.axis("axis", x.rank(), std::nullopt);
  else if (x.rank() != 1)
    now = reshaped(made, now, {element_count(x.max_shape())});
  const std::size_t rank = made.spec(now).rank();
  Shape behind(rank, 1);
  behind.at(axis) = *times;
  now = repeated(made, now, Shape(rank, 1), behind);
  return made.finish(std::move(spec), {now});
}

std::shared_ptr<const Kernel> make_unstack(KernelSpec spec) {
  constexpr std::int64_t kMostOutputs = 100000;
  expect_args(spec, 1, 1);
  const ArraySpec& x = exact_arg(spec, 0);
  const ParamReader params(spec, {"axis"});
  if (x.rank() == 0) params.fail("expected an array with axes, this one has none");
  const std::size_t axis = params.axis("axis", x.rank(), 0);
  const std::int64_t count = x.extents[axis].value;
  if (count < 1 || count > kMostOutputs)
    params.fail("the axis must have 1 to 100000 indices, it has " + std::to_string(count));
  Expanding made(spec);
  std::vector<Ref> outputs;
  for (std::int64_t k = 0; k < count; ++k) outputs.push_back(slice(made, made.input(0), axis, std::to_string(k)));
  return made.finish(std::move(spec), std::move(outputs), numbered(static_cast<std::size_t>(count)));
}

std::shared_ptr<const Kernel> make_meshgrid(KernelSpec spec) {
  expect_args(spec, 1, kMaxRank);
  const ParamReader params(spec, {"indexing"});
  const std::string indexing = params.given("indexing") ? params.text("indexing") : "xy";
  if (indexing != "xy" && indexing != "ij") params.fail("indexing", "\"xy\" or \"ij\"");
  const std::size_t rank = spec.args.size();
  Expanding made(spec);
  Shape shape;
  std::vector<std::size_t> axes;
  for (std::size_t k = 0; k < rank; ++k) {
    const ArraySpec& x = exact_arg(spec, k);
    if (x.rank() > 1) params.fail("argument " + std::to_string(k) + " must have one axis");
    if (x.dtype != array_arg(spec, 0).dtype) params.fail("all arrays must have one type");
    shape.push_back(x.rank() == 0 ? 1 : x.extents[0].value);
    axes.push_back(indexing == "xy" && rank > 1 && k < 2 ? 1 - k : k);
  }
  Shape result(rank);
  for (std::size_t k = 0; k < rank; ++k) result[axes[k]] = shape[k];
  byte_count(result, kComplex128);
  std::vector<Ref> outputs;
  for (std::size_t k = 0; k < rank; ++k) {
    std::string key;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const bool own = axis == axes[k] && array_arg(spec, k).rank() == 1;
      key += std::string(axis > 0 ? ", " : "") + (own ? ":" : "None");
    }
    outputs.push_back(
        made.call("broadcast_to", {made.call("getitem", {made.input(k)}, {{"key", key}})}, {{"shape", result}}));
  }
  return made.finish(std::move(spec), std::move(outputs), numbered(rank));
}

std::shared_ptr<const Kernel> make_broadcast_arrays(KernelSpec spec) {
  expect_args(spec, 1, 1000);
  const ParamReader params(spec, {});
  Shape shape;
  for (std::size_t k = 0; k < spec.args.size(); ++k) {
    const Shape own = exact_arg(spec, k).max_shape();
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), 1);
    for (std::size_t axis = 0; axis < own.size(); ++axis) {
      std::int64_t& extent = shape[shape.size() - own.size() + axis];
      if (extent == 1) extent = own[axis];
      if (own[axis] != 1 && own[axis] != extent)
        params.fail("the shapes do not broadcast: argument " + std::to_string(k) + " has " + to_string(own) +
                    ", the ones before " + to_string(shape));
    }
  }
  Expanding made(spec);
  std::vector<Ref> outputs;
  for (std::size_t k = 0; k < spec.args.size(); ++k)
    outputs.push_back(made.call("broadcast_to", {made.input(k)}, {{"shape", shape}}));
  return made.finish(std::move(spec), std::move(outputs), numbered(spec.args.size()));
}

std::shared_ptr<const Kernel> make_diff(KernelSpec spec) {
  expect_args(spec, 1, 1);
  const ArraySpec& x = exact_arg(spec, 0);
  const ParamReader params(spec, {"axis", "n"});
  if (x.rank() == 0) params.fail("expected an array with axes, this one has none");
  const std::size_t axis = params.axis("axis", x.rank(), -1);
  const std::int64_t n = params.integer("n", 1);
  if (n < 0 || n > 100) params.fail("n", "an integer of 0 to 100");
  const std::string function = x.dtype == kBool ? "not_equal" : "subtract";
  Expanding made(spec);
  Ref now = made.input(0);
  if (n == 0) now = made.call("getitem", {now}, {{"key", std::string("...")}});
  for (std::int64_t k = 0; k < n; ++k) {
    const Ref upper = slice(made, now, axis, "1:"), lower = slice(made, now, axis, ":-1");
    now = made.call(function, {upper, lower});
  }
  return made.finish(std::move(spec), {now});
}

}  // namespace

std::vector<BuiltinFunction> rearranging_builtins() {
  const std::string none = "0: no extra memory";
  return {
      {{"roll",
        "builtin",
        "roll(x, *, shift, axis=null)",
        "Elements moved along axes, those that leave coming in again.",
        none,
        {param("shift", "int or list of ints", "by how many places"),
         param("axis", "int or list of ints", "along which axes; null: of the flattened array", kNull)}},
       make_roll},
      {{"tile",
        "builtin",
        "tile(x, *, repetitions)",
        "The array repeated as a whole along its axes.",
        none,
        {param("repetitions", "int or list of ints", "how often along each axis, the last one last", kNull),
         param("reps", "int or list of ints", "the same under NumPy's name", kNull)}},
       make_tile},
      {{"repeat",
        "builtin",
        "repeat(x, repeats, *, axis=null)",
        "Each element repeated.",
        none,
        {param("repeats", "int", "how often", kNull),
         param("axis", "int", "along which axis; null: of the flattened array", kNull)}},
       make_repeat},
      {{"unstack",
        "builtin",
        "unstack(x, *, axis=0)",
        "The parts of an array at each index of an axis (0, 1, ...).",
        none,
        {param("axis", "int", "the axis, which the results do not have", std::int64_t{0})}},
       make_unstack},
      {{"meshgrid",
        "builtin",
        "meshgrid(x1, x2, ..., *, indexing=\"xy\")",
        "Coordinates of a grid, an array for each axis (0, 1, ...).",
        none,
        {param("indexing", "string", "Cartesian (xy) or matrix (ij) order of the first two axes", std::string("xy"))}},
       make_meshgrid},
      {{"broadcast_arrays",
        "builtin",
        "broadcast_arrays(x1, x2, ...)",
        "The arrays repeated to one common shape (0, 1, ...).",
        none,
        {}},
       make_broadcast_arrays},
      {{"diff",
        "builtin",
        "diff(x, *, axis=-1, n=1)",
        "Differences of neighbours along an axis.",
        none,
        {param("axis", "int", "the axis", std::int64_t{-1}), param("n", "int", "how often", std::int64_t{1})}},
       make_diff},
  };
}

}  // namespace cuboid
