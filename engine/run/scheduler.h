// Which task is next. Tasks are never listed: each stage keeps a bit per block, and a window of at most 64 ready tasks
// is filled from the stages in plan order. Within the window the first task that fits is taken; one that was passed
// over too often holds back all later ones, so that large tasks do not starve.
//
// A task is ready when the blocks that it reads are finished: known at once where whole stages are, else asked block by
// block. Pilots of unsafe stages (the largest, smallest and middle block, with all they depend on) come first where
// that is at most 5 % of the plan.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/block_set.h"

namespace cuboid {

struct TaskRef {
  int stage = 0;
  std::int64_t block = 0;
  friend bool operator==(const TaskRef&, const TaskRef&) = default;
};

enum class Fit : std::uint8_t {
  yes,
  too_large,  // not now, for lack of memory: counts as being passed over
  not_here    // not now, for another reason (no free slot of its kind): does not
};

class Scheduler {
 public:
  static constexpr std::size_t kWindow = 64;
  static constexpr int kPassedOverAtMost = 64;

  // The plan must outlive the scheduler or be replaced with set_plan(), which keeps every stage's index and grid.
  explicit Scheduler(const Plan& plan);
  void set_plan(const Plan& plan) { plan_ = &plan; }
  // Opens a stage whose inputs' extents are known. `finished`: blocks that need not run. Stages are opened in plan
  // order; a stage that is not open does not run. The grid is taken from the plan now.
  void open(int stage, BlockSet finished);
  bool is_open(int stage) const { return state(stage).open; }

  // The next task to start; nullopt: none for now. `fits` is asked about ready tasks in order.
  std::optional<TaskRef> next(const std::function<Fit(TaskRef)>& fits);
  // A task that was started goes first when it is to run again.
  void again(TaskRef task);
  void finish(TaskRef task);
  // This block is given up; whatever depends on it will not run.
  void park(TaskRef task);

  // Nothing is ready and nothing will be before a started task finishes (or one that waits runs again).
  bool idle();
  bool complete(int stage) const { return state(stage).open && state(stage).finished.full(); }
  const BlockSet& finished(int stage) const { return state(stage).finished; }
  // Blocks that depend on parked ones, found so far.
  std::int64_t blocked(int stage) const { return state(stage).blocked; }

 private:
  struct StageState {
    bool open = false;
    BlockSet finished;
    BlockSet taken;             // finished, handed out, parked or blocked: not to be offered again
    BlockSet given_up;          // parked or blocked
    std::vector<int> upstream;  // stages that it reads
    std::int64_t blocked = 0;
    std::int64_t scan = 0;          // where the search for ready blocks goes on
    std::uint64_t swept = 0;        // version of the upstream that a whole sweep has seen
    std::uint64_t sweep_began = 0;  // version at which the sweep in progress began
    std::uint64_t version = 1;      // counts what happens to this stage's blocks
  };
  struct Entry {
    TaskRef task;
    int passed_over = 0;
  };
  enum class Readiness : std::uint8_t { ready, waiting, blocked };

  StageState& state(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  const StageState& state(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }
  bool upstream_complete(const StageState& stage) const;
  std::uint64_t upstream_version(const StageState& stage) const;
  Readiness readiness(TaskRef task) const;
  void give_up(TaskRef task);
  void offer(TaskRef task);
  // Adds ready tasks; true where more might be found by calling again.
  bool refill();
  bool refill_pilots();  // at the front; true where some became ready
  bool refill_stage(int stage);
  void plan_pilots(int stage);

  const Plan* plan_;
  std::vector<StageState> stages_;
  std::deque<Entry> window_;
  std::vector<TaskRef> pilots_;  // not yet offered, producers before consumers
};

}  // namespace cuboid
