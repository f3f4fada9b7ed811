// concat and stack: several arrays side by side along one axis. A block needs those arrays that it meets.
#include <algorithm>
#include <numeric>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

class JoinKernel final : public Kernel {
 public:
  // Input k takes `extents[k]` indices of `axis`; `stacked`: the inputs do not have that axis.
  JoinKernel(KernelSpec spec, ArraySpec result, std::size_t axis, const std::vector<std::int64_t>& extents,
             bool stacked)
      : Kernel(std::move(spec)), axis_(axis), starts_(extents.size() + 1, 0), stacked_(stacked) {
    std::partial_sum(extents.begin(), extents.end(), starts_.begin() + 1);
    outputs_.push_back({"0", std::move(result), std::nullopt});
  }
  std::string identity() const override { return spec_.function + "#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  bool inputs_one_by_one() const override { return true; }

  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    Shape block = input_chunks.at(0);
    if (stacked_) block.insert(block.begin() + static_cast<std::ptrdiff_t>(axis_), 1);
    const Shape shape = domain();
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return block;
  }

  Box input_box(std::size_t k, const Box& block) const override {
    Box box = part(k, block);
    if (!stacked_) {
      box.origin[axis_] -= starts_[k];
      return box;
    }
    const bool met = box.shape[axis_] > 0;
    box.origin.erase(box.origin.begin() + static_cast<std::ptrdiff_t>(axis_));
    box.shape.erase(box.shape.begin() + static_cast<std::ptrdiff_t>(axis_));
    if (!met) std::fill(box.shape.begin(), box.shape.end(), 0);
    return box;
  }

  Shape input_extents(std::size_t k, const Shape& block) const override {
    Shape extents = block;
    if (stacked_)
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis_));
    else
      extents[axis_] = std::min(extents[axis_], starts_[k + 1] - starts_[k]);
    return extents;
  }

  void run(KernelCall& call) const override {
    for (std::size_t k = 0; k + 1 < starts_.size(); ++k) {
      const Box box = part(k, call.block);
      if (box.shape[axis_] == 0 || call.in[k].data == nullptr) continue;
      ConstView in = call.in[k];
      if (stacked_) {
        in.shape.insert(in.shape.begin() + static_cast<std::ptrdiff_t>(axis_), 1);
        in.strides.insert(in.strides.begin() + static_cast<std::ptrdiff_t>(axis_), 0);
      }
      Shape origin(box.shape.size(), 0);
      origin[axis_] = box.origin[axis_] - call.block.origin[axis_];
      cast_elements(in, call.out[0].sub(origin, box.shape));
    }
  }

 private:
  // The part of a block that comes from input k, in the output's indices.
  Box part(std::size_t k, const Box& block) const {
    Box box = block;
    box.origin[axis_] = std::clamp(block.origin[axis_], starts_[k], starts_[k + 1]);
    box.shape[axis_] = std::clamp(block.end(axis_), starts_[k], starts_[k + 1]) - box.origin[axis_];
    return box;
  }

  std::size_t axis_;
  std::vector<std::int64_t> starts_;
  bool stacked_;
};

constexpr std::size_t kMostArrays = 100000;

std::vector<ArraySpec> arrays_of(const KernelSpec& spec) {
  expect_args(spec, 1, kMostArrays);
  std::vector<ArraySpec> arrays;
  for (std::size_t k = 0; k < spec.args.size(); ++k) arrays.push_back(array_arg(spec, k));
  return arrays;
}

// Throws where array k has another shape than the first one, `but` an axis.
void check_shape(const KernelSpec& spec, const std::vector<ArraySpec>& arrays, std::size_t k,
                 std::optional<std::size_t> but) {
  bool same = arrays[k].rank() == arrays[0].rank();
  for (std::size_t axis = 0; same && axis < arrays[0].rank(); ++axis) {
    const Extent &a = arrays[0].extents[axis], &b = arrays[k].extents[axis];
    // Bounds need not be equal: whether the extents are is known when they have been measured.
    same = axis == but || a.value == b.value || a.trust != Trust::exact || b.trust != Trust::exact;
  }
  if (!same)
    fail_call(spec, "array " + std::to_string(k) + " has the shape " + to_string(arrays[k].max_shape()) +
                        ", the first one " + to_string(arrays[0].max_shape()) +
                        (but ? "; they may differ along axis " + std::to_string(*but) + " only" : ""));
}

std::shared_ptr<const Kernel> make_concat(KernelSpec spec) {
  const std::vector<ArraySpec> arrays = arrays_of(spec);
  const ParamReader params(spec, {"axis"});
  const bool flat = spec.params.contains("axis") && !params.given("axis");
  const auto one_axis = [](const ArraySpec& array) { return array.rank() == 1; };
  if (flat && !std::all_of(arrays.begin(), arrays.end(), one_axis))
    params.fail("axis", "an integer, unless all arrays have one axis");
  if (arrays[0].rank() == 0) params.fail("arrays without axes cannot be joined; use stack");
  const std::size_t axis = params.axis("axis", arrays[0].rank(), 0);
  ArraySpec result = arrays[0];
  result.dtype = result_type(spec.args);
  result.extents[axis] = {0, Trust::exact};
  std::vector<std::int64_t> extents;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    check_shape(spec, arrays, k, axis);
    for (std::size_t other = 0; other < result.rank(); ++other) {
      const Extent own = arrays[k].extents[other];
      Extent& all = result.extents[other];
      all.trust = std::max(all.trust, own.trust);
      all.value = other == axis ? extent_sum(all.value, own.value) : std::max(all.value, own.value);
    }
    extents.push_back(arrays[k].extents[axis].value);
  }
  byte_count(result.max_shape(), result.dtype);
  return std::make_shared<JoinKernel>(std::move(spec), std::move(result), axis, extents, false);
}

std::shared_ptr<const Kernel> make_stack(KernelSpec spec) {
  const std::vector<ArraySpec> arrays = arrays_of(spec);
  const ParamReader params(spec, {"axis"});
  if (arrays[0].rank() + 1 > kMaxRank) params.fail("the result would have more than 32 axes");
  const std::size_t axis = params.axis("axis", arrays[0].rank() + 1, 0);
  ArraySpec result = arrays[0];
  result.dtype = result_type(spec.args);
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    check_shape(spec, arrays, k, std::nullopt);
    for (std::size_t other = 0; other < result.rank(); ++other) {
      result.extents[other].trust = std::max(result.extents[other].trust, arrays[k].extents[other].trust);
      result.extents[other].value = std::max(result.extents[other].value, arrays[k].extents[other].value);
    }
  }
  result.extents.insert(result.extents.begin() + static_cast<std::ptrdiff_t>(axis),
                        {static_cast<std::int64_t>(arrays.size()), Trust::exact});
  byte_count(result.max_shape(), result.dtype);
  const std::vector<std::int64_t> extents(arrays.size(), 1);
  return std::make_shared<JoinKernel>(std::move(spec), std::move(result), axis, extents, true);
}

}  // namespace

std::vector<BuiltinFunction> join_builtins() {
  const std::string none = "0: no extra memory";
  return {
      {{"concat",
        "builtin",
        "concat(x1, x2, ..., *, axis=0)",
        "Arrays one after another along an axis.",
        none,
        {param("axis", "int", "the axis; null: arrays of one axis", std::int64_t{0})}},
       make_concat},
      {{"stack",
        "builtin",
        "stack(x1, x2, ..., *, axis=0)",
        "Arrays of one shape side by side along a new axis.",
        none,
        {param("axis", "int", "where the new axis stands in the result", std::int64_t{0})}},
       make_stack},
  };
}

}  // namespace cuboid
