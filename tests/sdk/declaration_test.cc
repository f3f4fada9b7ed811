// The manifest that plugin.hpp generates, read back, and the grammar behind it.
#include <gtest/gtest.h>

#include <cstring>
#include <cuboid/plugin.hpp>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace cuboid {
namespace {

using sdk::Delivery;
using sdk::detail::Formula;

struct Names {
  std::map<std::string, double> values;
  bool operator()(sdk::Text name, double& value) const {
    const auto found = values.find(std::string(name));
    if (found != values.end()) value = found->second;
    return found != values.end();
  }
};
double value(sdk::Text formula, const Names& names = {}) { return Formula<Names>(formula, names, true).value(); }

TEST(SdkFormula, Arithmetic) {
  EXPECT_EQ(value("1 + 2*3 - 4/8"), 6.5);
  EXPECT_EQ(value("(1+2)*3"), 9);
  EXPECT_EQ(value("2 - 3 - 4"), -5);
  EXPECT_EQ(value("64/4/2"), 8);
  EXPECT_EQ(value("-2 * -3"), 6);
  EXPECT_EQ(value("1.5e3 + 25e-2"), 1500.25);
  EXPECT_EQ(value("min(4, 2, 3) + max(1, 5)"), 7);
  EXPECT_EQ(value("floor(2.5) + ceil(2.5) + log2(8)"), 8);
}

TEST(SdkFormula, ComparisonsAndConditions) {
  EXPECT_EQ(value("1 < 2"), 1);
  EXPECT_EQ(value("1 >= 2"), 0);
  EXPECT_EQ(value("2 == 2"), 1);
  EXPECT_EQ(value("2 != 2"), 0);
  EXPECT_EQ(value("3 > 2 ? 10 : 20"), 10);
  EXPECT_EQ(value("0 ? 1 : 0 ? 2 : 3"), 3);
  EXPECT_EQ(value("1 ? 7 : 1/0"), 7);  // only the chosen branch counts
  EXPECT_TRUE(std::isnan(value("1/0")));
  EXPECT_TRUE(std::isnan(value("log2(0)")));
  EXPECT_TRUE(std::isnan(value("min(1, 1/0)")));
}

TEST(SdkFormula, NamesAndMistakes) {
  const Names names{{{"y", 100}, {"halo_y", 3}}};
  EXPECT_EQ(value("8*(y + 2*halo_y)", names), 848);
  for (const char* bad :
       {"", "1 +", "(1", "1)", "z", "min()", "floor(1, 2)", "1 2", "a.b", "sin(1)", "1e", "1.", "--1", "1e99"})
    EXPECT_THROW(value(bad, names), std::invalid_argument) << bad;
  EXPECT_THROW(value(std::string(40, '(') + "1" + std::string(40, ')')), std::invalid_argument);
}

TEST(SdkSignature, IsTakenApart) {
  const auto s =
      sdk::detail::parse_signature("x:T[y, 3], w:f8[] -> rows:f8[<= max(y, 2)*ceil(y/3), 6], l:i4[~<=y], z:c16[?]");
  ASSERT_EQ(s.n_in, 2u);
  ASSERT_EQ(s.n_out, 3u);
  EXPECT_EQ(s.arrays[0].rank, 2);
  EXPECT_EQ(s.arrays[0].extent[1], "3");
  EXPECT_EQ(s.arrays[1].rank, 0);
  EXPECT_EQ(s.out(0).extent[0], "max(y, 2)*ceil(y/3)");
  EXPECT_EQ(s.out(0).kind, sdk::detail::Extent::bound);
  EXPECT_EQ(s.out(1).kind, sdk::detail::Extent::guess);
  EXPECT_EQ(s.out(2).kind, sdk::detail::Extent::callback);
}

TEST(SdkSignature, MistakesAreRefused) {
  for (const char* bad :
       {"", "x:f8[n]", "x f8[n] -> y:f8[n]", "x:f9[n] -> y:f8[n]", "x:f8[n -> y:f8[n]", "x:f8[<=n] -> y:f8[n]",
        "x:f8[n] -> y:f8[n, <=n]", "x:f8[n], x:f8[n] -> y:f8[n]", "x:f8[N] -> y:f8[1]", "x:f8[,] -> y:f8[1]",
        "x:f8[n] -> y:f8[n];", "x:f8[min] -> y:f8[1]", "x:f8[halo_y] -> y:f8[1]"})
    EXPECT_THROW(sdk::detail::parse_signature(bad), std::invalid_argument) << bad;
}

struct Everything {
  static constexpr auto meta =
      decl("demo.everything/12", "x:T[y,x], w:f8[k] -> rows:f8[<=y*x, 6], image:T[y,x]", "Says \"all\"\nthere is.")
          .types("T=f4|f8, U=i2")
          .param(sdk::boolean("flag", true))
          .param(sdk::integer("count", std::numeric_limits<std::int64_t>::min()).min(0).max(10))
          .param(sdk::real("small", 0.1).min(-1.5).max(2e10))
          .param(sdk::real("needed").help("Has no default."))
          .param(sdk::text("how", "fast").choices("fast|slow"))
          .param(sdk::reals("list", "[1, 2.5]").items(1, 4))
          .halo("y", "ceil(4*small)")
          .halo("x", "count")
          .modes("reflect|clip")
          .core("k")
          .call_bytes("8*(y + 2*halo_y)*size_T + k", sdk::guess)
          .state_bytes("64", sdk::exact)
          .outside_bytes("unknown")
          .output("rows", Delivery::push, "y", "1000")
          .flags(sdk::pure | sdk::state_local | sdk::fork_safe)
          .splittable("y, x")
          .example(R"({"in":[],"out":[]})");
  static void run(sdk::Call&) {}
};
struct Identity {
  static constexpr const char* name = "demo";
  static constexpr const char* version = "1.2.3";
};

TEST(SdkManifest, SaysWhatWasDeclared) {
  constexpr auto blob = sdk::detail::make_blob<Identity, Everything>();
  EXPECT_EQ(std::memcmp(blob.head.magic, CUBOID_BLOB_MAGIC, 8), 0);
  EXPECT_EQ(blob.head.head_bytes, sizeof blob.head);
  const auto m = nlohmann::json::parse(blob.json, blob.json + blob.head.json_bytes);
  EXPECT_EQ(m, nlohmann::json::parse(R"json({
    "schema": 1, "name": "demo", "version": "1.2.3", "abi": {"major": 1, "needs_minor": 0},
    "functions": [{
      "id": "demo.everything/12", "doc": "Says \"all\"\nthere is.",
      "signature": "x:T[y,x], w:f8[k] -> rows:f8[<=y*x, 6], image:T[y,x]", "types": {"T": ["f4", "f8"], "U": ["i2"]},
      "params": [
        {"name": "flag", "type": "bool", "default": true},
        {"name": "count", "type": "int", "default": -9223372036854775808, "min": 0, "max": 10},
        {"name": "small", "type": "float", "default": 0.1, "min": -1.5, "max": 20000000000},
        {"name": "needed", "type": "float", "required": true, "doc": "Has no default."},
        {"name": "how", "type": "string", "default": "fast", "choices": ["fast", "slow"]},
        {"name": "list", "type": "float[]", "default": [1, 2.5], "min_items": 1, "max_items": 4}],
      "regions": {"kind": "halo", "halo": {"y": "ceil(4*small)", "x": "count"}, "modes": ["reflect", "clip"],
                  "default": "reflect", "core": ["k"]},
      "outputs": {"rows": {"delivery": "push", "likely": "y", "slab": "1000"}},
      "memory": {"call_bytes": {"expr": "8*(y + 2*halo_y)*size_T + k", "trust": "guess"},
                 "state_bytes": {"expr": "64", "trust": "exact"}, "outside_bytes": {"expr": "unknown"}},
      "flags": ["pure", "state_local", "fork_safe"], "splittable": ["y", "x"],
      "examples": [{"in": [], "out": []}]}]})json"));
}

std::string written(double number) {
  char text[64];
  sdk::detail::Sink sink{text};
  sink.number(number);
  return {text, sink.size};
}

TEST(SdkManifest, NumbersAreReadBackExactly) {
  EXPECT_EQ(written(0), "0");
  EXPECT_EQ(written(0.1), "0.1");
  EXPECT_EQ(written(-2.5), "-2.5");
  EXPECT_EQ(written(1e6), "1000000");
  for (const double number : {0.1, 1e-9, 3.14159265358979, 1e22, 123456789012345.0, 2.5e-7, 1.0 / 3, 3.141592653589793})
    EXPECT_EQ(std::stod(written(number)), number) << written(number);
  for (const double number : {1e300, 0.1 + 0.2}) EXPECT_THROW(written(number), std::invalid_argument);
}

TEST(SdkManifest, TablesAgree) {
  constexpr cuboid_fn fn = sdk::detail::make_function<Everything>();
  EXPECT_EQ(fn.size, sizeof(cuboid_fn));
  EXPECT_STREQ(fn.id, "demo.everything/12");
  EXPECT_EQ(fn.n_in, 2u);
  EXPECT_EQ(fn.n_out, 2u);
  EXPECT_EQ(fn.n_param, 6u);
  EXPECT_EQ(fn.infer, nullptr);
  EXPECT_EQ(fn.open, nullptr);
  EXPECT_NE(fn.run, nullptr);
  EXPECT_EQ(fn.merge, nullptr);
}

}  // namespace
}  // namespace cuboid
