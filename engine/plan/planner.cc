// make_plan: the passes in order, and the checks of outputs.
#include <algorithm>

#include "engine/plan/passes.h"
#include "engine/plan/places.h"

namespace cuboid {

namespace {

using passes::Draft;

// Intermediates come and go in the run directory's `data`, and what an output replaces goes as a whole.
void check_apart_from_run(const PlanRequest& request, const Plan& plan) {
  if (request.options.run_dir.empty()) return;
  const std::string run_dir = place(request.options.run_dir), data = run_dir + "/data";
  const auto fail = [&](const std::string& what, const std::string& where) {
    throw Error(ErrorKind::invalid, what + " " + where + " and the run directory " + run_dir +
                                        " lie one inside the other: what is there would be removed; choose another "
                                        "path or --run-dir");
  };
  for (const OutputRequest& output : request.outputs)
    if (const std::string here = place(output.path); inside(here, data) || inside(run_dir, here))
      fail("the output", here);
  for (const PlanArray& array : plan.arrays)
    if (array.role == PlanArray::Role::source && inside(place(array.location), data)) fail("the input", array.location);
}

void check_outputs(const PlanRequest& request, const Plan& plan) {
  check_apart_from_run(request, plan);
  std::vector<std::string> outputs;
  for (const OutputRequest& output : request.outputs) {
    const std::string here = place(output.path);
    for (const std::string& other : outputs)
      if (inside(here, other) || inside(other, here))
        throw Error(ErrorKind::invalid, "two outputs would be written into one place: " + here + " and " + other +
                                            "; give each a path of its own");
    for (const PlanArray& array : plan.arrays)
      if (array.role == PlanArray::Role::source)
        check_apart(output.path, "'" + array.name + "' at " + array.location, array.location);
    outputs.push_back(here);
    const auto& own = request.options.own_outputs;
    const bool made_here =
        std::any_of(own.begin(), own.end(), [&](const std::string& path) { return place(path) == here; });
    if (output.overwrite || made_here) continue;
    check_nothing_there(output.path);
  }
}

std::vector<std::string> places_of(const Draft& draft) {
  std::vector<std::string> places{draft.plan.options.run_dir};
  for (const OutputRequest& output : draft.request->outputs) places.push_back(output.path);
  for (const passes::PlannedStep& step : draft.steps)
    if (step.node->source) places.push_back(step.node->source->name());
  return places;
}

Plan plan_once(const PlanRequest& request, const Resolvers& resolvers, const Facts& facts,
               const std::set<std::string>& apart, std::vector<std::string>& fused_in_worst) {
  Draft draft;
  draft.request = &request;
  draft.resolvers = resolvers;
  draft.facts = facts;
  draft.plan.options = request.options;
  passes::gather(draft);
  draft.plan.baselines = baselines_of(places_of(draft));
  passes::choose_blocks(draft);
  passes::order_reads(draft);
  passes::fuse(draft, apart);
  passes::lower(draft);
  passes::project_all(draft);
  if (draft.plan.refused && draft.plan.refused->stage) {
    const Stage& worst = draft.plan.stages[draft.plan.stage_index(*draft.plan.refused->stage)];
    for (int inlined : draft.inlined) {
      const std::string& name = draft.steps[inlined].name;
      if (std::count(worst.steps.begin(), worst.steps.end(), name)) fused_in_worst.push_back(name);
    }
  }
  return std::move(draft.plan);
}

}  // namespace

Plan make_plan(const PlanRequest& request, const Resolvers& resolvers, const Facts& facts) {
  std::set<std::string> apart;
  for (;;) {
    std::vector<std::string> fused;
    Plan plan = plan_once(request, resolvers, facts, apart, fused);
    if (apart.empty() && facts.shapes.empty()) check_outputs(request, plan);
    if (!plan.refused || fused.empty()) {
      if (!plan.refused || !request.earlier) return plan;
      // The earlier shape does not fit this budget any more: plan anew, fingerprints decide what is kept.
      PlanRequest anew = request;
      anew.earlier = nullptr;
      return make_plan(anew, resolvers, facts);
    }
    apart.insert(fused.begin(), fused.end());
  }
}

}  // namespace cuboid
