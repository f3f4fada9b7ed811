// What every executor must do, asked of both; and what only worker processes can do: survive code that is not ours.
#include "engine/run/executor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "storage/error.h"
#include "tests/engine/run/fake_kernels.h"

namespace cuboid {
namespace {

using testing::FakeStage;
using testing::make_fake_plan;
using What = TaskEvent::What;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kMiB = 1u << 20;

bool is_last(const TaskEvent& event) { return event.what != What::wants_growth && event.what != What::log; }

// Events that were collected and not looked at yet, in order.
std::deque<TaskEvent> pending;

// Drives an executor as the coordinator does, until `enough` says so of the next event.
TaskEvent wait_until(Executor& executor, const std::function<bool(const TaskEvent&)>& enough) {
  const auto give_up = Clock::now() + std::chrono::seconds(30);
  while (Clock::now() < give_up) {
    while (!pending.empty()) {
      TaskEvent event = std::move(pending.front());
      pending.pop_front();
      if (enough(event)) return event;
    }
    std::vector<pollfd> wait;
    for (int descriptor : executor.descriptors()) wait.push_back({descriptor, POLLIN, 0});
    const int deadline = executor.next_deadline_ms();
    poll(wait.data(), wait.size(), deadline < 0 ? 1000 : std::min(deadline, 1000));
    for (TaskEvent& event : executor.collect()) pending.push_back(std::move(event));
  }
  throw std::runtime_error("the executor said nothing for 30 seconds");
}
TaskEvent wait_for_end(Executor& executor) { return wait_until(executor, is_last); }
TaskEvent wait_for(Executor& executor, What what) {
  return wait_until(executor, [&](const TaskEvent& event) { return is_last(event) || event.what == what; });
}

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

enum class Sort { threads, workers };

class ExecutorTest : public ::testing::TestWithParam<Sort> {
 protected:
  std::unique_ptr<Executor> make(const std::vector<FakeStage>& stages, int count = 1,
                                 const std::vector<std::string>& plugins = {}) {
    pending.clear();
    plan = make_fake_plan(stages, folder.path());
    if (GetParam() == Sort::threads) return make_thread_executor(plan, count);
    return make_worker_executor(plan, {FAKE_WORKER, folder.path().string(), plugins, count});
  }
  static TaskOrder order(int stage = 0, std::int64_t block = 0, std::uint64_t allowance = 0) {
    return {stage, block, 1, 64 * kMiB + allowance, allowance};
  }

  testing::TemporaryFolder folder;
  std::shared_ptr<const Plan> plan;
};

std::string name_of(const ::testing::TestParamInfo<Sort>& info) {
  return info.param == Sort::threads ? "threads" : "workers";
}
INSTANTIATE_TEST_SUITE_P(Each, ExecutorTest, ::testing::Values(Sort::threads, Sort::workers), name_of);

TEST_P(ExecutorTest, runs_tasks_and_says_what_they_wrote) {
  const auto executor = make({{"fake.fill", 100}}, 2);
  EXPECT_EQ(executor->slots(), 2);
  std::int64_t next = 0;
  std::vector<TaskEvent> done;
  while (done.size() < 4) {
    while (next < 4 && executor->running() < executor->slots()) executor->submit(order(0, next++));
    done.push_back(wait_for_end(*executor));
  }
  EXPECT_EQ(executor->running(), 0);
  std::vector<std::int64_t> chunks;
  for (const TaskEvent& event : done) {
    ASSERT_EQ(event.what, What::done) << (event.error ? event.error->message() : "");
    ASSERT_EQ(event.result.written.size(), 1u);
    EXPECT_EQ(event.result.written[0].chunk, event.order.block);
    EXPECT_EQ(event.result.written[0].written.bytes, 2u * 3 * 8);
    chunks.push_back(event.order.block);
  }
  EXPECT_THAT(chunks, ::testing::UnorderedElementsAre(0, 1, 2, 3));

  const ZarrArray& array = *plan->arrays[0].zarr;
  array.publish();
  std::vector<double> values(24);
  MemoryAccount account;
  ZarrArray::open((folder.path() / "out0").string())
      .read(Box::whole({4, 6}), make_view(reinterpret_cast<std::byte*>(values.data()), kFloat64, {4, 6}), account);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 100 + i);
}

TEST(ThreadExecutorTest, tasks_that_wait_are_all_worked_off) {
  pending.clear();
  const testing::TemporaryFolder folder;
  const auto executor = make_thread_executor(make_fake_plan({{"fake.fill"}, {"fake.throw"}}, folder.path()), 2);
  const int most = executor->slots() + executor->queue();
  ASSERT_GT(most, 2);
  for (int k = 0; k < most; ++k) executor->submit({k % 5 == 3, k % 4, 1, 64 * kMiB, 0});
  EXPECT_EQ(executor->running(), most);
  for (int k = 0; k < most; ++k) {
    const TaskEvent event = wait_for_end(*executor);
    EXPECT_EQ(event.what, event.order.stage == 1 ? What::failed : What::done);
  }
  EXPECT_EQ(executor->running(), 0);
}

TEST_P(ExecutorTest, a_failure_says_where_and_leaves_the_executor_usable) {
  const auto executor = make({{"fake.throw"}, {"fake.fill"}});
  executor->submit(order(0, 3));
  const TaskEvent failed = wait_for_end(*executor);
  ASSERT_EQ(failed.what, What::failed);
  EXPECT_EQ(failed.error->kind(), ErrorKind::plugin);
  EXPECT_EQ(failed.error->message(), "fake.throw always throws");
  const Error::Context expected{{"function", "fake.throw"}, {"block", "(1, 1)"}, {"stage", "stage0"}};
  EXPECT_EQ(failed.error->context(), expected);
  executor->submit(order(1));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(ExecutorTest, a_refused_call_says_how_much_it_needed) {
  const auto executor = make({{"fake.take", 8 * kMiB, 2 * kMiB}});
  executor->submit(order(0, 0, 2 * kMiB));
  const TaskEvent question = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(question.what, What::wants_growth);
  EXPECT_EQ(question.needed, 3 * kMiB);
  executor->refuse(question.order);
  const TaskEvent event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::exceeded);
  EXPECT_EQ(event.evidence, Evidence::own_account);
  EXPECT_EQ(event.needed, 3 * kMiB);
  EXPECT_EQ(event.error->kind(), ErrorKind::over_budget);

  executor->submit(order(0, 0, 8 * kMiB));
  const TaskEvent done = wait_for_end(*executor);
  ASSERT_EQ(done.what, What::done);
  EXPECT_EQ(done.result.call_peak, 8 * kMiB);
  EXPECT_GE(done.peak, 8 * kMiB);
}

TEST_P(ExecutorTest, a_call_that_is_given_more_goes_on_where_it_was) {
  const auto executor = make({{"fake.take", 8 * kMiB, 2 * kMiB}});
  TaskOrder tight = order(0, 0, 2 * kMiB);
  tight.limit = 2 * kMiB + 4096;  // the output block and the allowance, to the byte
  executor->submit(tight);
  TaskEvent event = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(event.what, What::wants_growth);
  executor->grow(event.order, event.needed + 4096, event.needed);
  event = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(event.what, What::wants_growth);
  EXPECT_EQ(event.needed, 4 * kMiB);
  executor->grow(event.order, 8 * kMiB + 4096, 8 * kMiB);
  event = wait_for_end(*executor);
  EXPECT_EQ(event.what, What::done) << (event.error ? event.error->message() : "");
  EXPECT_EQ(event.result.call_peak, 8 * kMiB);
  EXPECT_EQ(event.result.account_peak, 8 * kMiB + 4096);
}

TEST_P(ExecutorTest, our_own_functions_get_no_more_than_they_state) {
  const auto executor = make({{"fake.known", 3 * kMiB, 2 * kMiB}, {"fake.known", 2 * kMiB, 2 * kMiB}});
  executor->submit(order(0));
  const TaskEvent event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::failed);
  EXPECT_EQ(event.error->kind(), ErrorKind::over_budget);
  executor->submit(order(1));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(ExecutorTest, a_task_holds_no_more_than_its_limit) {
  const auto executor = make({{"fake.fill"}});
  TaskOrder small = order();
  small.limit = 4095;
  executor->submit(small);
  const TaskEvent event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::failed);
  EXPECT_EQ(event.error->kind(), ErrorKind::over_budget);
}

TEST_P(ExecutorTest, cancel_stops_a_call_that_looks) {
  const auto executor = make({{"fake.wait"}, {"fake.fill"}});
  executor->submit(order());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  executor->cancel();
  const TaskEvent event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::failed);
  EXPECT_EQ(event.error->kind(), ErrorKind::cancelled);
  executor->submit(order(1));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(ExecutorTest, cancel_ends_a_wait_for_growth) {
  const auto executor = make({{"fake.take", 8 * kMiB, 2 * kMiB}});
  executor->submit(order(0, 0, 2 * kMiB));
  ASSERT_EQ(wait_for(*executor, What::wants_growth).what, What::wants_growth);
  executor->cancel();
  const TaskEvent event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::failed);
  EXPECT_EQ(event.error->kind(), ErrorKind::cancelled);
}

TEST_P(ExecutorTest, a_call_without_progress_times_out) {
  const auto executor = make({{"fake.wait", 0, 0, {4, 6}, {2, 3}, std::chrono::milliseconds(200)}});
  const auto begin = Clock::now();
  executor->submit(order());
  const TaskEvent event = wait_for_end(*executor);
  EXPECT_EQ(event.what, What::timed_out);
  EXPECT_TRUE(event.error.has_value());
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(200));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

TEST_P(ExecutorTest, a_call_that_only_logs_times_out) {
  const auto executor = make({{"fake.flood", 0, 0, {4, 6}, {2, 3}, std::chrono::milliseconds(200)}});
  executor->submit(order());
  EXPECT_EQ(wait_for_end(*executor).what, What::timed_out);
}

TEST_P(ExecutorTest, progress_and_waiting_for_memory_stop_the_clock) {
  const auto timeout = std::chrono::milliseconds(400);
  const auto executor = make(
      {{"fake.report", 16, 0, {4, 6}, {2, 3}, timeout}, {"fake.take", 8 * kMiB, 2 * kMiB, {4, 6}, {2, 3}, timeout}});
  executor->submit(order(0));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
  executor->submit(order(1, 0, 2 * kMiB));
  const TaskEvent question = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(question.what, What::wants_growth);
  EXPECT_EQ(executor->next_deadline_ms(), -1);
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  executor->grow(question.order, 64 * kMiB, 16 * kMiB);
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(ExecutorTest, logs_arrive_with_their_task) {
  const auto executor = make({{"fake.chatty"}});
  executor->submit(order(0, 2));
  const TaskEvent event = wait_for(*executor, What::log);
  ASSERT_EQ(event.what, What::log);
  EXPECT_EQ(event.text, "hello from fake.chatty");
  EXPECT_EQ(event.order.block, 2);
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(ExecutorTest, later_tasks_follow_the_new_plan) {
  const auto executor = make({{"fake.fill", 1}});
  testing::TemporaryFolder other;
  const auto next = make_fake_plan({{"fake.fill", 2}, {"fake.fill", 3}}, other.path());
  std::filesystem::copy(other.path() / "plan.json", folder.path() / "plan.1.json");
  executor->submit(order());
  ASSERT_EQ(wait_for_end(*executor).what, What::done);
  executor->replan(next, 1, {});
  executor->submit(order(1, 3));
  ASSERT_EQ(wait_for_end(*executor).what, What::done);
  EXPECT_TRUE(std::filesystem::exists(other.path() / "out1" / "c" / "1" / "1"));
}

TEST_P(ExecutorTest, ends_with_its_tasks_and_leaves_nothing_behind) {
  const int before = open_descriptors();
  {
    const auto executor = make({{"fake.wait"}, {"fake.fill"}}, 2);
    executor->submit(order(0));
    executor->submit(order(1));
    ASSERT_EQ(wait_for_end(*executor).what, What::done);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(has_children());
}

TEST_P(ExecutorTest, trim_gives_idle_memory_back_and_tasks_still_run) {
  const auto executor = make({{"fake.take", 8 * kMiB, 8 * kMiB}});
  executor->submit(order(0, 0, 8 * kMiB));
  ASSERT_EQ(wait_for_end(*executor).what, What::done);
  executor->trim();
  EXPECT_EQ(executor->baseline(), 0u);
  if (GetParam() == Sort::threads) {
    EXPECT_EQ(pool::free_bytes(), 0u);
  }
  executor->submit(order(0, 1, 8 * kMiB));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

// --- what needs a process of its own

class WorkerExecutorTest : public ExecutorTest {};
INSTANTIATE_TEST_SUITE_P(Each, WorkerExecutorTest, ::testing::Values(Sort::workers), name_of);

TEST_P(WorkerExecutorTest, a_death_is_told_in_words_and_a_new_worker_takes_over) {
  const auto executor =
      make({{"fake.crash"}, {"fake.exit", 3}, {"fake.kill", SIGSEGV}, {"fake.kill", SIGKILL}, {"fake.fill"}});
  const char* causes[] = {"signal 6 (Aborted)", "exit code 3", "signal 11 (Segmentation fault)", "signal 9 (Killed)"};
  for (int stage = 0; stage < 4; ++stage) {
    executor->submit(order(stage, 1));
    const TaskEvent event = wait_for_end(*executor);
    ASSERT_EQ(event.what, What::died);
    EXPECT_EQ(event.evidence, Evidence::unknown);
    EXPECT_THAT(event.error->message(), HasSubstr(causes[stage]));
    EXPECT_EQ(event.order.block, 1);
    EXPECT_EQ(executor->running(), 0);
  }
  executor->submit(order(4));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(WorkerExecutorTest, a_call_that_hears_nothing_is_killed_when_its_time_is_up) {
  const auto executor = make({{"fake.deaf", 60'000, 0, {4, 6}, {2, 3}, std::chrono::milliseconds(200)}, {"fake.fill"}});
  const auto begin = Clock::now();
  executor->submit(order());
  EXPECT_EQ(wait_for_end(*executor).what, What::timed_out);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  executor->submit(order(1));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(WorkerExecutorTest, a_death_is_heard_though_a_copy_of_the_process_lives) {
  const auto executor = make({{"fake.fork"}, {"fake.fill"}});
  executor->submit(order());
  const TaskEvent event = wait_for_end(*executor);
  EXPECT_EQ(event.what, What::died);
  EXPECT_THAT(event.error->message(), HasSubstr("signal 6 (Aborted)"));
  executor->submit(order(1));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(WorkerExecutorTest, messages_of_no_known_type_end_the_worker) {
  const auto executor = make({{"fake.rubbish"}, {"fake.fill"}});
  executor->submit(order());
  const TaskEvent event = wait_for_end(*executor);
  EXPECT_EQ(event.what, What::died);
  EXPECT_THAT(event.error->message(), HasSubstr("unknown type"));
  executor->submit(order(1));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(WorkerExecutorTest, nobody_waits_for_plugins_where_the_run_is_to_stop) {
  plan = make_fake_plan({{"fake.fill"}}, folder.path());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_NE(make_worker_executor(plan, {FAKE_WORKER, folder.path().string(), {"asleep"}, 1, ends[0]}), nullptr);
  close(ends[0]), close(ends[1]);
  EXPECT_FALSE(has_children());
}

TEST_P(WorkerExecutorTest, what_a_plugin_prints_never_reaches_standard_output) {
  const auto executor = make({{"fake.chatty"}});
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  executor->trim();  // the next worker inherits the captured streams
  executor->submit(order());
  const TaskEvent event = wait_for_end(*executor);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("a line that must not disturb anybody"));
  EXPECT_EQ(event.what, What::done);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // there the worker does not count malloc

TEST_P(WorkerExecutorTest, malloc_is_counted_and_refused_or_granted) {
  const auto executor = make({{"fake.malloc", 32 * kMiB, 4 * kMiB}});
  executor->submit(order(0, 0, 4 * kMiB));
  TaskEvent event = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(event.what, What::wants_growth);
  EXPECT_EQ(event.evidence, Evidence::own_limit);
  EXPECT_GT(event.needed, 4 * kMiB);
  EXPECT_LE(event.needed, 6 * kMiB);
  executor->refuse(event.order);
  event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::exceeded);
  EXPECT_EQ(event.evidence, Evidence::own_limit);
  EXPECT_GT(event.needed, 4 * kMiB);

  executor->submit(order(0, 0, 4 * kMiB));
  event = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(event.what, What::wants_growth);
  executor->grow(event.order, 128 * kMiB, 64 * kMiB);
  event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::done) << (event.error ? event.error->message() : "");
  EXPECT_GE(event.result.call_peak, 32 * kMiB);
  EXPECT_LE(event.result.call_peak, 34 * kMiB);
  EXPECT_GE(event.peak, 31 * kMiB);
}

// The task's limit holds for the sum of what is acquired through the host and taken by malloc.
TEST_P(WorkerExecutorTest, malloc_counts_against_the_limit_of_the_task) {
  const auto executor = make({{"fake.malloc", 32 * kMiB, 40 * kMiB}});
  TaskOrder tight = order(0, 0, 40 * kMiB);
  tight.limit = 16 * kMiB;
  executor->submit(tight);
  const TaskEvent event = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(event.what, What::wants_growth);
  EXPECT_GT(event.needed, 40 * kMiB);
  executor->refuse(event.order);
  EXPECT_EQ(wait_for_end(*executor).what, What::exceeded);
}

TEST_P(WorkerExecutorTest, an_abort_after_a_refusal_is_a_matter_of_memory) {
  const auto executor = make({{"fake.abort", 32 * kMiB, 4 * kMiB}, {"fake.fill"}});
  executor->submit(order(0, 0, 4 * kMiB));
  const TaskEvent question = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(question.what, What::wants_growth);
  executor->refuse(question.order);
  const TaskEvent event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::exceeded);
  EXPECT_EQ(event.evidence, Evidence::own_limit);
  EXPECT_EQ(event.needed, question.needed);
  EXPECT_THAT(event.error->message(), HasSubstr("Aborted"));
  executor->submit(order(1));
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

TEST_P(WorkerExecutorTest, mappings_of_its_own_meet_the_limit_of_the_system) {
  const auto executor = make({{"fake.map", 512 * kMiB, 4 * kMiB}, {"fake.map", 4 * kMiB, 4 * kMiB}});
  executor->submit(order(0, 0, 4 * kMiB));
  TaskEvent event = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(event.what, What::wants_growth);
  EXPECT_EQ(event.evidence, Evidence::own_limit);
  EXPECT_EQ(event.needed, 516 * kMiB);
  executor->refuse(event.order);
  event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::exceeded) << "a matter of memory, not of the function";
  EXPECT_EQ(event.evidence, Evidence::own_limit);
  EXPECT_EQ(event.needed, 516 * kMiB);
  EXPECT_THAT(event.error->message(), HasSubstr("refused a mapping"));

  executor->submit(order(0, 0, 4 * kMiB));
  event = wait_for(*executor, What::wants_growth);
  ASSERT_EQ(event.what, What::wants_growth);
  executor->grow(event.order, 520 * kMiB, 516 * kMiB);
  event = wait_for_end(*executor);
  EXPECT_EQ(event.what, What::done) << "the mapping that was refused is made after all";

  executor->submit(order(1, 0, 4 * kMiB));
  event = wait_for_end(*executor);
  EXPECT_EQ(event.what, What::done);
  EXPECT_GE(event.peak, 7 * kMiB / 2);  // the kernel counts resident pages in batches
}

TEST_P(WorkerExecutorTest, an_idle_worker_gives_its_pool_back) {
  const auto executor = make({{"fake.take", 64 * kMiB, 64 * kMiB}});
  const std::uint64_t baseline = executor->baseline();
  EXPECT_GT(baseline, 256u << 10);
  EXPECT_LT(baseline, 16 * kMiB);
  executor->submit(order(0, 0, 64 * kMiB));
  const TaskEvent event = wait_for_end(*executor);
  ASSERT_EQ(event.what, What::done);
  EXPECT_GE(event.peak, 64 * kMiB);
  EXPECT_LE(event.peak, 72 * kMiB);
  EXPECT_GE(executor->next_deadline_ms(), 0);  // it wants a turn soon
  EXPECT_TRUE(executor->collect().empty());
  EXPECT_EQ(executor->next_deadline_ms(), -1);
  EXPECT_LT(executor->baseline(), 16 * kMiB);
}

#endif

TEST_P(WorkerExecutorTest, a_plugin_that_cannot_be_loaded_is_known_before_anything_runs) {
  const auto message_of = [&](const std::vector<std::string>& plugins) -> std::string {
    try {
      make({{"fake.fill"}}, 1, plugins);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::plugin);
      return error.message();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(message_of({"broken"}), HasSubstr("'broken' cannot be loaded"));
  EXPECT_THAT(message_of({"stuck"}), HasSubstr("exit code 7"));
  EXPECT_FALSE(has_children());
}

TEST_P(WorkerExecutorTest, a_worker_program_that_is_not_there_is_named) {
  plan = make_fake_plan({{"fake.fill"}}, folder.path());
  try {
    make_worker_executor(plan, {"/no/such/cuboid-worker", folder.path().string(), {}, 1});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::plugin);
    EXPECT_THAT(error.message(), HasSubstr("/no/such/cuboid-worker"));
  }
}

bool lives(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state;
  return file >> id >> name >> state && state != "Z" && state != "X";
}

// The children of a process's main thread.
std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

TEST_P(WorkerExecutorTest, a_worker_dies_with_its_coordinator_even_inside_a_call) {
  plan = make_fake_plan({{"fake.deaf", 60'000}}, folder.path());
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t coordinator = fork();
  if (coordinator == 0) {
    const auto executor = make_worker_executor(plan, {FAKE_WORKER, folder.path().string(), {}, 1});
    executor->submit(order());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    _exit(write(ready[1], "x", 1) == 1 ? (pause(), 0) : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]), close(ready[1]);
  const std::vector<pid_t> workers = children_of(coordinator);
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_TRUE(lives(workers[0]));
  kill(coordinator, SIGKILL);
  waitpid(coordinator, nullptr, 0);
  for (int i = 0; i < 200 && lives(workers[0]); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(lives(workers[0]));
}

// A worker that is killed while it is idle is nobody's failure.
TEST_P(WorkerExecutorTest, an_idle_worker_that_died_is_replaced) {
  const auto executor = make({{"fake.fill"}});
  for (pid_t worker : children_of(getpid())) {
    kill(worker, SIGKILL);
    for (int i = 0; i < 200 && lives(worker); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  executor->submit(order());
  EXPECT_EQ(wait_for_end(*executor).what, What::done);
}

}  // namespace
}  // namespace cuboid
