// The example whose memory estimate is too low where sources crowd, on the field it was made for.
#include "examples/crowded/crowd.cc"

#include "cases.h"

namespace cuboid::plugin_tests {
namespace {

// The blocks and parameters of examples/crowded.yaml.
const test_host::Params kParams = {{"threshold", 45.0}, {"radius", 2}, {"stamp", 12}};
constexpr std::int64_t kBlock = 218;

test_host::Array cut(const test_host::Array& field, std::int64_t y0, std::int64_t y1, std::int64_t x0,
                     std::int64_t x1) {
  test_host::Array part = test_host::Array::zeros(field.dtype, {y1 - y0, x1 - x0});
  const std::size_t row = std::size_t(x1 - x0) * field.dtype.bytes;
  for (std::int64_t y = y0; y < y1; ++y)
    std::memcpy(part.bytes.data() + std::size_t(y - y0) * row,
                field.bytes.data() + std::size_t(y * field.shape[1] + x0) * field.dtype.bytes, row);
  return part;
}

TEST(CrowdExample, SomeBlocksNeedMoreThanTheGuess) {
  const auto field = read_npy(expected_path("field.npy"));
  int ordinary = 0, crowded = 0;
  // One call per block on the block with its halo; that it takes the halo for interior adds nothing but rows.
  for (std::int64_t y = 0; y < field.shape[0]; y += kBlock)
    for (std::int64_t x = 0; x < field.shape[1]; x += kBlock) {
      const std::int64_t y1 = std::min(y + kBlock, field.shape[0]), x1 = std::min(x + kBlock, field.shape[1]);
      const std::int64_t reach = 48;
      const auto block = cut(field, std::max<std::int64_t>(y - reach, 0), std::min(y1 + reach, field.shape[0]),
                             std::max<std::int64_t>(x - reach, 0), std::min(x1 + reach, field.shape[1]));
      const auto report = test_host::run<Crowd>({block}, kParams);
      ASSERT_EQ(report.status, CUBOID_OK) << report.message;
      const double area = double(y1 - y + 100) * double(x1 - x + 100);
      const auto declared = std::uint64_t(32768 + area / 1000 * 4 * 8 * 25 * 25);
      ++(report.peak > declared ? crowded : ordinary);
    }
  EXPECT_EQ(ordinary, 16);
  EXPECT_EQ(crowded, 4);
}

TEST(CrowdExample, ResultDoesNotDependOnBlocks) {
  const auto field = cut(read_npy(expected_path("field.npy")), 300, 460, 400, 580);
  const test_host::Params params = {{"threshold", 45.0}, {"radius", 2}, {"stamp", 6}};
  const auto whole = test_host::run<Crowd>({field}, params);
  ASSERT_EQ(whole.status, CUBOID_OK) << whole.message;
  EXPECT_GT(whole.out[0].shape[0], 20);
  const auto blocks = test_host::run<Crowd>({field}, params, test_host::blocks({{"y", 50}, {"x", 70}}));
  ASSERT_EQ(blocks.status, CUBOID_OK) << blocks.message;
  // A neighbour's light is summed in the order of the block's own list, so the last bits may differ.
  const auto sorted = [](const test_host::Array& a) {
    test_host::Array b = a;
    b.bytes = canonical(a, true);
    return b;
  };
  EXPECT_TRUE(close(sorted(blocks.out[0]), sorted(whole.out[0]), 1e-12));
}

TEST(CrowdExample, SharesAllLightOfAnIsolatedSourceAndHalfOfATwin) {
  std::vector<double> values(61 * 61, 0.0);
  const auto at = [&](int y, int x) -> double& { return values[std::size_t(y * 61 + x)]; };
  at(10, 10) = 100;
  at(40, 40) = 50, at(40, 46) = 50;
  const auto in = test_host::Array::of<double>({61, 61}, values);
  const auto report = test_host::run<Crowd>({in}, {{"threshold", 1.0}, {"radius", 2}, {"stamp", 6}, {"sigma", 6.0}});
  ASSERT_EQ(report.status, CUBOID_OK) << report.message;
  const auto rows = report.out[0].values<double>();  // y, x, peak, flux, total, neighbours
  ASSERT_EQ(report.out[0].shape, (test_host::Shape{3, 6}));
  EXPECT_NEAR(rows[3], 100, 1e-9);
  EXPECT_EQ(rows[5], 0);
  EXPECT_NEAR(rows[6 + 3], 50, 1e-9);   // the twins are alike: what one loses it gains
  EXPECT_NEAR(rows[6 + 4], 100, 1e-9);  // both lie in its cut-out
  EXPECT_EQ(rows[6 + 5], 1);
}

TEST(CrowdExample, RefusalsAreClean) {
  const auto field = cut(read_npy(expected_path("field.npy")), 300, 360, 400, 460);
  const auto whole = test_host::run<Crowd>({field}, kParams);
  ASSERT_EQ(whole.status, CUBOID_OK) << whole.message;
  ASSERT_GT(whole.requests, 5);
  for (std::int64_t n = 0; n < whole.requests; ++n) {
    const auto report = test_host::run<Crowd>({field}, kParams, test_host::refusing(n));
    EXPECT_EQ(report.status, CUBOID_E_BUDGET) << "request " << n;
    EXPECT_EQ(report.leaked, 0u) << "request " << n;
  }
}

}  // namespace
}  // namespace cuboid::plugin_tests
