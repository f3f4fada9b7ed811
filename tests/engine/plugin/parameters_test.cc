#include "engine/plugin/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "manifest_text.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using testing::HasSubstr;

FunctionManifest function() {
  FunctionText text;
  text.params = R"([{"name": "flag", "type": "bool", "default": true},
    {"name": "count", "type": "int", "default": 3, "min": 1, "max": 9},
    {"name": "sigma", "type": "float", "required": true, "min": 0},
    {"name": "kind", "type": "string", "default": "a", "choices": ["a", "b"]},
    {"name": "sizes", "type": "float[]", "default": [1, 2.5], "max_items": 3, "max": 10}])";
  text.regions = R"({"kind": "halo", "halo": {"n": "count"}, "modes": ["reflect", "constant"], "default": "reflect"})";
  return parse_manifest(manifest_text(text)).functions[0];
}

std::string complaint(const Params& given) {
  try {
    bind_params(function(), given);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.message(), HasSubstr("demo.above/1"));
    return error.message();
  }
  return "accepted";
}

TEST(Parameters, AreDefaultedConvertedAndInOrder) {
  const BoundParams bound = bind_params(function(), {{"sigma", std::int64_t{2}}});
  ASSERT_EQ(bound.values.size(), 5u);
  EXPECT_EQ(bound.values[0], ParamValue(true));
  EXPECT_EQ(bound.values[1], ParamValue(std::int64_t{3}));
  EXPECT_EQ(bound.values[2], ParamValue(2.0));  // an integer where a float is expected
  EXPECT_EQ(bound.values[4], ParamValue(std::vector<double>{1, 2.5}));
  EXPECT_EQ(bound.boundary, BoundaryMode::reflect);
  const auto numbers = bound.numbers(function());
  EXPECT_EQ(numbers.size(), 3u);
  EXPECT_EQ(numbers.at("flag"), 1);
  EXPECT_EQ(numbers.at("count"), 3);
  EXPECT_EQ(numbers.at("sigma"), 2);
}

TEST(Parameters, TheHostAddsTheBoundary) {
  const BoundParams bound = bind_params(
      function(), {{"sigma", 1.0}, {"boundary", std::string("constant")}, {"boundary_value", std::int64_t{4}}});
  EXPECT_EQ(bound.boundary, BoundaryMode::constant);
  EXPECT_EQ(bound.boundary_value, 4);
  EXPECT_EQ(bound.values.size(), 5u);  // the plugin sees neither
  EXPECT_EQ(user_params(function()).size(), 7u);
  EXPECT_THAT(complaint({{"sigma", 1.0}, {"boundary", std::string("wrap")}}),
              HasSubstr("expected string of \"reflect\""));
}

TEST(Parameters, WhatDoesNotFitIsRefusedWithWhatWould) {
  const ParamValue one = 1.0;
  EXPECT_THAT(complaint({}), HasSubstr("needs the parameter sigma: float from 0"));
  EXPECT_THAT(complaint({{"sigma", one}, {"sgima", one}}), HasSubstr("no parameter \"sgima\", did you mean sigma?"));
  EXPECT_THAT(complaint({{"sigma", -1.0}}), HasSubstr("parameter sigma is -1, expected float from 0"));
  EXPECT_THAT(complaint({{"sigma", std::numeric_limits<double>::quiet_NaN()}}), HasSubstr("is nan"));
  EXPECT_THAT(complaint({{"sigma", std::numeric_limits<double>::infinity()}}), HasSubstr("is inf"));
  EXPECT_THAT(complaint({{"sigma", std::string("2")}}), HasSubstr("is \"2\", expected float"));
  EXPECT_THAT(complaint({{"sigma", std::monostate{}}}), HasSubstr("is null"));
  EXPECT_THAT(complaint({{"sigma", one}, {"count", 3.0}}), HasSubstr("expected int from 1 to 9"));
  EXPECT_THAT(complaint({{"sigma", one}, {"count", std::int64_t{10}}}), HasSubstr("is 10, expected int from 1 to 9"));
  EXPECT_THAT(complaint({{"sigma", one}, {"flag", std::int64_t{1}}}), HasSubstr("expected bool"));
  EXPECT_THAT(complaint({{"sigma", one}, {"kind", std::string("c")}}), HasSubstr("expected string of \"a\" \"b\""));
  EXPECT_THAT(complaint({{"sigma", one}, {"sizes", std::vector<double>{1, 11}}}), HasSubstr("sizes is [1, 11]"));
  EXPECT_THAT(complaint({{"sigma", one}, {"sizes", std::vector<std::int64_t>{1, 1, 1, 1}}}), HasSubstr("3 entries"));
  EXPECT_THAT(complaint({{"sigma", one}, {"sizes", std::vector<std::string>{"a"}}}), HasSubstr("float[]"));
  EXPECT_EQ(complaint({{"sigma", one}, {"sizes", std::vector<std::int64_t>{}}}), "accepted");
}

}  // namespace
}  // namespace cuboid
