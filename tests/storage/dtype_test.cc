#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "storage/error.h"
#include "storage/half.h"
#include "storage/opaque_type.h"
#include "storage/text_codec.h"
#include "storage/zarr.h"
#include "storage/zarr_dtype.h"

namespace cuboid {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Error refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::cancelled, "");
}

struct Spelling {
  const char* numpy;
  const char* v3;
  const char* text;
  std::uint32_t size;
};
constexpr Spelling kSpellings[] = {
    {R"("<f2")", R"("float16")", "float16", 2},
    {R"("<M8[ns]")", R"({"name":"numpy.datetime64","configuration":{"unit":"ns","scale_factor":1}})",
     "numpy.datetime64[ns]", 8},
    {R"("<m8[10D]")", R"({"name":"numpy.timedelta64","configuration":{"unit":"D","scale_factor":10}})",
     "numpy.timedelta64[10D]", 8},
    {R"("<M8")", R"({"name":"numpy.datetime64","configuration":{"unit":"generic","scale_factor":1}})",
     "numpy.datetime64[generic]", 8},
    {R"("|S12")", R"({"name":"null_terminated_bytes","configuration":{"length_bytes":12}})",
     "null_terminated_bytes[12]", 12},
    {R"("<U5")", R"({"name":"fixed_length_utf32","configuration":{"length_bytes":20}})", "fixed_length_utf32[20]", 20},
    {R"("|V7")", R"({"name":"raw_bytes","configuration":{"length_bytes":7}})", "raw_bytes[7]", 7},
    {R"([["x","<f4"],["t","<M8[s]"],["s","|S3"]])",
     R"({"name":"structured","configuration":{"fields":[["x","float32"],
        ["t",{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}}],
        ["s",{"name":"null_terminated_bytes","configuration":{"length_bytes":3}}]]}})",
     R"(structured[["x","float32"],["t","numpy.datetime64[s]"],["s","null_terminated_bytes[3]"]])", 15},
};

TEST(DTypes, EverySpellingMeansTheSameType) {
  for (const Spelling& spelling : kSpellings) {
    SCOPED_TRACE(spelling.text);
    const DType dtype = numpy_dtype(json::parse(spelling.numpy), "dtype").dtype;
    EXPECT_EQ(dtype, data_type_from_json(json::parse(spelling.v3)));
    EXPECT_EQ(dtype, dtype_from_name(spelling.text));
    EXPECT_EQ(dtype.size, spelling.size);
    EXPECT_EQ(to_string(dtype), spelling.text);
    EXPECT_EQ(data_type_to_json(dtype), json::parse(spelling.v3));
    EXPECT_EQ(numpy_dtype_to_json(dtype, "little"), json::parse(spelling.numpy));
  }
}

TEST(DTypes, OtherWritersNamesAreKept) {
  EXPECT_EQ(data_type_to_json(data_type_from_json("r40")), "r40");
  EXPECT_EQ(data_type_from_json("r40").size, 5u);
  const json fields = json::parse(
      R"({"name":"struct","configuration":{"fields":[{"name":"x","data_type":"int16"},{"name":"y","data_type":"r8"}]}})");
  EXPECT_EQ(data_type_to_json(data_type_from_json(fields)), fields);
  EXPECT_EQ(data_type_from_json(fields).size, 3u);
  const json subarray = json::parse(R"([["x","<i2",[2,3]]])");
  EXPECT_EQ(numpy_dtype_to_json(numpy_dtype(subarray, "dtype").dtype, "little"), subarray);
  EXPECT_EQ(numpy_dtype(subarray, "dtype").dtype.size, 12u);
  EXPECT_EQ(dtype_from_name(to_string(numpy_dtype(subarray, "dtype").dtype)), numpy_dtype(subarray, "dtype").dtype);
}

TEST(DTypes, WhatIsNoTypeIsRefused) {
  for (const char* text : {R"("<M8[parsec]")", R"("|S0")", R"("|S")", R"("<f16")", R"("<f3")", R"("|O")",
                           R"("<U99999999")", R"("|V18446744073709551616")", R"("|S-3")", R"([])", R"([["x"]])",
                           R"([["x","<i4"],["x","<i4"]])", R"([["x","<i4",[0]]])", R"([["x","<i4",[1000000,1000000]]])",
                           R"([["x","<i4"],["y",">i4"]])", R"("f4")", R"(3)", R"({})", R"("<M8[0ns]")"}) {
    SCOPED_TRACE(text);
    const Error error = refused([&] { numpy_dtype(json::parse(text), "dtype"); });
    EXPECT_TRUE(error.kind() == ErrorKind::invalid || error.kind() == ErrorKind::unsupported);
  }
  for (const char* text :
       {R"("r7")", R"("r0")", R"("r99999999999")", R"("numpy.datetime64[ns]")", R"("numpy.datetime64")",
        R"("bfloat16")", R"({"name":"fixed_length_utf32","configuration":{"length_bytes":7}})",
        R"({"name":"raw_bytes","configuration":{"length_bytes":1048577}})",
        R"({"name":"raw_bytes","configuration":{"length_bytes":-1}})", R"({"name":"int16","configuration":{"x":1}})",
        R"({"name":"structured","configuration":{"fields":[]}})",
        R"({"name":"numpy.datetime64","configuration":{"unit":"ns","scale_factor":1,"calendar":"x"}})"}) {
    SCOPED_TRACE(text);
    const Error error = refused([&] { data_type_from_json(json::parse(text)); });
    EXPECT_TRUE(error.kind() == ErrorKind::invalid || error.kind() == ErrorKind::unsupported);
  }
  json type = "int8";
  for (int level = 0; level < 20; ++level) {
    json fields = json::array();
    fields.push_back(json::array({"a", type}));
    type = {{"name", "structured"}, {"configuration", {{"fields", fields}}}};
  }
  EXPECT_THAT(refused([&] { data_type_from_json(type); }).message(), HasSubstr("nested"));
}

// The bits were computed with NumPy 2.2: np.float16(x).view("u2").
TEST(DTypes, HalvesRoundAsNumPyDoes) {
  constexpr struct {
    double value;
    std::uint16_t bits;
  } kCases[] = {{0.0, 0x0000},         {-0.0, 0x8000},    {1.0, 0x3c00},    {-2.5, 0xc100},   {65504.0, 0x7bff},
                {65519.99, 0x7bff},    {65520.0, 0x7c00}, {1e300, 0x7c00},  {-1e5, 0xfc00},   {0.1, 0x2e66},
                {1.0 / 3, 0x3555},     {6e-8, 0x0001},    {2.9e-8, 0x0000}, {3e-8, 0x0001},   {6.1e-5, 0x03ff},
                {6.1035e-5, 0x0400},   {2048.5, 0x6800},  {2049.0, 0x6800}, {2051.0, 0x6802}, {1.00048828125, 0x3c00},
                {1.0004882813, 0x3c01}};
  for (const auto& c : kCases) EXPECT_EQ(half_from(c.value), c.bits) << c.value;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(half_from(value))));
    } else {
      EXPECT_EQ(half_from(value), bits);
    }
  }
}

TEST(DTypes, TextsAndBytes) {
  EXPECT_EQ(base64(std::as_bytes(std::span("ab", 2))), "YWI=");
  for (const char* bad : {"A", "AAA", "A===", "=AAA", "AA=A", "AA*=", "AAAA=AAA"})
    EXPECT_FALSE(base64_decoded(bad)) << bad;
  EXPECT_EQ(base64_decoded("")->size(), 0u);
  const auto points = utf32_from_utf8("a\u00e9\u20ac\U0001f600");
  ASSERT_TRUE(points);
  EXPECT_EQ(*points, (std::vector<std::uint32_t>{'a', 0xe9, 0x20ac, 0x1f600}));
  EXPECT_EQ(utf8_from_utf32(std::as_bytes(std::span(*points))), "a\u00e9\u20ac\U0001f600");
  for (const char* bad : {"\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xff", "\xc0\xaf"})
    EXPECT_FALSE(utf32_from_utf8(bad));
}

json v3_of(const json& data_type, const json& fill, const char* codecs = R"([{"name":"bytes"}])") {
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", {5}},
          {"data_type", data_type},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", {2}}}}}},
          {"chunk_key_encoding", {{"name", "default"}}},
          {"fill_value", fill},
          {"codecs", json::parse(codecs)}};
}
json fill_written(const json& data_type, const json& fill) {
  const char* endian = data_type_from_json(data_type).size == 2 || has_byte_order(data_type_from_json(data_type))
                           ? R"([{"name":"bytes","configuration":{"endian":"little"}}])"
                           : R"([{"name":"bytes"}])";
  const ArrayMetadata metadata = parse_metadata_v3(v3_of(data_type, fill, endian).dump());
  return json::parse(format_metadata(metadata).back().second)["fill_value"];
}

TEST(DTypes, FillValuesOfEveryForm) {
  const json time = data_type_to_json(*dtype_from_name("numpy.datetime64[us]"));
  EXPECT_EQ(fill_written(time, 12), 12);
  EXPECT_EQ(fill_written(time, "NaT"), INT64_MIN);
  EXPECT_EQ(fill_written("float16", 0.1), json::parse("0.0999755859375"));
  EXPECT_EQ(fill_written("float16", "NaN"), "NaN");
  EXPECT_EQ(fill_written("float16", "0x7e01"), "0x7e01");
  EXPECT_EQ(fill_written("float16", "-Infinity"), "-Infinity");
  EXPECT_EQ(fill_written(data_type_to_json(*dtype_from_name("fixed_length_utf32[8]")), "\u20acx"), "\u20acx");
  EXPECT_EQ(fill_written(data_type_to_json(*dtype_from_name("null_terminated_bytes[4]")), "YWI="), "YWI=");
  EXPECT_EQ(fill_written("r16", json::parse("[1, 255]")), json::parse("[1, 255]"));
  EXPECT_EQ(fill_written(data_type_to_json(*dtype_from_name("raw_bytes[2]")), "Af8="), "Af8=");
  const json fields = json::parse(R"({"name":"struct","configuration":{"fields":[{"name":"x","data_type":"int16"}]}})");
  EXPECT_EQ(fill_written(fields, json::parse(R"({"x":-2})")), json::parse(R"({"x":-2})"));
  for (const auto& [type, fill] : std::initializer_list<std::pair<json, json>>{
           {time, "yesterday"},
           {time, 1.5},
           {"float16", 65520},
           {"float16", "0x7e0"},
           {"r16", "AAAAAA=="},
           {"r16", json::array({1})},
           {data_type_to_json(*dtype_from_name("fixed_length_utf32[4]")), "ab"},
           {data_type_to_json(*dtype_from_name("null_terminated_bytes[1]")), "YWI="}}) {
    EXPECT_EQ(refused([&, &type = type, &fill = fill] { fill_written(type, fill); }).kind(), ErrorKind::invalid)
        << fill;
  }
}

// Elements of every kind, stored in either byte order, come back as they were.
TEST(DTypes, ElementsComeBackInBothByteOrders) {
  for (const Spelling& spelling : kSpellings) {
    for (const char* endian : {"little", "big"}) {
      for (const int format : {2, 3}) {
        SCOPED_TRACE(std::string(spelling.text) + " " + endian + " " + std::to_string(format));
        ArrayMetadata metadata;
        metadata.zarr_format = format;
        metadata.shape = {7, 3};
        metadata.chunks = {2, 2};
        metadata.dtype = *dtype_from_name(spelling.text);
        metadata.fill.assign(metadata.dtype.size, std::byte{0});
        for (std::size_t at = 0; at < metadata.fill.size(); at += 4) metadata.fill[at] = std::byte{0x41};
        metadata.separator = '.';
        metadata.chunk_key_encoding = "v2";
        metadata.codecs = codecs_by_name("blosc-lz4", metadata.dtype);
        if (metadata.codecs[0].contains("configuration")) metadata.codecs[0]["configuration"]["endian"] = endian;
        const auto store = make_memory_store();
        const ZarrArray written = ZarrArray::prepare(store, "a", metadata);
        std::vector<std::byte> elements(byte_count(metadata.shape, metadata.dtype));
        for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = std::byte(i * 37 % 251);
        MemoryAccount account;
        const Grid grid(metadata.shape, metadata.chunks);
        for (std::int64_t i = 0; i < grid.size(); ++i) {
          const Box box = grid.box(i);
          written.write_chunk(grid.index(i),
                              make_view(elements.data(), metadata.dtype, metadata.shape).sub(box.origin, box.shape),
                              account);
        }
        written.publish();
        const ZarrArray read = ZarrArray::open(store, "a");
        EXPECT_EQ(read.dtype(), metadata.dtype);
        EXPECT_EQ(read.metadata().fill, metadata.fill);
        std::vector<std::byte> back(elements.size());
        read.read(Box::whole(metadata.shape), make_view(back.data(), metadata.dtype, metadata.shape), account);
        EXPECT_EQ(back, elements);
      }
    }
  }
}

}  // namespace
}  // namespace cuboid
