#include "cases.h"
#include "plugins/stats/histogram2d.h"

namespace cuboid::plugin_tests {
namespace {

// The two images are stacked in the case's one input.
std::vector<test_host::Array> images(const test_host::Array& stack) {
  std::vector<test_host::Array> parts;
  const std::size_t half = stack.bytes.size() / 2;
  for (const std::size_t from : {std::size_t(0), half}) {
    parts.push_back(test_host::Array::zeros(stack.dtype, {stack.shape[1], stack.shape[2]}));
    std::copy_n(stack.bytes.begin() + std::ptrdiff_t(from), half, parts.back().bytes.begin());
  }
  return parts;
}

TEST(StatsPlugin, Histogram2dEqualsNumpy) {
  for (const Case& c : cases_of("stats.histogram2d")) {
    SCOPED_TRACE(c.text);
    for (const auto& block : {std::map<std::string, std::int64_t>{}, {{"y", 7}, {"x", 9}}, {{"y", 1}}}) {
      const auto report = test_host::run<stats::Histogram2d>(images(c.in), c.params, test_host::blocks(block));
      ASSERT_EQ(report.status, CUBOID_OK) << report.message;
      EXPECT_TRUE(close(report.out[0], c.out, 0));
      EXPECT_EQ(report.leaked, 0u);
      EXPECT_FALSE(report.overrun);
    }
  }
}

TEST(StatsPlugin, Histogram2dKeepsItsStateWithinTheFormula) {
  const Case c = cases_of("stats.histogram2d").front();
  const auto whole = test_host::run<stats::Histogram2d>(images(c.in), c.params);
  EXPECT_LE(whole.peak, std::uint64_t(8 * (10 + 7 + 2) + 6 * 64));
  EXPECT_EQ(whole.requests, 3);
  for (std::int64_t n = 0; n < whole.requests; ++n) {
    const auto report = test_host::run<stats::Histogram2d>(images(c.in), c.params, test_host::refusing(n));
    EXPECT_EQ(report.status, CUBOID_E_BUDGET);
    EXPECT_EQ(report.leaked, 0u);
  }
}

TEST(StatsPlugin, Histogram2dRefusesAnEmptyRange) {
  const Case c = cases_of("stats.histogram2d").front();
  auto params = c.params;
  params.at("max_a") = params.at("min_a");
  const auto report = test_host::run<stats::Histogram2d>(images(c.in), params);
  EXPECT_EQ(report.status, CUBOID_E_PARAM);
  EXPECT_EQ(report.leaked, 0u);
}

}  // namespace
}  // namespace cuboid::plugin_tests
