#include "cases.h"
#include "plugins/filter/gaussian.h"
#include "plugins/filter/median.h"
#include "plugins/filter/sobel.h"

namespace cuboid::plugin_tests {
namespace {

TEST(FilterPlugin, GaussianEqualsScipy) { check_function<filter::Gaussian>("filter.gaussian", false); }
TEST(FilterPlugin, MedianEqualsScipy) { check_function<filter::Median>("filter.median", false); }
TEST(FilterPlugin, SobelEqualsScipy) { check_function<filter::Sobel>("filter.sobel", false); }

TEST(FilterPlugin, MedianCountsNanAsLargestInBothMethods) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int size : {3, 11}) {
    // One row: each of its 1 x size windows occurs `size` times over in the padded window, so its middle is the median.
    std::vector<double> values(40, 1.0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 4 == 0 ? nan : double(i);
    const auto in = test_host::Array::of<double>({1, 40}, values);
    const auto report = test_host::run<filter::Median>({in}, {{"size", size}});
    ASSERT_EQ(report.status, CUBOID_OK) << report.message;
    const auto out = report.out[0].values<double>();
    for (int x = size; x + size < 40; ++x) {
      std::vector<double> window(values.begin() + x - size / 2, values.begin() + x + size / 2 + 1);
      std::sort(window.begin(), window.end(), [](double a, double b) { return a < b || (b != b && a == a); });
      EXPECT_EQ(out[std::size_t(x)], window[std::size_t(size / 2)]) << "size " << size << ", x " << x;
    }
  }
}

TEST(FilterPlugin, RefusesParametersThatMakeNoSense) {
  const auto in = test_host::Array::of<double>({2, 2}, {1, 2, 3, 4});
  EXPECT_THROW(test_host::run<filter::Gaussian>({in}), std::invalid_argument);  // sigma has no default
}

}  // namespace
}  // namespace cuboid::plugin_tests
