// take: elements picked by indices along one axis. Which ones is known when the indices are, so a block needs the whole
// axis.
#include <algorithm>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

class TakeKernel final : public Kernel {
 public:
  TakeKernel(KernelSpec spec, std::size_t axis) : Kernel(std::move(spec)), axis_(axis) {
    ArraySpec result = std::get<ArraySpec>(spec_.args[0]);
    extent_ = result.extents[axis_].value;
    result.extents[axis_] = std::get<ArraySpec>(spec_.args[1]).extents[0];
    outputs_.push_back({"0", std::move(result), std::nullopt});
  }
  std::string identity() const override { return spec_.function + "#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape shape = domain();
    Shape block = input_chunks.at(0);
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return block;
  }
  Box input_box(std::size_t k, const Box& block) const override {
    if (k == 1) return {{block.origin[axis_]}, {block.shape[axis_]}};
    Box box = block;
    box.origin[axis_] = 0;
    box.shape[axis_] = extent_;
    return box;
  }
  Shape input_extents(std::size_t k, const Shape& block) const override {
    return input_box(k, Box::whole(block)).shape;
  }

  void run(KernelCall& call) const override {
    const View& out = call.out[0];
    if (element_count(out.shape) == 0) return;
    StripReader indices;
    indices.reset(call.in[1], spec_dtype());
    Shape slice = out.shape;
    slice[axis_] = 1;
    Shape from(slice.size(), 0), to(slice.size(), 0);
    for (std::int64_t i = 0; i < out.shape[axis_]; ++i) {
      from[axis_] = place(indices.next(1));
      to[axis_] = i;
      copy_elements(call.in[0].sub(from, slice), out.sub(to, slice));
    }
  }

 private:
  // uint64 does not fit int64; an index that large is out of range either way.
  DType spec_dtype() const { return std::get<ArraySpec>(spec_.args[1]).dtype == kUint64 ? kUint64 : kInt64; }

  std::int64_t place(const std::byte* element) const {
    const std::int64_t index = *reinterpret_cast<const std::int64_t*>(element);
    const bool huge = spec_dtype() == kUint64 && index < 0;
    const std::int64_t at = index < 0 ? index + extent_ : index;
    if (huge || at < 0 || at >= extent_)
      fail_call(spec_, "index " + (huge ? std::to_string(static_cast<std::uint64_t>(index)) : std::to_string(index)) +
                           " is out of range for axis " + std::to_string(axis_) + " of extent " +
                           std::to_string(extent_));
    return at;
  }

  std::size_t axis_;
  std::int64_t extent_ = 0;
};

std::shared_ptr<const Kernel> make_take(KernelSpec spec) {
  expect_args(spec, 2, 2);
  const ArraySpec& input = array_arg(spec, 0);
  const ArraySpec& indices = array_arg(spec, 1);
  const ParamReader params(spec, {"axis"});
  if (indices.dtype.kind != Kind::signed_int && indices.dtype.kind != Kind::unsigned_int)
    params.fail("the indices must be integers, " + to_string(indices.dtype) + " is given");
  if (indices.rank() != 1) params.fail("the indices must have one axis, they have " + std::to_string(indices.rank()));
  if (!params.given("axis") && input.rank() != 1)
    params.fail("axis", "an integer, as the array has " + std::to_string(input.rank()) + " axes");
  const std::size_t axis = params.axis("axis", input.rank(), 0);
  return std::make_shared<TakeKernel>(std::move(spec), axis);
}

}  // namespace

std::vector<BuiltinFunction> take_builtins() {
  return {{{"take",
            "builtin",
            "take(x, indices, *, axis=null)",
            "The elements at the given indices (one axis, negative ones counted from the end) along an axis.",
            "0: no extra memory; a block holds the whole axis",
            {param("axis", "int", "the axis; null: the only one", kNull)}},
           make_take}};
}

}  // namespace cuboid
