#include "engine/cli/run_summary.h"

#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/report/plan_table.h"
#include "storage/printable.h"

namespace cuboid {

std::string run_summary(const RunResult& result, const TextStyle& style) {
  const Plan& plan = result.plan;
  Table table;
  table.columns = {{"stage"},       {"confidence"},      {"tasks", true},   {"kept", true},     {"retried", true},
                   {"grown", true}, {"projected", true}, {"allowed", true}, {"measured", true}, {"time", true}};
  std::int64_t done = 0, reused = 0;
  double lost = 0;
  for (std::size_t k = 0; k < plan.stages.size() && k < result.stages.size(); ++k) {
    const Stage& stage = plan.stages[k];
    const StageResult& numbers = result.stages[k];
    done += numbers.tasks_done;
    reused += numbers.tasks_reused;
    lost += numbers.seconds_lost;
    const bool complete = numbers.tasks_done >= stage.numbers.tasks;
    std::string tasks = std::to_string(numbers.tasks_done);
    if (!complete) tasks += "/" + std::to_string(stage.numbers.tasks);
    if (numbers.parked > 0) tasks += " (" + std::to_string(numbers.parked) + " parked)";
    const auto some = [](std::int64_t count) { return count > 0 ? std::to_string(count) : std::string("-"); };
    const bool above = numbers.peak_bytes && *numbers.peak_bytes > stage.numbers.projected;
    table.rows.push_back(
        {stage_title(stage),
         {to_string(stage.confidence), ink_of(stage.confidence)},
         {tasks, complete ? Ink::plain : Ink::red},
         some(numbers.tasks_reused),
         some(numbers.tasks_retried),
         some(numbers.tasks_grown),
         format_size(stage.numbers.projected),
         numbers.allowed_bytes > 0 ? format_size(numbers.allowed_bytes) : "-",
         {numbers.peak_bytes ? format_size(*numbers.peak_bytes) : "-", above ? Ink::yellow : Ink::plain},
         numbers.seconds > 0 ? format_seconds(numbers.seconds) : "-"});
  }
  std::string text = table.rows.empty() ? "" : to_text(table, style) + "\n";
  text += paint(style, result.status == RunStatus::done ? Ink::green : Ink::red, to_string(result.status)) + " in " +
          format_seconds(result.wall_seconds) + ": " + count_of(done, "task") +
          (reused > 0 ? " (" + std::to_string(reused) + " kept from before)" : "") + " of " +
          std::to_string(plan.tasks) + "; memory at most " + format_size(result.peak_rss_bytes) + " of " +
          format_size(plan.options.budget) +
          (lost > 0 ? "; " + format_seconds(lost) + " lost to attempts that failed" : "") + "\n";
  for (const PlanArray& array : plan.arrays)
    if (array.role == PlanArray::Role::output && result.status == RunStatus::done)
      text += "  " + array.name + " " + shape_text(array.spec) + " " + to_string(array.spec.dtype) + " -> " +
              printable(array.location) + "\n";
  return text;
}

namespace {

void add_outputs(nlohmann::json& outputs, const Plan& plan, const Stage& stage) {
  for (nlohmann::json& output : outputs)
    for (int index : stage.outputs) {
      const PlanArray& array = plan.arrays[static_cast<std::size_t>(index)];
      if (array.name != output.value("name", "")) continue;
      if (array.spec.exact()) output["shape"] = array.spec.max_shape();
      output["path"] = array.location;
    }
}

}  // namespace

nlohmann::json run_report(const RunResult& result) {
  nlohmann::json report = plan_report(result.plan);
  for (std::size_t k = 0; k < result.stages.size() && k < report["stages"].size(); ++k) {
    const StageResult& numbers = result.stages[k];
    nlohmann::json& stage = report["stages"][k];
    stage["tasks_done"] = numbers.tasks_done;
    stage["tasks_reused"] = numbers.tasks_reused;
    stage["tasks_retried"] = numbers.tasks_retried;
    stage["tasks_grown"] = numbers.tasks_grown;
    stage["attempts"] = numbers.attempts;
    stage["peak_bytes"] = numbers.peak_bytes ? nlohmann::json(*numbers.peak_bytes) : nlohmann::json(nullptr);
    stage["allowed_bytes"] = numbers.allowed_bytes;
    stage["parked"] = numbers.parked;
    stage["seconds"] = numbers.seconds;
    stage["seconds_lost"] = numbers.seconds_lost;
    add_outputs(stage["outputs"], result.plan, result.plan.stages[k]);
  }
  report["status"] = to_string(result.status);
  report["nothing_to_do"] = result.nothing_to_do;
  report["wall_seconds"] = result.wall_seconds;
  report["peak_rss_bytes"] = result.peak_rss_bytes;
  report["run_dir"] = result.plan.options.run_dir;
  const bool explains = result.status != RunStatus::done && result.status != RunStatus::refused;
  if (explains)
    report["error"] = error_json(result.error ? *result.error : Error(ErrorKind::cancelled, to_string(result.status)));
  return report;
}

}  // namespace cuboid
