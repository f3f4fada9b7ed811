#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "storage/error.h"
#include "storage/zarr.h"
#include "storage/zarr_json.h"

namespace cuboid {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json v2_document() {
  return json::parse(R"({"zarr_format":2,"shape":[20,30],"chunks":[10,10],"dtype":"<i4","compressor":null,
                         "fill_value":0,"order":"C","filters":null})");
}
json v3_document() {
  return json::parse(R"({"zarr_format":3,"node_type":"array","shape":[20,30],"data_type":"int32",
    "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[10,10]}},
    "chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":0,
    "codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"attributes":{}})");
}
ArrayMetadata parse(const json& document) {
  return document.at("zarr_format") == 2 ? parse_metadata_v2(document.dump(), "") : parse_metadata_v3(document.dump());
}
json with(json document, const char* key, const json& value) {
  document[key] = value;
  return document;
}
json without(json document, const char* key) {
  document.erase(key);
  return document;
}

void expect_refused(const std::string& text, int format, ErrorKind kind, const char* message) {
  SCOPED_TRACE(text);
  try {
    format == 2 ? parse_metadata_v2(text, "") : parse_metadata_v3(text);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(message));
  }
}

template <class Value>
Value fill_of(const ArrayMetadata& metadata) {
  Value value;
  EXPECT_EQ(metadata.fill.size(), sizeof value);
  std::memcpy(&value, metadata.fill.data(), sizeof value);
  return value;
}
ArrayMetadata v3_with_fill(const char* dtype, const json& fill) {
  return parse(with(with(v3_document(), "data_type", dtype), "fill_value", fill));
}

TEST(MetadataV2, translates_to_the_common_vocabulary) {
  json document = v2_document();
  document["compressor"] = {{"id", "blosc"}, {"cname", "zstd"}, {"clevel", 7}, {"shuffle", -1}, {"blocksize", 0}};
  document["order"] = "F";
  document["dtype"] = ">f4";
  document["fill_value"] = "NaN";
  document["dimension_separator"] = "/";
  document["unknown keys"] = "are ignored";
  const ArrayMetadata metadata =
      parse_metadata_v2(document.dump(), R"({"_ARRAY_DIMENSIONS":["y","x"],"units":"m","bad":NaN,"worse":-Infinity})");
  EXPECT_EQ(metadata.zarr_format, 2);
  EXPECT_EQ(metadata.shape, (Shape{20, 30}));
  EXPECT_EQ(metadata.chunks, (Shape{10, 10}));
  EXPECT_EQ(metadata.dtype, kFloat32);
  EXPECT_TRUE(std::isnan(fill_of<float>(metadata)));
  EXPECT_EQ(metadata.codecs, json::parse(R"([{"name":"transpose","configuration":{"order":[1,0]}},
    {"name":"bytes","configuration":{"endian":"big"}},
    {"name":"blosc","configuration":{"cname":"zstd","clevel":7,"shuffle":"shuffle","blocksize":0,"typesize":4}}])"));
  EXPECT_EQ(metadata.chunk_key({1, 2}), "1/2");
  EXPECT_THAT(metadata.dimension_names, ElementsAre(std::optional<std::string>("y"), std::optional<std::string>("x")));
  EXPECT_EQ(metadata.attributes, json::parse(R"({"units":"m","bad":"NaN","worse":"-Infinity"})"));
}

TEST(MetadataV2, defaults) {
  const ArrayMetadata metadata = parse(with(without(v2_document(), "filters"), "fill_value", nullptr));
  EXPECT_EQ(metadata.separator, '.');
  EXPECT_EQ(metadata.chunk_key({1, 2}), "1.2");
  EXPECT_TRUE(metadata.fill_undefined);
  EXPECT_EQ(fill_of<std::int32_t>(metadata), 0);
  json scalar = v2_document();
  scalar["shape"] = scalar["chunks"] = json::array();
  EXPECT_EQ(parse(scalar).chunk_key({}), "0");
}

TEST(MetadataV2, all_dtypes) {
  const std::pair<const char*, DType> kDTypes[] = {{"|b1", kBool},    {"|i1", kInt8},      {"<i2", kInt16},
                                                   {">i8", kInt64},   {"|u1", kUint8},     {"<u1", kUint8},
                                                   {"<u4", kUint32},  {">u8", kUint64},    {"<f4", kFloat32},
                                                   {">f8", kFloat64}, {"<c8", kComplex64}, {">c16", kComplex128}};
  for (const auto& [text, dtype] : kDTypes) EXPECT_EQ(parse(with(v2_document(), "dtype", text)).dtype, dtype) << text;
}

TEST(MetadataV3, chunk_keys) {
  EXPECT_EQ(parse(v3_document()).chunk_key({1, 12}), "c/1/12");
  json document = v3_document();
  document["chunk_key_encoding"] = {{"name", "default"}, {"configuration", {{"separator", "."}}}};
  EXPECT_EQ(parse(document).chunk_key({1, 2}), "c.1.2");
  document["chunk_key_encoding"] = "v2";
  EXPECT_EQ(parse(document).chunk_key({1, 2}), "1.2");
  document["chunk_key_encoding"] = {{"name", "v2"}, {"configuration", {{"separator", "/"}}}};
  EXPECT_EQ(parse(document).chunk_key({1, 2}), "1/2");
  document["shape"] = json::array();
  document["chunk_grid"]["configuration"]["chunk_shape"] = json::array();
  EXPECT_EQ(parse(document).chunk_key({}), "0");
  document["chunk_key_encoding"] = "default";
  EXPECT_EQ(parse(document).chunk_key({}), "c");
}

TEST(MetadataV3, reads_what_may_be_there) {
  json document = v3_document();
  document["dimension_names"] = {"y", nullptr};
  document["attributes"] = {{"units", "m"}};
  document["storage_transformers"] = json::array();
  document["consolidated_metadata"] = nullptr;
  document["an_extension"] = {{"must_understand", false}, {"x", 1}};
  document["codecs"] = {"bytes", "crc32c"};
  document["data_type"] = {{"name", "uint8"}};
  const ArrayMetadata metadata = parse(document);
  EXPECT_THAT(metadata.dimension_names, ElementsAre(std::optional<std::string>("y"), std::nullopt));
  EXPECT_EQ(metadata.attributes, json::parse(R"({"units":"m"})"));
  EXPECT_EQ(metadata.dtype, kUint8);
}

TEST(FillValues, integers_are_exact) {
  EXPECT_EQ(fill_of<std::int64_t>(v3_with_fill("int64", INT64_MIN)), INT64_MIN);
  EXPECT_EQ(fill_of<std::int64_t>(v3_with_fill("int64", INT64_MAX)), INT64_MAX);
  EXPECT_EQ(fill_of<std::uint64_t>(v3_with_fill("uint64", UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(fill_of<std::int64_t>(v3_with_fill("int64", 9007199254740993)), 9007199254740993);
  EXPECT_EQ(fill_of<std::int8_t>(v3_with_fill("int8", -128)), -128);
  EXPECT_EQ(fill_of<std::uint16_t>(v3_with_fill("uint16", 65535)), 65535);
  EXPECT_EQ(fill_of<std::int32_t>(v3_with_fill("int32", 7.0)), 7);
  EXPECT_EQ(fill_of<std::int32_t>(v3_with_fill("int32", "-9")), -9);
  EXPECT_EQ(fill_of<std::uint8_t>(v3_with_fill("bool", true)), 1);
  EXPECT_EQ(fill_of<std::uint8_t>(v3_with_fill("bool", 0)), 0);
}

TEST(FillValues, floats) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fill_of<double>(v3_with_fill("float64", 0.1)), 0.1);
  EXPECT_EQ(fill_of<float>(v3_with_fill("float32", 0.1)), 0.1f);
  EXPECT_EQ(fill_of<double>(v3_with_fill("float64", 3)), 3.0);
  EXPECT_EQ(fill_of<double>(v3_with_fill("float64", "Infinity")), kInf);
  EXPECT_EQ(fill_of<float>(v3_with_fill("float32", "-Infinity")), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(fill_of<std::uint32_t>(v3_with_fill("float32", "0x7fc00001")), 0x7fc00001u);
  EXPECT_EQ(fill_of<std::uint64_t>(v3_with_fill("float64", "NaN")), 0x7ff8000000000000u);
  EXPECT_TRUE(std::signbit(fill_of<double>(v3_with_fill("float64", -0.0))));
  const auto complex = fill_of<std::array<float, 2>>(v3_with_fill("complex64", {"NaN", -1.5}));
  EXPECT_TRUE(std::isnan(complex[0]));
  EXPECT_EQ(complex[1], -1.5f);
  EXPECT_EQ((fill_of<std::array<double, 2>>(v3_with_fill("complex128", 2))), (std::array<double, 2>{2, 0}));
  std::string bare = with(v3_document(), "data_type", "float64").dump();
  bare.replace(bare.find("\"fill_value\":0"), 14, "\"fill_value\":NaN");
  EXPECT_TRUE(std::isnan(fill_of<double>(parse_metadata_v3(bare))));
}

TEST(FillValues, outside_the_range_are_refused) {
  const struct {
    const char* dtype;
    json fill;
  } kBad[] = {{"int8", 128},         {"int8", -129},     {"uint8", -1},      {"uint8", 256},
              {"int64", UINT64_MAX}, {"int32", 1.5},     {"int32", "x"},     {"int32", json::array()},
              {"int32", nullptr},    {"uint64", 1.9e19}, {"float32", 1e300}, {"float64", "nan?"},
              {"float32", "0x7fc0"}, {"float64", true},  {"bool", 2},        {"bool", "yes"},
              {"complex64", {1}},    {"complex64", "1"}, {"int16", "NaN"}};
  for (const auto& bad : kBad) {
    json document = with(with(v3_document(), "data_type", bad.dtype), "fill_value", bad.fill);
    expect_refused(document.dump(), 3, ErrorKind::invalid, "fill_value");
  }
}

TEST(MetadataV2, refuses_bad_documents) {
  using K = ErrorKind;
  const json good = v2_document();
  for (const char* key : {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order"}) {
    expect_refused(without(good, key).dump(), 2, K::invalid, key);
  }
  const struct {
    const char* key;
    json value;
    K kind;
  } kBad[] = {
      {"zarr_format", 3, K::invalid},
      {"shape", {20, -30}, K::invalid},
      {"shape", {20, 30.0}, K::invalid},
      {"shape", {20, "30"}, K::invalid},
      {"shape", 20, K::invalid},
      {"shape", {20}, K::invalid},
      {"shape", {INT64_MAX, INT64_MAX}, K::invalid},
      {"shape", {UINT64_MAX, 1}, K::invalid},
      {"shape", json(std::vector<int>(33, 1)), K::invalid},
      {"chunks", {0, 10}, K::invalid},
      {"chunks", {10, 10, 10}, K::invalid},
      {"chunks", {INT64_MAX, INT64_MAX}, K::invalid},
      {"dtype", "i4", K::invalid},
      {"dtype", "|i4", K::invalid},
      {"dtype", 4, K::invalid},
      {"dtype", "<i3", K::unsupported},
      {"dtype", "<x4", K::unsupported},
      {"dtype", json::parse(R"([["a","<i4",[0]]])"), K::invalid},
      {"compressor", "blosc", K::invalid},
      {"compressor", json::object(), K::invalid},
      {"compressor", {{"id", "zfpy"}}, K::unsupported},
      {"compressor", {{"id", "zlib"}, {"level", 11}}, K::invalid},
      {"compressor", {{"id", "blosc"}, {"shuffle", 3}}, K::invalid},
      {"order", "A", K::invalid},
      {"filters", "none", K::invalid},
      {"filters", json::parse(R"([{"id":"unheard_of"}])"), K::unsupported},
      {"dimension_separator", "-", K::invalid},
  };
  for (const auto& bad : kBad) expect_refused(with(good, bad.key, bad.value).dump(), 2, bad.kind, "");
  EXPECT_THROW(parse_metadata_v2(good.dump(), "[1]"), Error);
  EXPECT_THROW(parse_metadata_v2(good.dump(), "{"), Error);
}

TEST(MetadataV3, refuses_bad_documents) {
  using K = ErrorKind;
  const json good = v3_document();
  for (const char* key :
       {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"}) {
    expect_refused(without(good, key).dump(), 3, K::invalid, key);
  }
  const struct {
    const char* key;
    json value;
    K kind;
  } kBad[] = {
      {"zarr_format", 2, K::invalid},
      {"node_type", "group", K::invalid},
      {"shape", {-1, 3}, K::invalid},
      {"data_type", "int128", K::unsupported},
      {"data_type", {{"name", "int32"}, {"configuration", {{"a", 1}}}}, K::invalid},
      {"data_type", 5, K::invalid},
      {"chunk_grid", "regular", K::invalid},
      {"chunk_grid", {{"name", "hexagonal"}}, K::unsupported},
      {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", {10, 0}}}}}, K::invalid},
      {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", {10}}}}}, K::invalid},
      {"chunk_key_encoding", "v4", K::unsupported},
      {"chunk_key_encoding", {{"name", "v2"}, {"configuration", {{"separator", "_"}}}}, K::invalid},
      {"codecs", json::array(), K::invalid},
      {"codecs", {"bytes"}, K::invalid},
      {"codecs", {{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}, "pcodec"}, K::unsupported},
      {"storage_transformers", {{{"name", "x"}}}, K::unsupported},
      {"dimension_names", {"x"}, K::invalid},
      {"dimension_names", {"x", 3}, K::invalid},
      {"attributes", json::array(), K::invalid},
      {"new_key", 1, K::unsupported},
      {"new_key", {{"must_understand", true}}, K::unsupported},
  };
  for (const auto& bad : kBad) expect_refused(with(good, bad.key, bad.value).dump(), 3, bad.kind, "");
}

TEST(MetadataText, hostile_json_is_refused) {
  expect_refused("", 3, ErrorKind::invalid, "JSON");
  expect_refused("[]", 3, ErrorKind::invalid, "object");
  expect_refused("{\"zarr_format\":3,}", 3, ErrorKind::invalid, "JSON");
  expect_refused("{\"a\":\"\xff\"}", 3, ErrorKind::invalid, "JSON");
  expect_refused("{\"zarr_format\":3,\"shape\":[1],\"shape\":[2]}", 3, ErrorKind::invalid, "twice");
  expect_refused(std::string(100'000, '['), 3, ErrorKind::invalid, "64 levels");
  expect_refused(std::string(100'000, '[') + std::string(100'000, ']'), 2, ErrorKind::invalid, "64 levels");
  expect_refused("{\"fill_value\":1e999}", 3, ErrorKind::invalid, "JSON");
  expect_refused("{\"a\":NaNa}", 3, ErrorKind::invalid, "JSON");
}

TEST(MetadataText, formats_what_it_parsed) {
  json v3 = v3_document();
  v3["dimension_names"] = {"y", nullptr};
  v3["attributes"] = {{"s", "NaN in \"text\""}, {"i", INT64_MAX}};
  for (const auto& [dtype, fill] : std::initializer_list<std::pair<const char*, json>>{{"uint64", UINT64_MAX},
                                                                                       {"int64", INT64_MIN},
                                                                                       {"float32", "0x7fc00001"},
                                                                                       {"float64", "NaN"},
                                                                                       {"bool", true},
                                                                                       {"float32", 0.5},
                                                                                       {"float64", 0.1},
                                                                                       {"float64", "-Infinity"},
                                                                                       {"complex64", {1.5, "NaN"}}}) {
    v3["data_type"] = dtype;
    v3["fill_value"] = fill;
    const auto documents = format_metadata(parse(v3));
    ASSERT_EQ(documents.size(), 1u);
    EXPECT_EQ(documents[0].first, "zarr.json");
    EXPECT_EQ(json::parse(documents[0].second), v3);
  }
  json v2 = v2_document();
  v2["order"] = "F";
  v2["dtype"] = ">u2";
  v2["dimension_separator"] = "/";
  for (const char* compressor :
       {"null", R"({"id":"blosc","cname":"lz4","clevel":5,"shuffle":2,"blocksize":0})", R"({"id":"zlib","level":1})",
        R"({"id":"zstd","level":3})", R"({"id":"zstd","level":3,"checksum":true})", R"({"id":"lz4","acceleration":1})",
        R"({"id":"gzip","level":5})", R"({"id":"bz2","level":1})",
        R"({"id":"lzma","format":1,"check":-1,"preset":null,"filters":null})"}) {
    v2["compressor"] = json::parse(compressor);
    const auto documents =
        format_metadata(parse_metadata_v2(v2.dump(), R"({"_ARRAY_DIMENSIONS":["y","x"],"units":"m"})"));
    ASSERT_EQ(documents.size(), 2u);
    EXPECT_EQ(documents[0].first, ".zattrs");
    EXPECT_EQ(json::parse(documents[0].second), json::parse(R"({"_ARRAY_DIMENSIONS":["y","x"],"units":"m"})"));
    EXPECT_EQ(documents[1].first, ".zarray");
    EXPECT_EQ(json::parse(documents[1].second), v2);
  }
}

TEST(MetadataText, v2_refuses_to_write_what_it_cannot_say) {
  ArrayMetadata metadata = parse(v2_document());
  metadata.codecs.push_back({{"name", "crc32c"}});
  EXPECT_THROW(format_metadata(metadata), Error);
  metadata.codecs = json::parse(R"([{"name":"transpose","configuration":{"order":[0,1]}},
                                    {"name":"bytes","configuration":{"endian":"little"}}])");
  EXPECT_THROW(format_metadata(metadata), Error);
}

TEST(MetadataText, plans_carry_it_without_loss) {
  json v3 = with(with(v3_document(), "data_type", "float64"), "fill_value", "0x7ff8000000000123");
  v3["dimension_names"] = {nullptr, "x"};
  const ArrayMetadata metadata = parse(v3);
  const ArrayMetadata again = metadata_from_json(json::parse(metadata_to_json(metadata).dump()));
  EXPECT_EQ(metadata_to_json(again), metadata_to_json(metadata));
  EXPECT_EQ(again.fill, metadata.fill);
  EXPECT_EQ(format_metadata(again), format_metadata(metadata));
  EXPECT_THROW(metadata_from_json(json::object()), Error);
}

// --- Integers that no 64 bits hold ----------------------------------------------------------------------------------

TEST(Json, KeepsIntegersBeyond64Bits) {
  const std::string big = "123456789012345678901234567890",
                    text =
                        R"({"a":)" + big + R"(,"b":[-9223372036854775809,18446744073709551616],)" +
                        R"("c":18446744073709551615,"d":-9223372036854775808,"e":1e400,"f":"12345678901234567890123"})";
  const std::string kept = R"({"a":)" + big + R"(,"b":[-9223372036854775809,18446744073709551616],)" +
                           R"("c":18446744073709551615,"d":-9223372036854775808,"f":"12345678901234567890123"})";
  json parsed = parse_json(kept, "attributes");
  EXPECT_EQ(dump_json(parsed), kept);
  EXPECT_EQ(parsed["c"].get<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parsed["d"].get<std::int64_t>(), INT64_MIN);
  EXPECT_THROW(parse_json(text, "attributes"), Error);  // 1e400 is no number that can be kept
  EXPECT_EQ(dump_json(parse_json("[1.2345678901234567890123,12345678901234567890e1]", "x")),
            "[1.2345678901234567,1.2345678901234568e+20]");
  for (const char* bad : {"[0123456789012345678901]", "[12345678901234567890123", "[--12345678901234567890123]"})
    EXPECT_THROW(parse_json(bad, "x"), Error) << bad;
  // In attributes, through a plan and into either format.
  const std::string document = R"({"zarr_format":3,"node_type":"array","shape":[1],"data_type":"int8","fill_value":0,
    "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}},"chunk_key_encoding":{"name":"default"},
    "codecs":[{"name":"bytes"}],"attributes":{"n":)" +
                               big + "}}";
  ArrayMetadata metadata = metadata_from_json(json::parse(metadata_to_json(parse_metadata_v3(document)).dump()));
  EXPECT_THAT(format_metadata(metadata)[0].second, HasSubstr("\"n\": " + big));
  metadata.zarr_format = 2;
  metadata.chunk_key_encoding = "v2";
  EXPECT_THAT(format_metadata(metadata)[0].second, HasSubstr("\"n\": " + big));
  EXPECT_THROW(parse(with(v3_document(), "shape", parse_json("[99999999999999999999]", "x"))), Error);
}

// --- Rectilinear grids ----------------------------------------------------------------------------------------------

json rectilinear(const char* shapes) {
  return with(
      v3_document(), "chunk_grid",
      {{"name", "rectilinear"}, {"configuration", {{"kind", "inline"}, {"chunk_shapes", json::parse(shapes)}}}});
}

TEST(MetadataV3, ReadsRectilinearGrids) {
  const ArrayMetadata metadata = parse(rectilinear("[[5, [4, 3], 3], 7]"));
  EXPECT_EQ(metadata.edges, (std::vector<Shape>{{5, 4, 4, 4, 3}, {7, 7, 7, 7, 7}}));
  EXPECT_EQ(metadata.chunks, (Shape{5, 7}));
  EXPECT_EQ(metadata.chunk_counts(), (Shape{5, 5}));
  EXPECT_EQ(metadata_from_json(metadata_to_json(metadata)).edges, metadata.edges);
  EXPECT_EQ(parse(rectilinear("[[20, 9, 9], [[30, 1]]]")).edges,
            (std::vector<Shape>{{20}, {30}}));  // all behind the end
  for (const char* bad :
       {"[[5, 4], 7]", "[[0, 20], 7]", "[[-5, 25], 7]", "[[[1, 9223372036854775807]], 7]",
        "[[[9223372036854775807, 2]], 7]", "[7]", "7", "[[20], 0]", "[[20], \"a\"]", "[[[1,2,3]], 7]"}) {
    EXPECT_THROW(parse(rectilinear(bad)), Error) << bad;
  }
}

// --- Filters of format 2 --------------------------------------------------------------------------------------------

TEST(MetadataV2, WritesFiltersAsTheyWereRead) {
  for (const char* filters :
       {R"([{"id":"delta","dtype":">i4","astype":">i4"}])", R"([{"id":"shuffle","elementsize":4}])",
        R"([{"id":"delta","dtype":"<i4"},{"id":"shuffle","elementsize":4}])"}) {
    json document = with(v2_document(), "filters", json::parse(filters));
    document["dtype"] = std::string(filters).find(">i4") != std::string::npos ? ">i4" : "<i4";
    document["compressor"] = {{"id", "zlib"}, {"level", 1}};
    const json written = json::parse(format_metadata(parse(document)).back().second);
    EXPECT_EQ(written["filters"], document["filters"]);
    EXPECT_EQ(written["dtype"], document["dtype"]);
    EXPECT_EQ(written["compressor"], document["compressor"]);
  }
}

}  // namespace
}  // namespace cuboid
