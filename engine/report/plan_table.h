// Plans as tables and graphs for people.
#pragma once
#include <string>

#include "engine/plan/plan.h"
#include "engine/report/table.h"

namespace cuboid {

Ink ink_of(Confidence confidence);
// "smooth", or "bright (grey + bright)" where steps are fused.
std::string stage_title(const Stage& stage);
// "(344, 403)"; a bounded axis is written "<=4000".
std::string shape_text(const ArraySpec& spec);

// A row a stage, then the totals; for a refused plan also why and what would fit.
std::string plan_table(const Plan& plan, const TextStyle& style);
// The refusal in one sentence: stage, number, remedy. Empty where the plan was accepted.
std::string refusal_text(const Plan& plan);

// The plan as a Graphviz graph: arrays are boxes, stages are ellipses.
std::string plan_dot(const Plan& plan);

}  // namespace cuboid
