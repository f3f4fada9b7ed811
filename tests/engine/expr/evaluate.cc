#include "evaluate.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace cuboid {
namespace {

void require(bool condition, const char* promise) {
  if (!condition) throw std::logic_error(promise);
}

bool within(const Box& box, const Shape& shape) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (box.origin[axis] < 0 || box.shape[axis] < 0 || box.end(axis) > shape[axis]) return false;
  return box.shape.size() == shape.size();
}

bool at_most(const Shape& shape, const Shape& bound) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > bound[axis]) return false;
  return shape.size() == bound.size();
}

CallMonitor monitor;

// The call for a block with its inputs cut out, promises checked.
KernelCall call_for(const Kernel& kernel, const std::vector<ConstView>& inputs, const Box& block, const Shape& largest,
                    MemoryAccount& account) {
  KernelCall call;
  call.block = block;
  call.memory = &account;
  call.monitor = &monitor;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Box box = kernel.input_box(k, block);
    require(within(box, inputs[k].shape), "input_box lies within the input");
    require(at_most(box.shape, kernel.input_extents(k, largest)), "input_extents bounds input_box");
    require(!kernel.input_is_block(k) || box == block, "input_is_block: the box is the block");
    call.in.push_back(inputs[k].sub(box.origin, box.shape));
    call.in_box.push_back(box);
  }
  return call;
}

Shape state_shape(const ReductionForm& form, Shape shape) {
  for (std::size_t axis : form.axes) shape[axis] = 1;
  return shape;
}

std::vector<TestArray> new_states(const Kernel& kernel, const Shape& domain) {
  std::vector<TestArray> states;
  KernelCall init;
  init.phase = Phase::init;
  for (DType dtype : kernel.reduction()->states) states.emplace_back(dtype, state_shape(*kernel.reduction(), domain));
  for (TestArray& state : states) init.out.push_back(state.view());
  kernel.run(init);
  return states;
}

void accumulate(const Kernel& kernel, const std::vector<ConstView>& inputs, const Box& block, const Shape& largest,
                std::vector<TestArray>& states) {
  MemoryAccount account(kernel.memory(Phase::accumulate, largest).sure);
  KernelCall call = call_for(kernel, inputs, block, largest, account);
  call.phase = Phase::accumulate;
  const ReductionForm& form = *kernel.reduction();
  Box part = block;
  for (std::size_t axis : form.axes) part.origin[axis] = 0, part.shape[axis] = 1;
  for (TestArray& state : states) call.out.push_back(state.view().sub(part.origin, part.shape));
  kernel.run(call);
}

TestArray reduce(const Kernel& kernel, const std::vector<ConstView>& inputs, const Grid& grid, Merging merging) {
  const std::int64_t half = merging == Merging::two_halves ? grid.size() / 2 : 0;
  std::vector<TestArray> states = new_states(kernel, kernel.domain()), first = new_states(kernel, kernel.domain());
  for (std::int64_t i = 0; i < grid.size(); ++i)
    accumulate(kernel, inputs, grid.box(i), grid.block(), i < half ? first : states);
  if (half > 0) {
    KernelCall merge;
    merge.phase = Phase::merge;
    for (TestArray& state : first) merge.out.push_back(state.view());
    for (const TestArray& state : states) merge.in.push_back(state.view());
    kernel.run(merge);
    states = first;
  }
  TestArray result(kernel.outputs()[0].spec.dtype, kernel.outputs()[0].spec.max_shape());
  KernelCall finalize;
  finalize.phase = Phase::finalize;
  for (const TestArray& state : states) finalize.in.push_back(state.view());
  finalize.out.push_back(result.view());
  kernel.run(finalize);
  return result;
}

// One call, or one for each input with the others not there.
void run_as_planned(const Kernel& kernel, KernelCall& call) {
  if (!kernel.inputs_one_by_one()) return kernel.run(call);
  const std::vector<ConstView> all = call.in;
  for (std::size_t k = 0; k < all.size(); ++k) {
    call.in.assign(all.size(), {});
    call.in[k] = all[k];
    kernel.run(call);
  }
}

// What a block yields of every ragged output, cut to what was produced; others are left empty.
std::vector<TestArray> piece_of(const Kernel& kernel, const std::vector<ConstView>& inputs, const Grid& grid,
                                const Box& box) {
  MemoryAccount account(kernel.memory(Phase::map, grid.block()).sure);
  KernelCall call = call_for(kernel, inputs, box, grid.block(), account);
  std::vector<TestArray> room;
  room.reserve(kernel.outputs().size());
  for (std::size_t k = 0; k < kernel.outputs().size(); ++k) {
    const OutputSpec& output = kernel.outputs()[k];
    const Shape extents = output.ragged_axis ? kernel.output_extents(k, box.shape) : kernel.output_box(k, box).shape;
    require(at_most(extents, kernel.output_extents(k, grid.block())), "output_extents grow with the block");
    call.out.push_back(room.emplace_back(output.spec.dtype, extents).view());
    call.produced.push_back(extents);
  }
  kernel.run(call);
  for (std::size_t k = 0; k < room.size(); ++k) {
    require(at_most(call.produced[k], room[k].shape), "no more is produced than there is room for");
    require(kernel.outputs()[k].ragged_axis.value_or(0) == 0, "pieces are put together along the first axis");
    room[k].shape = call.produced[k];
    room[k].bytes.resize(byte_count(room[k].shape, room[k].dtype));
  }
  return room;
}

// The runs become one, a few rows at hand and little room at a time.
std::vector<TestArray> merge(const Kernel& kernel, const std::vector<std::vector<TestArray>>& pieces) {
  const std::vector<std::size_t>& columns = kernel.runs()->columns;
  constexpr std::int64_t kAtHand = 5, kRoom = 7;
  std::vector<TestArray> result(kernel.outputs().size());
  for (std::size_t c : columns) result[c] = TestArray(kernel.outputs()[c].spec.dtype, {0});
  std::vector<std::int64_t> at(pieces.size(), 0);
  for (;;) {
    MergeTurn turn;
    std::vector<std::size_t> which;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const std::int64_t left = pieces[p][columns[0]].shape[0] - at[p];
      if (left == 0) continue;
      MergeTurn::Run run;
      for (std::size_t c : columns)
        run.columns.push_back(pieces[p][c].bytes.data() + static_cast<std::size_t>(at[p]) * pieces[p][c].dtype.size);
      // What is at hand changes at borders of objects, not with what was taken.
      run.rows = std::min(left, kAtHand - at[p] % kAtHand);
      turn.runs.push_back(std::move(run));
      which.push_back(p);
    }
    if (which.empty()) return result;
    std::vector<TestArray> room;
    room.reserve(columns.size());
    for (std::size_t c : columns) turn.out.push_back(room.emplace_back(result[c].dtype, Shape{kRoom}).bytes.data());
    turn.room = kRoom;
    kernel.merge(turn);
    std::int64_t taken = 0;
    for (std::size_t k = 0; k < which.size(); ++k) {
      require(turn.runs[k].taken <= turn.runs[k].rows, "no more rows are taken than are at hand");
      at[which[k]] += turn.runs[k].taken;
      taken += turn.runs[k].taken;
    }
    require(taken > 0 && turn.produced <= taken && turn.produced <= kRoom, "a turn takes rows, and yields no more");
    for (std::size_t k = 0; k < columns.size(); ++k) {
      TestArray& column = result[columns[k]];
      column.shape[0] += turn.produced;
      room[k].bytes.resize(static_cast<std::size_t>(turn.produced) * column.dtype.size);
      column.bytes.insert(column.bytes.end(), room[k].bytes.begin(), room[k].bytes.end());
    }
  }
}

TestArray ragged(const Kernel& kernel, const std::vector<ConstView>& inputs, Shape block, std::size_t output) {
  if (kernel.in_c_order()) {
    std::size_t axis = 0;
    while (axis < block.size() && block[axis] == 1) ++axis;
    for (++axis; axis < block.size(); ++axis) block[axis] = std::max<std::int64_t>(kernel.domain()[axis], 1);
  }
  const Grid grid(kernel.domain(), block);
  std::vector<std::vector<TestArray>> pieces;
  for (std::int64_t i = 0; i < grid.size(); ++i) pieces.push_back(piece_of(kernel, inputs, grid, grid.box(i)));
  if (kernel.runs() != nullptr) return merge(kernel, pieces)[output];
  TestArray result(kernel.outputs()[output].spec.dtype, kernel.outputs()[output].spec.max_shape());
  result.shape[0] = 0;
  result.bytes.clear();
  for (const auto& piece : pieces) {
    result.shape[0] += piece[output].shape[0];
    result.bytes.insert(result.bytes.end(), piece[output].bytes.begin(), piece[output].bytes.end());
  }
  return result;
}

TestArray expanded(const Kernel& kernel, const std::vector<ConstView>& inputs, std::int64_t divisor, Merging merging,
                   std::size_t output) {
  const Expansion& expansion = *kernel.expansion();
  std::vector<TestArray> made;
  made.reserve(expansion.calls.size());
  std::vector<ConstView> nodes = inputs;
  for (const Expansion::Call& call : expansion.calls) {
    KernelSpec spec;
    spec.function = call.function;
    spec.params = call.params;
    std::vector<ConstView> arrays;
    for (const auto& arg : call.args)
      if (const auto* ref = std::get_if<Expansion::Ref>(&arg)) {
        require(ref->output == 0, "calls are of functions of one output");
        arrays.push_back(nodes.at(ref->node));
        spec.args.emplace_back(ArraySpec(arrays.back().dtype, arrays.back().shape));
      } else {
        spec.args.emplace_back(std::get<Scalar>(arg));
      }
    made.push_back(evaluate_in_parts(*builtin_kernels().resolve(spec), arrays, divisor, merging));
    nodes.push_back(std::as_const(made.back()).view());
  }
  const ConstView result = nodes.at(expansion.outputs.at(output).node);
  require(result.shape == kernel.outputs()[output].spec.max_shape(), "an expansion's outputs have the shapes it says");
  TestArray copy(result.dtype, result.shape);
  copy_elements(result, copy.view());
  return copy;
}

}  // namespace

TestArray::TestArray(DType type, Shape extents)
    : dtype(type), shape(std::move(extents)), bytes(byte_count(shape, dtype), std::byte{0xab}) {}

TestArray evaluate(const Kernel& kernel, const std::vector<ConstView>& inputs, const Shape& block, Merging merging,
                   std::size_t output) {
  if (kernel.outputs()[output].ragged_axis) return ragged(kernel, inputs, block, output);
  const Grid grid(kernel.domain(), block);
  if (kernel.reduction() != nullptr) return reduce(kernel, inputs, grid, merging);
  TestArray result(kernel.outputs()[output].spec.dtype, kernel.outputs()[output].spec.max_shape());
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const Box box = grid.box(i);
    MemoryAccount account(kernel.memory(Phase::map, grid.block()).sure);
    KernelCall call = call_for(kernel, inputs, box, grid.block(), account);
    std::vector<TestArray> others;  // outputs that nobody looks at
    others.reserve(kernel.outputs().size());
    for (std::size_t k = 0; k < kernel.outputs().size(); ++k) {
      const Box out = kernel.output_box(k, box);
      require(within(out, kernel.outputs()[k].spec.max_shape()), "output_box lies within the output");
      require(at_most(out.shape, kernel.output_extents(k, grid.block())), "output_extents bounds output_box");
      if (k == output)
        call.out.push_back(result.view().sub(out.origin, out.shape));
      else
        call.out.push_back(others.emplace_back(kernel.outputs()[k].spec.dtype, out.shape).view());
      call.produced.push_back(out.shape);
    }
    run_as_planned(kernel, call);
  }
  return result;
}

TestArray evaluate(const Kernel& kernel, const std::vector<ConstView>& inputs, std::size_t output) {
  return evaluate_in_parts(kernel, inputs, 1, Merging::one_by_one, output);
}

TestArray evaluate_in_parts(const Kernel& kernel, const std::vector<ConstView>& inputs, std::int64_t divisor,
                            Merging merging, std::size_t output) {
  if (kernel.expansion() != nullptr) return expanded(kernel, inputs, divisor, merging, output);
  Shape block = kernel.domain();
  const std::vector<bool> whole = kernel.whole_axes();
  for (std::size_t axis = 0; axis < block.size(); ++axis)
    block[axis] = std::max<std::int64_t>(1, whole[axis] ? block[axis] : (block[axis] + divisor - 1) / divisor);
  return evaluate(kernel, inputs, block, merging, output);
}

bool reduces(const Kernel& kernel) { return kernel.reduction() != nullptr || kernel.expansion() != nullptr; }

}  // namespace cuboid
