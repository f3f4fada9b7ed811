// make_plan: the passes in order, and the checks of outputs.
#include <algorithm>
#include <filesystem>

#include "engine/plan/passes.h"

namespace cuboid {

namespace {

using passes::Draft;

// Same place, whatever way it is written; URLs as they are.
std::string place(const std::string& location) {
  if (location.find("://") != std::string::npos) return location;
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(location, error);
  std::string text = error ? location : path.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

bool inside(const std::string& inner, const std::string& outer) {
  return inner == outer || (inner.starts_with(outer) && inner[outer.size()] == '/');
}

void check_outputs(const PlanRequest& request, const Plan& plan) {
  std::vector<std::string> outputs;
  for (const OutputRequest& output : request.outputs) {
    const std::string here = place(output.path);
    for (const std::string& other : outputs)
      if (inside(here, other) || inside(other, here))
        throw Error(ErrorKind::invalid, "two outputs would be written into one place: " + here + " and " + other +
                                            "; give each a path of its own");
    for (const PlanArray& array : plan.arrays)
      if (array.role == PlanArray::Role::source &&
          (inside(here, place(array.location)) || inside(place(array.location), here)))
        throw Error(ErrorKind::invalid, "the output " + here + " would be written into the input '" + array.name +
                                            "' at " + array.location + "; choose another path");
    outputs.push_back(here);
    const auto& own = request.options.own_outputs;
    const bool made_here =
        std::any_of(own.begin(), own.end(), [&](const std::string& path) { return place(path) == here; });
    if (output.overwrite || made_here) continue;
    const auto store = open_store(output.path);
    for (const char* key : {"zarr.json", ".zarray", ".zgroup"})
      if (store->stamp(key))
        throw Error(ErrorKind::invalid, "the output " + output.path +
                                            " exists already and this run did not make it; choose " +
                                            "another path or say overwrite: true");
  }
}

Plan plan_once(const PlanRequest& request, const Resolvers& resolvers, const Facts& facts,
               const std::set<std::string>& apart, std::vector<std::string>& fused_in_worst) {
  Draft draft;
  draft.request = &request;
  draft.resolvers = resolvers;
  draft.facts = facts;
  draft.plan.options = request.options;
  passes::gather(draft);
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
