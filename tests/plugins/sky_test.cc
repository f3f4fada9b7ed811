#include "cases.h"
#include "plugins/sky/sources.h"

namespace cuboid::plugin_tests {
namespace {

TEST(SkyPlugin, SourcesEqualTheirDefinition) { check_function<sky::Sources>("sky.sources", true); }

// The densest field there can be: as many sources as the bound allows.
TEST(SkyPlugin, BoundIsReachedByAGridOfPeaks) {
  const int radius = 2, extent = 13;
  std::vector<double> values;
  for (int y = 0; y < extent; ++y)
    for (int x = 0; x < extent; ++x) values.push_back(y % (radius + 1) == 0 && x % (radius + 1) == 0 ? 5 : 1);
  const auto in = test_host::Array::of<double>({extent, extent}, values);
  const auto report = test_host::run<sky::Sources>({in}, {{"threshold", 2.0}, {"radius", radius}});
  ASSERT_EQ(report.status, CUBOID_OK) << report.message;
  EXPECT_EQ(report.out[0].shape, (test_host::Shape{25, 6}));  // ceil(13/3)^2
}

TEST(SkyPlugin, EmptyImageHasNoSources) {
  const auto in = test_host::Array::of<double>({0, 7}, {});
  const auto report = test_host::run<sky::Sources>({in}, {{"threshold", 2.0}});
  ASSERT_EQ(report.status, CUBOID_OK) << report.message;
  EXPECT_EQ(report.out[0].shape, (test_host::Shape{0, 6}));
}

}  // namespace
}  // namespace cuboid::plugin_tests
