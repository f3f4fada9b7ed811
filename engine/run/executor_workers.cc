// Tasks in worker processes. A worker is started when a task needs one, reused while it is healthy, and replaced when
// it died; its death is a failed block with a cause in words, never a failed run. Everything here happens on the
// coordinator's thread: a worker also ends when the thread that started it does (PR_SET_PDEATHSIG).
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "engine/run/executor.h"
#include "engine/run/protocol.h"
#include "engine/run/task_failure.h"
#include "engine/run/worker_process.h"

namespace cuboid {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::Type;

struct Worker {
  WorkerProcess process;
  protocol::FrameReader reader;
  bool greeted = false;  // hello came
  std::uint64_t baseline = 0;
  std::uint64_t kept = 0;          // bytes that its pool keeps while it is idle
  bool trimmed = false;            // was told to give them back
  std::optional<TaskOrder> order;  // of the running task
  Clock::time_point started, last_progress;
  std::optional<std::chrono::milliseconds> timeout;
  bool waiting = false;  // for an answer: its time-out stands still
  std::optional<protocol::Growth> asked, refused;
  bool timed_out = false;      // killed for it
  bool overwritten = false;    // its memory, by a plugin
  std::optional<Error> fault;  // a plugin it could not load, or nonsense that it spoke
};

class WorkerExecutor final : public Executor {
 public:
  WorkerExecutor(std::shared_ptr<const Plan> plan, WorkerOptions options)
      : plan_(std::move(plan)), options_(std::move(options)) {
    options_.count = std::max(1, options_.count);
    await_hello(start());
  }

  ~WorkerExecutor() override {
    for (auto& worker : workers_) worker->process.let_go(worker->order.has_value());
  }

  int slots() const override { return options_.count; }
  int running() const override {
    return static_cast<int>(
        std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->order.has_value(); }));
  }

  void submit(const TaskOrder& order) override;
  std::vector<int> descriptors() const override {
    std::vector<int> all;
    for (const auto& worker : workers_) all.push_back(worker->process.socket());
    return all;
  }
  int next_deadline_ms() const override;
  std::vector<TaskEvent> collect() override;

  void grow(const TaskOrder& order, std::uint64_t new_limit, std::uint64_t new_allowance) override {
    answer(order, {true, new_limit, new_allowance});
  }
  void refuse(const TaskOrder& order) override { answer(order, {}); }

  void replan(std::shared_ptr<const Plan> plan, int generation, const Pieces& pieces) override {
    plan_ = std::move(plan);
    generation_ = generation;
    pieces_ = pieces;
  }

  void cancel() override {
    for (auto& worker : workers_)
      if (worker->order) worker->process.send(protocol::encode(Type::cancel));
  }

  std::uint64_t baseline() const override {
    std::uint64_t bytes = 0;
    for (const auto& worker : workers_) bytes += worker->baseline;
    return bytes;
  }

  void trim() override {
    std::erase_if(workers_, [](const auto& worker) {
      if (worker->order || !worker->greeted) return false;
      worker->process.let_go(false);
      return true;
    });
  }

 private:
  Worker& start();
  void await_hello(Worker& worker);
  Worker* idle_worker();
  Pieces pieces_for(const TaskOrder& order) const;
  void answer(const TaskOrder& order, const protocol::Answer& answer);
  // When it must have shown progress; nullopt: it need not.
  static std::optional<Clock::time_point> deadline(const Worker& worker) {
    if (!worker.order || !worker.timeout || worker.waiting) return std::nullopt;
    return worker.last_progress + *worker.timeout;
  }

  // Reads what the worker said. False: it is gone, or talks nonsense.
  bool listen(Worker& worker, std::vector<TaskEvent>& events);
  void hear(Worker& worker, const protocol::FrameReader::Frame& frame, std::vector<TaskEvent>& events);
  TaskEvent event_of(const Worker& worker, TaskEvent::What what) const;
  TaskEvent obituary(Worker& worker, const WorkerProcess::End& end);

  std::shared_ptr<const Plan> plan_;
  WorkerOptions options_;
  int generation_ = 0;
  Pieces pieces_;
  std::uint64_t system_kills_ = system_kills();   // as last seen
  std::vector<std::unique_ptr<Worker>> workers_;  // the one that was idle last comes last
};

Worker& WorkerExecutor::start() {
  auto worker = std::make_unique<Worker>();
  worker->process = WorkerProcess::start(options_.program);
  worker->process.send(protocol::encode(protocol::Setup{options_.run_dir, options_.plugins}));
  workers_.push_back(std::move(worker));
  return *workers_.back();
}

// Only for the first worker, before anything runs: a plugin that cannot be loaded must be known before the first write.
// Not where the run is to stop: then nothing will be written.
void WorkerExecutor::await_hello(Worker& worker) {
  std::vector<TaskEvent> none;
  while (!worker.greeted) {
    pollfd wait[] = {{worker.process.socket(), POLLIN, 0}, {options_.stop, POLLIN, 0}};
    if (poll(wait, std::size(wait), -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (wait[1].revents != 0) return;
    const bool lives = wait[0].revents == 0 || listen(worker, none);
    if (worker.fault) throw *worker.fault;
    if (!lives) {
      throw Error(ErrorKind::plugin, "a worker process " + worker.process.end().cause +
                                         " while it loaded the plugins (" + options_.program +
                                         "): run `cuboid plugin check` on them");
    }
  }
}

Worker* WorkerExecutor::idle_worker() {
  for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker)
    if (!(*worker)->order) return worker->get();
  return nullptr;
}

void WorkerExecutor::submit(const TaskOrder& order) {
  if (running() >= slots()) throw Error(ErrorKind::invalid, "internal error: every worker has a task");
  const std::string frame = protocol::encode(protocol::Task{order, generation_, pieces_for(order)});
  Worker* worker = idle_worker();
  while (worker && !worker->process.send(frame)) {  // it died while it was idle
    std::erase_if(workers_, [&](const auto& other) { return other.get() == worker; });
    worker = idle_worker();
  }
  if (!worker) {
    worker = &start();
    worker->process.send(frame);  // where it fails, collect() finds out why
  }
  worker->order = order;
  worker->timeout = plan_->stages.at(static_cast<std::size_t>(order.stage)).options.timeout;
  worker->started = worker->last_progress = Clock::now();
  worker->waiting = worker->timed_out = worker->trimmed = false;
  worker->asked.reset(), worker->refused.reset();
}

// The pieces that the task's gathers meet, so that the message stays small.
Pieces WorkerExecutor::pieces_for(const TaskOrder& order) const {
  Pieces needed;
  const Stage& stage = plan_->stages.at(static_cast<std::size_t>(order.stage));
  for (const Step& step : stage.program.steps) {
    const auto found = pieces_.find(step.array);
    if (step.what != Step::What::gather || found == pieces_.end()) continue;
    const PieceList& all = *found->second;
    const std::size_t axis = plan_->arrays.at(static_cast<std::size_t>(step.array)).ragged_axis;
    const Box box = buffer_box(stage.program, step.buffer, stage.grid.box(order.block), stage.grid.block());
    auto first = std::upper_bound(all.offsets.begin(), all.offsets.end(), box.origin[axis]);
    auto last = std::lower_bound(first, all.offsets.end(), box.end(axis));
    if (first == all.offsets.begin() || last == all.offsets.end()) {
      needed[step.array] = found->second;  // the task will say what is missing
      continue;
    }
    PieceList part;
    part.offsets.assign(first - 1, last + 1);
    const auto begin = all.pieces.begin() + (first - 1 - all.offsets.begin());
    part.pieces.assign(begin, begin + static_cast<std::ptrdiff_t>(part.offsets.size()) - 1);
    needed[step.array] = std::make_shared<const PieceList>(std::move(part));
  }
  return needed;
}

void WorkerExecutor::answer(const TaskOrder& order, const protocol::Answer& answer) {
  for (auto& worker : workers_) {
    if (!worker->order || !worker->order->same_task(order) || !worker->waiting) continue;
    if (!answer.granted) worker->refused = worker->asked;
    worker->waiting = false;
    worker->last_progress = Clock::now();
    worker->process.send(protocol::encode(answer));
  }
}

int WorkerExecutor::next_deadline_ms() const {
  constexpr auto kIdleTurn = std::chrono::milliseconds(50);
  std::optional<Clock::time_point> first;
  const auto now = Clock::now();
  for (const auto& worker : workers_) {
    std::optional<Clock::time_point> next = deadline(*worker);
    if (!worker->order && worker->kept > 0) next = now + kIdleTurn;
    if (next && (!first || *next < *first)) first = next;
  }
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

std::vector<TaskEvent> WorkerExecutor::collect() {
  std::vector<TaskEvent> events;
  for (std::size_t i = 0; i < workers_.size();) {
    Worker& worker = *workers_[i];
    // Idle since the last turn: what its pool keeps may be somebody else's by now.
    if (!worker.order && worker.kept > 0 && !std::exchange(worker.trimmed, true)) {
      worker.process.send(protocol::encode(Type::trim));
      worker.kept = 0;
    }
    const auto due = deadline(worker);
    if (due && *due <= Clock::now()) {
      worker.timed_out = true;
      worker.process.kill();
    }
    if (listen(worker, events) && !worker.timed_out) {
      ++i;
      continue;
    }
    const WorkerProcess::End end = worker.process.end();
    if (worker.order) events.push_back(obituary(worker, end));
    workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return events;
}

bool WorkerExecutor::listen(Worker& worker, std::vector<TaskEvent>& events) {
  std::array<char, 65536> bytes;
  // One that never stops talking has its turn like the others.
  for (int turns = 0; turns < 16; ++turns) {
    const ssize_t got = recv(worker.process.socket(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    worker.reader.append({bytes.data(), static_cast<std::size_t>(got)});
    try {
      while (const auto frame = worker.reader.next()) hear(worker, *frame, events);
      if (worker.overwritten) {
        worker.process.kill();
        return false;
      }
    } catch (const Error& error) {
      worker.fault = error;
      worker.process.kill();
      return false;
    }
  }
  return true;
}

TaskEvent WorkerExecutor::event_of(const Worker& worker, TaskEvent::What what) const {
  TaskEvent event;
  event.what = what;
  event.order = *worker.order;
  event.seconds = std::chrono::duration<double>(Clock::now() - worker.started).count();
  return event;
}

void WorkerExecutor::hear(Worker& worker, const protocol::FrameReader::Frame& frame, std::vector<TaskEvent>& events) {
  if (frame.type == Type::hello || frame.type == Type::progress) worker.last_progress = Clock::now();
  if (frame.type == Type::hello) {
    const protocol::Hello hello = protocol::decode_hello(frame.payload);
    worker.fault = hello.error;
    if (hello.error && worker.order) {
      events.push_back(event_of(worker, TaskEvent::What::failed));
      events.back().error = hello.error;
      worker.order.reset();
    }
    worker.greeted = true;
    worker.baseline = hello.baseline;
    return;
  }
  if (!worker.order) return;
  if (frame.type == Type::finished) {
    protocol::Finished finished = protocol::decode_finished(frame.payload);
    finished.event.order = *worker.order;
    worker.overwritten = finished.event.error && overwrote_memory(*finished.event.error);
    events.push_back(std::move(finished.event));
    worker.order.reset();
    worker.baseline = finished.baseline;
    worker.kept = finished.kept;
  } else if (frame.type == Type::growth || frame.type == Type::refused) {
    const protocol::Growth growth = protocol::decode_growth(frame.payload);
    if (frame.type == Type::refused) {
      worker.refused = growth;
      return;
    }
    worker.asked = growth;
    worker.waiting = true;
    TaskEvent event = event_of(worker, TaskEvent::What::wants_growth);
    event.evidence = growth.evidence;
    event.needed = growth.wanted;
    event.peak = growth.peak;
    events.push_back(std::move(event));
  } else if (frame.type == Type::log) {
    events.push_back(event_of(worker, TaskEvent::What::log));
    events.back().text = protocol::decode_text(frame.payload);
  }
}

TaskEvent WorkerExecutor::obituary(Worker& worker, const WorkerProcess::End& end) {
  const Stage& stage = plan_->stages.at(static_cast<std::size_t>(worker.order->stage));
  const Error::Context where{{"block", to_string(stage.grid.index(worker.order->block))}, {"stage", stage.name}};
  const auto said = [&](ErrorKind kind, const std::string& text) { return Error(kind, text, where); };
  if (worker.timed_out) {
    TaskEvent event = event_of(worker, TaskEvent::What::timed_out);
    event.error =
        said(ErrorKind::plugin, stage.function + " showed no progress for " + std::to_string(worker.timeout->count()) +
                                    " ms and was stopped: raise the step's timeout if it needs longer");
    return event;
  }
  if (worker.fault) {
    TaskEvent event = event_of(worker, TaskEvent::What::died);
    event.evidence = Evidence::unknown;
    event.error = said(worker.fault->kind(), worker.fault->message());
    return event;
  }
  // A null pointer that nobody looked at, or the terminate() of a thread: what a refused allocation leads to.
  if (worker.refused && end.crashed()) {
    TaskEvent event = event_of(worker, TaskEvent::What::exceeded);
    event.evidence = Evidence::own_limit;
    event.needed = worker.refused->wanted;
    event.peak = worker.refused->peak;
    event.error = said(ErrorKind::over_budget, stage.function + " was refused memory and did not survive that (it " +
                                                   end.cause + "): allow it more memory");
    return event;
  }
  TaskEvent event = event_of(worker, TaskEvent::What::died);
  const std::uint64_t kills_before = std::exchange(system_kills_, system_kills());
  const bool by_system = end.killed() && system_kills_ > kills_before;
  event.evidence = by_system ? Evidence::host : Evidence::unknown;
  event.error =
      said(ErrorKind::plugin, "the worker process that ran " + stage.function + " " + end.cause +
                                  (by_system ? ": the system ran out of memory; give the run a smaller budget" : ""));
  return event;
}

}  // namespace

std::unique_ptr<Executor> make_worker_executor(std::shared_ptr<const Plan> plan, const WorkerOptions& options) {
  return std::make_unique<WorkerExecutor>(std::move(plan), options);
}

}  // namespace cuboid
