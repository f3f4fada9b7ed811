#include "engine/run/scheduler.h"

#include <algorithm>
#include <set>

namespace cuboid {
namespace {

constexpr std::int64_t kScan = 64;    // blocks looked at in one search for ready ones
constexpr double kPilotShare = 0.05;  // of the plan's tasks
constexpr std::size_t kPilotsAtMost = 4096;
constexpr std::size_t kPilotsLookedAt = 8;  // per task that is started, while there are pilots

}  // namespace

Scheduler::Scheduler(const Plan& plan) : plan_(&plan), stages_(plan.stages.size()) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const int array : plan.stages[s].inputs) {
      const int producer = plan.arrays[static_cast<std::size_t>(array)].producer;
      if (producer >= 0) stages_[s].upstream.push_back(producer);
    }
  }
}

void Scheduler::open(int stage, BlockSet finished) {
  StageState& s = state(stage);
  s.open = true;
  s.taken = finished;
  s.given_up = BlockSet(finished.size());
  s.finished = std::move(finished);
  ++s.version;
  if (plan_->stages[static_cast<std::size_t>(stage)].confidence == Confidence::unsafe) plan_pilots(stage);
}

bool Scheduler::upstream_complete(const StageState& stage) const {
  return std::all_of(stage.upstream.begin(), stage.upstream.end(), [&](int up) { return complete(up); });
}

std::uint64_t Scheduler::upstream_version(const StageState& stage) const {
  std::uint64_t sum = 0;
  for (const int up : stage.upstream) sum += state(up).version;
  return sum;
}

Scheduler::Readiness Scheduler::readiness(TaskRef task) const {
  const Stage& stage = plan_->stages[static_cast<std::size_t>(task.stage)];
  Readiness result = Readiness::ready;
  for (const TaskBox& read : task_reads(*plan_, stage, task.block)) {
    const int producer = plan_->arrays[static_cast<std::size_t>(read.array)].producer;
    if (producer < 0 || complete(producer)) continue;
    const StageState& up = state(producer);
    if (!up.open) return Readiness::waiting;
    for (const std::int64_t block : producing_blocks(*plan_, read.array, read.box)) {
      if (up.given_up.contains(block)) return Readiness::blocked;
      if (!up.finished.contains(block)) result = Readiness::waiting;
    }
  }
  return result;
}

void Scheduler::give_up(TaskRef task) {
  StageState& s = state(task.stage);
  s.taken.insert(task.block);
  s.given_up.insert(task.block);
  ++s.version;
}

void Scheduler::offer(TaskRef task) {
  state(task.stage).taken.insert(task.block);
  window_.push_back({task});
}

bool Scheduler::refill_stage(int index) {
  StageState& s = state(index);
  if (!s.open || s.taken.full()) return false;
  if (upstream_complete(s)) {
    while (window_.size() < kWindow) {
      s.scan = s.taken.next_absent(s.scan);
      if (s.scan == s.taken.size()) {
        if (s.taken.full()) return false;
        s.scan = 0;  // an earlier partial search left some behind
        continue;
      }
      offer({index, s.scan});
    }
    return true;
  }
  // Some producers are unfinished. A sweep over all blocks is worth it only after something happened upstream.
  const std::uint64_t version = upstream_version(s);
  if (s.swept == version) return false;
  if (s.sweep_began == 0) s.sweep_began = version, s.scan = 0;
  for (std::int64_t looked = 0; looked < kScan && window_.size() < kWindow; ++looked) {
    s.scan = s.taken.next_absent(s.scan);
    if (s.scan == s.taken.size()) {
      s.swept = s.sweep_began;
      s.sweep_began = 0;
      return s.swept != version;
    }
    const TaskRef task{index, s.scan++};
    switch (readiness(task)) {
      case Readiness::ready:
        offer(task);
        break;
      case Readiness::waiting:
        break;
      case Readiness::blocked:
        give_up(task);
        ++s.blocked;
        break;
    }
  }
  return true;
}

bool Scheduler::refill_pilots() {
  std::size_t kept = 0, looked = 0, found = 0;
  for (std::size_t k = 0; k < pilots_.size(); ++k) {
    const TaskRef task = pilots_[k];
    StageState& s = state(task.stage);
    if (s.taken.contains(task.block)) continue;
    const Readiness now = looked++ < kPilotsLookedAt ? readiness(task) : Readiness::waiting;
    if (now == Readiness::waiting) pilots_[kept++] = task;
    if (now != Readiness::ready) continue;  // a blocked one is no pilot any more
    s.taken.insert(task.block);
    window_.insert(window_.begin() + static_cast<std::ptrdiff_t>(found++), {task});
  }
  pilots_.resize(kept);
  return found > 0;
}

bool Scheduler::refill() {
  bool more = false;
  for (int stage = 0; stage < static_cast<int>(stages_.size()) && window_.size() < kWindow; ++stage)
    more |= refill_stage(stage);
  return more;
}

std::optional<TaskRef> Scheduler::next(const std::function<Fit(TaskRef)>& fits) {
  // Half full is full enough: filling up after every task would search for ready blocks after every task.
  if (!pilots_.empty()) refill_pilots();
  if (window_.size() < kWindow / 2) refill();
  if (window_.empty()) idle();  // searches on
  for (std::size_t k = 0; k < window_.size(); ++k) {
    const TaskRef task = window_[k].task;
    switch (fits(task)) {
      case Fit::yes:
        for (std::size_t before = 0; before < k; ++before) ++window_[before].passed_over;
        window_.erase(window_.begin() + static_cast<std::ptrdiff_t>(k));
        return task;
      case Fit::too_large:
        if (window_[k].passed_over >= kPassedOverAtMost) return std::nullopt;
        break;
      case Fit::not_here:
        break;
    }
  }
  return std::nullopt;
}

void Scheduler::again(TaskRef task) { window_.push_front({task}); }

void Scheduler::finish(TaskRef task) {
  StageState& s = state(task.stage);
  s.finished.insert(task.block);
  ++s.version;
}

void Scheduler::park(TaskRef task) { give_up(task); }

bool Scheduler::idle() {
  while (window_.empty())
    if (!(!pilots_.empty() && refill_pilots()) && !refill()) break;
  return window_.empty();
}

void Scheduler::plan_pilots(int index) {
  const Grid& grid = plan_->stages[static_cast<std::size_t>(index)].grid;
  if (grid.size() == 0) return;
  Shape middle = grid.counts();
  for (std::int64_t& n : middle) n /= 2;
  const auto most = static_cast<std::size_t>(kPilotShare * static_cast<double>(plan_->tasks));
  const std::size_t limit = std::min(most, kPilotsAtMost);
  // Block 0 is as large as any; the last one is the smallest. The closure of what they depend on, producers last.
  std::set<std::pair<int, std::int64_t>> seen;
  std::vector<TaskRef> closure;
  const auto add = [&](TaskRef task) {
    if (!state(task.stage).taken.contains(task.block) && seen.emplace(task.stage, task.block).second)
      closure.push_back(task);
  };
  for (const std::int64_t block : {std::int64_t{0}, grid.size() - 1, grid.linear(middle)}) add({index, block});
  for (std::size_t k = 0; k < closure.size(); ++k) {
    if (closure.size() > limit) return;
    const Stage& stage = plan_->stages[static_cast<std::size_t>(closure[k].stage)];
    for (const TaskBox& read : task_reads(*plan_, stage, closure[k].block)) {
      const int producer = plan_->arrays[static_cast<std::size_t>(read.array)].producer;
      if (producer < 0) continue;
      if (!is_open(producer)) return;
      for (const std::int64_t block : producing_blocks(*plan_, read.array, read.box)) add({producer, block});
    }
  }
  pilots_.insert(pilots_.end(), closure.begin(), closure.end());
  std::stable_sort(pilots_.begin(), pilots_.end(),
                   [](const TaskRef& a, const TaskRef& b) { return a.stage < b.stage; });
}

}  // namespace cuboid
