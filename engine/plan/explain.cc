// Where the numbers of a plan come from, in words.
#include <algorithm>

#include "engine/plan/passes.h"

namespace cuboid {

namespace {

// What a buffer holds: the array that is read into it or written from it, else the function that computes it.
std::string buffer_name(const Plan& plan, const TaskProgram& program, int buffer) {
  for (const Step& step : program.steps)
    if (step.buffer == buffer && step.array >= 0) return plan.arrays[step.array].name;
  const BufferDecl& decl = program.buffers[buffer];
  const std::string& function = program.ops[decl.op].kernel->spec().function;
  return decl.operand == BufferDecl::Operand::state ? "partial " + function : function;
}

std::string held_name(const Plan& plan, const TaskProgram& program, const Held& held) {
  if (held.what == Held::What::buffer) return buffer_name(plan, program, held.index);
  const Step& step = program.steps[held.index];
  if (held.what != Held::What::io) {
    const std::string& function = program.ops[step.op].kernel->spec().function;
    return held.what == Held::What::uncertain ? "estimate of " + function : "work of " + function;
  }
  switch (step.what) {
    case Step::What::merge:
    case Step::What::split:
      return "a part of each of the runs";
    case Step::What::write:
    case Step::What::write_piece:
      return "encoding " + plan.arrays[step.array].name;
    default:
      return "decoding " + plan.arrays[step.array].name;
  }
}

}  // namespace

std::string memory_formula(const Plan& plan, const Stage& stage) {
  std::vector<Held> held;
  const passes::PlanIo io(plan, stage.program, stage.grid.block());
  project(stage.program, stage.grid.block(), io, &held);
  // Of one name (x + x, the inputs of a long list) the sum, in the order of acquisition.
  std::vector<std::pair<std::string, std::uint64_t>> parts;
  for (Held& one : held) {
    // Nobody knows: the whole cap.
    if (one.what == Held::What::uncertain && stage.projection.unknown) one.bytes = stage.projection.uncertain;
    const std::string name = held_name(plan, stage.program, one);
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.first == name; });
    if (same == parts.end())
      parts.emplace_back(name, one.bytes);
    else
      same->second += one.bytes;
  }
  std::erase_if(parts, [](const auto& part) { return part.second == 0; });
  std::string text;
  for (const auto& [name, bytes] : parts) text += (text.empty() ? "" : " + ") + name + " " + format_size(bytes);
  return text;
}

std::string user_numbers(const Stage& stage) {
  std::string text;
  const auto add = [&](const std::string& number) { text += (text.empty() ? "" : ", ") + number; };
  for (const ProgramOp& op : stage.program.ops) {
    const KernelSpec& spec = op.kernel->spec();
    for (const auto& [output, shape] : spec.max_shape)
      add("max_shape " + to_string(shape) +
          (op.kernel->outputs().size() > 1 ? " of " + op.kernel->outputs().at(output).name : ""));
    if (spec.extra_memory) add("extra_memory " + format_size(*spec.extra_memory));
  }
  if (stage.options.on_exceed.max_task_memory)
    add("max_task_memory " + format_size(*stage.options.on_exceed.max_task_memory));
  return text;
}

}  // namespace cuboid
