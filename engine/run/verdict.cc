// What a run came to, in words: which blocks, what they were allowed, what they needed, what is kept, and the one
// command that goes on.
#include <algorithm>
#include <map>

#include "engine/run/coordinator.h"
#include "storage/error.h"

namespace cuboid {
namespace {

constexpr std::size_t kBlocksNamed = 3;
constexpr std::uint64_t kMiB = 1u << 20;

std::uint64_t mebibytes(std::uint64_t bytes) { return (bytes + kMiB - 1) / kMiB; }

std::string counted(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string describe(const ParkedBlock& parked) {
  std::string text = "block " + to_string(parked.index);
  if (parked.exit_code == 4 && parked.bound) return text + ": " + parked.why;
  if (parked.exit_code == 4) {
    text += " was allowed " + format_size(parked.allowed);
    if (parked.needed > parked.allowed)
      text += " and needed at least " + format_size(parked.needed);
    else if (parked.peak > 0)
      text += " and had taken " + format_size(parked.peak);
    return text + " (" + parked.why + ")";
  }
  return text + ": " + parked.why + (parked.error ? ": " + parked.error->message() : "");
}

// Bytes of a task with which the worst of them may get through.
std::uint64_t enough_for(const std::vector<const ParkedBlock*>& parked) {
  std::uint64_t most = 0;
  for (const ParkedBlock* block : parked)
    most = std::max(most, std::max(block->needed + block->needed / 8, 2 * block->allowed));
  return mebibytes(most) * kMiB;
}

// Flags that, added to the same command, let the run go on with a chance to get through.
std::string flags_to_go_on(const std::vector<const ParkedBlock*>& parked, const Plan& plan, const RunOptions& options) {
  const Stage& stage = plan.stages[static_cast<std::size_t>(std::max(0, plan.stage_index(parked.front()->stage)))];
  const std::uint64_t enough = enough_for(parked);
  const std::uint64_t needs = smallest_budget(plan.baselines, enough, stage.isolated);
  const std::uint64_t room = plan.options.budget - std::min(plan.options.budget, needs - enough);
  const ExceedRules rules =
      resolve_rules(options.on_exceed, stage.options.on_exceed, options.override_step_policies, room);
  std::string flags;
  const auto add = [&](const std::string& flag) { flags += (flags.empty() ? "" : " ") + flag; };
  if (rules.action != ExceedAction::grow) add("--on-exceed grow");
  const bool memory = std::any_of(parked.begin(), parked.end(), [](const ParkedBlock* block) { return !block->bound; });
  if (memory && enough > room) add("--memory " + std::to_string(mebibytes(needs)) + "MiB");
  if (memory && rules.cap < std::min(room, enough))
    add("--max-task-memory " + std::to_string(mebibytes(enough)) + "MiB");
  if (flags.empty()) add("--max-attempts " + std::to_string(rules.max_attempts + 2));
  return flags;
}

std::string kept(const RunLedger& ledger, const Plan& plan) {
  std::int64_t done = 0;
  for (const auto& [name, stage] : ledger.stages) done += stage.tasks_done;
  return std::to_string(done) + " of " + std::to_string(plan.tasks) + " tasks are finished and kept in " +
         plan.options.run_dir;
}

Error describe_parked(const RunLedger& ledger, const Plan& plan, const RunOptions& options, int code) {
  std::map<std::string, std::vector<const ParkedBlock*>> by_stage;
  for (const ParkedBlock& parked : ledger.parked)
    if (parked.exit_code == code) by_stage[parked.stage].push_back(&parked);
  std::string text;
  std::string flags;
  for (const auto& [name, blocks] : by_stage) {
    if (!text.empty()) text += "; ";
    text += "stage '" + name + "': " + counted(blocks.size(), "block") +
            (code == 4 ? " needed more than the estimate" : " failed") + ": ";
    for (std::size_t k = 0; k < std::min(blocks.size(), kBlocksNamed); ++k)
      text += (k ? ", " : "") + describe(*blocks[k]);
    if (blocks.size() > kBlocksNamed) text += ", and " + std::to_string(blocks.size() - kBlocksNamed) + " more";
    if (code == 4 && flags.empty()) flags = flags_to_go_on(blocks, plan, options);
  }
  text += ". " + kept(ledger, plan);
  if (code == 4)
    text += "; go on with the same command and " + flags;
  else
    text += "; once the cause is removed, the same command goes on from there";
  const ParkedBlock& first = *by_stage.begin()->second.front();
  const ErrorKind kind = code == 4 ? ErrorKind::over_budget : first.error ? first.error->kind() : ErrorKind::plugin;
  Error error(kind, text, first.error ? first.error->context() : Error::Context());
  error.add("stage", first.stage).add("block", to_string(first.index));
  if (!flags.empty()) error.add("go_on", flags);
  return error;
}

}  // namespace

Verdict judge(const RunLedger& ledger, const Plan& plan, const RunOptions& options, bool interrupted) {
  // Of several causes: 6 before 5 before 4; 1 where nothing else explains it.
  int code = ledger.stopped_by ? ledger.stop_code : 0;
  if (interrupted) code = 130;
  for (const ParkedBlock& parked : ledger.parked) code = std::max(code, parked.exit_code);
  Verdict verdict;
  verdict.exit_code = code;
  if (code == 0) return verdict;
  verdict.status = code == 130 ? RunStatus::interrupted : code == 4 ? RunStatus::exceeded : RunStatus::failed;
  const bool stopped_says_it = ledger.stopped_by && ledger.stop_code == code;
  const bool parked_says_it =
      std::any_of(ledger.parked.begin(), ledger.parked.end(), [&](const auto& p) { return p.exit_code == code; });
  verdict.error = parked_says_it && !(stopped_says_it && code != 6)
                      ? describe_parked(ledger, plan, options, code)
                      : ledger.stopped_by.value_or(Error(ErrorKind::cancelled, "the run was stopped"));
  return verdict;
}

}  // namespace cuboid
