#include "cases.h"
#include "plugins/signal/events.h"

namespace cuboid::plugin_tests {
namespace {

TEST(SignalPlugin, EventsEqualTheirDefinition) {
  for (const Case& c : cases_of("signal.events")) {
    SCOPED_TRACE(c.text);
    const auto whole = good_run<signals::Events>(c, {});
    ASSERT_EQ(whole.status, CUBOID_OK);
    EXPECT_TRUE(close(whole.out[0], c.out, c.tolerance));
    for (const std::int64_t block : {1, 7, 100, 4999})
      expect_same_bits<signals::Events>(c, test_host::blocks({{"t", block}}), whole.out[0], false);
    for (const auto layout : {test_host::Layout::reversed, test_host::Layout::sparse}) {
      test_host::Options options;
      options.layout = layout;
      expect_same_bits<signals::Events>(c, options, whole.out[0], false);
    }
    check_failures<signals::Events>(c, whole, false);
  }
}

TEST(SignalPlugin, MoreEventsThanRoomForThemIsRefusedWithTheFirstSlabTooMany) {
  std::vector<double> values(2000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(i % 2);
  const auto in = test_host::Array::of<double>({2000}, values);
  test_host::Options options;
  options.capacity = 300;
  const auto report = test_host::run<signals::Events>({in}, {{"threshold", 0.5}}, options);
  EXPECT_EQ(report.status, CUBOID_E_BOUND);
  EXPECT_GT(report.needed_rows, 300);
  EXPECT_EQ(report.leaked, 0u);
}

}  // namespace
}  // namespace cuboid::plugin_tests
