#include "engine/plugin/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/error.h"

namespace cuboid {
namespace {

using Form = ExtentPattern::Form;

TEST(Signature, ReadsArraysTypesAndExtents) {
  const Signature s =
      parse_signature("x:T[y, x], w:f8[k,3] -> rows:f8[<=ceil(y/3)*min(x, 4), 6], labels:i4[y,x], n:u1[]");
  ASSERT_EQ(s.inputs.size(), 2u);
  ASSERT_EQ(s.outputs.size(), 3u);
  EXPECT_THAT(s.axes, testing::ElementsAre("y", "x", "k"));
  EXPECT_EQ(s.inputs[0].variable, "T");
  EXPECT_EQ(s.inputs[1].dtype, kFloat64);
  EXPECT_EQ(s.inputs[1].extents[1].form, Form::fixed);
  EXPECT_EQ(s.inputs[1].extents[1].fixed, 3);
  EXPECT_TRUE(s.outputs[0].data_dependent());
  EXPECT_EQ(s.outputs[0].extents[0].form, Form::bound);
  EXPECT_EQ(s.outputs[0].extents[0].formula.count({{"y", 10}, {"x", 10}}), 16);
  EXPECT_EQ(s.outputs[0].extents[1].formula.count({}), 6);
  EXPECT_EQ(s.outputs[1].extents[0].axis, "y");
  EXPECT_EQ(s.outputs[1].dtype, kInt32);
  EXPECT_TRUE(s.outputs[2].extents.empty());
}

TEST(Signature, TellsBoundsGuessesAndWhatCodeMustSay) {
  EXPECT_EQ(parse_signature("x:f8[n]->y:f8[~<=n/2]").outputs[0].extents[0].form, Form::guess);
  EXPECT_EQ(parse_signature("x:f8[n]->y:f8[?]").outputs[0].extents[0].form, Form::inferred);
  EXPECT_EQ(parse_signature("x:f8[n]->y:f8[n > 3 ? n : 3]").outputs[0].extents[0].form, Form::exact);
  EXPECT_TRUE(parse_signature("-> y:f8[3]").inputs.empty());
}

TEST(Signature, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "->",
                           "x:f8[n]",
                           "x:f8[n] ->",
                           "x:f8[n] - > y:f8[n]",
                           "x:f8 -> y:f8[n]",
                           "x:f8[n -> y:f8[n]",
                           "x[n] -> y:f8[n]",
                           ":f8[n] -> y:f8[n]",
                           "x:f9[n] -> y:f8[n]",
                           "x:f8[] -> y:f8[<=]",
                           "x:f8[n,] -> y:f8[n]",
                           "x:f8[,n] -> y:f8[n]",
                           "x:f8[<=n] -> y:f8[n]",
                           "x:f8[n+1] -> y:f8[n]",
                           "x:f8[n] -> y:f8[n, <=n]",
                           "x:f8[n] -> y:f8[n] z",
                           "x:f8[n] -> y:U[n]",
                           "x:f8[n], x:f8[n] -> y:f8[n]",
                           "x:f8[n] -> x:f8[n]",
                           "x:f8[min] -> y:f8[3]",
                           "x:f8[halo_y] -> y:f8[3]",
                           "x:f8[size_T] -> y:f8[3]",
                           "X:f8[n] -> y:f8[n]",
                           "x:f8[N] -> y:f8[3]",
                           "x:f8[9007199254740993] -> y:f8[3]",
                           "x:f8[-1] -> y:f8[3]",
                           "x:f8[n] -> y:f8[n",
                           "x:f8[n] -> y:f8[(n]",
                           "x:f8[a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q] -> y:f8[a]",
                           "x:T_x[n] -> y:f8[n]",
                           "x:f8[n],, -> y:f8[n]"}) {
    EXPECT_THROW(parse_signature(text), Error) << text;
  }
  std::string many = "a:f8[n]";
  for (int k = 0; k < 16; ++k) many += ", a" + std::to_string(k) + ":f8[n]";
  EXPECT_THROW(parse_signature(many + " -> y:f8[n]"), Error);
  EXPECT_THROW(parse_signature(std::string(5000, ' ') + "x:f8[n] -> y:f8[n]"), Error);
}

TEST(Signature, ReadsPartials) {
  const std::vector<ArrayPattern> partials = parse_partials("sums:f8[3], hist:i8[bins]");
  ASSERT_EQ(partials.size(), 2u);
  EXPECT_EQ(partials[1].extents[0].formula.text(), "bins");
  EXPECT_THROW(parse_partials("sums:f8[<=3]"), Error);
  EXPECT_THROW(parse_partials("a:f8[1] -> b:f8[1]"), Error);
}

TEST(Signature, KnowsTheCodesOfElementTypes) {
  EXPECT_EQ(dtype_from_code("c16"), kComplex128);
  EXPECT_EQ(dtype_from_code("b1"), kBool);
  EXPECT_EQ(dtype_from_code("u8"), kUint64);
  EXPECT_FALSE(dtype_from_code("f2"));
  for (const char* code : {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"})
    EXPECT_EQ(dtype_code(*dtype_from_code(code)), code);
}

}  // namespace
}  // namespace cuboid
