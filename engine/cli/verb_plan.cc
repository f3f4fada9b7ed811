#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/cli/catalog.h"
#include "engine/cli/command.h"
#include "engine/cli/pipeline.h"
#include "engine/cli/settings.h"
#include "engine/report/plan_table.h"
#include "engine/run/escalation.h"
#include "engine/run/history.h"
#include "engine/run/journal.h"
#include "engine/run/run_files.h"

namespace cuboid {
namespace {

struct WhatIf {
  std::optional<std::string> memory;
  std::optional<Shape> chunks;
};

// "memory=64MiB,chunks=100,100": a comma starts a new entry where a key and '=' follow.
WhatIf parse_what_if(const std::string& text) {
  WhatIf what_if;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t equals = text.find('=', start);
    const std::string key = text.substr(start, equals == std::string::npos ? std::string::npos : equals - start);
    if (equals == std::string::npos || (key != "memory" && key != "chunks")) {
      const auto near = nearest_name(key, {"memory", "chunks"});
      throw Error(ErrorKind::invalid, "--what-if: unknown change '" + key + "'" +
                                          (near ? ", did you mean '" + *near + "'?" : "") +
                                          "; expected memory=SIZE and chunks=N,N");
    }
    const std::size_t next = text.find('=', equals + 1);
    std::size_t end = text.size();
    if (next != std::string::npos) {
      end = text.rfind(',', next);
      if (end == std::string::npos || end <= equals) end = text.size();
    }
    const std::string value = text.substr(equals + 1, end - equals - 1);
    if (key == "memory") {
      what_if.memory = value;
    } else {
      what_if.chunks = parse_extents(value, "--what-if chunks");
    }
    start = end + 1;
  }
  return what_if;
}

using SiblingClasses = std::map<std::string, std::map<std::uint64_t, SiblingStats>>;  // by stage, by shape class

// Of unsafe stages that are what they were when this directory last ran: what its blocks took, and what it was taught.
void learn_from_journal(const Plan& plan, const Plan& earlier, std::map<std::string, StageLessons>& lessons,
                        SiblingClasses& classes) {
  const Journal journal(plan.options.run_dir, Journal::Mode::read);
  for (const Stage& stage : plan.stages) {
    const int before = earlier.stage_index(stage.name);
    if (stage.confidence != Confidence::unsafe || before < 0) continue;
    const Stage& was = earlier.stages[static_cast<std::size_t>(before)];
    if (was.function != stage.function || was.grid.block() != stage.grid.block()) continue;
    auto& of = classes[stage.name];
    for (const JournalTaught& taught : journal.taught())
      if (taught.stage == stage.name)
        of[taught.shape_class] = {taught.finished, taught.worst_finished, taught.worst_seen, taught.above};
    journal.each_block(stage.name, [&](const JournalBlock& row) {
      if (row.block < stage.grid.size())
        of[shape_class(stage.grid, row.block)].add_finished(row.peak_u, stage.projection.uncertain);
    });
    lessons[stage.name];
  }
  for (const JournalFailure& failure : journal.failures())
    if (const auto of = lessons.find(failure.stage); of != lessons.end() && failure.outcome == "exceeded")
      of->second.exceeded = std::max(of->second.exceeded, failure.allowed);
}

void learn_from_history(const Plan& plan, SiblingClasses& classes) {
  const std::string file = history_file();
  if (file.empty() || !std::filesystem::exists(file)) return;
  try {
    for (const Taught& taught : taught_by(History(file), plan))
      classes[taught.stage][taught.shape_class] = taught.stats;
  } catch (const Error&) {  // `run` says what is wrong with it
  }
}

// What is known of unsafe stages before they run: from this run directory where it has run, else from the history.
std::map<std::string, StageLessons> lessons_of(const Plan& plan, const Plan* earlier, const ExceedPolicy& policy,
                                               bool policy_wins, bool ask_history) {
  std::map<std::string, StageLessons> lessons;
  SiblingClasses classes;
  if (earlier)
    learn_from_journal(plan, *earlier, lessons, classes);
  else if (ask_history)
    learn_from_history(plan, classes);
  for (const Stage& stage : plan.stages) {
    const auto of = classes.find(stage.name);
    if (of == classes.end()) continue;
    const std::uint64_t base = smallest_budget(plan.baselines, 0, stage.isolated);
    const std::uint64_t room = plan.options.budget - std::min(plan.options.budget, base);
    const StageLimits limits{resolve_rules(policy, stage.options.on_exceed, policy_wins, room), plan.options.budget,
                             stage.projection};
    StageLessons& of_stage = lessons[stage.name];
    for (const auto& [bits, stats] : of->second) {
      of_stage.measured += stats.finished;
      of_stage.first = std::max(of_stage.first, stage.projection.with_uncertain(first_allowance(limits, stats)));
    }
  }
  return lessons;
}

// The plan as its first attempts will be, where something was learned.
Plan with_lessons(Plan plan, const std::map<std::string, StageLessons>& lessons) {
  for (Stage& stage : plan.stages) {
    const auto of = lessons.find(stage.name);
    if (of == lessons.end() || of->second.measured == 0) continue;
    stage.numbers.projected = of->second.first;
    stage.numbers.concurrency = std::max(
        1, tasks_at_once(plan.options.budget, plan.baselines, of->second.first, stage.isolated, plan.options.workers));
  }
  return plan;
}

nlohmann::json report_of(const Plan& plan, const std::map<std::string, StageLessons>& lessons) {
  nlohmann::json report = plan_report(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    if (const auto of = lessons.find(plan.stages[s].name); of != lessons.end() && of->second.measured > 0)
      report["stages"][s]["learned"] = {{"blocks", of->second.measured}, {"projected_bytes", of->second.first}};
  return report;
}

// What an earlier run in this directory made may be there, and fixes the plan's shape; bounds that it grew count.
Facts remember_earlier_run(PlanRequest& request, const Resolvers& resolvers) {
  const std::string& run_dir = request.options.run_dir;
  Facts facts;
  try {
    const Journal journal(run_dir, Journal::Mode::read);
    for (std::string& own : own_outputs(journal.outputs())) request.options.own_outputs.push_back(std::move(own));
    facts.bounds = journal.bounds();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_found) return facts;
    throw Error(ErrorKind::invalid, error.message(), error.context());
  }
  request.earlier = read_plan(run_dir, resolvers);
  return facts;
}

}  // namespace

int plan_command(const PlanCommand& command) {
  CommonFlags flags = command.common;
  PipelineOverrides overrides;
  if (!command.what_if.empty()) {
    const WhatIf what_if = parse_what_if(command.what_if);
    if (what_if.memory) flags.memory = *what_if.memory;
    overrides.chunks = what_if.chunks;
  }
  PluginCatalog catalog(flags);
  Pipeline pipeline = load_pipeline(command.file, catalog, overrides);
  complete_options(pipeline.request.options, flags, command.file, pipeline.memory);

  const Facts facts = remember_earlier_run(pipeline.request, catalog.resolvers());
  const Plan plan = [&] {
    try {
      return make_plan(pipeline.request, catalog.resolvers(), facts);
    } catch (const Error& error) {
      throw with_place(error, pipeline);
    }
  }();
  const auto lessons =
      lessons_of(plan, pipeline.request.earlier.get(), exceed_policy(flags, pipeline.on_exceed, person_present()),
                 !flags.on_exceed.empty(), !command.no_history);
  if (command.common.json) {
    print_json(report_of(plan, lessons));
  } else if (command.dot) {
    std::cout << plan_dot(with_lessons(plan, lessons), lessons);
  } else {
    std::cout << plan_table(with_lessons(plan, lessons), style_for(1), lessons, command.common.verbosity > 0);
  }
  std::cout.flush();
  if (!plan.refused) return kExitDone;
  if (!command.common.json) std::cerr << paint(style_for(2), Ink::red, "cuboid:") << " " << refusal_text(plan) << "\n";
  return kExitRefused;
}

}  // namespace cuboid
