#include "engine/plan/memory_model.h"

#include <gtest/gtest.h>

namespace cuboid {
namespace {

constexpr std::uint64_t MiB = 1u << 20;
constexpr Baselines kBase{10 * MiB, 5 * MiB};

TEST(TasksAtOnce, FillsWhatTheBudgetLeaves) {
  EXPECT_EQ(tasks_at_once(64 * MiB, kBase, 18 * MiB, false, 8), 3);  // 54 / 18
  EXPECT_EQ(tasks_at_once(64 * MiB, kBase, 18 * MiB, true, 8), 2);   // 54 / 23
  EXPECT_EQ(tasks_at_once(64 * MiB, kBase, 18 * MiB, false, 2), 2);  // no more than workers
}

TEST(TasksAtOnce, IsZeroWhereNotEvenOneFits) {
  EXPECT_EQ(tasks_at_once(64 * MiB, kBase, 54 * MiB, false, 8), 1);
  EXPECT_EQ(tasks_at_once(64 * MiB, kBase, 54 * MiB + 1, false, 8), 0);
  EXPECT_EQ(tasks_at_once(64 * MiB, kBase, 49 * MiB + 1, true, 8), 0);
  EXPECT_EQ(tasks_at_once(1 * MiB, kBase, 0, false, 8), 0);
}

TEST(TasksAtOnce, TasksOfNoMemoryAreLimitedByWorkersAlone) {
  EXPECT_EQ(tasks_at_once(64 * MiB, kBase, 0, false, 3), 3);
}

TEST(SmallestBudget, IsWhereOneTaskFitsAndNoByteLess) {
  for (const bool isolated : {false, true}) {
    const std::uint64_t least = smallest_budget(kBase, 33 * MiB, isolated);
    EXPECT_EQ(tasks_at_once(least, kBase, 33 * MiB, isolated, 1), 1);
    EXPECT_EQ(tasks_at_once(least - 1, kBase, 33 * MiB, isolated, 1), 0);
  }
}

TEST(BaselinesOf, CountWhatNetworksAndArchivesBringIntoEveryProcess) {
  const Baselines local = baselines_of({"data/x.zarr", "/tmp/y.zarr", "file:///z.zarr"});
  EXPECT_EQ(local.coordinator, Baselines{}.coordinator);
  EXPECT_EQ(local.worker, Baselines{}.worker);
  for (const char* place : {"https://example.org/x.zarr", "s3://bucket/x.zarr", "data/x.zarr.zip/inside"}) {
    const Baselines more = baselines_of({"data/x.zarr", place});
    EXPECT_GE(more.coordinator, local.coordinator + 4 * MiB) << place;
    EXPECT_EQ(more.worker - local.worker, more.coordinator - local.coordinator) << place;
  }
}

TEST(MallocThreshold, KeepsMuchWhereMuchIsSpareAndTheLeastWhereNothingIs) {
  EXPECT_EQ(malloc_threshold(0, 2), 128u << 10);
  EXPECT_EQ(malloc_threshold(32 * MiB, 2), 2 * MiB);  // holes of up to four times that on each thread: half of it
  EXPECT_EQ(malloc_threshold(32 * MiB, 8), MiB / 2);
  EXPECT_EQ(malloc_threshold(std::uint64_t{1} << 40, 2), 4 * MiB);
}

TEST(DefaultBudget, LeavesSomeOfTheMachine) {
  EXPECT_GT(default_budget(), 64 * MiB);
  EXPECT_LT(default_budget(), std::uint64_t{1} << 46);
}

}  // namespace
}  // namespace cuboid
