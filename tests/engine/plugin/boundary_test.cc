#include "engine/plugin/boundary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace cuboid {
namespace {

// scipy.ndimage's definition for one axis, element by element; -1: the constant.
std::int64_t source_index(std::int64_t i, std::int64_t n, BoundaryMode mode) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case BoundaryMode::nearest:
      return i < 0 ? 0 : n - 1;
    case BoundaryMode::wrap:
      while (i < 0) i += n;
      return i % n;
    case BoundaryMode::reflect:
      while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;
      return i;
    default:
      return -1;
  }
}

std::vector<double> padded_line(const std::vector<double>& line, std::int64_t before, std::int64_t after,
                                BoundaryMode mode) {
  const auto n = static_cast<std::int64_t>(line.size());
  std::vector<double> out(static_cast<std::size_t>(n + before + after), -99);
  pad(make_view(reinterpret_cast<const std::byte*>(line.data()), kFloat64, {n}), Box::whole({n}), {n},
      make_view(reinterpret_cast<std::byte*>(out.data()), kFloat64, {n + before + after}),
      Box{{-before}, {n + before + after}}, {mode, 7});
  return out;
}

TEST(Boundary, FillsALineAsSciPyDefinesIt) {
  const std::vector<double> abcd = {1, 2, 3, 4};
  using testing::ElementsAre;
  EXPECT_THAT(padded_line(abcd, 2, 3, BoundaryMode::reflect), ElementsAre(2, 1, 1, 2, 3, 4, 4, 3, 2));
  EXPECT_THAT(padded_line(abcd, 2, 3, BoundaryMode::nearest), ElementsAre(1, 1, 1, 2, 3, 4, 4, 4, 4));
  EXPECT_THAT(padded_line(abcd, 2, 3, BoundaryMode::wrap), ElementsAre(3, 4, 1, 2, 3, 4, 1, 2, 3));
  EXPECT_THAT(padded_line(abcd, 2, 3, BoundaryMode::constant), ElementsAre(7, 7, 1, 2, 3, 4, 7, 7, 7));
  // A halo larger than the array goes back and forth.
  EXPECT_THAT(padded_line({1, 2}, 5, 4, BoundaryMode::reflect), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2));
  EXPECT_THAT(padded_line({1, 2}, 5, 4, BoundaryMode::wrap), ElementsAre(2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_THAT(padded_line({5}, 2, 2, BoundaryMode::reflect), ElementsAre(5, 5, 5, 5, 5));
}

TEST(Boundary, FillsRandomBoxesOfTwoAxesLikeTheDefinition) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  const auto up_to = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 400; ++round) {
    const Shape whole = {1 + up_to(6), 1 + up_to(6)};
    std::vector<std::int32_t> array(static_cast<std::size_t>(whole[0] * whole[1]));
    for (std::size_t k = 0; k < array.size(); ++k) array[k] = static_cast<std::int32_t>(k) + 1;
    const auto mode = static_cast<BoundaryMode>(up_to(4));
    const Box wanted{{up_to(12) - 6, up_to(12) - 6}, {1 + up_to(10), 1 + up_to(10)}};
    std::vector<std::int32_t> out(static_cast<std::size_t>(wanted.shape[0] * wanted.shape[1]), -99);
    pad(make_view(reinterpret_cast<const std::byte*>(array.data()), kInt32, whole), Box::whole(whole), whole,
        make_view(reinterpret_cast<std::byte*>(out.data()), kInt32, wanted.shape), wanted, {mode, -3});
    for (std::int64_t i = 0; i < wanted.shape[0]; ++i)
      for (std::int64_t j = 0; j < wanted.shape[1]; ++j) {
        const std::int64_t a = source_index(wanted.origin[0] + i, whole[0], mode);
        const std::int64_t b = source_index(wanted.origin[1] + j, whole[1], mode);
        const std::int32_t expected = a < 0 || b < 0 ? -3 : array[static_cast<std::size_t>(a * whole[1] + b)];
        ASSERT_EQ(out[static_cast<std::size_t>(i * wanted.shape[1] + j)], expected)
            << "seed " << seed << " round " << round << " mode " << to_string(mode) << " at " << i << "," << j;
      }
  }
}

TEST(Boundary, ConstantsHaveTheTypeOfTheArray) {
  const std::uint8_t one = 200;
  std::uint8_t out[3] = {};
  pad(make_view(reinterpret_cast<const std::byte*>(&one), kUint8, {1}), Box::whole({1}), {1},
      make_view(reinterpret_cast<std::byte*>(out), kUint8, {3}), Box{{-1}, {3}}, {BoundaryMode::constant, 255});
  EXPECT_THAT(out, testing::ElementsAre(255, 200, 255));
}

}  // namespace
}  // namespace cuboid
