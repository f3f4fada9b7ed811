// The plugins that come with Cuboid, as the host sees them: found without any setting, loaded, and their golden
// examples computed through the C ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/plugin/plugin_host.h"

namespace cuboid {
namespace {

TEST(BundledPlugins, AreFoundAndComputeTheirExamples) {
  const PluginReport report = find_plugins({}, plugin_folders());
  std::vector<std::string> names;
  for (const SkippedLibrary& skipped : report.skipped) ADD_FAILURE() << skipped.reason;
  for (const Manifest& manifest : report.found) {
    names.push_back(manifest.name);
    const auto examples = check::run_check({"examples", manifest.path.string(), {}, {}, [](const std::string&) {}});
    EXPECT_TRUE(examples.passed) << examples.detail;
    EXPECT_TRUE(manifest.name == "crowd" || examples.detail != "0 examples") << manifest.name;
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"filter", "label", "signal", "sky", "stats", "terrain"}));
}

}  // namespace
}  // namespace cuboid
