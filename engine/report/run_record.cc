#include "engine/report/run_record.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/plan/plan.h"
#include "engine/report/plan_table.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using nlohmann::json;

// The plan of the newest generation, as it was written.
json newest_plan(const std::string& run_dir) {
  const auto store = make_file_store(run_dir);
  std::string name = "plan.json";
  for (int generation = 1; store->stamp("plan." + std::to_string(generation) + ".json"); ++generation)
    name = "plan." + std::to_string(generation) + ".json";
  const auto text = read_text(*store, name);
  if (!text) throw Error(ErrorKind::not_found, run_dir + ": no run is kept here (plan.json is missing)");
  json plan = json::parse(*text, nullptr, false);
  if (plan.is_discarded()) throw Error(ErrorKind::invalid, run_dir + "/" + name + ": is damaged");
  return plan;
}

std::string shape_of(const json& spec, const std::optional<Shape>& measured) {
  if (measured) return to_string(*measured);
  ArraySpec read;
  for (const json& extent : spec.at("extents"))
    read.extents.push_back({extent.at(0).get<std::int64_t>(), static_cast<Trust>(extent.at(1).get<int>())});
  return shape_text(read);
}

void take_plan(const json& plan, const std::map<std::string, Shape>& shapes, RunRecord& record) {
  record.budget = plan.at("options").at("budget");
  record.workers = plan.at("options").at("workers");
  record.tasks = plan.at("totals").at(3);
  constexpr const char* kRoles[] = {"source", "intermediate", "pieces", "output"};
  for (const json& array : plan.at("arrays")) {
    const std::string name = array.at("name");
    const auto found = shapes.find(name);
    record.arrays.push_back(
        {name, kRoles[std::clamp(array.at("role").get<int>(), 0, 3)], array.at("spec").at("dtype"),
         array.at("location"),
         shape_of(array.at("spec"), found == shapes.end() ? std::nullopt : std::optional(found->second))});
  }
  for (const json& entry : plan.at("stages")) {
    RecordedStage stage;
    stage.name = entry.at("name");
    stage.function = entry.at("function");
    stage.steps = entry.at("steps").get<std::vector<std::string>>();
    stage.confidence = to_string(static_cast<Confidence>(entry.at("confidence").get<int>()));
    const json& numbers = entry.at("numbers");
    stage.tasks = numbers.at(0);
    stage.projected = numbers.at(1);
    stage.concurrency = numbers.at(2);
    stage.bytes_read = numbers.at(3);
    stage.bytes_written = numbers.at(4);
    record.stages.push_back(std::move(stage));
  }
}

void take_blocks(const Journal& journal, RecordedStage& stage) {
  const std::int64_t every = std::max<std::int64_t>(1, stage.tasks / static_cast<std::int64_t>(RunRecord::kMostPoints));
  journal.each_block(stage.name, [&](const JournalBlock& block) {
    ++stage.done;
    stage.retried += block.attempts > 1 ? 1 : 0;
    stage.grown += block.grown ? 1 : 0;
    stage.allowed = std::max(stage.allowed, block.allowed);
    stage.peak = std::max(stage.peak, block.peak);
    stage.seconds += block.seconds;
    if (block.block % every == 0 && stage.peaks.size() < 2 * RunRecord::kMostPoints) stage.peaks.push_back(block.peak);
  });
}

}  // namespace

std::int64_t RunRecord::tasks_done() const {
  std::int64_t done = 0;
  for (const RecordedStage& stage : stages) done += stage.done;
  return done;
}

std::string RunRecord::status() const {
  if (runs.empty()) return "planned";
  const JournalRun& last = runs.back();
  if (!last.status.empty()) return last.status;
  return ::kill(static_cast<pid_t>(last.pid), 0) == 0 || errno == EPERM ? "running" : "killed";
}

RunRecord read_run_record(const std::string& run_dir) {
  RunRecord record;
  record.run_dir = run_dir;
  const json plan = newest_plan(run_dir);
  try {
    const Journal journal(run_dir, Journal::Mode::read);
    take_plan(plan, journal.shapes(), record);
    record.runs = journal.runs();
    record.failures = journal.failures();
    record.parked = journal.parked();
    record.answers = journal.answers();
    for (RecordedStage& stage : record.stages) take_blocks(journal, stage);
  } catch (const json::exception& error) {
    throw Error(ErrorKind::invalid, run_dir + ": the plan cannot be read: " + error.what());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_found || error.kind() == ErrorKind::io) throw;
    throw Error(ErrorKind::invalid, error.message(), error.context());
  }
  for (const JournalFailure& failure : record.failures)
    for (RecordedStage& stage : record.stages)
      if (stage.name == failure.stage) stage.seconds_lost += failure.seconds;
  return record;
}

}  // namespace cuboid
