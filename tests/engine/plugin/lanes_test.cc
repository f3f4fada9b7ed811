#include "engine/plugin/lanes.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace cuboid {
namespace {

TEST(Lanes, AreThreadsThatStay) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<int> ran(4, 0);  // each lane writes its own
    run_on_lanes(4, [&](std::uint32_t lane) {
      ++ran.at(lane);
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    ASSERT_EQ(ran, (std::vector<int>{1, 1, 1, 1}));
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(Lanes, SeveralCallsSpreadAtOnce) {
  std::vector<std::thread> calls;
  std::vector<long> sums(6, 0);
  for (long& sum : sums)
    calls.emplace_back([&sum] {
      for (int turn = 0; turn < 200; ++turn) {
        std::vector<long> part(3, 0);
        run_on_lanes(3, [&](std::uint32_t lane) { part[lane] = lane + 1; });
        sum += part[0] + part[1] + part[2];
      }
    });
  for (std::thread& call : calls) call.join();
  EXPECT_EQ(sums, std::vector<long>(6, 1200));
}

TEST(Lanes, ComputeAsTheirCallDoes) {
  const auto mode_of_lanes = [] {
    std::vector<int> modes(3, -1);
    run_on_lanes(3, [&](std::uint32_t lane) {
      modes[lane] = std::fegetround();
      if (lane > 0) std::fesetround(FE_DOWNWARD);  // and what a body leaves behind is gone with it
    });
    return modes;
  };
  EXPECT_EQ(mode_of_lanes(), std::vector<int>(3, FE_TONEAREST));
  std::fesetround(FE_UPWARD);
  const std::vector<int> modes = mode_of_lanes();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(modes, std::vector<int>(3, FE_UPWARD));
  EXPECT_EQ(mode_of_lanes(), std::vector<int>(3, FE_TONEAREST));
}

}  // namespace
}  // namespace cuboid
