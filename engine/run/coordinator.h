// The one loop that coordinates a run (DESIGN.md, invariant 5): it admits tasks, waits on executors, signals, a timer
// and the decider's answers, journals what is done, and decides what follows. It never blocks on any of them.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/memory_model.h"
#include "engine/run/escalation.h"
#include "engine/run/history.h"
#include "engine/run/process_memory.h"
#include "engine/run/resume.h"
#include "engine/run/run.h"
#include "engine/run/run_files.h"
#include "engine/run/scheduler.h"
#include "engine/run/stop_signals.h"

namespace cuboid {

// How executors are made: of this process's threads, and of worker processes. Tests give fakes.
struct ExecutorFactory {
  std::function<std::unique_ptr<Executor>(std::shared_ptr<const Plan>, int count)> threads;
  std::function<std::unique_ptr<Executor>(std::shared_ptr<const Plan>, int count, int stop)> workers;  // WorkerOptions
};
// run() with other executors.
RunResult run_with(const PlanRequest& request, const Resolvers& resolvers, const RunOptions& options,
                   const ExecutorFactory& factory);

// A block that was given up, for the summary.
struct ParkedBlock {
  std::string stage;
  std::int64_t block = 0;
  Shape index;
  int exit_code = 4;
  std::uint64_t allowed = 0, peak = 0, needed = 0;  // bytes of the task; 0: not known
  bool bound = false;                               // of the result's extent, not of memory
  std::string why;
  std::optional<Error> error;
};
// What outlives a change of the plan's stages: everything else is in the journal.
struct RunLedger {
  std::map<std::string, StageResult> stages;
  std::vector<ParkedBlock> parked;
  std::optional<Error> stopped_by;  // other than by parked blocks
  int stop_code = 0;
  std::uint64_t peak_rss = 0;
  std::map<std::string, std::int64_t> ran;  // tasks of this run that succeeded, by stage
  std::int64_t tasks_run = 0;
  std::set<std::string> replaced;          // damaged chunks of intermediates that were removed, to be computed again
  std::int64_t kept_told = 0;              // tasks that observers know to be kept
  std::map<CallKind, CallRecord> learned;  // of this run, for the history
  int generation = 0;
};

class Coordinator {
 public:
  struct Setup {
    PlanRequest request;
    Resolvers resolvers;
    const RunOptions& options;
    const ExecutorFactory& factory;
    Journal& journal;
    StopSignals& signals;
    RunLedger& ledger;
  };
  Coordinator(Setup setup, std::shared_ptr<const Plan> plan, Facts facts);
  ~Coordinator();

  // Finds out what is left to do; writes nothing but what it learned of sources. Throws what reading metadata or the journal throws.
  void resume();
  bool nothing_to_do() const;
  // Starts executors: a plugin that cannot be loaded is thrown from here, before anything is written but plan files.
  void start();
  // Runs until nothing more can be done. True where the plan's stages changed and another coordinator goes on.
  bool loop();
  std::shared_ptr<const Plan> plan() const { return plan_; }
  const Facts& facts() const { return facts_; }
  // Fills in what only the end knows (tasks done, parked).
  void settle(RunResult& result);

 private:
  using Clock = std::chrono::steady_clock;
  using Key = std::pair<int, std::int64_t>;  // stage, block
  struct Running {
    TaskOrder order;
    bool isolated = false, alone = false, grown = false, told = false;
    std::optional<int> question;      // the call is held while the user answers
    std::uint64_t reserved = 0;       // bytes kept for the answer
    std::uint64_t growth_wanted = 0;  // uncertain bytes
  };
  struct History {
    std::vector<FailedAttempt> failed;
    std::int64_t splits = 1;        // pieces that its call is cut into
    std::optional<Next> next;       // what the next attempt is given
    std::optional<Choice> decided;  // by the user while the call was held
  };
  struct StageRun {
    StageLimits limits;
    bool estimated = false;  // its tasks have uncertain bytes
    std::map<std::uint64_t, SiblingStats> classes;
    std::optional<Choice> always;  // the user's standing answer
    StageResult* result = nullptr;
    std::map<std::int64_t, int> failed_before;  // attempts in earlier runs
    bool started = false, closed = false, prepared = false;
    int running = 0;
  };
  struct Asked {
    TaskRef task;
    bool held = false;
    Next proposed;
    TaskEvent event;
  };
  struct Grant {
    std::uint64_t limit = 0, allowance = 0;
    bool alone = false, one_at_a_time = false;
  };

  const Stage& stage(int index) const { return plan_->stages[static_cast<std::size_t>(index)]; }
  const PlanArray& array(int index) const { return plan_->arrays[static_cast<std::size_t>(index)]; }
  StageRun& run_of(int index) { return stages_[static_cast<std::size_t>(index)]; }

  // --- coordinator.cc: the loop, admission, finished tasks
  void admit();
  int most_running() const;
  Fit fits(TaskRef task, bool may_queue);
  bool has_slot(const Executor& executor) const;
  bool queues(TaskRef task);
  void tell_started();
  Grant grant_of(TaskRef task);
  void submit(TaskRef task);
  void collect();
  void on_event(TaskEvent& event);
  void on_done(TaskEvent& event);
  void wait();
  void every_so_often();
  Running take_running(const TaskOrder& order);
  Running* find_running(const TaskOrder& order);
  bool all_ended() const;
  Executor* executor_for(bool isolated) { return (isolated ? workers_ : threads_).get(); }
  void stop(int code, Error error);
  void tell_kept();
  void notify(RunEvent::What what, int stage = -1, std::int64_t block = -1, std::uint64_t bytes = 0,
              std::string text = {}, std::int64_t count = 0);

  // --- memory of the run
  std::uint64_t base() const;  // coordinator's own
  std::uint64_t workers_base(int more = 0) const;
  std::uint64_t granted(bool isolated_only = false) const;
  std::uint64_t free_bytes(bool isolated) const;
  std::uint64_t room(bool isolated) const;  // of one task alone
  void bound_pool();
  void bound_malloc();
  void sample_memory();

  // --- coordinator_stages.cc: stages open, complete; facts and new plans
  void open_stages();
  bool extents_known(int index) const;
  bool exceeds_users_bound(int stage_index, const PlanArray& ragged, std::int64_t rows);
  bool learn_extents(int stage_index);  // of the ragged arrays it produces; true where something is new
  void stage_complete(int index);
  void close_complete_stages();
  bool replan();  // false: the plan would not fit or its stages changed
  void hand_out_plan();
  ExceedRules rules_of(int index) const;
  void set_up_stage(int index);
  bool grow_array_bound(const TaskRef& task, const TaskEvent& event, std::string& why);
  bool gathered(int pieces) const;  // by any stage
  void remove_unused(int index);

  // --- coordinator_failures.cc: attempts that did not succeed
  void on_failed(TaskEvent& event);
  void on_exceeded_bound(TaskEvent& event, const Running& running);
  void apply(TaskRef task, const Next& next, const TaskEvent& event);
  void park(TaskRef task, int code, const std::string& why, const TaskEvent& event);
  void on_wants_growth(const TaskEvent& event);
  bool grow(Running& running, std::uint64_t allowance);
  void ask(TaskRef task, const Next& proposed, const TaskEvent& event, bool held);
  void answer(const Decider::Answer& answer);
  void settle(Asked asked, const Choice& choice);
  void answer_held(Asked& asked, Running& running, const Choice& choice);
  void apply_choice(TaskRef task, const Choice& choice, const Next& proposed, const TaskEvent& event);
  void drop_questions();
  bool remove_damaged(TaskRef task, const Error& error);
  void recall_answers();
  std::optional<Choice> answered_before(TaskRef task);
  bool can_split(const TaskOrder& order) const;
  bool may_be_exceeded(TaskRef task, const TaskEvent& event) const;
  std::uint64_t measured_u(const TaskEvent& event) const;
  SiblingStats& siblings(TaskRef task) {
    return run_of(task.stage).classes[shape_class(stage(task.stage).grid, task.block)];
  }
  CallRecord& learned(TaskRef task);

  Setup setup_;
  std::shared_ptr<const Plan> plan_;
  Facts facts_;
  Journal& journal_;
  RunLedger& ledger_;
  std::unique_ptr<Recall> recall_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<StageRun> stages_;
  MemoryAccount own_;                 // of what the loop itself takes at times
  Pieces pieces_;                     // by array
  std::map<Key, History> histories_;  // of blocks with a failed attempt
  std::vector<Running> running_;
  std::map<int, Asked> questions_;
  std::map<std::pair<std::string, std::int64_t>, std::deque<Choice>> answered_;  // before a kill, or another plan
  std::map<std::string, Choice> standing_;                                       // the same, for all of a stage
  std::unique_ptr<Executor> threads_, workers_;
  std::set<int> newly_complete_;
  int next_question_ = 1;
  bool stopping_ = false, cancelled_ = false, restart_ = false, pieces_changed_ = false;
  std::uint64_t measured_base_ = 0, beside_tasks_ = 0;
  Clock::time_point cancel_deadline_{}, dirty_since_{}, last_tick_{}, next_sample_{};
  bool was_dirty_ = false;
  bool spoilt_ = false;  // a function wrote into this process's memory: no result of it counts any more
};

// One message and exit code for what kept a run from being done; nothing where it is done.
struct Verdict {
  RunStatus status = RunStatus::done;
  int exit_code = 0;
  std::optional<Error> error;
};
Verdict judge(const RunLedger& ledger, const Plan& plan, const RunOptions& options, bool interrupted);

}  // namespace cuboid
