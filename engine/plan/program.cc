// Task programs: the steps of one task, from the root step and the steps inlined in it.
#include <algorithm>

#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {

class Builder {
 public:
  Builder(const Draft& draft, const ProgramRequest& request) : draft_(draft), request_(request) {
    program_.loop_block = request.loop_block;
  }

  TaskProgram build() {
    const PlannedStep& root = step(request_.root);
    add_op(request_.root, -1, 0, request_.loop_block.empty() ? request_.block : request_.loop_block, request_.merges);
    if (root.kernel->reduction())
      reduction();
    else
      map();
    return std::move(program_);
  }

 private:
  const PlannedStep& step(int index) const { return draft_.steps[index]; }

  int add_op(int step_index, int consumer, std::size_t input, Shape extents, bool merges = false) {
    program_.ops.push_back({step(step_index).kernel, consumer, input, merges});
    op_steps_.push_back(step_index);
    op_extents_.push_back(std::move(extents));
    return static_cast<int>(program_.ops.size()) - 1;
  }

  int declare(BufferDecl::Operand operand, int op, std::size_t index, DType dtype, Shape extents) {
    const bool fenced = operand != BufferDecl::Operand::input && program_.ops[op].kernel->foreign();
    program_.buffers.push_back({operand, op, index, dtype, std::move(extents), fenced});
    return static_cast<int>(program_.buffers.size()) - 1;
  }
  void emit(Step::What what, int buffer, int array = -1) {
    program_.steps.push_back({what, buffer, array, -1, Phase::map, {}, {}});
  }
  void call(int op, Phase phase, std::vector<int> in, std::vector<int> out) {
    program_.steps.push_back({Step::What::call, -1, -1, op, phase, std::move(in), std::move(out)});
  }
  void release(std::vector<int> buffers) {
    std::sort(buffers.begin(), buffers.end());
    buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
    for (int buffer : buffers) emit(Step::What::release, buffer);
  }

  // A buffer with input k of an op: read, gathered, or computed by an inlined producer.
  int operand(int op, std::size_t k) {
    const PlannedStep& consumer = step(op_steps_[op]);
    const Value value = consumer.inputs[k];
    const Shape extents = consumer.kernel->input_extents(k, op_extents_[op]);
    if (draft_.inlined.contains(value.step)) {
      const int producer = add_op(value.step, op, k, extents);
      if (step(value.step).kernel->inputs_one_by_one()) {
        const int out = declare(BufferDecl::Operand::output, producer, 0, step(value.step).specs[0].dtype, extents);
        emit(Step::What::acquire, out);
        fill_one_by_one(producer, {out});
        return out;
      }
      std::vector<int> in = operands(producer);
      const int out = result_of(producer, step(value.step).specs[0].dtype, extents, in);
      call(producer, Phase::map, in, {out});
      release_all_but(out, std::move(in));
      return out;
    }
    const int array = draft_.arrays.at(value);
    const int buffer = declare(BufferDecl::Operand::input, op, k, draft_.plan.arrays[array].spec.dtype, extents);
    emit(Step::What::acquire, buffer);
    emit(Step::What::read, buffer, array);
    return buffer;
  }

  // A buffer for the only result of an op: that of an input which the op works on in place, else a new one.
  int result_of(int op, DType dtype, const Shape& extents, const std::vector<int>& in) {
    const Kernel& kernel = *program_.ops[op].kernel;
    for (std::size_t k = 0; k < in.size(); ++k)
      if (kernel.works_in_place(k) && program_.buffers[in[k]].extents == extents) return in[k];
    const int out = declare(BufferDecl::Operand::output, op, 0, dtype, extents);
    emit(Step::What::acquire, out);
    return out;
  }
  void release_all_but(int kept, std::vector<int> buffers) {
    std::erase(buffers, kept);
    release(std::move(buffers));
  }

  // Whether all inner blocks of a task take the same box of an input, so that it is read once.
  bool same_for_all(std::size_t k) const {
    if (request_.block == request_.loop_block) return false;
    const Kernel& kernel = *program_.ops[0].kernel;
    Box second = Box::whole(request_.loop_block);
    for (std::size_t axis : kernel.reduction()->axes) second.origin[axis] = second.shape[axis];
    return kernel.input_box(k, second) == kernel.input_box(k, Box::whole(request_.loop_block)) &&
           kernel.input_box(k, second) == kernel.input_box(k, Box::whole(request_.block));
  }

  // All inputs of an op; the same array under the same box (x * x) is read once.
  std::vector<int> operands(int op) {
    const std::size_t inputs = step(op_steps_[op]).inputs.size();
    std::vector<int> buffers(inputs, -1);
    add_operands(op, std::vector<bool>(inputs, true), buffers);
    return buffers;
  }
  void add_operands(int op, const std::vector<bool>& chosen, std::vector<int>& buffers) {
    const PlannedStep& consumer = step(op_steps_[op]);
    for (std::size_t k = 0; k < consumer.inputs.size(); ++k) {
      if (!chosen[k]) continue;
      for (std::size_t j = 0; j < k && buffers[k] < 0; ++j)
        if (consumer.inputs[j] == consumer.inputs[k] && consumer.kernel->input_is_block(j) &&
            consumer.kernel->input_is_block(k))
          buffers[k] = buffers[j];
      if (buffers[k] < 0) buffers[k] = operand(op, k);
    }
  }

  std::vector<int> acquire_outputs() {
    const Kernel& kernel = *program_.ops[0].kernel;
    std::vector<int> out;
    for (std::size_t k = 0; k < kernel.outputs().size(); ++k) {
      Shape extents = kernel.room(k, request_.block);
      out.push_back(declare(BufferDecl::Operand::output, 0, k, kernel.outputs()[k].spec.dtype, std::move(extents)));
      emit(Step::What::acquire, out.back());
    }
    return out;
  }

  void write_outputs(const std::vector<int>& buffers) {
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      const int array = request_.targets[k];
      if (array >= 0) {
        const bool pieces = draft_.plan.arrays[array].role == PlanArray::Role::pieces;
        emit(pieces ? Step::What::write_piece : Step::What::write, buffers[k], array);
      }
      emit(Step::What::release, buffers[k]);
    }
  }

  void map() {
    const Kernel& kernel = *program_.ops[0].kernel;
    if (kernel.inputs_one_by_one()) {
      const std::vector<int> out = acquire_outputs();
      fill_one_by_one(0, out);
      return write_outputs(out);
    }
    std::vector<int> in = operands(0);
    std::vector<int> out;
    if (kernel.outputs().size() == 1)
      out = {result_of(0, kernel.outputs()[0].spec.dtype, kernel.room(0, request_.block), in)};
    else
      out = acquire_outputs();
    call(0, Phase::map, in, out);
    take_slabs(kernel);
    release_all_but(out[0], std::move(in));
    write_outputs(out);
  }

  // Outputs of which only a slab is in memory are stored while the call runs.
  void take_slabs(const Kernel& kernel) {
    std::vector<int> arrays(kernel.outputs().size(), -1);
    bool any = false;
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      if (kernel.room(k, request_.block) == kernel.output_extents(k, request_.block)) continue;
      arrays[k] = request_.targets[k];
      any = true;
    }
    if (any) program_.steps.back().slabs = std::move(arrays);
  }

  // A call for each input, with that one alone in memory.
  void fill_one_by_one(int op, const std::vector<int>& out) {
    const std::size_t inputs = step(op_steps_[op]).inputs.size();
    for (std::size_t k = 0; k < inputs; ++k) {
      std::vector<int> in(inputs, -1);
      in[k] = operand(op, k);
      call(op, Phase::map, in, out);
      release({in[k]});
    }
  }

  std::vector<int> acquire_states(Shape extents) {
    const ReductionForm& form = *program_.ops[0].kernel->reduction();
    for (std::size_t axis : form.axes) extents[axis] = 1;
    std::vector<int> states;
    for (std::size_t k = 0; k < form.states.size(); ++k) {
      states.push_back(declare(BufferDecl::Operand::state, 0, k, form.states[k], form.with_tail(extents, k)));
      emit(Step::What::acquire, states.back());
    }
    return states;
  }

  std::vector<int> read_partials() {
    const ReductionForm& form = *program_.ops[0].kernel->reduction();
    std::vector<int> in;
    for (std::size_t k = 0; k < form.states.size(); ++k) {
      const Shape extents = form.with_tail(request_.loop_block, k);
      in.push_back(declare(BufferDecl::Operand::input, 0, k, form.states[k], extents));
      emit(Step::What::acquire, in.back());
      emit(Step::What::read, in.back(), request_.partial_inputs[k]);
    }
    return in;
  }

  void reduction() {
    const std::vector<int> states = acquire_states(request_.block);
    call(0, Phase::init, {}, states);
    std::vector<int> before;  // the loop, since all inner blocks take the same
    const std::size_t inputs = step(request_.root).inputs.size();
    std::vector<int> in(inputs, -1);
    std::vector<bool> first(inputs, false);
    for (std::size_t k = 0; k < inputs; ++k) first[k] = !request_.merges && same_for_all(k);
    add_operands(0, first, in);
    std::copy_if(in.begin(), in.end(), std::back_inserter(before), [](int buffer) { return buffer >= 0; });
    program_.steps.push_back({Step::What::loop_begin, -1, -1, -1, Phase::map, {}, {}});
    first.flip();
    if (request_.merges)
      in = read_partials();
    else
      add_operands(0, first, in);
    call(0, request_.merges ? Phase::merge : Phase::accumulate, in, states);
    std::erase_if(in, [&](int buffer) { return std::count(before.begin(), before.end(), buffer) > 0; });
    release(in);
    program_.steps.push_back({Step::What::loop_end, -1, -1, -1, Phase::map, {}, {}});
    release(before);
    if (request_.partial) return write_outputs(states);
    const std::vector<int> out = acquire_outputs();
    call(0, Phase::finalize, states, out);
    release(states);
    write_outputs(out);
  }

  const Draft& draft_;
  const ProgramRequest& request_;
  TaskProgram program_;
  std::vector<int> op_steps_;
  std::vector<Shape> op_extents_;
};

}  // namespace

TaskProgram build_program(const Draft& draft, const ProgramRequest& request) { return Builder(draft, request).build(); }

TaskProgram move_program(const ArraySpec& spec, const Shape& block, int from, int to, Move how) {
  TaskProgram program;
  program.ops.push_back({make_move_kernel(spec), -1, 0, false});
  program.buffers.push_back({BufferDecl::Operand::input, 0, 0, spec.dtype, block});
  const auto emit = [&](Step::What what, int array) {
    program.steps.push_back({what, 0, array, -1, Phase::map, {}, {}});
  };
  emit(Step::What::acquire, -1);
  if (how == Move::as_stored) {
    emit(Step::What::move, from);
    program.steps.back().out = {to};
  } else {
    emit(how == Move::gather ? Step::What::gather : Step::What::read, from);
    emit(Step::What::write, to);
  }
  emit(Step::What::release, -1);
  return program;
}

TaskProgram merge_program(std::shared_ptr<const Kernel> kernel, std::vector<int> from, std::vector<int> to, int notes) {
  TaskProgram program;
  program.ops.push_back({std::move(kernel), -1, 0, false});
  program.steps.push_back({Step::What::merge, -1, notes, 0, Phase::merge, std::move(from), std::move(to)});
  return program;
}

TaskProgram split_program(std::shared_ptr<const Kernel> kernel, int notes, int from, int to) {
  TaskProgram program;
  program.ops.push_back({std::move(kernel), -1, 0, false});
  program.steps.push_back({Step::What::split, -1, notes, 0, Phase::map, {}, {to}});
  if (from >= 0) program.steps.back().in = {from};
  return program;
}

TaskProgram look_up_program(const ArraySpec& spec, const Shape& block, int places, int ranks, int to) {
  TaskProgram program = move_program(spec, block, places, to, Move::recode);
  const auto write = std::find_if(program.steps.begin(), program.steps.end(),
                                  [](const Step& step) { return step.what == Step::What::write; });
  program.steps.insert(write, {Step::What::look_up, 0, ranks, -1, Phase::map, {}, {}});
  return program;
}

}  // namespace cuboid::passes
