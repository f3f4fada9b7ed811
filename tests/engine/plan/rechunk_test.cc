#include <gtest/gtest.h>

#include <random>

#include "engine/plan/passes.h"

namespace cuboid::passes {
namespace {

TEST(ReadAmplification, IsOneWhereBlocksHoldWholeChunks) {
  EXPECT_DOUBLE_EQ(read_amplification({100, 100}, {10, 20}, {20, 40}), 1);
  EXPECT_DOUBLE_EQ(read_amplification({100}, {100}, {100}), 1);
}

TEST(ReadAmplification, CountsEachChunkAsOftenAsItIsCut) {
  // Chunks of 10; blocks of 15 read [0,20) [10,30) [30,50) [40,60): 80 of 60.
  EXPECT_DOUBLE_EQ(read_amplification({60}, {10}, {15}), 80.0 / 60);
  // One row at a time out of chunks of ten rows: ten times.
  EXPECT_DOUBLE_EQ(read_amplification({100}, {10}, {1}), 10);
}

TEST(PlanRechunk, ReadsWholeSourceChunksWhereThereIsRoom) {
  const RechunkPlan plan = plan_rechunk({1000, 1000}, {100, 1000}, {1000, 100}, 8, 8u << 20);
  EXPECT_FALSE(plan.between);
  EXPECT_EQ(plan.block, (Shape{1000, 1000}));
}

TEST(PlanRechunk, TakesTwoPassesWhereOneWouldReadEverythingManyTimes) {
  // Rows to columns of a 10000 x 10000 array with room for 4 million elements: one pass would read each chunk 25 times.
  const std::uint64_t room = 32u << 20;
  const RechunkPlan plan = plan_rechunk({10000, 10000}, {10000, 10}, {10, 10000}, 8, room);
  ASSERT_TRUE(plan.between);
  EXPECT_DOUBLE_EQ(read_amplification({10000, 10000}, {10000, 10}, *plan.first_block), 1);
  EXPECT_LE(read_amplification({10000, 10000}, *plan.between, plan.block), 1.5);
}

TEST(PlanRechunk, BlocksHoldWholeTargetChunksAndFitTheRoom) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto pick = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % most + 1); };
    const Shape shape{pick(300), pick(300), pick(20)};
    Shape source(3), target(3);
    for (int axis = 0; axis < 3; ++axis) source[axis] = pick(shape[axis]), target[axis] = pick(shape[axis]);
    const std::uint64_t room = static_cast<std::uint64_t>(pick(200000));
    const RechunkPlan plan = plan_rechunk(shape, source, target, 4, room);
    SCOPED_TRACE("round " + std::to_string(round) + " shape " + to_string(shape) + " from " + to_string(source) +
                 " to " + to_string(target) + " room " + std::to_string(room));
    const auto whole = [&](const Shape& block, const Shape& chunk) {
      for (int axis = 0; axis < 3; ++axis)
        if (block[axis] % chunk[axis] != 0 && block[axis] < shape[axis]) return false;
      return true;
    };
    ASSERT_TRUE(whole(plan.block, target)) << to_string(plan.block);
    if (plan.block != target) {
      ASSERT_LE(static_cast<std::uint64_t>(element_count(plan.block)) * 4, room);
    }
    if (plan.between) {
      ASSERT_TRUE(whole(*plan.first_block, *plan.between));
      ASSERT_TRUE(whole(*plan.first_block, source) || plan.first_block == source);
      ASSERT_LT(
          read_amplification(shape, source, *plan.first_block) + read_amplification(shape, *plan.between, plan.block),
          read_amplification(shape, source, plan.block));
    }
  }
}

}  // namespace
}  // namespace cuboid::passes
