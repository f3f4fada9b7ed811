// A run from beginning to end: plan, lock, journal, go on from what is there, execute, say what it came to.
#include "engine/run/run.h"

#include <filesystem>

#include "engine/run/coordinator.h"
#include "engine/run/run_lock.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using Clock = std::chrono::steady_clock;

// What a run directory remembers before anything is planned.
struct Remembered {
  bool exists = false;
  std::vector<JournalOutput> outputs;
  std::map<std::string, std::int64_t> bounds;
};

// A damaged journal is an input that is wrong (exit 2) unless the run starts anew anyway.
Remembered remember(const std::string& run_dir, bool fresh) {
  Remembered remembered;
  remembered.exists = std::filesystem::exists(Journal::path_in(run_dir));
  if (!remembered.exists) return remembered;
  try {
    const Journal journal(run_dir, Journal::Mode::read);
    remembered.outputs = journal.outputs();
    remembered.bounds = journal.bounds();
  } catch (Error& error) {
    if (error.kind() == ErrorKind::not_found) return Remembered{};
    if (fresh && error.kind() == ErrorKind::corrupt) return remembered;
    throw Error(ErrorKind::invalid, error.message(), error.context());
  }
  return remembered;
}

// Everything that only lives while a run is going on.
class RunInProgress {
 public:
  RunInProgress(PlanRequest request, const Resolvers& resolvers, const RunOptions& options,
                const ExecutorFactory& factory)
      : request_(std::move(request)), resolvers_(resolvers), options_(options), factory_(factory) {}

  RunResult run();

 private:
  const std::string& dir() const { return request_.options.run_dir; }
  // False where the plan is refused.
  bool plan_it(const Remembered& remembered);
  void execute();
  std::unique_ptr<Coordinator> make_coordinator();
  void finish(Coordinator& coordinator);
  void take_history();
  void give_history();
  void tell(const std::string& text);  // what is no reason to fail

  PlanRequest request_;
  const Resolvers& resolvers_;
  const RunOptions& options_;
  const ExecutorFactory& factory_;
  StopSignals signals_;
  Clock::time_point started_ = Clock::now();
  std::optional<RunLock> lock_;
  std::optional<Journal> journal_;
  std::shared_ptr<const Plan> plan_;
  Facts facts_;
  RunLedger ledger_;
  RunResult result_;
};

bool RunInProgress::plan_it(const Remembered& remembered) {
  for (std::string& own : own_outputs(remembered.outputs)) request_.options.own_outputs.push_back(std::move(own));
  if (!options_.fresh) {
    facts_.bounds = remembered.bounds;
    request_.earlier = read_plan(dir(), resolvers_);
  }
  plan_ = std::make_shared<const Plan>(make_plan(request_, resolvers_, facts_));
  if (!plan_->refused) return true;
  result_.plan = *plan_;
  result_.stages.resize(plan_->stages.size());
  result_.status = RunStatus::refused;
  result_.exit_code = 3;
  return false;
}

RunResult RunInProgress::run() {
  if (dir().empty()) throw Error(ErrorKind::invalid, "a run needs a run directory (--run-dir)");
  const bool had_directory = std::filesystem::exists(dir());
  check_run_dir(dir());
  // An existing journal is another coordinator's until the lock says otherwise.
  if (std::filesystem::exists(Journal::path_in(dir()))) lock_.emplace(dir());
  const Remembered remembered = remember(dir(), options_.fresh);
  if (!plan_it(remembered)) return std::move(result_);
  check_overwritable(*plan_);
  if (!lock_) lock_.emplace(dir());
  try {
    if (options_.fresh) remove_run(dir(), remembered.outputs);
    journal_.emplace(dir(), Journal::Mode::create, plan_->options.durable);
    execute();
  } catch (...) {
    // Found before the run: nothing is left of it where there was nothing.
    if (!had_directory && ledger_.tasks_run == 0) {
      journal_.reset();
      lock_.reset();
      std::error_code ignored;
      std::filesystem::remove_all(dir(), ignored);
    }
    throw;
  }
  return std::move(result_);
}

std::unique_ptr<Coordinator> RunInProgress::make_coordinator() {
  auto coordinator = std::make_unique<Coordinator>(
      Coordinator::Setup{request_, resolvers_, options_, factory_, *journal_, signals_, ledger_}, plan_, facts_);
  coordinator->resume();
  plan_ = coordinator->plan();
  facts_ = coordinator->facts();
  return coordinator;
}

// Once for a run directory: what the history says goes into the journal, and only that counts from then on.
void RunInProgress::take_history() {
  if (options_.history.empty() || !journal_->runs().empty()) return;
  try {
    for (const Taught& taught : taught_by(History(options_.history), *plan_))
      journal_->add_taught({taught.stage, taught.shape_class, taught.stats.finished, taught.stats.above,
                            taught.stats.worst_finished, taught.stats.worst_seen});
  } catch (const Error& error) {
    tell(error.message());
  }
}

void RunInProgress::give_history() {
  if (options_.history.empty() || ledger_.learned.empty()) return;
  try {
    std::vector<CallRecord> records;
    for (const auto& [kind, record] : ledger_.learned)
      if (!kind.function.empty()) records.push_back(record);
    History(options_.history).add(records);
  } catch (const Error& error) {
    tell(error.message());
  }
}

void RunInProgress::tell(const std::string& text) {
  RunEvent event;
  event.what = RunEvent::What::notice;
  event.text = text;
  if (options_.observer) options_.observer->on_event(event);
}

void RunInProgress::execute() {
  take_history();
  auto coordinator = make_coordinator();
  if (coordinator->nothing_to_do()) {
    result_.nothing_to_do = true;
    if (!plan_->options.keep) make_file_store(dir())->erase_prefix("data");  // what a kill may have left
    return finish(*coordinator);
  }
  write_plan(*plan_, dir(), 0);
  journal_->begin_run();
  journal_->commit(true);
  try {
    coordinator->start();
  } catch (Error& error) {
    throw Error(ErrorKind::invalid, error.message(), error.context());
  }
  while (coordinator->loop()) {
    coordinator->settle(result_);
    plan_ = coordinator->plan();
    facts_ = coordinator->facts();
    coordinator.reset();  // its executors end before the next one's start
    // What was given up, or waits for an answer, is tried again with all else that is not done.
    ledger_.parked.clear();
    for (auto& [name, stage] : ledger_.stages) stage.parked = 0;
    coordinator = make_coordinator();
    coordinator->start();
  }
  finish(*coordinator);
}

void RunInProgress::finish(Coordinator& coordinator) {
  coordinator.settle(result_);
  for (std::size_t s = 0; s < result_.stages.size(); ++s)
    ledger_.stages[result_.plan.stages[s].name].tasks_done = result_.stages[s].tasks_done;
  const Verdict verdict = judge(ledger_, result_.plan, options_, signals_.count() > 0);
  result_.status = verdict.status;
  result_.exit_code = verdict.exit_code;
  result_.error = verdict.error;
  result_.peak_rss_bytes = std::max(ledger_.peak_rss, sample_tree_memory().total);
  result_.wall_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  if (result_.nothing_to_do) return;
  give_history();
  try {
    journal_->end_run(to_string(result_.status), result_.wall_seconds, result_.peak_rss_bytes);
    journal_->commit(true);
  } catch (Error& error) {
    if (result_.error) return;  // the first cause counts
    result_.status = RunStatus::failed;
    result_.exit_code = 6;
    result_.error = error;
  }
}

}  // namespace

RunResult run_with(const PlanRequest& request, const Resolvers& resolvers, const RunOptions& options,
                   const ExecutorFactory& factory) {
  return RunInProgress(request, resolvers, options, factory).run();
}

}  // namespace cuboid
