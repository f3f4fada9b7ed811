// Runs a plan: one coordinating loop that turns stages into tasks, keeps them inside the budget, journals what is done,
// and goes on from what an earlier run of the same directory did.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/events.h"

namespace cuboid {

struct RunOptions {
  ExceedPolicy on_exceed;  // of the run; what it leaves open: action grow, factor 2, cap = budget, 4 attempts
  bool override_step_policies = false;  // a flag was given: it beats what steps say
  bool fresh = false;                   // start anew: remove this run directory's outputs and journal first
  std::string worker;  // path of cuboid-worker; "": $CUBOID_WORKER, beside this program, ../libexec/cuboid
  std::vector<std::string> plugins;  // libraries the plan uses
  std::string history;               // file of what calls took in earlier runs (history.h); "": none is kept or asked
  Observer* observer = nullptr;
  Decider* decider = nullptr;  // who answers under `ask`; none: `ask` acts as `park`
};

enum class RunStatus : std::uint8_t { done, refused, exceeded, failed, interrupted };
std::string to_string(RunStatus status);

struct StageResult {
  std::int64_t tasks_done = 0;              // in all
  std::int64_t tasks_reused = 0;            // of them kept from an earlier run
  std::int64_t tasks_retried = 0;           // that needed more than one attempt
  std::int64_t tasks_grown = 0;             // that got more memory in place
  std::int64_t attempts = 0;                // of this run, all of them
  std::optional<std::uint64_t> peak_bytes;  // largest measured over all runs
  std::uint64_t allowed_bytes = 0;          // largest grant
  std::int64_t parked = 0;
  double seconds = 0;       // sum over tasks
  double seconds_lost = 0;  // in attempts that failed
};

struct RunResult {
  RunStatus status = RunStatus::done;
  int exit_code = 0;                // as INTERFACE.md lists them
  Plan plan;                        // the last one, facts included
  std::vector<StageResult> stages;  // by Plan::stages
  bool nothing_to_do = false;
  double wall_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;  // largest sum of Pss over the process tree, sampled
  std::optional<Error> error;
};

// Throws Error{invalid} for what is found before the run (exit 2: a plugin that cannot be loaded, a live coordinator on
// this run directory); everything later is in the result. Installs handlers for SIGINT and SIGTERM while it runs.
RunResult run(const PlanRequest& request, const Resolvers& resolvers, const RunOptions& options);

// The path of the worker program: `given`, else $CUBOID_WORKER, else beside this program, else where an installed one
// lies. Throws Error{plugin} naming where was looked.
std::string worker_program(const std::string& given);

}  // namespace cuboid
