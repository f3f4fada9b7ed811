// permute_dims, expand_dims, squeeze, flip, broadcast_to, getitem: each says where the axes of its input run.
#include <algorithm>

#include "engine/expr/builtin.h"
#include "engine/expr/params.h"
#include "engine/expr/view_kernel.h"

namespace cuboid {
namespace {

const ArraySpec& only_array(const KernelSpec& spec) {
  expect_args(spec, 1, 1);
  return array_arg(spec, 0);
}

std::shared_ptr<const Kernel> permuted(KernelSpec spec, const std::vector<std::size_t>& order) {
  const ArraySpec input = array_arg(spec, 0);
  std::vector<AxisMap> axes(input.rank());
  std::vector<Extent> result;
  for (std::size_t to = 0; to < order.size(); ++to) {
    axes[order[to]].output = to;
    result.push_back(input.extents[order[to]]);
  }
  return make_view_kernel(std::move(spec), std::move(axes), std::move(result));
}

std::shared_ptr<const Kernel> make_permute_dims(KernelSpec spec) {
  const std::size_t rank = only_array(spec).rank();
  const ParamReader params(spec, {"axes"});
  std::vector<std::size_t> order, sorted = params.axes("axes", rank);
  if (!params.given("axes") || sorted.size() != rank)
    params.fail("axes", "a list that names each of the " + std::to_string(rank) + " axes once");
  for (std::int64_t axis : params.integers("axes")) order.push_back(params.normalize_axis("axes", axis, rank));
  return permuted(std::move(spec), order);
}

std::shared_ptr<const Kernel> make_matrix_transpose(KernelSpec spec) {
  const std::size_t rank = only_array(spec).rank();
  const ParamReader params(spec, {});
  if (rank < 2) params.fail("expected an array of 2 axes or more, this one has " + std::to_string(rank));
  std::vector<std::size_t> order(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) order[axis] = axis;
  std::swap(order[rank - 2], order[rank - 1]);
  return permuted(std::move(spec), order);
}

std::shared_ptr<const Kernel> make_moveaxis(KernelSpec spec) {
  const std::size_t rank = only_array(spec).rank();
  const ParamReader params(spec, {"destination", "source"});
  const std::vector<std::int64_t> from = params.integers("source"), to = params.integers("destination");
  if (from.size() != to.size()) params.fail("destination", "as many axes as \"source\" has");
  params.axes("source", rank);
  params.axes("destination", rank);
  std::vector<std::optional<std::size_t>> order(rank);
  std::vector<bool> placed(rank, false);
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::size_t axis = params.normalize_axis("source", from[k], rank);
    order[params.normalize_axis("destination", to[k], rank)] = axis;
    placed[axis] = true;
  }
  std::size_t next = 0;
  std::vector<std::size_t> full;
  for (const auto& axis : order) {
    while (!axis && placed[next]) ++next;
    full.push_back(axis ? *axis : next++);
  }
  return permuted(std::move(spec), full);
}

std::shared_ptr<const Kernel> make_expand_dims(KernelSpec spec) {
  const ArraySpec input = only_array(spec);
  const ParamReader params(spec, {"axis"});
  const std::vector<std::int64_t> list = params.given("axis") ? params.integers("axis") : std::vector<std::int64_t>{0};
  const std::size_t rank = input.rank() + list.size();
  if (rank > kMaxRank) params.fail("axis", "few enough axes for a result of " + std::to_string(kMaxRank));
  std::vector<bool> added(rank, false);
  for (std::int64_t axis : list) {
    const std::size_t place = params.normalize_axis("axis", axis, rank);
    if (added[place]) params.fail("axis", "axes that differ from each other");
    added[place] = true;
  }
  std::vector<AxisMap> axes;
  std::vector<Extent> result;
  for (std::size_t to = 0; to < rank; ++to) {
    result.push_back(added[to] ? Extent{1, Trust::exact} : input.extents[axes.size()]);
    if (!added[to]) axes.push_back({to, 0, 1});
  }
  return make_view_kernel(std::move(spec), std::move(axes), std::move(result));
}

std::shared_ptr<const Kernel> make_squeeze(KernelSpec spec) {
  const ArraySpec input = only_array(spec);
  const ParamReader params(spec, {"axis"});
  std::vector<bool> dropped(input.rank(), false);
  for (std::size_t axis : params.axes("axis", input.rank())) {
    const bool single = input.extents[axis] == Extent{1, Trust::exact};
    if (!single && params.given("axis"))
      params.fail("axis", "axes of extent 1 (axis " + std::to_string(axis) + " has " +
                              std::to_string(input.extents[axis].value) + ")");
    dropped[axis] = single;
  }
  std::vector<AxisMap> axes;
  std::vector<Extent> result;
  for (std::size_t axis = 0; axis < input.rank(); ++axis) {
    if (dropped[axis]) {
      axes.push_back({std::nullopt, 0, 1});
      continue;
    }
    axes.push_back({result.size(), 0, 1});
    result.push_back(input.extents[axis]);
  }
  return make_view_kernel(std::move(spec), std::move(axes), std::move(result));
}

std::shared_ptr<const Kernel> make_flip(KernelSpec spec) {
  const ArraySpec input = only_array(spec);
  const ParamReader params(spec, {"axis"});
  std::vector<AxisMap> axes;
  for (std::size_t axis = 0; axis < input.rank(); ++axis) axes.push_back({axis, 0, 1});
  for (std::size_t axis : params.axes("axis", input.rank())) axes[axis] = {axis, input.extents[axis].value - 1, -1};
  return make_view_kernel(std::move(spec), std::move(axes), input.extents);
}

std::shared_ptr<const Kernel> make_broadcast_to(KernelSpec spec) {
  const ArraySpec input = only_array(spec);
  const ParamReader params(spec, {"shape"});
  const Shape shape = params.integers("shape");
  if (shape.size() > kMaxRank) params.fail("shape", "a list of at most " + std::to_string(kMaxRank) + " integers");
  const bool fits = shape.size() >= input.rank();
  std::vector<AxisMap> axes;
  std::vector<Extent> result;
  for (std::size_t to = 0; to < shape.size(); ++to) {
    if (shape[to] < 0) params.fail("shape", "a list of integers that are not negative");
    result.push_back({shape[to], Trust::exact});
  }
  byte_count(shape, input.dtype);
  for (std::size_t axis = 0; fits && axis < input.rank(); ++axis) {
    const std::size_t to = shape.size() - input.rank() + axis;
    const std::int64_t extent = input.extents[axis].value;
    if (extent == shape[to])
      axes.push_back({to, 0, 1});
    else if (extent == 1)
      axes.push_back({std::nullopt, 0, 1});
  }
  if (axes.size() != input.rank())
    params.fail("shape", "a shape that " + to_string(input.max_shape()) + " broadcasts to");
  return make_view_kernel(std::move(spec), std::move(axes), std::move(result));
}

// The elements that a slice takes of an axis, as Python counts them.
struct Taken {
  std::int64_t start = 0, step = 1, count = 0;
};
Taken take_slice(const IndexItem& item, std::int64_t extent) {
  const std::int64_t step = item.step.value_or(1);
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  const auto place = [&](const std::optional<std::int64_t>& at, std::int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? std::max(*at, -extent - 1) + extent : *at, low, high);
  };
  const std::int64_t start = place(item.start, step > 0 ? low : high), stop = place(item.stop, step > 0 ? high : low);
  Taken taken{start, step, 0};
  if (step > 0 && start < stop) taken.count = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) taken.count = (start - stop - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1;
  if (taken.count <= 1) taken.step = 1;
  if (taken.count == 0) taken.start = 0;
  return taken;
}

std::vector<IndexItem> index_param(const ParamReader& params) {
  const ParamValue* key = params.find("key");
  if (key != nullptr)
    if (const auto* number = std::get_if<std::int64_t>(key)) return {{IndexItem::What::integer, *number, {}, {}}};
  if (key == nullptr || !std::holds_alternative<std::string>(*key))
    params.fail("key", "an index such as \"2:10:3, ..., None, -1\"");
  try {
    return parse_index(std::get<std::string>(*key));
  } catch (const Error& error) {
    params.fail("parameter \"key\": " + error.message());
  }
}

std::shared_ptr<const Kernel> make_getitem(KernelSpec spec) {
  using What = IndexItem::What;
  const ArraySpec input = only_array(spec);
  const ParamReader params(spec, {"key"});
  std::vector<IndexItem> items = index_param(params);
  const auto consuming = static_cast<std::size_t>(std::count_if(items.begin(), items.end(), [](const IndexItem& item) {
    return item.what == What::integer || item.what == What::slice;
  }));
  if (consuming > input.rank())
    params.fail("parameter \"key\" has " + std::to_string(consuming) + " indices, the array has " +
                std::to_string(input.rank()) + (input.rank() == 1 ? " axis" : " axes"));
  auto rest =
      std::find_if(items.begin(), items.end(), [](const IndexItem& item) { return item.what == What::ellipsis; });
  if (rest != items.end() &&
      std::count_if(rest + 1, items.end(), [](const IndexItem& item) { return item.what == What::ellipsis; }) > 0)
    params.fail("parameter \"key\" may have one \"...\" only");
  const bool ellipsis = rest != items.end();
  rest = items.insert(ellipsis ? items.erase(rest) : items.end(), input.rank() - consuming, IndexItem{});

  std::vector<AxisMap> axes;
  std::vector<Extent> result;
  for (const IndexItem& item : items) {
    if (item.what == What::new_axis) {
      result.push_back({1, Trust::exact});
      continue;
    }
    const std::size_t axis = axes.size();
    const Extent extent = input.extents[axis];
    if (item.what == What::integer) {
      const std::int64_t at = *item.start < 0 ? *item.start + extent.value : *item.start;
      if (at < 0 || at >= extent.value)
        params.fail("parameter \"key\": index " + std::to_string(*item.start) + " is out of range for axis " +
                    std::to_string(axis) + " of extent " + std::to_string(extent.value));
      axes.push_back({std::nullopt, at, 1});
      continue;
    }
    const Taken taken = take_slice(item, extent.value);
    axes.push_back({result.size(), taken.start, taken.step});
    result.push_back({taken.count, extent.trust});
  }
  if (result.size() > kMaxRank) params.fail("parameter \"key\": the result has more than 32 axes");
  return make_view_kernel(std::move(spec), std::move(axes), std::move(result));
}

}  // namespace

std::vector<BuiltinFunction> movement_builtins() {
  const std::string none = "0: no extra memory";
  return {
      {{"permute_dims",
        "builtin",
        "permute_dims(x, *, axes)",
        "The axes in another order.",
        none,
        {param("axes", "list of ints", "for each axis of the result, the axis of x that it is")}},
       make_permute_dims},
      {{"matrix_transpose", "builtin", "matrix_transpose(x)", "The last two axes exchanged.", none, {}},
       make_matrix_transpose},
      {{"moveaxis",
        "builtin",
        "moveaxis(x, *, source, destination)",
        "Some axes moved, the others in their order.",
        none,
        {param("source", "int or list of ints", "the axes to move"),
         param("destination", "int or list of ints", "where they go in the result")}},
       make_moveaxis},
      {{"expand_dims",
        "builtin",
        "expand_dims(x, *, axis=0)",
        "Axes of extent 1 added.",
        none,
        {param("axis", "int or list of ints", "where they stand in the result", std::int64_t{0})}},
       make_expand_dims},
      {{"squeeze",
        "builtin",
        "squeeze(x, *, axis=null)",
        "Axes of extent 1 dropped.",
        none,
        {param("axis", "int or list of ints", "the axes to drop; null: all of extent 1", kNull)}},
       make_squeeze},
      {{"flip",
        "builtin",
        "flip(x, *, axis=null)",
        "The elements in reverse order along axes.",
        none,
        {param("axis", "int or list of ints", "the axes; null: all", kNull)}},
       make_flip},
      {{"broadcast_to",
        "builtin",
        "broadcast_to(x, *, shape)",
        "Repeated along new axes and along those of extent 1.",
        none,
        {param("shape", "list of ints", "extents of the result")}},
       make_broadcast_to},
      {{"getitem",
        "builtin",
        "getitem(x, *, key)",
        "x[key], with integers, slices, ... and None.",
        none,
        {param("key", "string", "the index as Python writes it: \"2:10:3, ..., None, -1\"")}},
       make_getitem},
  };
}

}  // namespace cuboid
