#include "engine/run/scheduler.h"

#include <gmock/gmock.h>

#include "tests/engine/run/fake_run.h"

namespace cuboid {
namespace {

TEST(BlockSet, CountsAndSearches) {
  BlockSet set(130);
  EXPECT_EQ(set.next(0), 130);
  EXPECT_EQ(set.next_absent(0), 0);
  for (const std::int64_t block : {0, 1, 63, 64, 129}) set.insert(block);
  set.insert(64);
  EXPECT_EQ(set.count(), 5);
  EXPECT_EQ(set.next(2), 63);
  EXPECT_EQ(set.next(65), 129);
  EXPECT_EQ(set.next_absent(63), 65);
  EXPECT_EQ(set.next_absent(129), 130);
  set.erase(64);
  EXPECT_FALSE(set.contains(64));
  EXPECT_EQ(set.count(), 4);
  const BlockSet all(130, true);
  EXPECT_TRUE(all.full());
  EXPECT_EQ(all.next_absent(0), 130);
  EXPECT_TRUE(BlockSet(0, true).full());
}

// exact -> guess -> halo over a grid of side x side blocks.
class SchedulerTest : public testing::Test {
 protected:
  Plan make(std::int64_t side, const std::string& middle = "fake.guess") {
    const Array image = folder_.source({side * 4, side * 4}, {4, 4});
    const Array first = fake::call("fake.guess", image, "first", {{"mib", std::int64_t{1}}});
    const Array second = fake::call(middle, first, "second", {{"mib", std::int64_t{1}}});
    Plan plan = make_plan(fake::request(folder_, fake::call("fake.halo", second, "halo")), {&fake::kernels()});
    for (Stage& stage : plan.stages) stage.confidence = Confidence::exact;  // no pilots unless a test says so
    return plan;
  }
  static Scheduler open_all(const Plan& plan) {
    Scheduler scheduler(plan);
    for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s)
      scheduler.open(s, BlockSet(plan.stages[static_cast<std::size_t>(s)].grid.size()));
    return scheduler;
  }
  static std::optional<TaskRef> take(Scheduler& scheduler) {
    return scheduler.next([](TaskRef) { return Fit::yes; });
  }
  fake::Folder folder_;
};

TEST_F(SchedulerTest, RunsStagesInOrderAndABlockAsSoonAsWhatItReadsIsThere) {
  const Plan plan = make(3);
  ASSERT_EQ(plan.stages.size(), 3u);
  Scheduler scheduler = open_all(plan);
  for (std::int64_t block = 0; block < 9; ++block) EXPECT_EQ(take(scheduler), (TaskRef{0, block}));
  EXPECT_EQ(take(scheduler), std::nullopt) << "nothing of the second stage before anything is finished";
  scheduler.finish({0, 4});
  EXPECT_EQ(take(scheduler), (TaskRef{1, 4}));
  for (std::int64_t block = 0; block < 9; ++block) scheduler.finish({0, block});
  for (const std::int64_t block : {0, 1, 2, 3, 5, 6, 7, 8}) EXPECT_EQ(take(scheduler), (TaskRef{1, block}));
  for (const std::int64_t block : {0, 1, 3, 4}) scheduler.finish({1, block});
  EXPECT_EQ(take(scheduler), (TaskRef{2, 0})) << "its halo reaches (0..1, 0..1)";
  EXPECT_EQ(take(scheduler), std::nullopt);
}

TEST_F(SchedulerTest, WhatDependsOnAParkedBlockDoesNotRunAndAllElseDoes) {
  const Plan plan = make(5);
  Scheduler scheduler = open_all(plan);
  std::vector<TaskRef> ran;
  while (const auto task = take(scheduler)) {
    if (*task == TaskRef{0, 0}) {
      scheduler.park(*task);
    } else {
      scheduler.finish(*task);
      ran.push_back(*task);
    }
  }
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(ran.size(), 24u + 24 + 21);
  EXPECT_EQ(scheduler.blocked(1), 1);
  EXPECT_EQ(scheduler.blocked(2), 4) << "the halos of (0..1, 0..1) reach (0, 0)";
}

TEST_F(SchedulerTest, TheFirstThatFitsGoesButNobodyIsPassedOverForever) {
  const Plan plan = make(20);
  Scheduler scheduler = open_all(plan);
  const TaskRef large{0, 0};
  int before = 0;
  while (true) {
    const auto task = scheduler.next([&](TaskRef t) { return t == large ? Fit::too_large : Fit::yes; });
    if (!task) break;
    ++before;
    ASSERT_LT(before, 400);
  }
  EXPECT_EQ(before, Scheduler::kPassedOverAtMost);
  EXPECT_EQ(take(scheduler), large) << "then everybody waits for it";
}

TEST_F(SchedulerTest, WaitingForAnotherKindOfSlotHoldsNobodyBack) {
  const Plan plan = make(20);
  Scheduler scheduler = open_all(plan);
  const TaskRef elsewhere{0, 0};
  int count = 0;
  while (scheduler.next([&](TaskRef t) { return t == elsewhere ? Fit::not_here : Fit::yes; })) ++count;
  EXPECT_EQ(count, 399);
}

TEST_F(SchedulerTest, PilotsOfAnUnsafeStageComeFirstWithAllTheyDependOn) {
  Plan plan = make(20);
  plan.stages[1].confidence = Confidence::unsafe;
  Scheduler scheduler = open_all(plan);
  // Block 0, the last one and the middle (10, 10): each needs one block of the first stage, and goes as soon as that is
  // there.
  for (const std::int64_t block : {0, 399, 210}) {
    EXPECT_EQ(take(scheduler), (TaskRef{0, block}));
    scheduler.finish({0, block});
    EXPECT_EQ(take(scheduler), (TaskRef{1, block}));
  }
  EXPECT_EQ(take(scheduler), (TaskRef{0, 1})) << "then the plan's order";
}

TEST_F(SchedulerTest, PilotsOfASmallPlanAreNoPilots) {
  Plan plan = make(3);
  plan.stages[1].confidence = Confidence::unsafe;
  Scheduler scheduler = open_all(plan);
  for (std::int64_t block = 0; block < 9; ++block) EXPECT_EQ(take(scheduler), (TaskRef{0, block}));
}

TEST_F(SchedulerTest, ATaskThatRunsAgainGoesFirst) {
  const Plan plan = make(3);
  Scheduler scheduler = open_all(plan);
  const TaskRef first = *take(scheduler);
  take(scheduler);
  scheduler.again(first);
  EXPECT_EQ(take(scheduler), first);
}

TEST_F(SchedulerTest, FinishedBlocksAreNotOffered) {
  const Plan plan = make(3);
  Scheduler scheduler(plan);
  BlockSet most(9, true);
  most.erase(7);
  scheduler.open(0, most);
  scheduler.open(1, BlockSet(9));
  EXPECT_EQ(take(scheduler), (TaskRef{0, 7}));
  for (const std::int64_t block : {0, 1, 2, 3, 4, 5, 6, 8}) EXPECT_EQ(take(scheduler), (TaskRef{1, block}));
  scheduler.finish({0, 7});
  EXPECT_EQ(take(scheduler), (TaskRef{1, 7}));
  EXPECT_TRUE(scheduler.idle());
}

TEST_F(SchedulerTest, AMillionTasksCostBitsNotObjects) {
  const Plan plan = make(8);
  Plan large = plan;
  for (Stage& stage : large.stages) stage.grid = Grid({4000, 4000}, {4, 4});
  large.tasks = 3'000'000;
  Scheduler scheduler = open_all(large);
  std::int64_t count = 0;
  while (const auto task = take(scheduler)) {
    if (task->stage == 2) break;
    scheduler.finish(*task);
    ++count;
  }
  EXPECT_EQ(count, 2'000'000);
}

}  // namespace
}  // namespace cuboid
