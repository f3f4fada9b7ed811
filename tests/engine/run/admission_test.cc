// How many tasks are handed out at once, of which sizes.
#include "tests/engine/run/fake_run.h"

namespace cuboid {
namespace {

using fake::Folder;
using fake::MiB;
using fake::Script;

class AdmissionTest : public fake::FakeRunTest {};

TEST_F(AdmissionTest, NeverGrantsMoreThanTheBudget) {
  Script script;
  PlanRequest request =
      fake::request(folder_, fake::call("fake.guess", image_, "big", {{"mib", std::int64_t{20}}}), 100 * MiB, 8);
  EXPECT_EQ(fake::run(request, script).exit_code, 0);
  EXPECT_LE(script.most_running_bytes, 100 * MiB - 14 * MiB);
  EXPECT_EQ(script.most_running, 3u) << "100 - 14 for the coordinator; a task of 20 and its worker take 26";
}

// Runs one stage of our own function whose tasks take `seconds` each, in a budget; the most orders that were out at once.
std::size_t most_out(const Folder& folder, const Array& image, double seconds, std::uint64_t budget,
                     fake::Watch& watch) {
  Script script;
  script.queue = 16;
  script.outcome = [&](const Plan& plan, const TaskOrder& order) {
    TaskEvent event = fake::done(plan, order);
    event.seconds = seconds;
    return event;
  };
  RunOptions options;
  options.observer = &watch;
  const RunResult result =
      fake::run(fake::request(folder, fake::call("fake.exact", image, "exact"), budget), script, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_LE(script.most_running_bytes, budget - 14 * MiB) << "what waits counts as if it ran";
  return script.most_running;
}

TEST_F(AdmissionTest, ShortTasksWaitAtTheirExecutor) {
  fake::Watch watch;
  EXPECT_GT(most_out(folder_, image_, 1e-4, 64 * MiB, watch), 8u);
  int running = 0;
  for (const RunEvent& event : watch.events) {
    running += event.what == RunEvent::What::task_started;
    running -= event.what == RunEvent::What::task_done;
    ASSERT_LE(running, 2) << "one that waits has not started";
  }
  EXPECT_EQ(watch.count(RunEvent::What::task_started), 16);
}

TEST_F(AdmissionTest, LongTasksDoNotWaitAtTheirExecutor) {
  fake::Watch watch;
  EXPECT_EQ(most_out(folder_, image_, 0.1, 64 * MiB, watch), 2u);
}

}  // namespace
}  // namespace cuboid
