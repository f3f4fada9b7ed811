#include "engine/expr/elementwise.h"

#include <algorithm>

#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

using Args = ElementArgs;

// Below this many elements in place a strip would cost more than copying the pieces of several runs together.
constexpr std::int64_t kWorthwhileRun = 256;

// What is computed: the loop and the type that each argument is converted to.
struct Typing {
  ElementLoop run = nullptr;
  DType result;
  std::vector<DType> args;
};

bool integral(DType dtype) { return dtype.kind == Kind::signed_int || dtype.kind == Kind::unsigned_int; }

std::string given_types(const Args& args) {
  std::string text;
  for (const auto& arg : args) {
    const auto* array = std::get_if<ArraySpec>(&arg);
    text += (text.empty() ? "" : ", ") +
            (array != nullptr ? to_string(array->dtype) : "the number " + to_string(std::get<Scalar>(arg)));
  }
  return text;
}

// The types of a comparison's two sides where the promoted type would round or the number lies outside the array's
// type: NumPy 2 compares exactly.
std::optional<Typing> exact_comparison(const ElementwiseFunction& function, const Args& args, DType promoted) {
  DType side[2];
  for (std::size_t k = 0; k < 2; ++k) {
    const auto* array = std::get_if<ArraySpec>(&args[k]);
    side[k] = array != nullptr ? array->dtype : default_dtype(std::get<Scalar>(args[k]));
    if (!integral(side[k]) && !(array != nullptr && side[k] == kBool)) return std::nullopt;
    if (array == nullptr && fits(std::get<Scalar>(args[k]), promoted)) side[k] = promoted;
  }
  if (integral(side[0]) && integral(side[1])) {
    const DType both = promote(side[0], side[1]);
    if (both != kFloat64) return Typing{function.loops[dtype_index(both)].run, kBool, {both, both}};
    const bool unsigned_first = side[0].kind == Kind::unsigned_int;
    return Typing{mixed_comparison(function.name, unsigned_first),
                  kBool,
                  {unsigned_first ? kUint64 : kInt64, unsigned_first ? kInt64 : kUint64}};
  }
  return std::nullopt;
}

void check_numbers(const KernelSpec& spec, const Args& args, DType promoted) {
  for (const auto& arg : args) {
    const auto* scalar = std::get_if<Scalar>(&arg);
    if (scalar != nullptr && !fits(*scalar, promoted))
      fail_call(spec, "the number " + to_string(*scalar) + " is not a value of " + to_string(promoted) +
                          ", the type of the arrays it meets; convert them with astype first");
  }
}

Typing typing_of(const ElementwiseFunction& function, const KernelSpec& spec, Args args) {
  const std::size_t arity = args.size();
  if (function.leading_condition) {
    const auto* mask = std::get_if<ArraySpec>(&args[0]);
    if (mask != nullptr ? mask->dtype != kBool : !std::holds_alternative<bool>(std::get<Scalar>(args[0])))
      fail_call(spec, "the condition must be of type bool, given: " + given_types({args[0]}));
    args.erase(args.begin());
  }
  DType promoted = result_type(args);
  if (function.refuses_bool && promoted == kBool)
    fail_call(spec, "not defined for bool; use logical_not, logical_xor or astype");
  if (function.compares)
    if (auto exact = exact_comparison(function, args, promoted)) return *exact;
  check_numbers(spec, args, promoted);
  if (function.ints_to_float64 && (integral(promoted) || promoted == kBool)) promoted = kFloat64;
  for (std::size_t k = 0; k < kDTypeCount; ++k) {
    const TypedLoop& loop = function.loops[k];
    if (loop.run == nullptr || !casts_safely(promoted, kDTypes[k])) continue;
    Typing typing{loop.run, loop.result, std::vector<DType>(arity, kDTypes[k])};
    if (function.leading_condition) typing.args[0] = kBool;
    return typing;
  }
  fail_call(spec, "not defined for the given types (" + given_types(args) + ")");
}

class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(const ElementwiseFunction& function, KernelSpec spec, Args args)
      : Kernel(std::move(spec)), args_(std::move(args)), typing_(typing_of(function, spec_, args_)) {
    for (const auto& arg : args_)
      if (const auto* array = std::get_if<ArraySpec>(&arg)) arrays_.push_back(*array);
    ArraySpec result;
    result.dtype = typing_.result;
    result.extents = broadcast_extents(spec_, arrays_);
    outputs_.push_back({"0", std::move(result), std::nullopt});
    domain_ = outputs_[0].spec.max_shape();
    for (std::size_t k = 0; k < args_.size(); ++k)
      if (const auto* scalar = std::get_if<Scalar>(&args_[k])) store_scalar(*scalar, typing_.args[k], scalars_[k]);
  }

  std::string identity() const override { return spec_.function + "#1"; }

  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    // Along each axis the chunk of the largest input that has it: that input's chunks are then read once each.
    Shape block(domain_.size(), 1);
    for (std::size_t axis = 0; axis < domain_.size(); ++axis) {
      double largest = -1;
      for (std::size_t k = 0; k < arrays_.size(); ++k) {
        const std::optional<std::size_t> own = own_axis(k, axis);
        if (!own || arrays_[k].extents[*own].value != domain_[axis]) continue;
        double bytes = arrays_[k].dtype.size;
        for (const Extent& extent : arrays_[k].extents) bytes *= static_cast<double>(extent.value);
        if (bytes <= largest) continue;
        largest = bytes;
        block[axis] = input_chunks[k][*own];
      }
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(domain_[axis], 1));
    }
    return block;
  }

  Box input_box(std::size_t k, const Box& block) const override {
    const std::size_t rank = arrays_[k].rank();
    const std::size_t lead = domain_.size() - rank;
    Box box = Box::whole(Shape(rank, 1));
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::int64_t extent = arrays_[k].extents[axis].value;
      if (extent == 1 && domain_[lead + axis] != 1) {
        // An empty block needs nothing; a broadcast axis is needed whole by any other.
        box.shape[axis] = std::min<std::int64_t>(block.shape[lead + axis], 1);
        continue;
      }
      box.origin[axis] = std::min(block.origin[lead + axis], extent);
      box.shape[axis] = std::min(block.shape[lead + axis], extent - box.origin[axis]);
    }
    return box;
  }

  Shape input_extents(std::size_t k, const Shape& block) const override {
    return input_box(k, Box::whole(block)).shape;
  }

  bool input_is_block(std::size_t k) const override { return arrays_[k].max_shape() == domain_; }

  bool works_in_place(std::size_t k) const override {
    return input_is_block(k) && arrays_[k].dtype == outputs_[0].spec.dtype;
  }

  CallMemory memory(Phase, const Shape&) const override { return {}; }

  void run(KernelCall& call) const override;

 private:
  // The axis of input k that meets `axis` of the domain.
  std::optional<std::size_t> own_axis(std::size_t k, std::size_t axis) const {
    const std::size_t lead = domain_.size() - arrays_[k].rank();
    if (axis < lead) return std::nullopt;
    return axis - lead;
  }

  Args args_;
  Typing typing_;
  std::vector<ArraySpec> arrays_;
  Shape domain_;
  alignas(16) std::byte scalars_[3][kMaxItemSize];
};

// The input seen in the shape of the output: stride 0 along broadcast axes.
ConstView broadcast_view(const ConstView& in, const Shape& shape) {
  ConstView view{in.dtype, in.data, shape, Shape(shape.size(), 0)};
  const std::size_t lead = shape.size() - in.shape.size();
  for (std::size_t axis = 0; axis < in.shape.size(); ++axis)
    if (in.shape[axis] == shape[lead + axis]) view.strides[lead + axis] = in.strides[axis];
  return view;
}

void ElementwiseKernel::run(KernelCall& call) const {
  const View& out = call.out[0];
  const std::size_t arity = args_.size();
  StripReader readers[3];
  for (std::size_t k = 0, array = 0; k < arity; ++k) {
    if (std::holds_alternative<ArraySpec>(args_[k]))
      readers[k].reset(broadcast_view(call.in[array++], out.shape), typing_.args[k]);
    else
      readers[k].reset({typing_.args[k], scalars_[k], out.shape, Shape(out.shape.size(), 0)}, typing_.args[k]);
  }
  StripWriter writer(out);
  const std::int64_t total = element_count(out.shape);
  for (std::int64_t done = 0; done < total;) {
    std::int64_t n = std::min(kStrip, total - done);
    if (const std::int64_t run = writer.in_place(); run >= kWorthwhileRun) n = std::min(n, run);
    for (std::size_t k = 0; k < arity; ++k)
      if (const std::int64_t run = readers[k].in_place(); run >= kWorthwhileRun) n = std::min(n, run);
    const std::byte* in[3];
    for (std::size_t k = 0; k < arity; ++k) in[k] = readers[k].next(n);
    typing_.run(in, writer.begin(n), n);
    writer.commit(n);
    done += n;
  }
}

std::string shape_text(const ArraySpec& spec) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < spec.rank(); ++axis)
    text += (axis ? ", " : "") + std::string(spec.extents[axis].trust == Trust::exact ? "" : "<=") +
            std::to_string(spec.extents[axis].value);
  return text + ")";
}

}  // namespace

std::vector<Extent> broadcast_extents(const KernelSpec& spec, const std::vector<ArraySpec>& arrays) {
  std::size_t rank = 0;
  for (const ArraySpec& array : arrays) rank = std::max(rank, array.rank());
  std::vector<Extent> result(rank, Extent{1, Trust::exact});
  for (const ArraySpec& array : arrays) {
    for (std::size_t axis = 0; axis < array.rank(); ++axis) {
      const Extent& own = array.extents[axis];
      Extent& all = result[rank - array.rank() + axis];
      if (own.value == 1 && own.trust == Trust::exact) continue;
      if (all.value == 1 && all.trust == Trust::exact) {
        all = own;
        continue;
      }
      // Bounds need not be equal: whether the extents are is known when they have been measured.
      if (all.trust == Trust::exact && own.trust == Trust::exact && all.value != own.value) {
        std::string shapes;
        for (const ArraySpec& one : arrays) shapes += (shapes.empty() ? "" : " and ") + shape_text(one);
        fail_call(spec,
                  "the shapes " + shapes + " do not broadcast: from the last axis on, extents must be equal or 1");
      }
      all = {std::max(all.value, own.value), std::max(all.trust, own.trust)};
    }
  }
  return result;
}

std::shared_ptr<const Kernel> make_elementwise(const ElementwiseFunction& function, KernelSpec spec) {
  expect_args(spec, function.arity, function.arity);
  const ParamReader none(spec, {});
  ElementArgs args = spec.args;
  return make_elementwise(function, std::move(spec), std::move(args));
}

std::shared_ptr<const Kernel> make_elementwise(const ElementwiseFunction& function, KernelSpec spec, ElementArgs args) {
  return std::make_shared<ElementwiseKernel>(function, std::move(spec), std::move(args));
}

FunctionDoc document(const ElementwiseFunction& function) {
  constexpr const char* kSignatures[]{"", "(x)", "(x1, x2)", "(x, min, max)"};
  FunctionDoc doc;
  doc.name = function.name;
  doc.kind = "builtin";
  doc.signature =
      function.name + std::string(function.leading_condition ? "(condition, x1, x2)" : kSignatures[function.arity]);
  doc.doc = function.doc;
  doc.memory = "0: no extra memory";
  return doc;
}

}  // namespace cuboid
