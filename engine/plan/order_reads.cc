// Functions whose results are in C order take blocks that are runs of it. Where the input's chunks are cut by those
// many times, it is rechunked first.
#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {

// A rechunk reads and writes everything once more, so the blocks may decode each element up to this many times.
constexpr double kMostReads = 3.0;

// A step that brings `input` into chunks of `block` for the step `consumer`.
PlannedStep rechunk_step(Draft& draft, const PlannedStep& consumer, std::size_t input, const Value& value,
                         const ArraySpec& spec, Shape block) {
  KernelSpec call;
  call.function = "rechunk";
  call.args = {spec};
  call.params["chunks"] = block;
  auto node = std::make_shared<Node>();
  PlannedStep step;
  step.name = consumer.name + ".rechunk" + (input > 0 ? std::to_string(input + 1) : "");
  step.part_of = consumer.owner();
  step.kernel = resolve_kernel(draft.resolvers, call);
  node->kernel = step.kernel;
  draft.added.push_back(node);
  step.node = node.get();
  step.inputs = {value};
  step.specs = {spec};
  step.block = block;
  step.chunks = {std::move(block)};
  step.uses = 1;
  step.needed = consumer.needed;
  return step;
}

}  // namespace

void order_reads(Draft& draft) {
  std::vector<PlannedStep> steps;
  std::vector<int> moved;  // where each step has come to
  for (PlannedStep& step : draft.steps) {
    for (Value& input : step.inputs) input.step = moved[input.step];
    for (std::size_t k = 0; step.kernel && step.kernel->reads_in_order() && k < step.inputs.size(); ++k) {
      const Value value = step.inputs[k];
      const ArraySpec spec = steps[value.step].specs[value.output];
      Shape block = step.kernel->input_extents(k, step.block);
      for (std::int64_t& extent : block) extent = std::max<std::int64_t>(extent, 1);
      if (read_amplification(spec.max_shape(), steps[value.step].chunks[value.output], block) <= kMostReads) continue;
      steps.push_back(rechunk_step(draft, step, k, value, spec, std::move(block)));
      step.inputs[k] = {static_cast<int>(steps.size()) - 1, 0};
    }
    moved.push_back(static_cast<int>(steps.size()));
    draft.index[step.node] = moved.back();
    steps.push_back(std::move(step));
  }
  draft.steps = std::move(steps);
}

}  // namespace cuboid::passes
