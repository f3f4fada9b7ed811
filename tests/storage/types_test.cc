#include "storage/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "storage/error.h"

namespace cuboid {
namespace {

TEST(DTypeNames, round_trip_and_refuse_others) {
  for (const char* name : {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
                           "float64", "complex64", "complex128"}) {
    ASSERT_TRUE(dtype_from_name(name)) << name;
    EXPECT_EQ(to_string(*dtype_from_name(name)), name);
  }
  EXPECT_EQ(dtype_from_name("int16")->size, 2u);
  EXPECT_EQ(dtype_from_name("complex128")->size, 16u);
  EXPECT_FALSE(dtype_from_name("int128"));
  EXPECT_FALSE(dtype_from_name(""));
}

TEST(Shapes, counts_are_checked) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 4, 5}), 60);
  EXPECT_EQ(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40, 0}), 0);
  EXPECT_EQ(byte_count({3, 4}, kFloat64), 96u);
  EXPECT_THROW(element_count({-1}), Error);
  EXPECT_THROW(element_count({0, -1}), Error);
  EXPECT_THROW(element_count({std::int64_t{1} << 32, std::int64_t{1} << 31}), Error);
  EXPECT_THROW(byte_count({std::int64_t{1} << 60}, kFloat64), Error);
  EXPECT_EQ(to_string(Shape{344, 403}), "(344, 403)");
  EXPECT_EQ(to_string(Shape{5}), "(5)");
  EXPECT_EQ(to_string(Shape{}), "()");
}

TEST(Boxes, intersect_and_hull) {
  const Box a{{0, 2}, {4, 4}}, b{{3, 0}, {4, 3}};
  EXPECT_EQ(intersect(a, b), (Box{{3, 2}, {1, 1}}));
  EXPECT_EQ(hull(a, b), (Box{{0, 0}, {7, 6}}));
  EXPECT_TRUE(intersect(a, Box{{4, 0}, {1, 1}}).empty());
  EXPECT_FALSE(Box::whole({}).empty());
}

TEST(Boxes, advance_walks_in_C_order_and_returns_to_the_start) {
  const Box range{{2, 0, 5}, {2, 1, 3}};
  Shape index = range.origin;
  std::vector<Shape> seen;
  do {
    seen.push_back(index);
  } while (advance(index, range));
  EXPECT_EQ(seen, (std::vector<Shape>{{2, 0, 5}, {2, 0, 6}, {2, 0, 7}, {3, 0, 5}, {3, 0, 6}, {3, 0, 7}}));
  EXPECT_EQ(index, range.origin);
  Shape scalar;
  EXPECT_FALSE(advance(scalar, Box{}));
}

TEST(Grids, ragged_blocks) {
  const Grid grid({344, 403}, {128, 128});
  EXPECT_EQ(grid.counts(), (Shape{3, 4}));
  EXPECT_EQ(grid.size(), 12);
  EXPECT_EQ(grid.box(Shape{2, 3}), (Box{{256, 384}, {88, 19}}));
  EXPECT_EQ(grid.index(7), (Shape{1, 3}));
  for (std::int64_t i = 0; i < grid.size(); ++i) EXPECT_EQ(grid.linear(grid.index(i)), i);
  EXPECT_EQ(grid.blocks_meeting({{127, 128}, {2, 128}}), (Box{{0, 1}, {2, 1}}));
  EXPECT_EQ(grid.blocks_meeting(Box::whole({344, 403})), Box::whole({3, 4}));
  EXPECT_TRUE(grid.blocks_meeting({{5, 5}, {0, 3}}).empty());
}

TEST(Grids, edge_cases) {
  EXPECT_EQ(Grid({}, {}).size(), 1);
  EXPECT_EQ(Grid({}, {}).box(0), Box::whole({}));
  EXPECT_EQ(Grid({0, 5}, {2, 2}).size(), 0);
  EXPECT_EQ(Grid({std::int64_t{1} << 50}, {1}).size(), std::int64_t{1} << 50);
  EXPECT_THROW(Grid({4}, {0}), Error);
  EXPECT_THROW(Grid({4}, {2, 2}), Error);
}

TEST(Sizes, parse) {
  EXPECT_EQ(parse_size("1048576"), 1048576u);
  EXPECT_EQ(parse_size("512MiB"), 512u << 20);
  EXPECT_EQ(parse_size("2GB"), 2'000'000'000u);
  EXPECT_EQ(parse_size("1.5 GiB"), 3u << 29);
  EXPECT_EQ(parse_size("64k"), 65536u);
  EXPECT_EQ(parse_size("9007199254740993"), 9007199254740993u);
  for (const char* bad : {"", "MiB", "1.2.3G", "-1", "1e9", "12 parsecs", "99999999999999999999", "9223372036854775808",
                          "16777216TiB", ".", "1 0"}) {
    EXPECT_THROW(parse_size(bad), Error) << bad;
  }
}

TEST(Sizes, format) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(12), "12 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1 KiB");
  EXPECT_EQ(format_size(872 << 10), "872 KiB");
  EXPECT_EQ(format_size(3u << 29), "1.5 GiB");
  EXPECT_EQ(format_size((1u << 20) - 1), "1 MiB");
  EXPECT_EQ(format_size(1'234'567'890), "1.15 GiB");
  EXPECT_EQ(format_size(13'002'342), "12.4 MiB");
}

// Copies element by element, by index arithmetic alone: what copy_elements must agree with.
void copy_slowly(const ConstView& from, const View& to) {
  const Grid grid(to.shape, Shape(to.shape.size(), 1));
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const Shape index = grid.index(i);
    std::memcpy(to.sub(index, Shape(index.size(), 1)).data, from.sub(index, Shape(index.size(), 1)).data,
                to.dtype.size);
  }
}

TEST(CopyElements, agrees_with_index_arithmetic_on_random_strided_views) {
  std::mt19937 random(20240607);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 600; ++round) {
    const DType dtype{Kind::unsigned_int, std::array<std::uint32_t, 7>{1, 2, 4, 8, 16, 3, 12}[round % 7]};
    const auto rank = static_cast<std::size_t>(draw(0, 5));
    Shape shape(rank), order_from(rank), order_to(rank);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      shape[axis] = round % 11 == 0 && rank < 3 ? draw(60, 140) : draw(round % 50 == 0 ? 0 : 1, 6);
      order_from[axis] = order_to[axis] = static_cast<std::int64_t>(axis);
    }
    if (draw(0, 2)) std::shuffle(order_from.begin(), order_from.end(), random);
    if (draw(0, 1)) std::shuffle(order_to.begin(), order_to.end(), random);
    // A view into a padded array whose axes lie in memory in `order`; some axes reversed, source axes also broadcast.
    const auto make = [&](std::vector<std::byte>& memory, const Shape& order, bool is_source) {
      View view{dtype, nullptr, shape, Shape(rank)};
      std::int64_t stride = dtype.size, offset = 0;
      for (std::size_t i = rank; i-- > 0;) {
        const auto axis = static_cast<std::size_t>(order[i]);
        const bool broadcast = is_source && draw(0, 9) == 0;
        const bool reverse = draw(0, 5) == 0;
        view.strides[axis] = broadcast ? 0 : reverse ? -stride : stride;
        if (reverse && !broadcast) offset += stride * std::max<std::int64_t>(0, shape[axis] - 1);
        stride *= shape[axis] + (draw(0, 3) == 0 ? draw(0, 2) : 0);
      }
      memory.resize(static_cast<std::size_t>(std::max<std::int64_t>(stride, dtype.size)));
      view.data = memory.data() + offset;
      return view;
    };
    std::vector<std::byte> source, target;
    const View from = make(source, order_from, true), to = make(target, order_to, false);
    for (std::byte& byte : source) byte = static_cast<std::byte>(random());
    std::vector<std::byte> expected = target;
    View to_expected = to;
    to_expected.data = expected.data() + (to.data - target.data());
    copy_slowly(from, to_expected);
    copy_elements(from, to);
    ASSERT_EQ(target, expected) << "round " << round << " shape " << to_string(shape) << " item " << dtype.size
                                << " from strides " << to_string(from.strides) << " to " << to_string(to.strides);
  }
}

}  // namespace
}  // namespace cuboid
