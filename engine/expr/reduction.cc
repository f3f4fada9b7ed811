#include "engine/expr/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

struct Reduction {
  ReductionLoops loops;
  DType result;
  std::vector<std::size_t> axes;
  bool keepdims = false;
  bool needs_elements = false;  // min of nothing is an error
  double correction = 0;
};

// The C-order walk over the cells or rows of a block: an index over leading axes and an offset into every state.
class StateWalk {
 public:
  StateWalk(const std::vector<View>& states, const Shape& block, std::size_t axes, const std::vector<bool>& reduced)
      : states_(states), block_(block), axes_(axes) {
    for (std::size_t s = 0; s < states.size(); ++s) {
      cells_[s] = states[s].data;
      for (std::size_t axis = 0; axis < block.size(); ++axis)
        strides_[s][axis] = reduced[axis] ? 0 : states[s].strides[axis];
    }
  }
  std::byte* const* cells() const { return cells_; }
  std::int64_t index(std::size_t axis) const { return index_[axis]; }
  std::int64_t stride(std::size_t state, std::size_t axis) const { return strides_[state][axis]; }
  // Cells from here to the end of the innermost axis walked, this one included.
  std::int64_t cells_ahead() const { return axes_ == 0 ? 1 : block_[axes_ - 1] - index_[axes_ - 1]; }
  // Steps over `count` <= cells_ahead() cells.
  void advance(std::int64_t count) {
    if (axes_ == 0) return;
    index_[axes_ - 1] += count - 1;
    for (std::size_t s = 0; s < states_.size(); ++s) cells_[s] += strides_[s][axes_ - 1] * (count - 1);
    next();
  }
  void next() {
    for (std::size_t axis = axes_; axis-- > 0;) {
      const bool carry = ++index_[axis] == block_[axis];
      for (std::size_t s = 0; s < states_.size(); ++s)
        cells_[s] += carry ? -strides_[s][axis] * (block_[axis] - 1) : strides_[s][axis];
      if (!carry) return;
      index_[axis] = 0;
    }
  }

 private:
  const std::vector<View>& states_;
  const Shape& block_;
  std::size_t axes_;
  std::int64_t index_[kMaxRank] = {};
  std::int64_t strides_[kMaxStates][kMaxRank];
  std::byte* cells_[kMaxStates] = {};
};

class ReductionKernel final : public Kernel {
 public:
  ReductionKernel(KernelSpec spec, Reduction reduction)
      : Kernel(std::move(spec)), reduction_(std::move(reduction)), input_(std::get<ArraySpec>(spec_.args[0])) {
    reduced_.assign(input_.rank(), false);
    for (std::size_t axis : reduction_.axes) reduced_[axis] = true;
    form_ = {reduction_.axes, reduction_.keepdims, reduction_.loops.states, {}};
    ArraySpec result;
    result.dtype = reduction_.result;
    for (std::size_t axis = 0; axis < input_.rank(); ++axis) {
      if (!reduced_[axis])
        result.extents.push_back(input_.extents[axis]);
      else if (reduction_.keepdims)
        result.extents.push_back({1, Trust::exact});
    }
    outputs_.push_back({"0", std::move(result), std::nullopt});
    weigh_positions();
  }

  std::string identity() const override { return spec_.function + "#1"; }
  void check_extents() const override {
    if (!reduction_.needs_elements) return;
    for (std::size_t axis : reduction_.axes)
      if (input_.extents[axis] == Extent{0, Trust::exact})
        fail_call(spec_, "axis " + std::to_string(axis) + " has no elements, and there is no " + spec_.function +
                             " of nothing");
  }
  Shape domain() const override { return input_.max_shape(); }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    Shape block = input_chunks.at(0);
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(input_.extents[axis].value, 1));
    return block;
  }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  bool input_is_block(std::size_t) const override { return true; }
  Box output_box(std::size_t, const Box& block) const override {
    Box box;
    for (std::size_t axis = 0; axis < block.shape.size(); ++axis) {
      if (reduced_[axis] && !reduction_.keepdims) continue;
      box.origin.push_back(reduced_[axis] ? 0 : block.origin[axis]);
      box.shape.push_back(reduced_[axis] ? 1 : block.shape[axis]);
    }
    return box;
  }
  Shape output_extents(std::size_t k, const Shape& block) const override {
    return output_box(k, Box::whole(block)).shape;
  }
  const ReductionForm* reduction() const override { return &form_; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }

  void run(KernelCall& call) const override {
    switch (call.phase) {
      case Phase::init:
        return init(call);
      case Phase::accumulate:
        return accumulate(call);
      case Phase::merge:
        return merge(call);
      case Phase::finalize:
        return finalize(call);
      case Phase::map:
        break;
    }
    throw Error(ErrorKind::invalid, spec_.function + ": a reduction has no map phase");
  }

 private:
  // A position counts in C order along the reduced axes.
  void weigh_positions() {
    weights_.assign(input_.rank(), 0);
    std::int64_t weight = 1;
    for (std::size_t axis = input_.rank(); axis-- > 0;) {
      if (!reduced_[axis]) continue;
      weights_[axis] = weight;
      weight *= std::max<std::int64_t>(input_.extents[axis].value, 1);
    }
  }

  void init(KernelCall& call) const {
    check_extents();
    for (std::size_t s = 0; s < call.out.size(); ++s) fill_elements(call.out[s], reduction_.loops.initial[s]);
  }

  // First of the trailing axes that are walked as one run: all reduced, or all kept and in one run in memory too.
  std::size_t run_start(const KernelCall& call) const {
    const std::size_t rank = reduced_.size();
    if (rank == 0) return 0;
    std::size_t start = rank - 1;
    const bool folds = reduced_[start];
    if (folds && reduction_.loops.positions) return start;
    const auto joins = [&start](const auto& view) {
      return view.strides[start - 1] == view.strides[start] * view.shape[start];
    };
    while (start > 0 && reduced_[start - 1] == folds) {
      if (!folds && !(joins(call.in[0]) && std::all_of(call.out.begin(), call.out.end(), joins))) return start;
      --start;
    }
    return start;
  }

  // The part of a block that one walk folds: runs over the axes from `start` on, of `run` elements each.
  struct Pass {
    ConstView in;
    const std::vector<View>& states;
    std::size_t start;
    std::int64_t run;
    bool folds;
  };

  void accumulate(KernelCall& call) const {
    const std::int64_t total = element_count(call.in[0].shape);
    if (total == 0) return;
    const std::size_t rank = reduced_.size();
    Pass pass{call.in[0], call.out, run_start(call), 1, rank == 0 || reduced_[rank - 1]};
    for (std::size_t axis = pass.start; axis < rank; ++axis) pass.run *= pass.in.shape[axis];
    const std::int64_t done = pass.folds ? 0 : accumulate_four_by_four(pass);
    if (done > 0) {
      if (done == pass.in.shape[0]) return;
      Shape origin(rank, 0), extents = pass.in.shape;
      origin[0] = done;
      extents[0] -= done;
      pass.in = pass.in.sub(origin, extents);
    }
    accumulate(call, pass);
  }

  // Long rows that need no conversion, four at a time, so that each cell is loaded and stored once for the four; each
  // still meets the rows in order. The sum of 5000 x 5000 float64 along axis 0: 22 ms, row by row 31. Returns how many.
  std::int64_t accumulate_four_by_four(const Pass& pass) const {
    const ReductionLoops& loops = reduction_.loops;
    constexpr std::int64_t kLong = 64;
    const auto item = static_cast<std::int64_t>(loops.strip.size);
    if (loops.rows4 == nullptr || pass.start != 1 || !reduced_[0] || pass.run < kLong || pass.in.dtype != loops.strip ||
        pass.in.strides.back() != item || pass.states[0].strides.back() != item)
      return 0;
    const std::int64_t rows = pass.in.shape[0] / 4 * 4, stride = pass.in.strides[0];
    for (std::int64_t row = 0; row < rows; row += 4)
      loops.rows4(pass.states[0].data, pass.in.data + row * stride, stride, pass.run);
    return rows;
  }

  // The place along the reduced axes, in the whole input, of the element `inner` of the run that the walk has come to.
  std::int64_t position_of(const KernelCall& call, const Pass& pass, const StateWalk& walk, std::int64_t inner) const {
    if (!reduction_.loops.positions) return 0;
    std::int64_t position = inner;
    for (std::size_t axis = 0; axis < reduced_.size(); ++axis) {
      const std::int64_t local = axis < pass.start ? walk.index(axis) : 0;
      position += weights_[axis] * (call.in_box[0].origin[axis] + local);
    }
    return position;
  }

  // Order depends on the run's length alone: short runs share a strip, long ones (folded) are cut into strips.
  void accumulate(const KernelCall& call, const Pass& pass) const {
    const ReductionLoops& loops = reduction_.loops;
    StateWalk walk(pass.states, pass.in.shape, pass.start, reduced_);
    std::int64_t strides[kMaxStates] = {};
    if (!pass.folds)
      for (std::size_t s = 0; s < pass.states.size(); ++s) strides[s] = walk.stride(s, pass.in.shape.size() - 1);
    StripReader reader;
    reader.reset(pass.in, loops.strip);
    const std::int64_t together = std::max<std::int64_t>(1, kStrip / pass.run);
    const std::int64_t runs = element_count(pass.in.shape) / pass.run;
    for (std::int64_t done = 0; done < runs; done += together) {
      const std::int64_t count = std::min(together, runs - done);
      for (std::int64_t inner = 0; inner < pass.run; inner += kStrip) {
        const std::int64_t n = std::min(kStrip, pass.run - inner);
        const std::byte* strip = reader.next(count * n);
        for (std::int64_t k = 0; k < count;) {
          const std::byte* elements = strip + k * n * loops.strip.size;
          const std::int64_t position = position_of(call, pass, walk, pass.folds ? inner : 0);
          std::int64_t cells = 1;
          if (!pass.folds) {
            std::byte* own[kMaxStates];
            for (std::size_t s = 0; s < pass.states.size(); ++s) own[s] = walk.cells()[s] + inner * strides[s];
            loops.rows(own, strides, elements, n, position);
          } else if (loops.folds != nullptr && count > 1) {
            cells = std::min(count - k, walk.cells_ahead());
            loops.folds(walk.cells()[0], walk.stride(0, pass.start - 1), elements, n, cells);
          } else {
            loops.fold(walk.cells(), elements, n, position);
          }
          if (inner + n == pass.run) walk.advance(cells);
          k += cells;
        }
      }
    }
  }

  void merge(KernelCall& call) const {
    const std::size_t states = call.out.size();
    const Shape& shape = call.out[0].shape;
    const std::size_t rank = shape.size();
    const std::int64_t run = rank == 0 ? 1 : shape[rank - 1];
    const std::int64_t total = element_count(shape);
    if (total == 0) return;
    std::vector<View> others;
    for (const ConstView& in : call.in)
      others.push_back({in.dtype, const_cast<std::byte*>(in.data), in.shape, in.strides});  // read only
    const std::vector<bool> none(rank, false);
    StateWalk walk(call.out, shape, rank == 0 ? 0 : rank - 1, none);
    StateWalk other(others, shape, rank == 0 ? 0 : rank - 1, none);
    std::int64_t strides[kMaxStates] = {}, other_strides[kMaxStates] = {};
    for (std::size_t s = 0; s < states && rank > 0; ++s) {
      strides[s] = walk.stride(s, rank - 1);
      other_strides[s] = other.stride(s, rank - 1);
    }
    for (std::int64_t done = 0; done < total; done += run) {
      reduction_.loops.merge(walk.cells(), strides, other.cells(), other_strides, run);
      walk.next();
      other.next();
    }
  }

  // The states in the shape of the result: without the reduced axes where they are not kept.
  ConstView result_shaped(const ConstView& state) const {
    ConstView view{state.dtype, state.data, {}, {}};
    for (std::size_t axis = 0; axis < state.shape.size(); ++axis) {
      if (reduced_[axis] && !reduction_.keepdims) continue;
      view.shape.push_back(state.shape[axis]);
      view.strides.push_back(state.strides[axis]);
    }
    return view;
  }

  void finalize(KernelCall& call) const {
    const ReductionLoops& loops = reduction_.loops;
    const View& out = call.out[0];
    if (loops.finish == nullptr) return cast_elements(result_shaped(call.in[loops.result_state]), out);
    double count = 1;
    for (std::size_t axis : reduction_.axes) count *= static_cast<double>(input_.extents[axis].value);
    StripReader readers[kMaxStates];
    for (std::size_t s = 0; s < call.in.size(); ++s) readers[s].reset(result_shaped(call.in[s]), call.in[s].dtype);
    StripWriter writer(out);
    const CastLoop cast = cast_loop(loops.finished, out.dtype);
    constexpr std::int64_t kPart = 256;
    alignas(64) std::byte finished[kPart * kMaxItemSize];
    const std::int64_t total = element_count(out.shape);
    for (std::int64_t done = 0; done < total;) {
      const std::int64_t n = std::min(kPart, total - done);
      const std::byte* states[kMaxStates] = {};
      for (std::size_t s = 0; s < call.in.size(); ++s) states[s] = readers[s].next(n);
      loops.finish(states, finished, n, count, reduction_.correction);
      cast(finished, loops.finished.size, writer.begin(n), out.dtype.size, n);
      writer.commit(n);
      done += n;
    }
  }

  Reduction reduction_;
  ArraySpec input_;
  std::vector<bool> reduced_;
  std::vector<std::int64_t> weights_;
  ReductionForm form_;
};

std::shared_ptr<const Kernel> make(KernelSpec spec, Reduction reduction) {
  if (reduction.loops.fold == nullptr)
    fail_call(spec, "not defined for " + to_string(std::get<ArraySpec>(spec.args[0]).dtype));
  return std::make_shared<ReductionKernel>(std::move(spec), std::move(reduction));
}

// The input, with the parameters that every reduction takes.
DType common(const KernelSpec& spec, const ParamReader& params, Reduction& reduction) {
  expect_args(spec, 1, 1);
  const ArraySpec& input = array_arg(spec, 0);
  reduction.axes = params.axes("axis", input.rank());
  reduction.keepdims = params.flag("keepdims", false);
  return input.dtype;
}

DType float_of(DType input) {
  return input.kind == Kind::floating || input.kind == Kind::complex_float ? input : kFloat64;
}

std::shared_ptr<const Kernel> make_accumulated(KernelSpec spec, ReductionLoops (*loops)(DType)) {
  const ParamReader params(spec, {"axis", "dtype", "keepdims"});
  Reduction reduction;
  const DType input = common(spec, params, reduction);
  DType natural = input;
  if (input.kind == Kind::boolean || input.kind == Kind::signed_int) natural = kInt64;
  if (input.kind == Kind::unsigned_int) natural = kUint64;
  reduction.result = params.dtype("dtype").value_or(natural);
  if (reduction.result == kBool) params.fail("dtype", "a numeric type (for bool use any or all)");
  reduction.loops = loops(reduction.result);
  return make(std::move(spec), std::move(reduction));
}

std::shared_ptr<const Kernel> make_extreme(KernelSpec spec, bool largest) {
  const ParamReader params(spec, {"axis", "keepdims"});
  Reduction reduction;
  reduction.result = common(spec, params, reduction);
  reduction.needs_elements = true;
  reduction.loops = extreme_loops(reduction.result, largest);
  return make(std::move(spec), std::move(reduction));
}

std::shared_ptr<const Kernel> make_counting(KernelSpec spec, ReductionLoops (*loops)(), DType result) {
  const ParamReader params(spec, {"axis", "keepdims"});
  Reduction reduction;
  common(spec, params, reduction);
  reduction.result = result;
  reduction.loops = loops();
  return make(std::move(spec), std::move(reduction));
}

std::shared_ptr<const Kernel> make_moments(KernelSpec spec, bool root) {
  const ParamReader params(spec, {"axis", "correction", "keepdims"});
  Reduction reduction;
  const DType input = common(spec, params, reduction);
  reduction.result = float_of(input);
  reduction.correction = params.number("correction", 0);
  if (!std::isfinite(reduction.correction)) params.fail("correction", "a finite number");
  reduction.loops = moment_loops(input, root);
  return make(std::move(spec), std::move(reduction));
}

std::shared_ptr<const Kernel> make_arg(KernelSpec spec, bool largest) {
  const ParamReader params(spec, {"axis", "keepdims"});
  if (const ParamValue* axis = params.find("axis"); axis != nullptr && !std::holds_alternative<std::int64_t>(*axis))
    params.fail("axis", "an integer or null");
  Reduction reduction;
  const DType input = common(spec, params, reduction);
  reduction.result = kInt64;
  reduction.needs_elements = true;
  reduction.loops = arg_loops(input, largest);
  return make(std::move(spec), std::move(reduction));
}

}  // namespace

std::shared_ptr<const Kernel> make_sum(KernelSpec spec) { return make_accumulated(std::move(spec), &sum_loops); }
std::shared_ptr<const Kernel> make_prod(KernelSpec spec) { return make_accumulated(std::move(spec), &prod_loops); }
std::shared_ptr<const Kernel> make_mean(KernelSpec spec) {
  const ParamReader params(spec, {"axis", "keepdims"});
  Reduction reduction;
  const DType input = common(spec, params, reduction);
  reduction.result = float_of(input);
  reduction.loops = mean_loops(input);
  return make(std::move(spec), std::move(reduction));
}
std::shared_ptr<const Kernel> make_min(KernelSpec spec) { return make_extreme(std::move(spec), false); }
std::shared_ptr<const Kernel> make_max(KernelSpec spec) { return make_extreme(std::move(spec), true); }
std::shared_ptr<const Kernel> make_any(KernelSpec spec) { return make_counting(std::move(spec), &any_loops, kBool); }
std::shared_ptr<const Kernel> make_all(KernelSpec spec) { return make_counting(std::move(spec), &all_loops, kBool); }
std::shared_ptr<const Kernel> make_count_nonzero(KernelSpec spec) {
  return make_counting(std::move(spec), &count_loops, kInt64);
}
std::shared_ptr<const Kernel> make_var(KernelSpec spec) { return make_moments(std::move(spec), false); }
std::shared_ptr<const Kernel> make_std(KernelSpec spec) { return make_moments(std::move(spec), true); }
std::shared_ptr<const Kernel> make_argmin(KernelSpec spec) { return make_arg(std::move(spec), false); }
std::shared_ptr<const Kernel> make_argmax(KernelSpec spec) { return make_arg(std::move(spec), true); }

}  // namespace cuboid
