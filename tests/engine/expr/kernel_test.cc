// What kernels tell the planner, and the messages of what they refuse.
#include "engine/expr/kernel.h"

#include <gtest/gtest.h>

#include <cstring>

#include "evaluate.h"
#include "storage/error.h"

namespace cuboid {
namespace {

KernelSpec spec(std::string function, std::vector<std::variant<ArraySpec, Scalar>> args, Params params = {}) {
  KernelSpec made;
  made.function = std::move(function);
  made.args = std::move(args);
  made.params = std::move(params);
  return made;
}
std::shared_ptr<const Kernel> resolve(const KernelSpec& call) { return resolve_kernel({&builtin_kernels()}, call); }
ArraySpec f64(Shape shape) { return ArraySpec(kFloat64, shape); }

std::string message_of(const KernelSpec& call) {
  try {
    resolve(call)->check_extents();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(Elementwise, BroadcastInputsNeedTheirOwnPart) {
  const auto add = resolve(spec("add", {f64({100, 80}), f64({80})}));
  EXPECT_EQ(add->domain(), (Shape{100, 80}));
  EXPECT_TRUE(add->input_is_block(0));
  EXPECT_FALSE(add->input_is_block(1));
  const Box block{{20, 30}, {10, 40}};
  EXPECT_EQ(add->input_box(0, block), block);
  EXPECT_EQ(add->input_box(1, block), (Box{{30}, {40}}));
  EXPECT_EQ(add->input_extents(1, {10, 40}), (Shape{40}));
  EXPECT_EQ(add->memory(Phase::map, {10, 40}).sure, 0u);
  EXPECT_EQ(add->identity(), "add#1");
}

TEST(Elementwise, BlockFollowsTheLargestInput) {
  const auto add = resolve(spec("add", {f64({100, 80}), f64({100, 80})}));
  EXPECT_EQ(add->preferred_block({{10, 80}, {50, 20}}), (Shape{10, 80}));
  const auto outer = resolve(spec("multiply", {f64({100, 1}), f64({80})}));
  EXPECT_EQ(outer->preferred_block({{30, 1}, {25}}), (Shape{30, 25}));
  const auto empty = resolve(spec("add", {f64({0, 5}), f64({5})}));
  EXPECT_EQ(empty->preferred_block({{1, 5}, {5}}), (Shape{1, 5}));
}

TEST(Elementwise, BoundedExtentsStayBounds) {
  ArraySpec ragged(kFloat64, {100, 6});
  ragged.extents[0].trust = Trust::bound;
  const auto add = resolve(spec("add", {ragged, Scalar(1.0)}));
  EXPECT_EQ(add->outputs()[0].spec, ragged);
  const auto sum = resolve(spec("sum", {ragged}, {{"axis", std::int64_t{1}}}));
  EXPECT_EQ(sum->outputs()[0].spec.extents, (std::vector<Extent>{{100, Trust::bound}}));
}

TEST(Reduction, TellsStatesAndOutputBoxes) {
  const auto mean =
      resolve(spec("mean", {ArraySpec(kFloat32, {10, 20, 30})}, {{"axis", std::vector<std::int64_t>{2, 0}}}));
  ASSERT_NE(mean->reduction(), nullptr);
  EXPECT_EQ(mean->reduction()->axes, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(mean->reduction()->states, std::vector<DType>{kFloat64});
  EXPECT_EQ(mean->outputs()[0].spec, ArraySpec(kFloat32, {20}));
  EXPECT_EQ(mean->domain(), (Shape{10, 20, 30}));
  EXPECT_EQ(mean->output_box(0, {{5, 4, 0}, {5, 8, 30}}), (Box{{4}, {8}}));
  const auto kept = resolve(spec("max", {f64({10, 20})}, {{"axis", std::int64_t{-1}}, {"keepdims", true}}));
  EXPECT_EQ(kept->output_box(0, {{5, 4}, {5, 8}}), (Box{{5, 0}, {5, 1}}));
}

// 2^24 + 1 ones do not add up in float32.
TEST(Reduction, Float32IsAccumulatedInFloat64) {
  const std::int64_t n = (1 << 24) + 2;
  const std::vector<float> one{1.0F};
  const TestArray ones = test_array(kFloat32, {1}, one);
  const ConstView view{kFloat32, ones.bytes.data(), {n}, {0}};
  const auto sum = resolve(spec("sum", {ArraySpec(kFloat32, {n})}));
  const TestArray result = evaluate(*sum, {view});
  float value = 0;
  std::memcpy(&value, result.bytes.data(), sizeof value);
  EXPECT_EQ(value, static_cast<float>(n));
}

TEST(Rechunk, IsTheSameArray) {
  const auto rechunk = resolve(spec("rechunk", {f64({100, 80})}, {{"chunks", std::vector<std::int64_t>{10, 200}}}));
  EXPECT_TRUE(rechunk->identity_map());
  EXPECT_EQ(rechunk->preferred_block({{50, 50}}), (Shape{10, 80}));
  EXPECT_FALSE(resolve(spec("astype", {f64({3})}, {{"dtype", "int8"}}))->identity_map());
}

TEST(Creation, LargeArraysComeInBlocks) {
  const auto zeros = resolve(spec("zeros", {}, {{"shape", std::vector<std::int64_t>{100000, 50000}}}));
  const Shape block = zeros->preferred_block({});
  EXPECT_LE(block[0] * block[1] * 8, 8 << 20);
  EXPECT_GE(block[0] * block[1] * 8, 2 << 20);
}

TEST(Messages, SayWhatWasExpected) {
  EXPECT_EQ(message_of(spec("maen", {f64({3})})),
            "no function is called \"maen\", did you mean \"mean\"? (`cuboid functions` lists them all)");
  EXPECT_EQ(message_of(spec("mean", {f64({3, 4})}, {{"axsi", std::int64_t{1}}})),
            "mean: no parameter is called \"axsi\", did you mean \"axis\"? (it takes: axis, keepdims)");
  EXPECT_EQ(message_of(spec("mean", {f64({3, 4})}, {{"axis", std::int64_t{2}}})),
            "mean: parameter \"axis\": axis 2 is out of range for an array of 2 axes, expected -2 to 1");
  EXPECT_EQ(message_of(spec("mean", {f64({3, 4})}, {{"keepdims", std::string("yes")}})),
            "mean: parameter \"keepdims\" must be true or false, the string \"yes\" is given");
  EXPECT_EQ(message_of(spec("add", {f64({3})})), "add: expected 2 arguments, 1 is given");
  EXPECT_EQ(message_of(spec("add", {f64({3}), f64({4})})),
            "add: the shapes (3) and (4) do not broadcast: from the last axis on, extents must be equal or 1");
  EXPECT_EQ(message_of(spec("add", {ArraySpec(kUint8, {3}), Scalar(std::int64_t{300})})),
            "add: the number 300 is not a value of uint8, the type of the arrays it meets; convert them with astype "
            "first");
  EXPECT_EQ(message_of(spec("bitwise_and", {f64({3}), f64({3})})),
            "bitwise_and: not defined for the given types (float64, float64)");
  EXPECT_EQ(message_of(spec("sum", {Scalar(1.0)})), "sum: argument 0 must be an array, the number 1 is given");
  EXPECT_EQ(message_of(spec("min", {f64({0, 3})}, {{"axis", std::int64_t{0}}})),
            "min: axis 0 has no elements, and there is no min of nothing");
}

TEST(Messages, OfTooFewArgumentsAreOfEveryFunction) {
  for (const FunctionDoc& doc : builtin_kernels().functions()) {
    try {
      resolve(spec(doc.name, {}));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid) << doc.name;
    } catch (const std::exception& error) {
      ADD_FAILURE() << doc.name << ": " << error.what();
    }
  }
}

TEST(NearestName, IsOfferedOnlyWhenNear) {
  const std::vector<std::string> names{"add", "subtract", "logical_and"};
  EXPECT_EQ(nearest_name("substract", names), "subtract");
  EXPECT_EQ(nearest_name("dad", names), "add");
  EXPECT_EQ(nearest_name("logicaland", names), "logical_and");
  EXPECT_EQ(nearest_name("gaussian", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(5000, 'a'), names), std::nullopt);
}

TEST(Functions, AreDocumented) {
  for (const FunctionDoc& doc : builtin_kernels().functions()) {
    EXPECT_FALSE(doc.signature.empty()) << doc.name;
    EXPECT_FALSE(doc.doc.empty()) << doc.name;
    EXPECT_EQ(doc.signature.substr(0, doc.name.size() + 1), doc.name + "(");
    for (const ParamDoc& param : doc.params) EXPECT_FALSE(param.doc.empty()) << doc.name << "." << param.name;
  }
}

}  // namespace
}  // namespace cuboid
