#include "engine/plugin/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "storage/error.h"

namespace cuboid {
namespace {

const Expression::Variables kNames = {{"y", 10}, {"x", 7}, {"halo_y", 2}, {"sigma", 1.5}, {"size_T", 8}, {"zero", 0}};

struct Case {
  const char* text;
  double value;
};

TEST(Expression, ComputesLikeAPocketCalculator) {
  const Case cases[] = {
      {"0", 0},
      {"12", 12},
      {"0.5", 0.5},
      {"1e-3", 1e-3},
      {"2.5E+2", 250},
      {"y", 10},
      {" y \n", 10},
      {"y+x*2", 24},
      {"(y+x)*2", 34},
      {"y-x-1", 2},
      {"100/y/5", 2},
      {"-y+1", -9},
      {"3*-2", -6},
      {"size_T*y*x", 560},
      {"min(y,x)", 7},
      {"max(y, x, 3, 12)", 12},
      {"min(4)", 4},
      {"floor(sigma*3)", 4},
      {"ceil(sigma*3)", 5},
      {"log2(8)", 3},
      {"ceil(y/3)*ceil(x/3)", 12},
      {"y<x", 0},
      {"y>x", 1},
      {"y<=10", 1},
      {"y>=11", 0},
      {"y==10", 1},
      {"y!=10", 0},
      {"y>5 ? x : 1", 7},
      {"y>50 ? x : sigma>1 ? 3 : 4", 3},
      {"y>5 ? x<5 ? 1 : 2 : 3", 2},
      {"zero == 0 ? 1 : 1/zero", 1},  // only the chosen branch counts
      {"(y + 2*halo_y)*x", 98},
  };
  for (const Case& one : cases) EXPECT_DOUBLE_EQ(Expression(one.text).value(kNames), one.value) << one.text;
}

TEST(Expression, CountsRoundUpAndForgiveTheLastBits) {
  EXPECT_EQ(Expression("7/2").count({}), 4);
  EXPECT_EQ(Expression("0.1*30").count({}), 3);  // 3.0000000000000004 in double
  EXPECT_EQ(Expression("n*0.1").count({{"n", 3}}), 1);
  EXPECT_EQ(Expression("0.3-0.1*3").count({}), 0);              // -5.6e-17
  EXPECT_EQ(Expression("2000000001/2").count({}), 1000000001);  // a half is no rounding error, however large
  EXPECT_EQ(Expression("9007199254740992").count({}), std::int64_t{1} << 53);
}

TEST(Expression, RefusesWhatIsNoFormula) {
  for (const char* text : {"",        " ",
                           "1+",      "*2",
                           "(1",      "1)",
                           "1 2",     "y x",
                           "min()",   "min(1,",
                           "foo(1)",  "floor(1,2)",
                           "log2()",  "1..2",
                           "1.",      ".5",
                           "1e",      "1e+",
                           "1e999",   "0x10",
                           "1_0",     "--1",
                           "a<b<c",   "a ? b",
                           "a ? : b", "a = b",
                           "a & b",   "a; b",
                           "y[0]",    "\"y\"",
                           "1,2",     "a ?",
                           "5y",      "min(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)",
                           "\t1",     "\xff"}) {
    EXPECT_THROW(Expression{text}, Error) << text;
  }
}

TEST(Expression, NamesTheFormulaAndThePlace) {
  try {
    Expression("8*n + (3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_EQ(error.message(), "formula '8*n + (3': expected ')' at position 9");
  }
}

TEST(Expression, LimitsLengthAndNesting) {
  const auto nested = [](int depth) { return std::string(depth, '(') + "1" + std::string(depth, ')'); };
  EXPECT_EQ(Expression(nested(31)).count({}), 1);
  EXPECT_THROW(Expression(nested(32)), Error);
  EXPECT_THROW(Expression(nested(500)), Error);
  std::string chain = "1";
  while (chain.size() + 2 <= Expression::kMaxLength) chain += "+1";
  EXPECT_EQ(Expression(chain).count({}), static_cast<std::int64_t>(chain.size() + 1) / 2);
  EXPECT_THROW(Expression(std::string(Expression::kMaxLength + 1, ' ') + "1"), Error);
}

TEST(Expression, ChecksEveryStepOfTheArithmetic) {
  const Case cases[] = {{"1/0", 0},    {"y/zero", 0},   {"log2(0)", 0},         {"log2(-1)", 0},
                        {"nobody", 0}, {"1e308*10", 0}, {"-1e308*10+1e308", 0}, {"max(1/zero, 2)", 0}};
  for (const Case& one : cases) {
    try {
      Expression(one.text).value(kNames);
      FAIL() << one.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid);
      EXPECT_THAT(error.message(), testing::HasSubstr(one.text));
    }
  }
  EXPECT_THROW(Expression("x-y").count(kNames), Error);               // negative
  EXPECT_THROW(Expression("9007199254740994").count(kNames), Error);  // above 2^53
  EXPECT_THROW(Expression("1e300").count(kNames), Error);
}

TEST(Expression, KnowsItsNames) {
  const Expression formula("size_T*(y + x*y) > 3 ? sigma : x");
  EXPECT_THAT(formula.names(), testing::ElementsAre("sigma", "size_T", "x", "y"));
  EXPECT_TRUE(formula.mentions("x"));
  EXPECT_FALSE(formula.mentions("halo_x"));
  EXPECT_EQ(formula.bare_name(), "");
  EXPECT_EQ(Expression("rows").bare_name(), "rows");
  EXPECT_EQ(Expression("(rows)").bare_name(), "rows");
  EXPECT_EQ(Expression("+1"[1] == '1' ? "3" : "4").bare_name(), "");
}

// Random text never does anything but parse or throw Error.
TEST(Expression, StandsRandomText) {
  const unsigned seed = 20240607;
  std::mt19937 random(seed);
  const std::string alphabet = "0123456789.eE+-*/()?:<>=!, \nyxminmaxfloorceillog2_T#";
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int length = static_cast<int>(random() % 24); length > 0; --length)
      text += alphabet[random() % alphabet.size()];
    try {
      Expression(text).count({{"y", 3}, {"x", 0}});
      ++parsed;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::invalid) << "seed " << seed << ": " << text;
    }
  }
  EXPECT_GT(parsed, 100) << "seed " << seed;
}

}  // namespace
}  // namespace cuboid
