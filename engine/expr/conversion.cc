// astype and rechunk: the same elements in another type or in other blocks.
#include <algorithm>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

class ConversionKernel final : public Kernel {
 public:
  // `block`: the preferred block, where the call states one.
  ConversionKernel(KernelSpec spec, DType to, std::optional<Shape> block)
      : Kernel(std::move(spec)), block_(std::move(block)) {
    ArraySpec result = std::get<ArraySpec>(spec_.args[0]);
    identity_ = result.dtype == to;
    result.dtype = to;
    outputs_.push_back({"0", std::move(result), std::nullopt});
  }
  std::string identity() const override { return spec_.function + "#1"; }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    Shape block = block_.value_or(input_chunks.at(0));
    const Shape shape = domain();
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return block;
  }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  bool input_is_block(std::size_t) const override { return true; }
  bool identity_map() const override { return identity_; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  void run(KernelCall& call) const override { cast_elements(call.in[0], call.out[0]); }

 private:
  std::optional<Shape> block_;
  bool identity_ = false;
};

std::shared_ptr<const Kernel> make_astype(KernelSpec spec) {
  expect_args(spec, 1, 2);
  array_arg(spec, 0);
  if (spec.args.size() == 2) fail_call(spec, "the type is given as the parameter \"dtype\"");
  const ParamReader params(spec, {"dtype"});
  const bool to_half = params.given("dtype") && params.text("dtype") == to_string(kFloat16);
  const std::optional<DType> to = to_half ? kFloat16 : params.dtype("dtype");
  if (!to) params.fail("dtype", "the name of an element type");
  const DType from = array_arg(spec, 0).dtype;
  if (from != *to) cast_loop(from, *to);  // refuses what cannot be converted
  if (from.kind == Kind::complex_float && to->kind != Kind::complex_float && to->kind != Kind::boolean)
    params.fail("a complex array has no values of " + to_string(*to) + "; take real, imag or abs first");
  return std::make_shared<ConversionKernel>(std::move(spec), *to, std::nullopt);
}

std::shared_ptr<const Kernel> make_rechunk(KernelSpec spec) {
  expect_args(spec, 1, 1);
  const ArraySpec& input = array_arg(spec, 0);
  const ParamReader params(spec, {"chunks"});
  std::optional<Shape> chunks;
  if (params.given("chunks")) {
    chunks = params.integers("chunks");
    if (chunks->size() != input.rank())
      params.fail("chunks", "a list of " + std::to_string(input.rank()) + " integers, one per axis of the array");
    if (std::any_of(chunks->begin(), chunks->end(), [](std::int64_t extent) { return extent < 1; }))
      params.fail("chunks", "a list of integers that are at least 1");
  }
  const DType dtype = input.dtype;
  return std::make_shared<ConversionKernel>(std::move(spec), dtype, std::move(chunks));
}

}  // namespace

std::vector<BuiltinFunction> conversion_builtins() {
  const std::string none = "0: no extra memory";
  return {
      {{"astype",
        "builtin",
        "astype(x, dtype)",
        "The elements converted to another type.",
        none,
        {param("dtype", "string", "element type of the result")}},
       make_astype},
      {{"rechunk",
        "builtin",
        "rechunk(x, chunks)",
        "The same array in other chunks.",
        none,
        {param("chunks", "list of ints", "extents of a chunk, one per axis; null: as the step says", kNull)}},
       make_rechunk},
  };
}

}  // namespace cuboid
