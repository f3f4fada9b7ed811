// Results whose extents only the run finds out: facts replace bounds, guessed bounds grow, pieces change.
#include <fstream>

#include "tests/engine/run/fake_run.h"

namespace cuboid {
namespace {

using fake::Script;
using fake::stage_name;
using fake::stage_of;
using fake::with_policy;

class RaggedTest : public fake::FakeRunTest {
 protected:
  Array rows_ = fake::call("fake.rows", image_, "rows", {{"rows", std::int64_t{100}}});
};

TEST_F(RaggedTest, MeasuredExtentsReplaceBounds) {
  Script script;
  fake::Watch watch;
  RunOptions options;
  options.observer = &watch;
  const RunResult result = fake::run(fake::request(folder_, rows_), script, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(ZarrArray::open(folder_ / "out.zarr").shape(), Shape({48, 2})) << "16 blocks of 3 rows";
  EXPECT_EQ(watch.count(RunEvent::What::facts), 1);
  EXPECT_EQ(script.replans, 2) << "the executors follow";
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/plan.1.json"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "run/data/rows.pieces") ||
              !std::filesystem::exists(folder_ / "run/data/rows.pieces"));
  Script second;
  const RunResult again = fake::run(fake::request(folder_, rows_), second);
  EXPECT_TRUE(again.nothing_to_do);
  EXPECT_EQ(again.plan.stages[0].numbers.tasks, 16);
}

TEST_F(RaggedTest, AGuessedBoundGrowsAndFinishedBlocksAreKept) {
  Script script;
  script.outcome = [&](const Plan& plan, const TaskOrder& order) {
    if (stage_name(plan, order) == "rows" && order.block == 9 && order.attempt == 1) {
      TaskEvent event = fake::exceeded(order, 0, Evidence::own_bound);
      event.bound_needed = 170;
      return event;
    }
    return fake::done(plan, order, order.block == 9 ? 170 : 3);
  };
  const RunResult result = fake::run(fake::request(folder_, rows_), script);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(stage_of(result, "rows").attempts, 17);
  EXPECT_EQ(ZarrArray::open(folder_ / "out.zarr").shape(), Shape({15 * 3 + 170, 2}));
  Script second;
  EXPECT_TRUE(fake::run(fake::request(folder_, rows_), second).nothing_to_do) << "the grown bound is remembered";
}

TEST_F(RaggedTest, ABoundIsNotGrownAgainstThePolicy) {
  Script script;
  script.outcome = [&](const Plan& plan, const TaskOrder& order) {
    if (stage_name(plan, order) == "rows" && order.block == 9) {
      TaskEvent event = fake::exceeded(order, 0, Evidence::own_bound);
      event.bound_needed = 170;
      return event;
    }
    return fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, rows_), script, with_policy(ExceedAction::park));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(stage_of(result, "rows").tasks_done, 15);
  EXPECT_EQ(stage_of(result, "rows").attempts, 16);
}

TEST_F(RaggedTest, OnlyTheDenseChunksThatAChangedPieceReachesAreWrittenAgain) {
  PlanRequest first_request = fake::request(folder_, rows_);
  first_request.outputs[0].chunks = Shape{6, 2};  // two pieces of 3 rows each
  Script first;
  EXPECT_EQ(fake::run(first_request, first).exit_code, 0);
  std::ofstream(folder_ / "image.zarr/c/3/3", std::ios::trunc) << "another length";
  PlanRequest request = fake::request(
      folder_, fake::call("fake.rows", folder_.source({128, 128}, {32, 32}), "rows", {{"rows", std::int64_t{100}}}));
  request.outputs[0].chunks = Shape{6, 2};
  Script second;
  const RunResult result = fake::run(request, second);
  EXPECT_EQ(result.exit_code, 0);
  std::int64_t dense = 0;
  for (std::size_t s = 0; s < result.stages.size(); ++s)
    if (result.plan.stages[s].name != "rows") dense += result.stages[s].attempts;
  EXPECT_EQ(dense, 1);
}

}  // namespace
}  // namespace cuboid
