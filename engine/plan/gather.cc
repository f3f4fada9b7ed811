// From expressions to a list of steps: topological order, names, what is needed.
#include <unordered_map>

#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {

// Depth first without recursion: a chain of a million steps must not overflow the stack.
void visit(Draft& draft, const Node* root) {
  std::vector<std::pair<const Node*, std::size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (draft.index.contains(node)) {
      stack.pop_back();
      continue;
    }
    if (next < node->inputs.size()) {
      const Node* input = &node->inputs[next++].node();
      if (!draft.index.contains(input)) stack.emplace_back(input, 0);
      continue;
    }
    PlannedStep step;
    step.node = node;
    step.kernel = node->kernel;
    step.part_of = node->part_of;
    for (const Array& input : node->inputs) step.inputs.push_back({draft.index.at(&input.node()), input.output()});
    draft.index.emplace(node, static_cast<int>(draft.steps.size()));
    draft.steps.push_back(std::move(step));
    stack.pop_back();
  }
}

void name_steps(Draft& draft) {
  std::unordered_map<std::string, int> taken;
  for (PlannedStep& step : draft.steps) {
    step.name = step.node->name;
    if (step.name.empty()) continue;
    if (!taken.emplace(step.name, 1).second)
      throw Error(ErrorKind::invalid, "two steps are named '" + step.name + "'; give each a name of its own");
  }
  for (PlannedStep& step : draft.steps) {
    if (!step.name.empty()) continue;
    std::string base = step.kernel ? step.kernel->spec().function : "input";
    base = base.substr(0, base.find('/'));
    for (char& c : base)
      if (c == '.') c = '_';
    do step.name = base + std::to_string(taken[base]++);
    while (!taken.emplace(step.name, 1).second);
  }
}

}  // namespace

void gather(Draft& draft) {
  for (const OutputRequest& output : draft.request->outputs) visit(draft, &output.array.node());
  const std::size_t needed = draft.steps.size();
  for (const Array& array : draft.request->unused) visit(draft, &array.node());
  name_steps(draft);
  for (std::size_t k = 0; k < needed; ++k) {
    draft.steps[k].needed = true;
    for (const Value& input : draft.steps[k].inputs) ++draft.steps[input.step].uses;
  }
  for (const OutputRequest& output : draft.request->outputs) {
    PlannedStep& step = draft.steps[draft.index.at(&output.array.node())];
    step.is_output = true;
    ++step.uses;
  }
  for (const PlannedStep& step : draft.steps)
    if (!step.needed && step.kernel) draft.plan.checked_only.push_back(step.name);
}

}  // namespace cuboid::passes
