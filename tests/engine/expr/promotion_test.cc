#include "engine/expr/promotion.h"

#include <gtest/gtest.h>

#include "storage/error.h"

namespace cuboid {
namespace {

// numpy.promote_types over bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32, float64, complex64,
// complex128, by the index of the result.
constexpr int kPromoted[13][13] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},           {1, 1, 3, 3, 5, 5, 7, 7, 10, 9, 10, 11, 12},
    {2, 3, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},           {3, 3, 3, 3, 5, 5, 7, 7, 10, 9, 10, 11, 12},
    {4, 5, 4, 5, 4, 5, 6, 7, 8, 9, 10, 11, 12},           {5, 5, 5, 5, 5, 5, 7, 7, 10, 10, 10, 12, 12},
    {6, 7, 6, 7, 6, 7, 6, 7, 8, 10, 10, 12, 12},          {7, 7, 7, 7, 7, 7, 7, 7, 10, 10, 10, 12, 12},
    {8, 10, 8, 10, 8, 10, 8, 10, 8, 10, 10, 12, 12},      {9, 9, 9, 9, 9, 10, 10, 10, 10, 9, 10, 11, 12},
    {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 12, 12}, {11, 11, 11, 11, 11, 12, 12, 12, 12, 11, 12, 11, 12},
    {12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12}};

TEST(Promotion, OfTwoTypesIsNumPys) {
  for (std::size_t a = 0; a < kDTypeCount; ++a)
    for (std::size_t b = 0; b < kDTypeCount; ++b)
      EXPECT_EQ(promote(kDTypes[a], kDTypes[b]), kDTypes[static_cast<std::size_t>(kPromoted[a][b])])
          << to_string(kDTypes[a]) << " " << to_string(kDTypes[b]);
}

DType with(DType array, Scalar number) { return result_type({ArraySpec(array, {2}), number}); }

TEST(Promotion, NumbersTakeTheArraysType) {
  for (DType type : kDTypes) EXPECT_EQ(with(type, true), type);
  for (DType type : kDTypes) EXPECT_EQ(with(type, std::int64_t{1}), type == kBool ? kInt64 : type);
  EXPECT_EQ(with(kFloat32, 1.5), kFloat32);
  EXPECT_EQ(with(kComplex64, 1.5), kComplex64);
  EXPECT_EQ(with(kFloat32, std::complex<double>(0, 1)), kComplex64);
}

TEST(Promotion, NumbersOfAHigherKindRaiseTheType) {
  EXPECT_EQ(with(kInt8, 1.5), kFloat64);
  EXPECT_EQ(with(kBool, 1.5), kFloat64);
  EXPECT_EQ(with(kFloat64, std::complex<double>(0, 1)), kComplex128);
  EXPECT_EQ(with(kInt8, std::complex<double>(0, 1)), kComplex128);
  EXPECT_EQ(result_type({Scalar(true), Scalar(std::int64_t{2})}), kInt64);
  EXPECT_EQ(result_type({Scalar(2.5), Scalar(true)}), kFloat64);
}

TEST(Promotion, FitsTellsTheRange) {
  EXPECT_TRUE(fits(std::int64_t{255}, kUint8));
  EXPECT_FALSE(fits(std::int64_t{256}, kUint8));
  EXPECT_FALSE(fits(std::int64_t{-1}, kUint64));
  EXPECT_TRUE(fits(std::int64_t{-128}, kInt8));
  EXPECT_FALSE(fits(std::int64_t{-129}, kInt8));
  EXPECT_TRUE(fits(INT64_MIN, kInt64));
  EXPECT_TRUE(fits(std::int64_t{4294967295}, kUint32));
  EXPECT_FALSE(fits(std::int64_t{4294967296}, kUint32));
  EXPECT_FALSE(fits(1.5, kInt32));
  EXPECT_FALSE(fits(std::int64_t{1}, kBool));
}

TEST(Promotion, UnknownTypeIsRefused) {
  try {
    dtype_index(DType{Kind::floating, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

}  // namespace
}  // namespace cuboid
