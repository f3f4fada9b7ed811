#include "engine/report/plan_table.h"

#include <algorithm>

#include "storage/printable.h"

namespace cuboid {

Ink ink_of(Confidence confidence) {
  switch (confidence) {
    case Confidence::exact:
      return Ink::green;
    case Confidence::bounded:
      return Ink::cyan;
    case Confidence::unsafe:
      return Ink::yellow;
    case Confidence::learned:
      return Ink::green;
  }
  return Ink::plain;
}

std::string stage_title(const Stage& stage) {
  if (stage.steps.size() < 2) return stage.name;
  std::string text = stage.name + " (";
  for (std::size_t k = 0; k < stage.steps.size(); ++k) text += (k ? " + " : "") + stage.steps[k];
  return text + ")";
}

namespace {

std::vector<const PlanArray*> outputs_of(const Plan& plan, const Stage& stage) {
  std::vector<const PlanArray*> outputs;
  for (int array : stage.outputs) outputs.push_back(&plan.arrays[static_cast<std::size_t>(array)]);
  return outputs;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char byte : printable(text)) {
    if (byte == '"' || byte == '\\') result += '\\';
    result += byte;
  }
  return result + "\"";
}

}  // namespace

std::string shape_text(const ArraySpec& spec) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < spec.extents.size(); ++axis) {
    if (axis > 0) text += ", ";
    if (spec.extents[axis].trust != Trust::exact) text += "<=";
    text += std::to_string(spec.extents[axis].value);
  }
  return text + ")";
}

std::string confidence_text(const Stage& stage, const StageLessons& lessons) {
  if (stage.confidence != Confidence::unsafe) return to_string(stage.confidence);
  if (lessons.exceeded > 0) return ">" + format_size(lessons.exceeded);
  if (lessons.measured > 0) return "learned(" + std::to_string(lessons.measured) + ")";
  return to_string(stage.confidence);
}

namespace {

std::string list(const Shape& shape) {
  std::string text = "[";
  for (std::size_t k = 0; k < shape.size(); ++k) text += (k ? ", " : "") + std::to_string(shape[k]);
  return text + "]";
}

// The stage that decides how small the budget may be, why, and what would lower it.
std::string deciding_text(const Plan& plan) {
  if (!plan.deciding) return "";
  const Deciding& deciding = *plan.deciding;
  std::string text = "decided by '" + deciding.stage + "': the plan needs " + format_size(deciding.smallest_budget);
  if (deciding.chunks)
    text += "; with chunks: " + list(*deciding.chunks) + " for '" + deciding.step + "' that stage needs " +
            format_size(deciding.budget_then);
  return text + "\n";
}

// A line for each stage: where its number comes from.
std::string formulas_text(const Plan& plan, const TextStyle& style) {
  Table table;
  table.columns = {{"memory/task", false}, {"", true}, {"", false}};
  for (const Stage& stage : plan.stages)
    table.rows.push_back({stage.name, format_size(stage.numbers.projected), "= " + memory_formula(plan, stage)});
  return to_text(table, style);
}

std::string user_text(const Plan& plan) {
  std::string text;
  for (const Stage& stage : plan.stages)
    if (const std::string numbers = user_numbers(stage); !numbers.empty() && !stage.compacts)
      text += "your own numbers for '" + stage.name + "': " + numbers + "\n";
  return text;
}

}  // namespace

std::string plan_table(const Plan& plan, const TextStyle& style, const std::map<std::string, StageLessons>& lessons,
                       bool formulas) {
  Table table;
  table.columns = {{"stage"},         {"function"}, {"confidence"}, {"tasks", true},  {"memory/task", true},
                   {"at once", true}, {"output"},   {"read", true}, {"written", true}};
  for (const Stage& stage : plan.stages) {
    const std::string about = stage.approximate ? "~" : "";
    const bool to_blame = plan.refused && plan.refused->stage == stage.name;
    const auto outputs = outputs_of(plan, stage);
    const auto found = lessons.find(stage.name);
    table.rows.push_back(
        {stage_title(stage),
         stage.function,
         {confidence_text(stage, found == lessons.end() ? StageLessons{} : found->second), ink_of(stage.confidence)},
         about + std::to_string(stage.numbers.tasks),
         {about + format_size(stage.numbers.projected), to_blame ? Ink::red : Ink::plain},
         about + std::to_string(stage.numbers.concurrency),
         outputs.empty() ? "" : shape_text(outputs[0]->spec),
         about + format_size(stage.numbers.bytes_read),
         about + format_size(stage.numbers.bytes_written)});
    for (std::size_t k = 1; k < outputs.size(); ++k)
      table.rows.push_back({"", "", "", "", "", "", shape_text(outputs[k]->spec)});
  }
  std::string text = to_text(table, style);
  text += "\n" + count_of(static_cast<std::int64_t>(plan.stages.size()), "stage") + ", " +
          count_of(plan.tasks, "task") + "; reads " + format_size(plan.bytes_read) + ", writes " +
          format_size(plan.bytes_written) + ", at most " + format_size(plan.disk_peak) + " on disk\n";
  std::uint64_t most = 0;
  for (const Stage& stage : plan.stages)
    most = std::max(most, stage.numbers.projected * static_cast<std::uint64_t>(std::max(1, stage.numbers.concurrency)));
  text += "budget " + format_size(plan.options.budget) + ", " + count_of(plan.options.workers, "task") +
          " at once at most; the tasks of a stage take up to " + format_size(most) + "\n";
  text += deciding_text(plan) + user_text(plan);
  if (!plan.checked_only.empty()) {
    text += "checked, not run (no output needs them):";
    for (const std::string& step : plan.checked_only) text += " " + step;
    text += "\n";
  }
  if (formulas) text += "\n" + formulas_text(plan, style);
  return text;
}

std::string refusal_text(const Plan& plan) {
  if (!plan.refused) return "";
  const Refusal& refusal = *plan.refused;
  std::string text = "refused: ";
  if (refusal.resource == "disk") {
    text += refusal.stage ? "stage '" + *refusal.stage + "' brings the disk to " : "the run needs ";
    text += format_size(refusal.projected) + ", of which " + format_size(refusal.budget) + " are free";
  } else {
    text += refusal.stage ? "one task of stage '" + *refusal.stage + "' takes " : "the run takes ";
    text += format_size(refusal.projected) + ", which does not fit the budget of " + format_size(refusal.budget);
  }
  if (!refusal.hint.empty()) text += "; " + refusal.hint;
  return text;
}

std::string plan_dot(const Plan& plan, const std::map<std::string, StageLessons>& lessons) {
  std::string text = "digraph plan {\n  rankdir=LR;\n  node [fontname=\"sans-serif\", fontsize=10];\n";
  for (std::size_t k = 0; k < plan.arrays.size(); ++k) {
    const PlanArray& array = plan.arrays[k];
    const bool user = array.role == PlanArray::Role::source || array.role == PlanArray::Role::output;
    text += "  array" + std::to_string(k) + " [shape=box, style=" + (user ? "bold" : "dashed") +
            ", label=" + quoted(array.name + " " + shape_text(array.spec) + " " + to_string(array.spec.dtype)) + "];\n";
  }
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const Stage& stage = plan.stages[k];
    const std::string name = "stage" + std::to_string(k);
    const auto found = lessons.find(stage.name);
    const std::string confidence = confidence_text(stage, found == lessons.end() ? StageLessons{} : found->second);
    text += "  " + name + " [shape=ellipse, label=" +
            quoted(stage.name + ": " + stage.function + ", " + confidence + ", " +
                   count_of(stage.numbers.tasks, "task") + " of " + format_size(stage.numbers.projected)) +
            (stage.confidence == Confidence::unsafe ? ", color=orange" : "") + "];\n";
    for (int input : stage.inputs) text += "  array" + std::to_string(input) + " -> " + name + ";\n";
    for (int output : stage.outputs) text += "  " + name + " -> array" + std::to_string(output) + ";\n";
  }
  return text + "}\n";
}

}  // namespace cuboid
