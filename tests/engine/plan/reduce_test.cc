#include <gtest/gtest.h>

#include "engine/plan/passes.h"

namespace cuboid::passes {
namespace {

TEST(ReductionGroup, AllOfAGridIsCutForThirtyTwoTasks) {
  // 8 x 8 blocks, all reduced: 64 blocks for 32 tasks are 2 a task, along the last axis.
  EXPECT_EQ(reduction_group({8, 8}, {0, 1}, true), (Shape{1, 2}));
  // 80 x 80 = 6400: 200 a task, but at most 64 are streamed.
  EXPECT_EQ(reduction_group({80, 80}, {0, 1}, true), (Shape{1, 64}));
}

TEST(ReductionGroup, KeptBlocksGiveWorkToCoresToo) {
  // 64 kept columns of blocks: each task may stream its whole column of 10.
  EXPECT_EQ(reduction_group({10, 64}, {0}, true), (Shape{10, 1}));
  // 8 kept: 4 groups each wanted, 10 / 4 -> 3 a task.
  EXPECT_EQ(reduction_group({10, 8}, {0}, true), (Shape{3, 1}));
}

TEST(ReductionGroup, LaterLevelsStreamAsManyAsAllowed) {
  EXPECT_EQ(reduction_group({100, 1}, {0}, false), (Shape{64, 1}));
  EXPECT_EQ(reduction_group({2, 1}, {0}, false), (Shape{2, 1}));
}

TEST(ReductionGroup, FillsTheLastAxisFirst) { EXPECT_EQ(reduction_group({16, 4}, {0, 1}, false), (Shape{16, 4})); }

TEST(ReductionGroup, EveryLevelShrinksTheGridUntilOneIsLeft) {
  for (Shape counts : {Shape{1, 1}, Shape{6400, 1}, Shape{3, 1000, 7}, Shape{1000000}}) {
    std::vector<std::size_t> all(counts.size());
    for (std::size_t axis = 0; axis < all.size(); ++axis) all[axis] = axis;
    int levels = 0;
    for (bool first = true; element_count(counts) > 1; first = false, ++levels) {
      const Shape group = reduction_group(counts, all, first);
      const std::int64_t before = element_count(counts);
      for (std::size_t axis = 0; axis < counts.size(); ++axis)
        counts[axis] = (counts[axis] + group[axis] - 1) / group[axis];
      ASSERT_TRUE(element_count(counts) < before || first) << to_string(counts);
      ASSERT_LT(levels, 8);
    }
  }
}

}  // namespace
}  // namespace cuboid::passes
