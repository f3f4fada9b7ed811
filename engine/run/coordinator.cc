// The loop, admission, and tasks that succeed.
#include "engine/run/coordinator.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "storage/buffer.h"
#include "storage/error.h"
#include "storage/inject.h"

namespace cuboid {
namespace {

using std::chrono::milliseconds;

constexpr auto kBatch = milliseconds(100);  // journal rows wait at most this long
constexpr auto kTick = milliseconds(100);   // observers
constexpr auto kSample = milliseconds(20);  // memory of the process tree ...
constexpr int kSampleShare = 50;            // ... but at most 1/50 of the time
constexpr double kQueueSeconds = 0.003;     // work of a thread that waits for it
constexpr auto kCancelGrace = milliseconds(10'000);

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::io:
    case ErrorKind::corrupt:
    case ErrorKind::not_found:
      return 6;
    case ErrorKind::plugin:
      return 5;
    case ErrorKind::over_budget:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

Coordinator::Coordinator(Setup setup, std::shared_ptr<const Plan> plan, Facts facts)
    : setup_(std::move(setup)),
      plan_(std::move(plan)),
      facts_(std::move(facts)),
      journal_(setup_.journal),
      ledger_(setup_.ledger) {}

Coordinator::~Coordinator() {
  pool::set_held_limit(MemoryAccount::kUnlimited);
  threads_.reset();
  workers_.reset();
  pool::trim();
}

void Coordinator::start() {
  bool thread_tasks = false, worker_tasks = false;
  for (int s = 0; s < static_cast<int>(plan_->stages.size()); ++s) {
    if (scheduler_->complete(s)) continue;
    (stage(s).isolated ? worker_tasks : thread_tasks) = true;
  }
  if (worker_tasks) workers_ = setup_.factory.workers(plan_, plan_->options.workers, setup_.signals.descriptor());
  if (thread_tasks) threads_ = setup_.factory.threads(plan_, plan_->options.workers);
  if (!pieces_.empty() || ledger_.generation > 0) pieces_changed_ = true;
  bound_malloc();
  sample_memory();
  notify(RunEvent::What::planned);
  tell_kept();
}

// Stages open one after another: more may turn out to be kept later on.
void Coordinator::tell_kept() {
  std::int64_t kept = 0;
  for (const auto& [name, result] : ledger_.stages) kept += result.tasks_reused;
  const std::int64_t more = kept - std::exchange(ledger_.kept_told, std::max(kept, ledger_.kept_told));
  if (more > 0) notify(RunEvent::What::resumed, -1, -1, 0, {}, more);
}

bool Coordinator::loop() {
  last_tick_ = next_sample_ = Clock::now();
  for (;;) {
    try {
      collect();
      if (setup_.options.decider && !questions_.empty())
        for (const Decider::Answer& given : setup_.options.decider->answers()) answer(given);
      close_complete_stages();
      if (pieces_changed_) hand_out_plan();
      every_so_often();
      admit();
    } catch (Error& error) {
      stop(exit_code_of(error.kind()), error);
    }
    if (all_ended()) break;
    wait();
  }
  if (cancelled_) threads_.reset(), workers_.reset();
  return restart_;
}

bool Coordinator::all_ended() const {
  if (!running_.empty()) return cancelled_ && Clock::now() > cancel_deadline_ && !threads_;
  if (stopping_) return true;
  return questions_.empty() && newly_complete_.empty() && scheduler_->idle();
}

void Coordinator::stop(int code, Error error) {
  if (code > ledger_.stop_code || !ledger_.stopped_by) {
    ledger_.stop_code = code;
    ledger_.stopped_by = std::move(error);
  }
  stopping_ = true;
  drop_questions();
}

// --- admission

void Coordinator::admit() {
  if (stopping_) return;
  bool changed = false;
  while (!stopping_ && static_cast<int>(running_.size()) < most_running()) {
    bool may_queue = true;  // not before a task of a worker that waits for its turn
    const auto task = scheduler_->next([&](TaskRef candidate) {
      const Fit fit = fits(candidate, may_queue);
      may_queue &= fit == Fit::yes || !stage(candidate.stage).isolated;
      return fit;
    });
    if (!task) break;
    submit(*task);
    changed = true;
  }
  if (changed) bound_pool();
  tell_started();
}

int Coordinator::most_running() const { return plan_->options.workers + (threads_ ? threads_->queue() : 0); }

// Whether one more task of its kind would run now.
bool Coordinator::has_slot(const Executor& executor) const {
  int busy = 0;
  for (const Executor* each : {threads_.get(), workers_.get()})
    if (each) busy += std::min(each->running(), each->slots());
  return executor.running() < executor.slots() && busy < plan_->options.workers;
}

// Short tasks wait at their executor for the next free slot, so that nothing is idle between two of them.
bool Coordinator::queues(TaskRef task) {
  const StageRun& run = run_of(task.stage);
  const Executor& executor = *executor_for(stage(task.stage).isolated);
  const int queued = executor.running() - executor.slots();
  const std::int64_t done = run.result->attempts - run.running;
  if (run.estimated || queued < 0 || queued >= executor.queue() || done < executor.slots()) return false;
  const double mean = run.result->seconds / static_cast<double>(done);
  return mean * (queued + 1) <= kQueueSeconds * executor.slots();
}

Coordinator::Grant Coordinator::grant_of(TaskRef task) {
  StageRun& run = run_of(task.stage);
  const Projection& projection = run.limits.projection;
  if (!histories_.empty()) {
    const auto history = histories_.find({task.stage, task.block});
    if (history != histories_.end() && history->second.next) {
      const Next& next = *history->second.next;
      const std::uint64_t limit = run.estimated ? projection.with_uncertain(next.allowance) : projection.peak;
      return {limit, next.allowance, next.what == Next::What::retry_alone, false};
    }
  }
  if (!run.estimated) return {projection.peak, 0, false, false};
  const SiblingStats& taught = siblings(task);
  const std::uint64_t allowance = first_allowance(run.limits, taught);
  return {projection.with_uncertain(allowance), allowance, false, runs_one_at_a_time(run.limits, taught)};
}

Fit Coordinator::fits(TaskRef task, bool may_queue) {
  const Executor* executor = executor_for(stage(task.stage).isolated);
  if (!executor) return Fit::not_here;
  if (!has_slot(*executor) && !(may_queue && queues(task))) return Fit::not_here;
  const Grant grant = grant_of(task);
  // Whatever was accepted by the planner runs at least by itself: no task waits forever.
  if (running_.empty()) return Fit::yes;
  if (std::any_of(running_.begin(), running_.end(), [](const Running& r) { return r.alone; })) return Fit::not_here;
  if (grant.alone) return Fit::too_large;
  if (grant.one_at_a_time && run_of(task.stage).running > 0) return Fit::not_here;
  const bool isolated = stage(task.stage).isolated;
  if (grant.limit <= free_bytes(isolated)) return Fit::yes;
  if (workers_ && workers_->running() == 0 && workers_->baseline() > 0) {
    workers_->trim();
    if (grant.limit <= free_bytes(isolated)) return Fit::yes;
  }
  return Fit::too_large;
}

void Coordinator::submit(TaskRef task) {
  StageRun& run = run_of(task.stage);
  const Stage& of = stage(task.stage);
  if (!run.prepared) {
    for (const int output : of.outputs)
      if (array(output).role == PlanArray::Role::output) prepare_output(array(output), journal_);
    run.prepared = true;
  }
  if (!run.started) {
    run.started = true;
    notify(RunEvent::What::stage_started, task.stage);
  }
  const Grant grant = grant_of(task);
  Running running;
  running.isolated = of.isolated;
  running.alone = grant.alone;
  running.order = {task.stage, task.block, 1, grant.limit, grant.allowance, 1};
  if (const auto before = run.failed_before.find(task.block); before != run.failed_before.end())
    running.order.attempt += before->second;
  if (const auto history = histories_.find({task.stage, task.block}); history != histories_.end()) {
    running.order.attempt += static_cast<int>(history->second.failed.size());
    running.order.splits = history->second.splits;
  }
  const TaskOrder order = running.order;
  running_.push_back(std::move(running));
  ++run.running;
  ++run.result->attempts;
  run.result->allowed_bytes = std::max(run.result->allowed_bytes, order.limit);
  try {
    executor_for(of.isolated)->submit(order);
  } catch (Error& error) {
    take_running(order);
    --run.result->attempts;
    scheduler_->again(task);
    stop(exit_code_of(error.kind()), error);
  }
}

// The first ones run; those after them may wait for a slot.
void Coordinator::tell_started() {
  if (!setup_.options.observer) return;
  const std::size_t most = std::min(running_.size(), static_cast<std::size_t>(plan_->options.workers));
  for (std::size_t k = 0; k < most; ++k) {
    if (std::exchange(running_[k].told, true)) continue;
    const TaskOrder& order = running_[k].order;
    notify(RunEvent::What::task_started, order.stage, order.block, order.limit);
  }
}

// --- what executors report

void Coordinator::collect() {
  for (Executor* executor : {threads_.get(), workers_.get()}) {
    if (!executor) continue;
    for (TaskEvent& event : executor->collect()) {
      try {
        tell_started();
        on_event(event);
      } catch (Error& error) {  // the others are still to be heard: their tasks would never end
        stop(exit_code_of(error.kind()), error);
      }
    }
  }
}

Coordinator::Running* Coordinator::find_running(const TaskOrder& order) {
  const auto found = std::find_if(running_.begin(), running_.end(), [&](const Running& r) {
    return r.order.stage == order.stage && r.order.block == order.block;
  });
  return found == running_.end() ? nullptr : &*found;
}

Coordinator::Running Coordinator::take_running(const TaskOrder& order) {
  Running* found = find_running(order);
  if (!found)
    throw Error(ErrorKind::invalid, "an executor reported a task that was not running: stage " +
                                        std::to_string(order.stage) + ", block " + std::to_string(order.block));
  Running result = std::move(*found);
  running_.erase(running_.begin() + (found - running_.data()));
  --run_of(order.stage).running;
  return result;
}

void Coordinator::on_event(TaskEvent& event) {
  switch (event.what) {
    case TaskEvent::What::log:
      notify(RunEvent::What::log, event.order.stage, event.order.block, 0, event.text);
      return;
    case TaskEvent::What::wants_growth:
      on_wants_growth(event);
      return;
    case TaskEvent::What::done:
      on_done(event);
      return;
    default:
      on_failed(event);
      return;
  }
}

void Coordinator::on_done(TaskEvent& event) {
  const Running running = take_running(event.order);
  if (spoilt_) return;
  const int index = event.order.stage;
  const std::int64_t number = event.order.block;
  StageRun& run = run_of(index);
  // What tells of very many objects takes memory itself, for which free buffers make room.
  constexpr std::size_t kToldBytes = sizeof(WrittenChunk) + sizeof(JournalObject) + 128;
  const Charge telling = own_.charge(event.result.written.size() * kToldBytes);
  JournalBlock row;
  row.block = number;
  row.fingerprint = recall_->fingerprint(index, number);
  row.attempts = event.order.attempt;
  row.grown = running.grown;
  row.allowed = running.order.limit;
  row.allowance = running.order.allowance;
  row.peak = event.peak;
  row.seconds = event.seconds;
  if (run.estimated) {
    row.peak_u = measured_u(event);
    siblings({index, number}).add_finished(row.peak_u, run.limits.projection.uncertain);
    CallRecord& record = learned({index, number});
    record.stats.add_finished(row.peak_u, record.declared);
    record.peak = std::max(record.peak, row.peak_u);
  }
  row.objects.reserve(event.result.written.size());
  for (WrittenChunk& chunk : event.result.written)
    row.objects.push_back({array(chunk.array).name, chunk.chunk, chunk.written.bytes, chunk.written.crc32c,
                           std::move(chunk.piece), std::move(chunk.extents)});
  for (const ReadChunk& chunk : event.result.read) {
    const SourceIdentity::Chunk known = recall_->source(chunk.array).chunk(chunk.chunk);
    journal_.add_source(array(chunk.array).name,
                        {chunk.chunk, known.identity, known.stamp, chunk.stored.bytes, chunk.stored.crc32c});
  }
  journal_.add_block(stage(index).name, row);
  StageResult& result = *run.result;
  result.peak_bytes = std::max(result.peak_bytes.value_or(0), event.peak);
  result.seconds += event.seconds;
  ++ledger_.tasks_run;
  ++ledger_.ran[stage(index).name];
  histories_.erase({index, number});
  scheduler_->finish({index, number});
  if (scheduler_->complete(index)) newly_complete_.insert(index);
  if (setup_.options.observer) notify(RunEvent::What::task_done, index, number, event.peak);
  if (inject::due(inject::Fault::run)) {
    journal_.commit(true);
    std::raise(SIGKILL);
  }
}

// --- waiting

void Coordinator::every_so_often() {
  const auto now = Clock::now();
  if (journal_.dirty()) {
    if (!was_dirty_) dirty_since_ = now, was_dirty_ = true;
    if (now - dirty_since_ >= kBatch) {
      dirty_since_ = now;  // where it fails, not again at once
      if (journal_.commit()) was_dirty_ = false;
    }
  } else {
    was_dirty_ = false;
  }
  if (now >= next_sample_) {
    sample_memory();
    const auto cost = Clock::now() - now;
    next_sample_ = now + std::max<Clock::duration>(kSample, cost * kSampleShare);
  }
  if (setup_.options.observer && now - last_tick_ >= kTick) {
    last_tick_ = now;
    setup_.options.observer->on_tick();
  }
  const int signals = setup_.signals.count();
  if (signals > 0 && !cancelled_) {
    cancelled_ = true;
    cancel_deadline_ = now + kCancelGrace;
    stop(130, Error(ErrorKind::cancelled, "interrupted: finished blocks are kept; the same command goes on from here"));
    for (Executor* executor : {threads_.get(), workers_.get()})
      if (executor) executor->cancel();
  }
  if (signals > 1) cancel_deadline_ = now;
}

void Coordinator::wait() {
  const auto now = Clock::now();
  auto until = next_sample_;
  if (was_dirty_)
    until = std::min(until, dirty_since_ + kBatch);
  else if (journal_.dirty())
    until = std::min(until, now + kBatch);
  if (setup_.options.observer) until = std::min(until, last_tick_ + kTick);
  std::vector<pollfd> descriptors;
  // Signals wake the loop once; after that they are only counted.
  if (!cancelled_) descriptors.push_back({setup_.signals.descriptor(), POLLIN, 0});
  if (setup_.options.decider && setup_.options.decider->descriptor() >= 0 && !questions_.empty())
    descriptors.push_back({setup_.options.decider->descriptor(), POLLIN, 0});
  auto timeout = std::chrono::duration_cast<milliseconds>(until - now).count() + 1;
  for (const Executor* executor : {threads_.get(), workers_.get()}) {
    if (!executor) continue;
    for (const int fd : executor->descriptors()) descriptors.push_back({fd, POLLIN, 0});
    if (const int deadline = executor->next_deadline_ms(); deadline >= 0)
      timeout = std::min<std::int64_t>(timeout, deadline);
  }
  poll(descriptors.data(), descriptors.size(), static_cast<int>(std::max<std::int64_t>(timeout, 0)));
}

// --- memory

std::uint64_t Coordinator::base() const { return std::max(plan_->baselines.coordinator, measured_base_); }

std::uint64_t Coordinator::workers_base(int more) const {
  if (!workers_) return 0;
  const auto busy = std::count_if(running_.begin(), running_.end(), [](const Running& r) { return r.isolated; });
  return std::max(workers_->baseline(), static_cast<std::uint64_t>(busy + more) * plan_->baselines.worker);
}

std::uint64_t Coordinator::granted(bool isolated_only) const {
  std::uint64_t sum = 0;
  for (const Running& running : running_)
    if (running.isolated || !isolated_only) sum += running.order.limit + running.reserved;
  return sum;
}

std::uint64_t Coordinator::free_bytes(bool isolated) const {
  return less(plan_->options.budget, base() + workers_base(isolated ? 1 : 0) + granted());
}

std::uint64_t Coordinator::room(bool isolated) const {
  return less(plan_->options.budget, base() + (isolated ? plan_->baselines.worker : 0));
}

void Coordinator::bound_pool() {
  const std::uint64_t in_workers = granted(true);
  const std::uint64_t limit = less(plan_->options.budget, base() + workers_base() + in_workers);
  pool::set_held_limit(limit);
  const std::uint64_t held = pool::held_bytes(), unused = pool::free_bytes();
  if (held > limit && unused > 0) pool::trim(less(unused, held - limit));
}

// What no stage's tasks take of the budget, malloc may keep.
void Coordinator::bound_malloc() {
  if (!threads_) return;
  std::uint64_t spare = plan_->options.budget;
  for (const Stage& of : plan_->stages) {
    const std::uint64_t each = of.numbers.projected + (of.isolated ? plan_->baselines.worker : 0);
    const auto at_once = static_cast<std::uint64_t>(of.numbers.concurrency);
    spare = std::min(spare, less(plan_->options.budget, plan_->baselines.coordinator + at_once * each));
  }
  set_malloc_threshold(malloc_threshold(spare, threads_->slots()));
}

void Coordinator::sample_memory() {
  const TreeMemory memory = sample_tree_memory();
  ledger_.peak_rss = std::max(ledger_.peak_rss, memory.total);
  const bool quiet = std::all_of(running_.begin(), running_.end(), [](const Running& r) { return r.isolated; });
  if (quiet) {
    measured_base_ = beside_tasks_ = less(memory.self, pool::resident_free_bytes());
  } else {
    // Tasks hold what they were granted at most, so this is never too much, except where free buffers were unmapped
    // since the sample was taken: what two samples agree on counts.
    const std::uint64_t beside = less(memory.self, pool::free_bytes() + (granted() - granted(true)));
    measured_base_ = std::max(measured_base_, std::min(beside, std::exchange(beside_tasks_, beside)));
  }
  bound_pool();
  if (memory.total > plan_->options.budget) pool::trim(), trim_malloc();
}

void Coordinator::notify(RunEvent::What what, int index, std::int64_t block, std::uint64_t bytes, std::string text,
                         std::int64_t count) {
  if (!setup_.options.observer) return;
  RunEvent event;
  event.what = what;
  event.plan = plan_.get();
  event.stage = index;
  event.block = block;
  event.bytes = bytes;
  event.text = std::move(text);
  event.count = count;
  setup_.options.observer->on_event(event);
}

}  // namespace cuboid
