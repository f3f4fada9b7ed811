#include "engine/plugin/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manifest_text.h"
#include "storage/buffer.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using testing::HasSubstr;

const char* kSmooth = R"({"id": "demo.smooth/1", "doc": "d", "signature": "x:T[y,x], w:f8[k] -> s:T[y,x]",
  "types": {"T": ["f4", "f8"]},
  "params": [{"name": "r", "type": "int", "default": 2, "min": 0}],
  "regions": {"kind": "halo", "halo": {"y": "r"}, "modes": ["reflect", "clip", "wrap", "constant"], "default": "reflect"},
  "memory": {"call_bytes": {"expr": "size_T*(y+2*halo_y)*x", "trust": "bound"},
             "outside_bytes": {"expr": "0", "trust": "exact"}}})";
const char* kSources =
    R"({"id": "demo.sources/1", "doc": "d", "signature": "x:f8[y,x] -> rows:f8[<=ceil(y/3)*ceil(x/3), 6]",
  "memory": {"call_bytes": {"expr": "100*y", "trust": "guess"}, "state_bytes": {"expr": "800", "trust": "exact"},
             "outside_bytes": {"expr": "1000", "trust": "bound"}}})";

FunctionManifest function(const std::string& json) { return parse_manifest(manifest_text(json)).functions[0]; }

KernelSpec spec_of(std::vector<ArraySpec> inputs, Params params = {}) {
  KernelSpec spec;
  for (ArraySpec& input : inputs) spec.args.emplace_back(std::move(input));
  spec.params = std::move(params);
  return spec;
}

KernelSpec smooth_spec(Params params = {}) {
  return spec_of({ArraySpec(kFloat32, {100, 50}), ArraySpec(kFloat64, {5})}, std::move(params));
}

std::string complaint(const FunctionManifest& f, const KernelSpec& spec) {
  try {
    Binding(f, spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    return error.message();
  }
  return "accepted";
}

TEST(Binding, TilesOutputsAndReadsOtherAxesWhole) {
  const FunctionManifest f = function(kSmooth);
  const Binding b(f, smooth_spec());
  EXPECT_EQ(b.domain(), (Shape{100, 50}));
  EXPECT_EQ(b.whole_axes(), (std::vector<bool>{false, false}));
  EXPECT_EQ(b.outputs()[0].name, "s");
  EXPECT_EQ(b.outputs()[0].spec, ArraySpec(kFloat32, {100, 50}));
  const Box block{{40, 10}, {20, 10}};
  EXPECT_EQ(b.interior(0, block), block);
  EXPECT_EQ(b.wanted(0, block), (Box{{38, 10}, {24, 10}}));
  EXPECT_EQ(b.input_box(0, block), (Box{{38, 10}, {24, 10}}));
  EXPECT_EQ(b.input_box(1, block), (Box{{0}, {5}}));
  EXPECT_EQ(b.input_extents(0, block.shape), (Shape{24, 10}));
  EXPECT_EQ(b.input_extents(1, block.shape), (Shape{5}));
  EXPECT_EQ(b.output_box(0, block), block);
  EXPECT_FALSE(b.input_is_block(0));
  EXPECT_FALSE(b.input_is_block(1));
}

TEST(Binding, ClipsReadingAtTheBorderAndPadsOrNot) {
  const FunctionManifest f = function(kSmooth);
  const Box first{{0, 0}, {20, 50}}, last{{80, 0}, {20, 50}};
  const Binding reflect(f, smooth_spec());
  EXPECT_EQ(reflect.wanted(0, first), (Box{{-2, 0}, {24, 50}}));
  EXPECT_EQ(reflect.input_box(0, first), (Box{{0, 0}, {22, 50}}));
  EXPECT_EQ(reflect.input_box(0, last), (Box{{78, 0}, {22, 50}}));
  const Binding clip(f, smooth_spec({{"boundary", std::string("clip")}}));
  EXPECT_EQ(clip.wanted(0, first), (Box{{0, 0}, {22, 50}}));
  EXPECT_EQ(clip.input_box(0, first), (Box{{0, 0}, {22, 50}}));
  const Binding wrap(f, smooth_spec({{"boundary", std::string("wrap")}}));
  EXPECT_EQ(wrap.input_box(0, first), (Box{{0, 0}, {100, 50}}));  // the other end lies there
  EXPECT_EQ(wrap.input_box(0, Box{{40, 0}, {20, 50}}), (Box{{38, 0}, {24, 50}}));
  EXPECT_EQ(wrap.input_extents(0, {20, 50}), (Shape{100, 50}));
  EXPECT_TRUE(Binding(f, smooth_spec({{"r", std::int64_t{0}}})).input_is_block(0));
}

TEST(Binding, InputExtentsBoundEveryBlock) {
  const FunctionManifest f = function(kSmooth);
  for (const char* mode : {"reflect", "clip", "wrap", "constant"}) {
    for (const std::int64_t r : {0, 1, 7, 60, 200}) {
      const Binding b(f, smooth_spec({{"r", r}, {"boundary", std::string(mode)}}));
      const Shape block = {13, 50}, bound = b.input_extents(0, block);
      for (std::int64_t at = 0; at < 100; at += 13) {
        const Box box = b.input_box(0, Box{{at, 0}, {std::min<std::int64_t>(13, 100 - at), 50}});
        EXPECT_LE(box.shape[0], bound[0]) << mode << r;
        EXPECT_GE(box.origin[0], 0);
        EXPECT_LE(box.end(0), 100);
      }
    }
  }
}

TEST(Binding, CountsMemoryWithPaddingAndRounding) {
  const FunctionManifest f = function(kSmooth);
  const Shape block = {20, 50};
  const std::uint64_t formula = 4 * 24 * 50;  // size_T * (y + 2 halo_y) * x
  const CallMemory clip = Binding(f, smooth_spec({{"boundary", std::string("clip")}})).memory(block);
  EXPECT_EQ(clip.sure, formula + formula / 8);
  EXPECT_EQ(clip.uncertain, 0u);
  EXPECT_EQ(clip.outside, 0u);
  EXPECT_FALSE(clip.unknown);
  const CallMemory reflect = Binding(f, smooth_spec()).memory(block);
  EXPECT_EQ(reflect.sure, clip.sure + class_bytes(4 * 24 * 50));
  EXPECT_EQ(Binding(f, smooth_spec()).promised_bytes(f.call_bytes, block), formula);
}

TEST(Binding, SumsUpSureAndUncertainBytes) {
  const FunctionManifest f = function(kSources);
  const KernelSpec spec = spec_of({ArraySpec(kFloat64, {30, 30})});
  const Binding b(f, spec);
  const CallMemory memory = b.memory({8, 30});
  EXPECT_EQ(memory.sure, 900u);               // the state, exact
  EXPECT_EQ(memory.uncertain, 900u + 1000u);  // guessed bytes; all that goes past the host
  EXPECT_EQ(memory.outside, 1000u);
  EXPECT_FALSE(b.promised_bytes(f.call_bytes, {8, 30}));

  KernelSpec own = spec;
  own.extra_memory = 5000;
  const CallMemory replaced = Binding(f, own).memory({8, 30});
  EXPECT_EQ(replaced.sure, 900u);
  EXPECT_EQ(replaced.uncertain, 5000u);
  EXPECT_EQ(replaced.outside, 5000u);
}

TEST(Binding, UnknownBytesAreNobodysNumber) {
  FunctionText text;
  text.memory = R"({"call_bytes": {"expr": "unknown"}, "outside_bytes": {"expr": "0", "trust": "exact"}})";
  const FunctionManifest f = function(text.json());
  const KernelSpec spec = spec_of({ArraySpec(kFloat64, {30})});
  EXPECT_TRUE(Binding(f, spec).memory({30}).unknown);
  KernelSpec own = spec;
  own.extra_memory = 5000;
  EXPECT_FALSE(Binding(f, own).memory({30}).unknown);
  EXPECT_EQ(Binding(f, own).memory({30}).outside, 0u);
}

TEST(Binding, DataDependentOutputsAreRaggedUnderTheirBound) {
  const FunctionManifest f = function(kSources);
  KernelSpec spec = spec_of({ArraySpec(kFloat64, {30, 31})});
  const Binding b(f, spec);
  EXPECT_EQ(b.outputs()[0].ragged_axis, 0u);
  EXPECT_EQ(b.outputs()[0].spec.extents[0], (Extent{110, Trust::bound}));
  EXPECT_EQ(b.outputs()[0].spec.extents[1], (Extent{6, Trust::exact}));
  EXPECT_EQ(b.output_extents(0, {10, 31}), (Shape{44, 6}));
  EXPECT_EQ(b.promised_rows(0, {10, 31}), 44);

  spec.max_shape[0] = {20, 6};
  const Binding user(f, spec);
  EXPECT_EQ(user.outputs()[0].spec.extents[0].trust, Trust::guess);
  EXPECT_EQ(user.output_extents(0, {10, 31}), (Shape{20, 6}));
  EXPECT_EQ(user.output_extents(0, {3, 31}), (Shape{11, 6}));  // more than the promise is never needed
  EXPECT_EQ(user.promised_rows(0, {10, 31}), 44);
}

TEST(Binding, ABoundIsAMatterOfBlocksHoweverLargeTheArray) {
  FunctionText text;
  text.signature = "x:T[n] -> pairs:T[<=n*(n-1)/2]";
  const FunctionManifest f = function(text.json());
  const Binding b(f, spec_of({ArraySpec(kFloat64, {4000000000})}));
  EXPECT_EQ(b.outputs()[0].spec.extents[0], (Extent{std::int64_t{1} << 53, Trust::bound}));
  EXPECT_EQ(b.output_extents(0, {10}), (Shape{45}));
}

TEST(Binding, GuessedAxesMakeWhatFollowsAGuess) {
  const FunctionManifest f = function(FunctionText{}.json());
  ArraySpec guessed(kFloat64, {1000});
  guessed.extents[0].trust = Trust::guess;
  const Binding b(f, spec_of({guessed}));
  EXPECT_EQ(b.outputs()[0].spec.extents[0], (Extent{1000, Trust::guess}));
}

TEST(Binding, ReductionsHaveTheirAxisWhole) {
  const FunctionManifest f = function(R"({"id": "demo.sum/1", "doc": "d", "signature": "x:f8[y,x] -> s:f8[x]",
    "memory": {"call_bytes": {"expr": "8*y", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}})");
  const Binding b(f, spec_of({ArraySpec(kFloat64, {30, 40})}));
  EXPECT_EQ(b.whole_axes(), (std::vector<bool>{true, false}));
  EXPECT_EQ(b.output_box(0, Box{{0, 8}, {30, 4}}), (Box{{8}, {4}}));
  EXPECT_EQ(b.output_extents(0, {30, 4}), (Shape{4}));
}

TEST(Binding, RefusesArgumentsWithWhatWasExpected) {
  const FunctionManifest smooth = function(kSmooth), sources = function(kSources);
  const ArraySpec image(kFloat32, {100, 50}), weights(kFloat64, {5});
  EXPECT_THAT(complaint(smooth, spec_of({image})), HasSubstr("got 1 arrays, expected 2"));
  EXPECT_THAT(complaint(smooth, spec_of({weights, weights})), HasSubstr("argument 1 (x) has 1 axes, expected 2"));
  EXPECT_THAT(complaint(smooth, spec_of({ArraySpec(kInt16, {3, 3}), weights})),
              HasSubstr("argument 1 (x) is int16, expected one of float32, float64"));
  EXPECT_THAT(complaint(smooth, spec_of({image, ArraySpec(kInt8, {5})})), HasSubstr("is int8, expected float64"));
  KernelSpec number = spec_of({image});
  number.args.emplace_back(Scalar(3.0));
  EXPECT_THAT(complaint(smooth, number), HasSubstr("argument 2 is a number, expected an array"));
  EXPECT_THAT(complaint(smooth, smooth_spec({{"r", std::int64_t{1} << 41}})), HasSubstr("too large"));
  EXPECT_THAT(complaint(smooth, smooth_spec({{"radius", std::int64_t{1}}})), HasSubstr("no parameter \"radius\""));

  KernelSpec spec = spec_of({ArraySpec(kFloat64, {30, 30})});
  spec.max_shape[1] = {20, 6};
  EXPECT_THAT(complaint(sources, spec), HasSubstr("max_shape of output 1"));
  spec.max_shape = {{0, {20}}};
  EXPECT_THAT(complaint(sources, spec), HasSubstr("expected 2 extents"));
  spec.max_shape = {{0, {20, 5}}};
  EXPECT_THAT(complaint(sources, spec), HasSubstr("expected 6 along axis 1"));
  KernelSpec aligned = smooth_spec();
  aligned.max_shape[0] = {100, 50};
  EXPECT_THAT(complaint(smooth, aligned), HasSubstr("no extent that depends on data"));
}

TEST(Binding, NamedAxesMustAgree) {
  const FunctionManifest f =
      function(R"({"id": "demo.add/1", "doc": "d", "signature": "a:f8[y,x], b:f8[y,x], c:u1[y,3] -> s:f8[y,x]",
    "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}})");
  const auto with = [&](Shape b, Shape c) {
    return complaint(f, spec_of({ArraySpec(kFloat64, {4, 5}), ArraySpec(kFloat64, b), ArraySpec(kUint8, c)}));
  };
  EXPECT_EQ(with({4, 5}, {4, 3}), "accepted");
  EXPECT_THAT(with({4, 6}, {4, 3}), HasSubstr("argument 2 (b) has extent 6 along x, expected 5"));
  EXPECT_THAT(with({4, 5}, {4, 2}), HasSubstr("argument 3 (c) has extent 2 along axis 1, expected exactly 3"));
  const Binding b(f, spec_of({ArraySpec(kFloat64, {4, 5}), ArraySpec(kFloat64, {4, 5}), ArraySpec(kUint8, {4, 3})}));
  EXPECT_EQ(b.input_box(2, Box{{1, 2}, {2, 2}}), (Box{{1, 0}, {2, 3}}));
  EXPECT_TRUE(b.input_is_block(1));
  EXPECT_FALSE(b.input_is_block(2));
}

TEST(Binding, FormulasThatCannotBeEvaluatedAreErrorsOfThePlan) {
  FunctionText text;
  text.memory =
      R"-({"call_bytes": {"expr": "8/(n-5)", "trust": "bound"}, "outside_bytes": {"expr": "0", "trust": "exact"}})-";
  const FunctionManifest f = function(text.json());
  const Binding b(f, spec_of({ArraySpec(kFloat64, {30})}));
  try {
    b.memory({5});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), f.id + ": formula '8/(n-5)': divides by zero");
  }
}

TEST(Binding, WhatNeedsCodeToPlanIsUnsupported) {
  FunctionText text;
  text.signature = "x:T[n] -> y:T[?]";
  try {
    const FunctionManifest f = function(text.json());
    Binding(f, spec_of({ArraySpec(kFloat64, {30})}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

}  // namespace
}  // namespace cuboid
