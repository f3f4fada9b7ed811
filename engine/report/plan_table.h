// Plans as tables and graphs for people.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "engine/plan/plan.h"
#include "engine/report/table.h"

namespace cuboid {

Ink ink_of(Confidence confidence);
// "smooth", or "bright (grey + bright)" where steps are fused.
std::string stage_title(const Stage& stage);
// "(344, 403)"; a bounded axis is written "<=4000".
std::string shape_text(const ArraySpec& spec);

// What earlier runs taught of an unsafe stage: those in the same directory, or of the same function elsewhere.
struct StageLessons {
  std::int64_t measured = 0;   // blocks that have run
  std::uint64_t exceeded = 0;  // the largest task size that was too small, bytes; 0: none was
  std::uint64_t first = 0;     // bytes that the next tasks begin with, where blocks have run
};
// "bounded", "learned(12)", ">64 MiB"
std::string confidence_text(const Stage& stage, const StageLessons& lessons);

// A row a stage, then the totals and what decides the budget. `formulas`: also where the number of each stage comes from.
std::string plan_table(const Plan& plan, const TextStyle& style,
                       const std::map<std::string, StageLessons>& lessons = {}, bool formulas = false);
// The refusal in one sentence: stage, number, remedy. Empty where the plan was accepted.
std::string refusal_text(const Plan& plan);

// The plan as a Graphviz graph: arrays are boxes, stages are ellipses.
std::string plan_dot(const Plan& plan, const std::map<std::string, StageLessons>& lessons = {});

}  // namespace cuboid
