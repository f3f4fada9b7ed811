// Tasks on a fixed pool of threads of this process. A task costs one lock; whatever is to be told waits in one list
// behind one event descriptor. Where tasks wait in the queue, the coordinator is woken when half of them were taken.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/run/executor.h"
#include "engine/run/task_failure.h"

namespace cuboid {
namespace {

using Clock = std::chrono::steady_clock;
using Post = std::function<void(TaskEvent)>;

constexpr int kQueue = 16;

// What surrounds the task of one thread: what its call may ask, and what the coordinator answers. The coordinator's
// side of it may be called at any time; it does nothing where the task is another by then.
class Lane final : public TaskMonitor {
 public:
  explicit Lane(Post post) : post_(std::move(post)) {}

  // --- on the lane's thread
  // Under the executor's lock, so that no cancellation is lost between two tasks.
  void begin(const TaskOrder& order) {
    std::lock_guard lock(mutex_);
    order_ = order;
    cancelled_ = false, timed_out_ = false, refused_ = false;
  }
  TaskEvent run(const Plan& plan, const Pieces& pieces);

  bool cancelled() const override { return cancelled_.load(std::memory_order_relaxed); }
  void progress(double) override { last_progress_.store(Clock::now(), std::memory_order_relaxed); }
  void log(int /*level*/, const std::string& text) override {
    TaskEvent event;
    event.what = TaskEvent::What::log;
    event.order = order_;
    event.text = text;
    post_(std::move(event));
  }
  void call_begins(const Call& call) override;
  std::uint64_t call_ends() override;

  // --- on the coordinator's thread
  void answer(const TaskOrder& order, bool granted, std::uint64_t limit, std::uint64_t allowance);
  void cancel() {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    answered_.notify_all();
  }
  // When the call must have shown progress; nullopt: no time-out, no call, or it waits for an answer.
  std::optional<Clock::time_point> deadline() const {
    std::lock_guard lock(mutex_);
    if (!call_ || !timeout_ || asks_) return std::nullopt;
    return last_progress_.load(std::memory_order_relaxed) + *timeout_;
  }
  // A thread cannot be killed: its call is asked to stop.
  void expire() {
    timed_out_ = true;
    cancel();
  }

 private:
  bool ask(std::uint64_t wanted, MemoryAccount& account, std::size_t needed);

  const Post post_;
  std::atomic<bool> cancelled_{false}, timed_out_{false};
  std::atomic<Clock::time_point> last_progress_{Clock::time_point{}};
  TaskOrder order_;
  std::mutex asking_;         // one question at a time, whichever thread of the call asks
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable answered_;
  bool asks_ = false, granted_ = false, refused_ = false;
  MemoryAccount* task_ = nullptr;
  MemoryAccount* call_ = nullptr;  // while an estimated call runs
  std::uint64_t sure_ = 0;
  std::atomic<std::uint64_t> allowance_{0};
  std::optional<std::chrono::milliseconds> timeout_;
};

TaskEvent Lane::run(const Plan& plan, const Pieces& pieces) {
  MemoryAccount account(order_.limit);
  {
    std::lock_guard lock(mutex_);
    task_ = &account;
    timeout_ = plan.stages.at(static_cast<std::size_t>(order_.stage)).options.timeout;
  }
  TaskEvent event;
  event.order = order_;
  const auto started = Clock::now();
  try {
    event.result = run_task(plan, order_, account, *this, pieces);
  } catch (Error& error) {
    describe_failure(event, std::move(error));
    if (timed_out_) {
      event.what = TaskEvent::What::timed_out;
    } else if (cancelled_) {
      event.what = TaskEvent::What::failed;
      event.error = Error(ErrorKind::cancelled, "the task was cancelled", event.error->context());
    }
  }
  event.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  event.peak = account.peak();
  std::lock_guard lock(mutex_);
  task_ = nullptr;
  return event;
}

void Lane::call_begins(const Call& call) {
  progress(0);
  std::lock_guard lock(mutex_);
  call_ = &call.memory;
  sure_ = call.declared.sure;
  allowance_ = call.allowance;
  if (!call.estimated) return;
  call.memory.set_on_exceed([this](MemoryAccount& account, std::size_t needed) {
    return ask(needed - std::min<std::uint64_t>(needed, sure_), account, needed);
  });
  task_->set_on_exceed([this](MemoryAccount& account, std::size_t needed) {
    return ask(allowance_ + (needed - std::min(needed, account.limit())), account, needed);
  });
}

std::uint64_t Lane::call_ends() {
  std::lock_guard lock(mutex_);
  call_ = nullptr;
  task_->set_on_exceed(nullptr);
  return 0;
}

// Waits at the allocation until the coordinator has answered.
bool Lane::ask(std::uint64_t wanted, MemoryAccount& account, std::size_t needed) {
  std::lock_guard one_question(asking_);
  if (needed <= account.limit()) return true;  // another thread's question was granted
  {
    std::lock_guard lock(mutex_);
    if (cancelled_ || refused_) return false;  // one refusal is the last word: the call is about to fail
    asks_ = true, granted_ = false;
  }
  TaskEvent event;
  event.what = TaskEvent::What::wants_growth;
  event.order = order_;
  event.evidence = Evidence::own_account;
  event.needed = wanted;
  event.peak = task_->peak();
  post_(std::move(event));
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&] { return !asks_ || cancelled_; });
  asks_ = false;
  return granted_;
}

void Lane::answer(const TaskOrder& order, bool granted, std::uint64_t limit, std::uint64_t allowance) {
  std::lock_guard lock(mutex_);
  if (!asks_ || !order.same_task(order_)) return;
  if (granted) {
    task_->set_limit(limit);
    call_->set_limit(sure_ + allowance);
    allowance_ = allowance;
  }
  granted_ = granted;
  refused_ = !granted;
  progress(0);
  asks_ = false;
  answered_.notify_all();
}

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(std::shared_ptr<const Plan> plan, int threads) : plan_(std::move(plan)) {
    event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_ < 0) throw Error(ErrorKind::io, std::string("cannot make an event descriptor: ") + std::strerror(errno));
    const auto post = [this](TaskEvent event) {
      std::lock_guard lock(mutex_);
      post_locked(std::move(event));
    };
    for (int i = 0; i < std::max(1, threads); ++i) lanes_.push_back(std::make_unique<Lane>(post));
    for (auto& lane : lanes_) threads_.emplace_back([this, &lane] { work(*lane); });
  }

  ~ThreadExecutor() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      queue_.clear();
    }
    for (auto& lane : lanes_) lane->cancel();
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    close(event_);
  }

  int slots() const override { return static_cast<int>(lanes_.size()); }
  int running() const override { return running_; }
  int queue() const override { return kQueue; }

  void submit(const TaskOrder& order) override {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(order);
      low_ = queue_.size() / 2;
    }
    ++running_;
    work_.notify_one();
  }

  std::vector<int> descriptors() const override { return {event_}; }

  int next_deadline_ms() const override {
    std::optional<Clock::time_point> first;
    for (const auto& lane : lanes_) {
      const auto deadline = lane->deadline();
      if (deadline && (!first || *deadline < *first)) first = deadline;
    }
    if (!first) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  std::vector<TaskEvent> collect() override {
    for (auto& lane : lanes_) {
      const auto deadline = lane->deadline();
      if (deadline && *deadline <= Clock::now()) lane->expire();
    }
    std::uint64_t count = 0;
    while (read(event_, &count, sizeof count) < 0 && errno == EINTR) {
    }
    std::vector<TaskEvent> events;
    {
      std::lock_guard lock(mutex_);
      events.swap(events_);
      signalled_ = false;
    }
    running_ -= static_cast<int>(std::count_if(events.begin(), events.end(), [](const TaskEvent& event) {
      return event.what != TaskEvent::What::wants_growth && event.what != TaskEvent::What::log;
    }));
    return events;
  }

  void grow(const TaskOrder& order, std::uint64_t new_limit, std::uint64_t new_allowance) override {
    for (auto& lane : lanes_) lane->answer(order, true, new_limit, new_allowance);
  }
  void refuse(const TaskOrder& order) override {
    for (auto& lane : lanes_) lane->answer(order, false, 0, 0);
  }

  void replan(std::shared_ptr<const Plan> plan, int, const Pieces& pieces) override {
    auto copy = std::make_shared<const Pieces>(pieces);
    std::lock_guard lock(mutex_);
    plan_ = std::move(plan);
    pieces_ = std::move(copy);
  }

  void cancel() override {
    std::lock_guard lock(mutex_);
    for (const TaskOrder& order : queue_) {
      TaskEvent event;
      event.order = order;
      describe_failure(event, Error(ErrorKind::cancelled, "the task was cancelled before it began"));
      post_locked(std::move(event));
    }
    queue_.clear();
    for (auto& lane : lanes_) lane->cancel();
  }

  std::uint64_t baseline() const override { return 0; }
  void trim() override { pool::trim(0); }

 private:
  void post_locked(TaskEvent event) {
    const bool can_wait = event.what == TaskEvent::What::done && queue_.size() > low_;
    events_.push_back(std::move(event));
    if (can_wait || std::exchange(signalled_, true)) return;
    const std::uint64_t one = 1;
    // Fails only where the counter is full, and then the descriptor is readable already.
    [[maybe_unused]] const auto written = write(event_, &one, sizeof one);
  }

  void work(Lane& lane) {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      lane.begin(queue_.front());
      queue_.pop_front();
      const auto plan = plan_;
      const auto pieces = pieces_;
      lock.unlock();
      TaskEvent event = lane.run(*plan, *pieces);
      lock.lock();
      post_locked(std::move(event));
    }
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::deque<TaskOrder> queue_;
  std::size_t low_ = 0;  // the coordinator is told of finished tasks when so few wait
  std::vector<TaskEvent> events_;
  bool signalled_ = false;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Pieces> pieces_ = std::make_shared<const Pieces>();
  bool stopping_ = false;

  int event_ = -1;
  int running_ = 0;  // the coordinator's alone
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Executor> make_thread_executor(std::shared_ptr<const Plan> plan, int threads) {
  return std::make_unique<ThreadExecutor>(std::move(plan), threads);
}

}  // namespace cuboid
