// reshape. Extents of both shapes are matched in groups of equal products: an axis that is split, axes that are merged.
// Both are straight copies of boxes; a group of several axes on both sides is merged first, then split.
#include <algorithm>
#include <numeric>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/expansion.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

// Axes [in, in_end) of the input have the elements of axes [out, out_end) of the result.
struct Group {
  std::size_t in = 0, in_end = 0, out = 0, out_end = 0;
  bool splits() const { return in_end - in == 1; }  // also an axis that stays
  bool merges() const { return out_end - out == 1; }
};

// Axes of extent 1 join the group before them. Both shapes have the same, positive number of elements.
std::vector<Group> match(const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  std::size_t i = 0, o = 0;
  while (i < in.size() && o < out.size()) {
    Group group{i, i + 1, o, o + 1};
    std::int64_t a = in[i++], b = out[o++];
    while (a != b)
      if (a < b)
        a *= in[i++];
      else
        b *= out[o++];
    group.in_end = i;
    group.out_end = o;
    groups.push_back(group);
  }
  if (groups.empty()) groups.push_back({0, 0, 0, 0});
  groups.back().in_end = in.size();
  groups.back().out_end = out.size();
  return groups;
}

std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t n = 1;
  for (std::size_t axis = begin; axis < end; ++axis) n *= shape[axis];
  return n;
}

// Each axis of the input becomes one or more of the result.
class SplitKernel final : public Kernel {
 public:
  SplitKernel(KernelSpec spec, Shape result, std::vector<Group> groups)
      : Kernel(std::move(spec)), input_(std::get<ArraySpec>(spec_.args[0])), groups_(std::move(groups)) {
    inner_.assign(result.size(), 1);
    for (const Group& group : groups_)
      for (std::size_t axis = group.out; axis < group.out_end; ++axis)
        inner_[axis] = product(result, axis + 1, group.out_end);
    outputs_.push_back({"0", ArraySpec(input_.dtype, result), std::nullopt});
  }
  std::string identity() const override { return "reshape#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  // In each group a run of the C order that a chunk holds.
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape shape = domain();
    Shape block(shape.size(), 1);
    for (const Group& group : groups_) {
      std::int64_t left = group.in < group.in_end ? input_chunks.at(0)[group.in] : 1;
      for (std::size_t axis = group.out; axis < group.out_end; ++axis) {
        block[axis] = std::clamp<std::int64_t>(left / inner_[axis], 1, std::max<std::int64_t>(shape[axis], 1));
        if (left / inner_[axis] >= 1) left = inner_[axis];
      }
    }
    return block;
  }
  Box input_box(std::size_t, const Box& block) const override {
    Box box{Shape(input_.rank(), 0), Shape(input_.rank(), 0)};
    if (block.empty()) return box;
    for (const Group& group : groups_) {
      if (group.in == group.in_end) continue;
      std::int64_t first = 0, last = 0;
      for (std::size_t axis = group.out; axis < group.out_end; ++axis) {
        first += block.origin[axis] * inner_[axis];
        last += (block.end(axis) - 1) * inner_[axis];
      }
      box.origin[group.in] = first;
      box.shape[group.in] = last - first + 1;
    }
    return box;
  }
  Shape input_extents(std::size_t, const Shape& block) const override {
    Box whole = Box::whole(block);
    for (std::int64_t& extent : whole.shape) extent = std::max<std::int64_t>(extent, 1);
    Shape extents = input_box(0, whole).shape;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      extents[axis] = std::min(extents[axis], input_.extents[axis].value);
    return extents;
  }
  void run(KernelCall& call) const override {
    const View& out = call.out[0];
    if (element_count(out.shape) == 0) return;
    ConstView in{out.dtype, call.in[0].data, out.shape, Shape(out.shape.size(), 0)};
    for (const Group& group : groups_)
      for (std::size_t axis = group.out; group.in < group.in_end && axis < group.out_end; ++axis)
        in.strides[axis] = call.in[0].strides[group.in] * inner_[axis];
    copy_elements(in, out);
  }

 private:
  ArraySpec input_;
  std::vector<Group> groups_;
  Shape inner_;  // per axis of the result: elements of its group in one index of it
};

// Axes of the input become one of the result.
class MergeKernel final : public Kernel {
 public:
  MergeKernel(KernelSpec spec, Shape result, std::vector<Group> groups)
      : Kernel(std::move(spec)),
        input_(std::get<ArraySpec>(spec_.args[0])),
        shape_(input_.max_shape()),
        groups_(std::move(groups)) {
    outputs_.push_back({"0", ArraySpec(input_.dtype, result), std::nullopt});
  }
  std::string identity() const override { return "reshape#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  bool inlinable() const override { return false; }
  bool reads_in_order() const override { return true; }
  // In each group a run of the C order that covers whole chunks, of an extent that divides the axis that it cuts: so
  // every block is a box of the input.
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape result = domain();
    Shape block(result.size(), 1);
    const std::int64_t chunk_elements = element_count(input_chunks.at(0));
    const std::int64_t most = std::max<std::int64_t>(1 << 20, chunk_elements);
    for (const Group& group : groups_) {
      std::int64_t own = 1;
      for (std::size_t axis = group.in; axis < group.in_end; ++axis) own *= input_chunks[0][axis];
      const std::int64_t others = std::max<std::int64_t>(chunk_elements / std::max<std::int64_t>(own, 1), 1);
      std::int64_t run = 1;
      for (std::size_t axis = group.in_end; axis-- > group.in;) {
        const std::int64_t fit = most / others / run;
        if (fit >= shape_[axis]) {
          const std::int64_t wanted = axis == group.in ? input_chunks[0][axis] : shape_[axis];
          run *= std::min(std::max<std::int64_t>(wanted, 1), shape_[axis]);
          if (wanted < shape_[axis]) break;
          continue;
        }
        run *= largest_part(shape_[axis], std::max<std::int64_t>(fit, 1), input_chunks[0][axis], axis == group.in);
        break;
      }
      if (group.out < group.out_end)
        block[group.out] = std::clamp<std::int64_t>(run, 1, std::max<std::int64_t>(result[group.out], 1));
    }
    return block;
  }
  Box input_box(std::size_t, const Box& block) const override {
    Box box{Shape(input_.rank(), 0), Shape(input_.rank(), 0)};
    if (block.empty()) return box;
    for (const Group& group : groups_) {
      std::int64_t first = 0, last = 0;
      if (group.out < group.out_end) first = block.origin[group.out], last = block.end(group.out) - 1;
      bool differ = false;
      for (std::size_t axis = group.in; axis < group.in_end; ++axis) {
        const std::int64_t inner = product(shape_, axis + 1, group.in_end);
        const std::int64_t a = first / inner % shape_[axis], b = last / inner % shape_[axis];
        box.origin[axis] = differ ? 0 : a;
        box.shape[axis] = differ ? shape_[axis] : b - a + 1;
        differ |= a != b;
      }
    }
    return box;
  }
  // Blocks are those of a grid: their extents say whether they are boxes of the input.
  Shape input_extents(std::size_t, const Shape& block) const override {
    Shape extents(input_.rank(), 1);
    for (const Group& group : groups_) {
      const std::int64_t run = group.out < group.out_end ? std::max<std::int64_t>(block[group.out], 1) : 1;
      std::int64_t inner = 1;
      std::size_t axis = group.in_end;
      while (axis > group.in && run >= inner * shape_[axis - 1]) {
        inner *= std::max<std::int64_t>(shape_[axis - 1], 1);
        --axis;
        extents[axis] = shape_[axis];
      }
      if (axis == group.in) continue;
      const std::int64_t cut = shape_[axis - 1], count = run / inner;
      const bool box = run % inner == 0 && (axis - 1 == group.in || (count > 0 && cut % count == 0));
      if (box) {
        extents[axis - 1] = std::max<std::int64_t>(count, 1);
        continue;
      }
      // A run may begin anywhere: it may cross into the next index of any axis.
      const std::int64_t rows = product(shape_, group.in + 1, group.in_end);
      extents[group.in] = std::min(shape_[group.in], (run + rows - 2) / rows + 1);
      for (std::size_t other = group.in + 1; other < group.in_end; ++other) extents[other] = shape_[other];
    }
    return extents;
  }
  void run(KernelCall& call) const override {
    if (element_count(call.out[0].shape) == 0) return;
    Shape runs(groups_.size(), 1);
    copy(call, 0, call.in[0].data, call.out[0].data, runs);
  }

 private:
  // The largest number of indices of an axis, at most `fit`, that cuts it evenly; on the outermost axis any will do, whole
  // chunks best.
  static std::int64_t largest_part(std::int64_t extent, std::int64_t fit, std::int64_t chunk, bool outermost) {
    if (outermost) return fit >= chunk ? fit / chunk * chunk : fit;
    for (std::int64_t n = fit; n > std::max<std::int64_t>(fit / 64, 0); --n)
      if (extent % n == 0) return n;
    return extent;  // no good divisor: the whole axis
  }

  // Copies the runs of group g and of those behind it: a run is a stretch of the group's last axis.
  void copy(const KernelCall& call, std::size_t g, const std::byte* from, std::byte* to, Shape& runs) const {
    const ConstView& in = call.in[0];
    const View& out = call.out[0];
    if (g == groups_.size()) {
      // All runs are fixed: the extents in hand are a box.
      Shape extents(out.shape.size(), 1), strides(out.shape.size(), 0);
      for (std::size_t k = 0; k < groups_.size(); ++k)
        if (groups_[k].out < groups_[k].out_end)
          extents[groups_[k].out] = runs[k], strides[groups_[k].out] = in.strides[groups_[k].in_end - 1];
      return copy_elements({in.dtype, from, extents, strides}, {out.dtype, to, extents, out.strides});
    }
    const Group& group = groups_[g];
    if (group.out == group.out_end) return copy(call, g + 1, from, to, runs);
    const std::int64_t total = call.block.shape[group.out];
    const std::size_t last = group.in_end - 1;
    std::int64_t at = call.block.origin[group.out];
    for (std::int64_t done = 0; done < total;) {
      std::int64_t rest = at, place = 0;
      for (std::size_t axis = group.in; axis < group.in_end; ++axis) {
        const std::int64_t inner = product(shape_, axis + 1, group.in_end);
        place += (rest / inner - call.in_box[0].origin[axis]) * in.strides[axis];
        rest %= inner;
      }
      const std::int64_t run = std::min(total - done, shape_[last] - at % shape_[last]);
      runs[g] = run;
      copy(call, g + 1, from + place, to + done * out.strides[group.out], runs);
      done += run;
      at += run;
    }
  }
  ArraySpec input_;
  Shape shape_;
  std::vector<Group> groups_;
};

Shape wanted_shape(const ParamReader& params, const ArraySpec& input) {
  Shape shape = params.integers("shape");
  if (shape.size() > kMaxRank) params.fail("shape", "a list of at most " + std::to_string(kMaxRank) + " integers");
  const std::int64_t elements = element_count(input.max_shape());
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < -1 || (shape[axis] == -1 && open))
      params.fail("shape", "a list of integers that are not negative, at most one -1 among them");
    if (shape[axis] == -1)
      open = axis;
    else
      known = element_count({known, shape[axis]});
  }
  if (open) shape[*open] = known > 0 && elements % known == 0 ? elements / known : -1;
  if ((open && shape[*open] < 0) || element_count(shape) != elements)
    params.fail("shape", "the extents of an array of " + std::to_string(elements) + " elements");
  return shape;
}

std::shared_ptr<const Kernel> make_reshape(KernelSpec spec) {
  expect_args(spec, 1, 1);
  const ArraySpec input = exact_arg(spec, 0);
  const ParamReader params(spec, {"copy", "shape"});
  if (params.given("copy")) params.flag("copy", true);
  const Shape shape = wanted_shape(params, input), from = input.max_shape();
  if (element_count(shape) == 0) {
    Expanding made(spec);
    const Expansion::Ref nothing = made.call("zeros", {}, {{"shape", shape}, {"dtype", to_string(input.dtype)}});
    return made.finish(std::move(spec), {nothing});
  }
  std::vector<Group> groups = match(from, shape);
  const auto all = [&](auto holds) { return std::all_of(groups.begin(), groups.end(), holds); };
  if (all([](const Group& g) { return g.in_end - g.in <= 1; }))
    return std::make_shared<SplitKernel>(std::move(spec), shape, std::move(groups));
  if (all([](const Group& g) { return g.out_end - g.out <= 1; }))
    return std::make_shared<MergeKernel>(std::move(spec), shape, std::move(groups));
  Shape between;
  for (const Group& group : groups) between.push_back(product(from, group.in, group.in_end));
  Expanding made(spec);
  const Expansion::Ref merged = made.call("reshape", {made.input(0)}, {{"shape", between}});
  return made.finish(spec, {made.call("reshape", {merged}, {{"shape", shape}})});
}

}  // namespace

std::vector<BuiltinFunction> reshape_builtins() {
  return {{{"reshape",
            "builtin",
            "reshape(x, *, shape)",
            "The elements, in C order, in another shape.",
            "0: no extra memory",
            {param("shape", "list of ints", "extents of the result, one of them -1: what is left"),
             param("copy", "bool", "results are copies in any case", kNull)}},
           make_reshape}};
}

}  // namespace cuboid
