#include "engine/plan/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/plan/plan_json.h"
#include "storage/error.h"

namespace cuboid {

std::string to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::exact:
      return "exact";
    case Confidence::bounded:
      return "bounded";
    case Confidence::unsafe:
      return "unsafe";
    case Confidence::learned:
      return "learned";
  }
  return "unknown";
}

std::string to_string(ExceedAction action) {
  switch (action) {
    case ExceedAction::ask:
      return "ask";
    case ExceedAction::grow:
      return "grow";
    case ExceedAction::park:
      return "park";
    case ExceedAction::fail:
      return "fail";
  }
  return "unknown";
}

int Plan::stage_index(const std::string& name) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const Stage& stage) { return stage.name == name; });
  return found == stages.end() ? -1 : static_cast<int>(found - stages.begin());
}

namespace {

// The ragged arrays of which a step reads the run of its task's own block.
std::vector<int> read_by_block(const Step& step) {
  std::vector<int> arrays{step.array};
  arrays.insert(arrays.end(), step.in.begin(), step.in.end());
  return arrays;
}

}  // namespace

std::vector<TaskBox> task_reads(const Plan&, const Stage& stage, std::int64_t block) {
  // Inside a loop the inner boxes tile the task's block, so the whole block's box is their union.
  const std::vector<Box> boxes = op_boxes(stage.program, stage.grid.box(block));
  std::vector<TaskBox> reads;
  for (const Step& step : stage.program.steps)
    if (step.what == Step::What::read || step.what == Step::What::move)
      reads.push_back({step.array, buffer_box(stage.program, step.buffer, boxes, stage.grid.block())});
    else if (step.what == Step::What::gather)
      reads.push_back({step.array, boxes[0]});
    else if (step.what == Step::What::merge)
      for (int array : step.in) reads.push_back({array, boxes[0], true});
    else if (step.what == Step::What::split || step.what == Step::What::look_up)
      for (int array : read_by_block(step)) reads.push_back({array, Box{{block}, {1}}, true});
  return reads;
}

std::vector<TaskBox> task_writes(const Plan&, const Stage& stage, std::int64_t block) {
  const std::vector<Box> boxes = op_boxes(stage.program, stage.grid.box(block));
  std::vector<TaskBox> writes;
  for (const Step& step : stage.program.steps)
    if (step.what == Step::What::write || step.what == Step::What::move)
      writes.push_back({step.what == Step::What::move ? step.out[0] : step.array,
                        buffer_box(stage.program, step.buffer, boxes, stage.grid.block())});
  return writes;
}

namespace {

// Which box of `array` a block of its producer writes, per axis in units of output chunks: blocks and chunks of a
// stage's result line up, so the block that wrote an element follows from the element's chunk.
struct Producer {
  const Stage& stage;
  const Step& write;
};

Producer producer_of(const Plan& plan, int array) {
  const Stage& stage = plan.stages[plan.arrays[array].producer];
  for (const Step& step : stage.program.steps)
    if (((step.what == Step::What::write || step.what == Step::What::write_piece) && step.array == array) ||
        ((step.what == Step::What::merge || step.what == Step::What::split || step.what == Step::What::move) &&
         std::count(step.out.begin(), step.out.end(), array) > 0) ||
        (step.what == Step::What::merge && step.array == array))
      return {stage, step};
  throw Error(ErrorKind::invalid, "no step writes array '" + plan.arrays[array].name + "'");
}

}  // namespace

std::vector<std::int64_t> producing_blocks(const Plan& plan, int array, const Box& box) {
  std::vector<std::int64_t> blocks;
  if (plan.arrays[array].producer < 0) return blocks;
  const Producer producer = producer_of(plan, array);
  const Grid& grid = producer.stage.grid;
  if (producer.write.what != Step::What::write && producer.write.what != Step::What::move) {
    blocks.resize(static_cast<std::size_t>(grid.size()));
    for (std::size_t k = 0; k < blocks.size(); ++k) blocks[k] = static_cast<std::int64_t>(k);
    return blocks;
  }
  if (box.empty()) return blocks;
  // Along each axis of the grid a block's written box moves along at most one axis of the array, in step with the
  // index: find, per axis of the grid, the range of indices whose boxes meet the wanted one.
  const auto written = [&](const Shape& index) {
    return buffer_box(producer.stage.program, producer.write.buffer, op_boxes(producer.stage.program, grid.box(index)),
                      grid.block());
  };
  const Shape first(grid.counts().size(), 0);
  if (grid.size() == 0) return blocks;
  const Box origin = written(first);
  Shape low = first, high(first);
  for (std::size_t axis = 0; axis < first.size(); ++axis) {
    const std::int64_t count = grid.counts()[axis];
    high[axis] = count - 1;
    if (count == 1) continue;
    Shape second = first;
    second[axis] = 1;
    const Box next = written(second);
    for (std::size_t d = 0; d < box.shape.size(); ++d) {
      const std::int64_t stride = next.origin[d] - origin.origin[d];
      if (stride == 0) continue;
      // Of one grid axis to one array axis; the origin of index n is origin + n * stride (flips run backwards).
      const auto index_of = [&](std::int64_t element) {
        return stride > 0 ? (element - origin.origin[d]) / stride
                          : (origin.origin[d] + origin.shape[d] - 1 - element) / -stride;
      };
      const std::int64_t a = index_of(box.origin[d]), b = index_of(box.end(d) - 1);
      low[axis] = std::clamp<std::int64_t>(std::min(a, b), 0, count - 1);
      high[axis] = std::clamp<std::int64_t>(std::max(a, b), 0, count - 1);
    }
  }
  Box range{low, high};
  for (std::size_t axis = 0; axis < low.size(); ++axis) range.shape[axis] = high[axis] - low[axis] + 1;
  Shape index = low;
  do {
    blocks.push_back(grid.linear(index));
  } while (advance(index, range));
  return blocks;
}

std::int64_t producing_block_of_run(const Plan& plan, int array, std::int64_t run) {
  const Producer producer = producer_of(plan, array);
  return producer.write.what == Step::What::split ? run / producer.stage.grid.block()[0] : run;
}

nlohmann::json plan_report(const Plan& plan) {
  using nlohmann::json;
  json stages = json::array();
  for (const Stage& stage : plan.stages) {
    json outputs = json::array();
    for (int index : stage.outputs) {
      const PlanArray& array = plan.arrays[index];
      json output = {{"name", array.name},
                     {"dtype", to_string(array.spec.dtype)},
                     {"shape", extents_to_public_json(array.spec)},
                     {"chunks", array.chunks}};
      if (array.role == PlanArray::Role::output) output["path"] = array.location;
      outputs.push_back(std::move(output));
    }
    stages.push_back({{"name", stage.name},
                      {"function", stage.function},
                      {"steps", stage.steps},
                      {"confidence", to_string(stage.confidence)},
                      {"approximate", stage.approximate},
                      {"isolated", stage.isolated},
                      {"tasks", stage.numbers.tasks},
                      {"block", stage.grid.block()},
                      {"projected_bytes", stage.numbers.projected},
                      {"estimated_bytes", stage.projection.uncertain},
                      {"memory_formula", memory_formula(plan, stage)},
                      {"user_numbers", user_numbers(stage)},
                      {"concurrency", stage.numbers.concurrency},
                      {"bytes_read", stage.numbers.bytes_read},
                      {"bytes_written", stage.numbers.bytes_written},
                      {"outputs", std::move(outputs)}});
  }
  json report = {{"budget", plan.options.budget},
                 {"stages", std::move(stages)},
                 {"tasks", plan.tasks},
                 {"totals",
                  {{"bytes_read", plan.bytes_read},
                   {"bytes_written", plan.bytes_written},
                   {"disk_peak_bytes", plan.disk_peak},
                   {"memory_seconds", nullptr}}},
                 {"refused", nullptr}};
  if (plan.deciding) {
    const Deciding& d = *plan.deciding;
    report["deciding"] = {{"stage", d.stage}, {"smallest_budget", d.smallest_budget}, {"chunks", nullptr}};
    if (d.chunks)
      report["deciding"].update({{"chunks", *d.chunks}, {"step", d.step}, {"budget_with_chunks", d.budget_then}});
  }
  if (!plan.checked_only.empty()) report["checked_only"] = plan.checked_only;
  if (plan.refused) {
    const Refusal& r = *plan.refused;
    report["refused"] = {{"resource", r.resource},
                         {"stage", r.stage ? json(*r.stage) : json(nullptr)},
                         {"projected_bytes", r.projected},
                         {"budget", r.budget},
                         {"hint", r.hint}};
  }
  return report;
}

}  // namespace cuboid
