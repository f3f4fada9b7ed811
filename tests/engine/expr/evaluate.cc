#include "evaluate.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

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
  MemoryAccount account(0);
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

}  // namespace

TestArray::TestArray(DType type, Shape extents)
    : dtype(type), shape(std::move(extents)), bytes(byte_count(shape, dtype), std::byte{0xab}) {}

TestArray evaluate(const Kernel& kernel, const std::vector<ConstView>& inputs, const Shape& block, Merging merging) {
  const Grid grid(kernel.domain(), block);
  if (kernel.reduction() != nullptr) return reduce(kernel, inputs, grid, merging);
  TestArray result(kernel.outputs()[0].spec.dtype, kernel.outputs()[0].spec.max_shape());
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const Box box = grid.box(i);
    MemoryAccount account(kernel.memory(Phase::map, grid.block()).sure);
    KernelCall call = call_for(kernel, inputs, box, grid.block(), account);
    const Box out = kernel.output_box(0, box);
    require(within(out, result.shape), "output_box lies within the output");
    require(at_most(out.shape, kernel.output_extents(0, grid.block())), "output_extents bounds output_box");
    call.out.push_back(result.view().sub(out.origin, out.shape));
    call.produced.push_back(out.shape);
    kernel.run(call);
  }
  return result;
}

TestArray evaluate(const Kernel& kernel, const std::vector<ConstView>& inputs) {
  Shape block = kernel.domain();
  for (std::int64_t& extent : block) extent = std::max<std::int64_t>(extent, 1);
  return evaluate(kernel, inputs, block);
}

}  // namespace cuboid
