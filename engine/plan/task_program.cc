#include "engine/plan/task_program.h"

namespace cuboid {

namespace {

Box input_of(const ProgramOp& op, std::size_t input, const Box& box) {
  return op.merges ? box : op.kernel->input_box(input, box);
}

// Extents of each op's domain box at most, given the root's.
std::vector<Shape> op_extents(const TaskProgram& program, const Shape& root) {
  std::vector<Shape> extents;
  for (const ProgramOp& op : program.ops)
    extents.push_back(op.consumer < 0 ? root
                                      : program.ops[op.consumer].kernel->input_extents(op.input, extents[op.consumer]));
  return extents;
}

// A partial result in the index space of partial results, with the axes of its tail.
Box with_tail(const Kernel& kernel, std::size_t state, Box box) {
  box.shape = kernel.reduction()->with_tail(std::move(box.shape), state);
  box.origin.resize(box.shape.size(), 0);
  return box;
}

// What storing a slab takes while the call that handed it over still holds its own memory.
std::uint64_t slab_memory(const TaskProgram& program, const Step& call, const IoMemory& io) {
  std::uint64_t most = 0;
  for (std::size_t k = 0; k < call.slabs.size(); ++k)
    if (call.slabs[k] >= 0) most = std::max(most, io.write_piece(call.slabs[k], program.buffers[call.out[k]]));
  return most;
}

std::uint64_t pooled(const BufferDecl& buffer) { return class_bytes(buffer.bytes(buffer.extents)); }

}  // namespace

std::vector<Box> op_boxes(const TaskProgram& program, const Box& root_box) {
  std::vector<Box> boxes;
  boxes.reserve(program.ops.size());
  for (const ProgramOp& op : program.ops) {
    boxes.push_back(op.consumer < 0 ? root_box : input_of(program.ops[op.consumer], op.input, boxes[op.consumer]));
    // A reduction of nothing has one task, whose block reaches beyond the array.
    if (op.consumer < 0 && op.kernel->reduction() && !op.merges)
      boxes[0] = intersect(root_box, Box::whole(op.kernel->domain()));
  }
  return boxes;
}

Box buffer_box(const TaskProgram& program, int buffer, const std::vector<Box>& op_boxes,
               const Shape& task_block_extents) {
  const BufferDecl& decl = program.buffers[buffer];
  const ProgramOp& op = program.ops[decl.op];
  const Box& domain = op_boxes[decl.op];
  switch (decl.operand) {
    case BufferDecl::Operand::input:
      return op.merges ? with_tail(*op.kernel, decl.index, domain) : op.kernel->input_box(decl.index, domain);
    case BufferDecl::Operand::output:
      if (op.kernel->outputs()[decl.index].ragged_axis) return Box::whole(op.kernel->room(decl.index, domain.shape));
      return op.kernel->output_box(decl.index, domain);
    case BufferDecl::Operand::state: {
      Box box = domain;
      for (std::size_t axis : op.kernel->reduction()->axes) {
        box.origin[axis] = domain.origin[axis] / task_block_extents[axis];
        box.shape[axis] = 1;
      }
      return with_tail(*op.kernel, decl.index, std::move(box));
    }
  }
  return domain;
}

Box buffer_box(const TaskProgram& program, int buffer, const Box& root_box, const Shape& task_block_extents) {
  return buffer_box(program, buffer, op_boxes(program, root_box), task_block_extents);
}

Projection project(const TaskProgram& program, const Shape& block, const IoMemory& io, std::vector<Held>* at_peak) {
  const std::vector<Shape> outer = op_extents(program, block);
  const std::vector<Shape> inner = program.loop_block.empty() ? outer : op_extents(program, program.loop_block);
  bool looping = false;
  std::uint64_t held = 0;
  Projection result;
  std::vector<Held> now, at_sure, at_call;  // kept where somebody asks
  const auto snapshot = [&](Held::What what, int index, std::uint64_t bytes) {
    std::vector<Held> all = now;
    if (bytes > 0) all.push_back({what, index, bytes});
    return all;
  };
  int at = -1;
  const auto touch = [&](std::uint64_t beside, Held::What what = Held::What::io) {
    if (at_peak && held + beside > result.sure) at_sure = snapshot(what, at, beside);
    result.sure = std::max(result.sure, held + beside);
  };
  for (const Step& step : program.steps) {
    ++at;
    const BufferDecl* buffer = step.buffer < 0 ? nullptr : &program.buffers[step.buffer];
    switch (step.what) {
      case Step::What::acquire:
        held += pooled(*buffer);
        if (at_peak) now.push_back({Held::What::buffer, step.buffer, pooled(*buffer)});
        touch(0);
        break;
      case Step::What::release:
        held -= pooled(*buffer);
        std::erase_if(now, [&](const Held& one) { return one.index == step.buffer; });
        break;
      case Step::What::read:
      case Step::What::move:
        touch(io.read(step.array, *buffer));
        break;
      case Step::What::gather:
        touch(io.gather(step.array, *buffer));
        break;
      case Step::What::write:
        touch(io.write(step.array, *buffer));
        break;
      case Step::What::write_piece:
        touch(io.write_piece(step.array, *buffer));
        break;
      case Step::What::merge:
      case Step::What::split:
        touch(io.runs(step, block.at(0)));
        break;
      case Step::What::look_up:
        touch(io.look_up(step.array, *buffer));
        break;
      case Step::What::loop_begin:
        looping = true;
        break;
      case Step::What::loop_end:
        looping = false;
        break;
      case Step::What::call: {
        const CallMemory memory = program.ops[step.op].kernel->memory(step.phase, (looping ? inner : outer)[step.op]);
        const std::uint64_t sure = memory.sure + slab_memory(program, step, io);
        touch(sure, Held::What::call);
        if (at_peak && (memory.uncertain > 0 || memory.unknown) && held + sure >= result.around_call) {
          at_call = snapshot(Held::What::call, at, sure);
          at_call.push_back({Held::What::uncertain, at, memory.uncertain});
        }
        if (memory.uncertain > 0 || memory.unknown) {
          result.around_call = std::max(result.around_call, held + sure);
          result.uncertain = std::max(result.uncertain, memory.uncertain);
          result.unknown |= memory.unknown;
        }
        result.outside = std::max(result.outside, memory.outside);
        break;
      }
    }
  }
  result.peak = result.uncertain > 0 ? result.with_uncertain(result.uncertain) : result.sure;
  if (at_peak) *at_peak = result.peak > result.sure || result.unknown ? std::move(at_call) : std::move(at_sure);
  return result;
}

}  // namespace cuboid
