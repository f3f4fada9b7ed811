#include <cuboid/test_host.h>
#include <gtest/gtest.h>

namespace cuboid {
namespace {

using test_host::Array;
using test_host::Layout;

// Says what the C plugin's manifest says.
constexpr decl kScale = decl("demo.scale/1", "x:f8[n] -> y:f8[n]", "Every element times a factor.")
                            .param(sdk::real("factor", 2))
                            .call_bytes("8*n+64", sdk::bound)
                            .outside_bytes("0", sdk::exact);

const cuboid_plugin* hello(std::uint32_t major, const char** why) {
  const cuboid_hello h = {sizeof(cuboid_hello), major, 0, CUBOID_MINOR, &test_host::detail::services()};
  return cuboid_plugin_v1(&h, why);
}

const cuboid_fn& scale() {
  const char* why = "";
  return *hello(CUBOID_MAJOR, &why)->fn[0];
}

TEST(CPlugin, DeclinesAnotherMajor) {
  const char* why = nullptr;
  EXPECT_EQ(hello(CUBOID_MAJOR + 1, &why), nullptr);
  EXPECT_NE(why, nullptr);
}

TEST(CPlugin, RunsInTheSameHostAsCpp) {
  const Array x = Array::of<double>({5}, {1, 2, 3, 4, 5});
  for (const Layout layout : {Layout::contiguous, Layout::padded, Layout::reversed, Layout::sparse}) {
    test_host::Options options = test_host::blocks({{"n", 2}});
    options.layout = layout;
    const auto report = test_host::run(kScale, scale(), {x}, {{"factor", 3.0}}, options);
    ASSERT_EQ(report.status, CUBOID_OK) << report.message;
    EXPECT_EQ(report.out[0].values<double>(), (std::vector<double>{3, 6, 9, 12, 15}));
    EXPECT_EQ(report.peak, 64u);
    EXPECT_LE(report.peak, report.declared);
    EXPECT_FALSE(report.overrun);
  }
}

TEST(CPlugin, PassesARefusalOn) {
  const Array x = Array::of<double>({100}, std::vector<double>(100, 1.0));
  const auto report = test_host::run(kScale, scale(), {x}, {}, test_host::limited(500));
  EXPECT_EQ(report.status, CUBOID_E_BUDGET);
  EXPECT_EQ(report.needed_bytes, 832u);  // 800 rounded up to a multiple of 64
  EXPECT_TRUE(report.out.empty());
}

}  // namespace
}  // namespace cuboid
