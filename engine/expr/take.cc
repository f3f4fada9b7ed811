// take and take_along_axis: elements picked by indices along one axis. Which ones is known when the indices are, so a block
// needs the whole axis.
#include <algorithm>
#include <cstring>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

// The element that an index means, of an axis of this extent.
std::int64_t place_in(const KernelSpec& spec, std::size_t axis, std::int64_t extent, bool is_unsigned,
                      const std::byte* element) {
  const std::int64_t index = *reinterpret_cast<const std::int64_t*>(element);
  const bool huge = is_unsigned && index < 0;
  const std::int64_t at = index < 0 ? index + extent : index;
  if (huge || at < 0 || at >= extent)
    fail_call(spec, "index " + (huge ? std::to_string(static_cast<std::uint64_t>(index)) : std::to_string(index)) +
                        " is out of range for axis " + std::to_string(axis) + " of extent " + std::to_string(extent));
  return at;
}

// uint64 does not fit int64; an index that large is out of range either way.
DType index_type(const KernelSpec& spec) {
  return std::get<ArraySpec>(spec.args[1]).dtype == kUint64 ? kUint64 : kInt64;
}

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
    const DType type = index_type(spec_);
    indices.reset(call.in[1], type);
    Shape slice = out.shape;
    slice[axis_] = 1;
    Shape from(slice.size(), 0), to(slice.size(), 0);
    for (std::int64_t i = 0; i < out.shape[axis_]; ++i) {
      from[axis_] = place_in(spec_, axis_, extent_, type == kUint64, indices.next(1));
      to[axis_] = i;
      copy_elements(call.in[0].sub(from, slice), out.sub(to, slice));
    }
  }

 private:
  std::size_t axis_;
  std::int64_t extent_ = 0;
};

class TakeAlongKernel final : public Kernel {
 public:
  TakeAlongKernel(KernelSpec spec, std::size_t axis) : Kernel(std::move(spec)), axis_(axis) {
    const ArraySpec& input = std::get<ArraySpec>(spec_.args[0]);
    ArraySpec result = std::get<ArraySpec>(spec_.args[1]);
    extent_ = input.extents[axis_].value;
    result.dtype = input.dtype;
    outputs_.push_back({"0", std::move(result), std::nullopt});
  }
  std::string identity() const override { return spec_.function + "#1"; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape shape = domain();
    Shape block = input_chunks.at(1);
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return block;
  }
  Box input_box(std::size_t k, const Box& block) const override {
    Box box = block;
    if (k == 0) box.origin[axis_] = 0, box.shape[axis_] = extent_;
    return box;
  }
  Shape input_extents(std::size_t k, const Shape& block) const override {
    return input_box(k, Box::whole(block)).shape;
  }
  bool input_is_block(std::size_t k) const override { return k == 1; }

  void run(KernelCall& call) const override {
    const View& out = call.out[0];
    const std::int64_t total = element_count(out.shape);
    const DType type = index_type(spec_);
    StripReader indices;
    indices.reset(call.in[1], type);
    StripWriter writer(out);
    Shape index(out.shape.size(), 0);
    for (std::int64_t done = 0; done < total;) {
      const std::int64_t n = std::min(kStrip, total - done);
      const std::byte* strip = indices.next(n);
      std::byte* to = writer.begin(n);
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t at = place_in(spec_, axis_, extent_, type == kUint64, strip + k * 8);
        const std::byte* from = call.in[0].data + at * call.in[0].strides[axis_];
        for (std::size_t axis = 0; axis < index.size(); ++axis)
          if (axis != axis_) from += index[axis] * call.in[0].strides[axis];
        std::memcpy(to + k * static_cast<std::int64_t>(out.dtype.size), from, out.dtype.size);
        for (std::size_t axis = index.size(); axis-- > 0;) {
          if (++index[axis] < out.shape[axis]) break;
          index[axis] = 0;
        }
      }
      writer.commit(n);
      done += n;
    }
  }

 private:
  std::size_t axis_;
  std::int64_t extent_ = 0;
};

std::shared_ptr<const Kernel> make_take_along_axis(KernelSpec spec) {
  expect_args(spec, 2, 2);
  const ArraySpec &input = array_arg(spec, 0), &indices = array_arg(spec, 1);
  const ParamReader params(spec, {"axis"});
  if (indices.dtype.kind != Kind::signed_int && indices.dtype.kind != Kind::unsigned_int)
    params.fail("the indices must be integers, " + to_string(indices.dtype) + " is given");
  if (input.rank() == 0) params.fail("expected arrays with axes");
  const std::size_t axis = params.axis("axis", input.rank(), -1);
  bool fits = indices.rank() == input.rank();
  for (std::size_t k = 0; fits && k < input.rank(); ++k) {
    const Extent &a = input.extents[k], &b = indices.extents[k];
    fits = k == axis || a.value == b.value || a.trust != Trust::exact || b.trust != Trust::exact;
  }
  if (!fits)
    params.fail("the indices have the shape " + to_string(indices.max_shape()) + ", the array " +
                to_string(input.max_shape()) + ": they may differ along axis " + std::to_string(axis) + " only");
  return std::make_shared<TakeAlongKernel>(std::move(spec), axis);
}

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
           make_take},
          {{"take_along_axis",
            "builtin",
            "take_along_axis(x, indices, *, axis=-1)",
            "The elements at indices of their own along an axis, for each index of the others.",
            "0: no extra memory; a block holds the whole axis",
            {param("axis", "int", "the axis", std::int64_t{-1})}},
           make_take_along_axis}};
}

}  // namespace cuboid
