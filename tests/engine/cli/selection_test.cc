#include "engine/cli/selection.h"

#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <limits>

#include "engine/cli/element_text.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using ::testing::HasSubstr;

std::vector<std::int64_t> indices(const std::string& text, std::int64_t extent) {
  const Selection selection = parse_selection(text, {extent});
  std::vector<std::int64_t> list;
  for (std::int64_t k = 0; k < selection.axes[0].count; ++k)
    list.push_back(selection.axes[0].start + k * selection.axes[0].step);
  return list;
}

std::string fault(const std::string& text, const Shape& shape) {
  try {
    parse_selection(text, shape);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

// Expected lists are Python's range(10)[...].
TEST(Selection, SlicesAsPythonDoes) {
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(indices("2:5", 10), (List{2, 3, 4}));
  EXPECT_EQ(indices(":", 3), (List{0, 1, 2}));
  EXPECT_EQ(indices("", 3), (List{0, 1, 2}));
  EXPECT_EQ(indices("::3", 10), (List{0, 3, 6, 9}));
  EXPECT_EQ(indices("-3:", 10), (List{7, 8, 9}));
  EXPECT_EQ(indices(":-8", 10), (List{0, 1}));
  EXPECT_EQ(indices("::-4", 10), (List{9, 5, 1}));
  EXPECT_EQ(indices("8:2:-3", 10), (List{8, 5}));
  EXPECT_EQ(indices("-1:-4:-1", 10), (List{9, 8, 7}));
  EXPECT_EQ(indices("5:5", 10), List{});
  EXPECT_EQ(indices("5:2", 10), List{});
  EXPECT_EQ(indices("10:", 10), List{});
  EXPECT_EQ(indices("::-1", 0), List{});
  EXPECT_EQ(indices("::9223372036854775807", 10), List{0});
  EXPECT_EQ(indices("-1", 10), List{9});
  EXPECT_EQ(indices(" 2 : 4 ", 10), (List{2, 3}));
}

TEST(Selection, ShapesDropIntegersAndFillAxes) {
  EXPECT_EQ(parse_selection("0:2,:,1", {4, 5, 6}).shape(), (Shape{2, 5}));
  EXPECT_EQ(parse_selection("1", {4, 5, 6}).shape(), (Shape{5, 6}));
  EXPECT_EQ(parse_selection("...,1", {4, 5, 6}).shape(), (Shape{4, 5}));
  EXPECT_EQ(parse_selection("1,...,::2", {4, 5, 6}).shape(), (Shape{5, 3}));
  EXPECT_EQ(parse_selection("", {}).shape(), Shape{});
}

TEST(Selection, RefusesWhatIsNoSelection) {
  EXPECT_THAT(fault("10", {10}), HasSubstr("'10': the index is outside of an axis of 10 elements"));
  EXPECT_THAT(fault("-11", {10}), HasSubstr("outside"));
  EXPECT_THAT(fault("0:99", {10}), HasSubstr("99 is outside of an axis of 10 elements"));
  EXPECT_THAT(fault("a:b", {10}), HasSubstr("'a:b': expected an index"));
  EXPECT_THAT(fault("::0", {10}), HasSubstr("not zero"));
  EXPECT_THAT(fault("1:2:3:4", {10}), HasSubstr("start:stop:step"));
  EXPECT_THAT(fault("1,2", {10}), HasSubstr("2 entries for an array of shape (10)"));
  EXPECT_THAT(fault("...,...", {10, 10}), HasSubstr("at most one ellipsis"));
  EXPECT_THAT(fault("1.5", {10}), HasSubstr("expected an index"));
  EXPECT_THAT(fault("99999999999999999999", {10}), HasSubstr("expected an index"));
}

template <class T>
std::string text_of(DType dtype, T value, ElementForm form) {
  std::string text;
  append_element(text, dtype, reinterpret_cast<const std::byte*>(&value), form);
  return text;
}

TEST(ElementText, WritesNumbersThatReadBackTheSame) {
  EXPECT_EQ(text_of(kFloat64, 0.1, ElementForm::json), "0.1");
  EXPECT_EQ(text_of(kFloat64, 1.0, ElementForm::json), "1.0");
  EXPECT_EQ(text_of(kFloat64, -0.0, ElementForm::json), "-0.0");
  EXPECT_EQ(text_of(kFloat64, 1e300, ElementForm::json), "1e+300");
  EXPECT_EQ(text_of(kFloat32, 0.1f, ElementForm::json), "0.1");
  EXPECT_EQ(text_of(kFloat64, 1.0, ElementForm::plain), "1");
  EXPECT_EQ(text_of(kInt64, INT64_MIN, ElementForm::json), "-9223372036854775808");
  EXPECT_EQ(text_of(kUint64, UINT64_MAX, ElementForm::json), "18446744073709551615");
  EXPECT_EQ(text_of(kInt8, std::int8_t{-5}, ElementForm::json), "-5");
  EXPECT_EQ(text_of(kUint8, std::uint8_t{200}, ElementForm::json), "200");
  EXPECT_EQ(text_of(kBool, std::uint8_t{1}, ElementForm::json), "true");
}

TEST(ElementText, WritesWhatJsonLacksAsText) {
  EXPECT_EQ(text_of(kFloat64, std::numeric_limits<double>::quiet_NaN(), ElementForm::json), "\"NaN\"");
  EXPECT_EQ(text_of(kFloat32, -std::numeric_limits<float>::infinity(), ElementForm::json), "\"-Infinity\"");
  EXPECT_EQ(text_of(kComplex128, std::complex<double>(1, -INFINITY), ElementForm::json), "[1.0, \"-Infinity\"]");
  EXPECT_EQ(text_of(kComplex64, std::complex<float>(1, -2), ElementForm::plain), "1-2j");
  EXPECT_EQ(text_of(kFloat64, std::numeric_limits<double>::infinity(), ElementForm::plain), "inf");
}

TEST(ElementText, NpyHeadersAreWhatNumpyReads) {
  const std::string header = npy_header(kFloat64, {3, 4});
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_THAT(header, HasSubstr("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4, ), }"));
  EXPECT_EQ(npy_descriptor(kBool), "'|b1'");
  EXPECT_EQ(npy_descriptor(kComplex64), "'<c8'");
}

}  // namespace
}  // namespace cuboid
