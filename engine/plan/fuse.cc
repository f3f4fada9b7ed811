// Fusion: a producer is computed inside its consumer where that saves writing and reading it and recomputes little.
#include <algorithm>

#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {

// Elements computed per element needed, at most, for a producer inside a consumer whose blocks overlap in it.
constexpr double kMostRecompute = 1.25;

// Consumers ask for parts, and theirs for parts of these: what may not be cut along an axis is computed by itself.
bool may_be_cut(const Kernel& kernel) {
  const std::vector<bool> whole = kernel.whole_axes();
  return std::find(whole.begin(), whole.end(), true) == whole.end();
}

bool may_be_inlined(const PlannedStep& step) {
  return step.kernel && step.needed && !step.is_output && step.uses == 1 && !step.kernel->foreign() &&
         !step.kernel->reduction() && !step.kernel->identity_map() && step.kernel->inlinable() &&
         may_be_cut(*step.kernel) && step.kernel->outputs().size() == 1 && !step.kernel->outputs()[0].ragged_axis &&
         !step.node->options.chunks;
}

// How often the consumer's blocks compute each element of its input.
double recompute(const PlannedStep& consumer, std::size_t input, const ArraySpec& produced) {
  const double elements = static_cast<double>(element_count(produced.max_shape()));
  if (elements == 0) return 1;
  const Grid grid(consumer.kernel->domain(), consumer.block);
  const Shape box = consumer.kernel->input_extents(input, consumer.block);
  return static_cast<double>(grid.size()) * static_cast<double>(element_count(box)) / elements;
}

// Ragged edge blocks are counted whole by recompute(); where blocks pass through unchanged nothing is computed twice.
bool cheap(const PlannedStep& consumer, std::size_t input, const ArraySpec& produced) {
  return consumer.kernel->input_is_block(input) || recompute(consumer, input, produced) <= kMostRecompute;
}

}  // namespace

void fuse(Draft& draft, const std::set<std::string>& apart) {
  const Plan* earlier = draft.request->earlier.get();
  const auto fused_earlier = [&](const PlannedStep& producer) {
    return !earlier || earlier->stage_index(producer.name) < 0;
  };
  for (const PlannedStep& consumer : draft.steps) {
    if (!consumer.kernel || !consumer.needed || consumer.kernel->identity_map()) continue;
    for (std::size_t k = 0; k < consumer.inputs.size(); ++k) {
      const Value& value = consumer.inputs[k];
      const PlannedStep& producer = draft.steps[value.step];
      if (may_be_inlined(producer) && !apart.contains(producer.name) && fused_earlier(producer) &&
          cheap(consumer, k, producer.specs[0]))
        draft.inlined.insert(value.step);
    }
  }
}

}  // namespace cuboid::passes
