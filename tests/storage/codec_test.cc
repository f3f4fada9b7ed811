#include "storage/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "storage/crc32c.h"
#include "storage/error.h"
#include "storage/zarr.h"

namespace cuboid {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<std::byte> compressible_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte(i % 7 == 0 ? random() : i / 64);
  return bytes;
}
std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = std::byte(random());
  return bytes;
}

json chain_of(const std::string& extra, const char* endian = "little") {
  json codecs = json::array({{{"name", "bytes"}, {"configuration", {{"endian", endian}}}}});
  for (const json& codec : json::parse(extra)) codecs.push_back(codec);
  return codecs;
}

// Parts of a chunk decode to what the whole has there, within the memory that the chain promises.
void expect_ranges(const CodecChain& chain, const std::vector<std::byte>& chunk, std::span<const std::byte> encoded) {
  constexpr std::size_t kItem = 8;  // a multiple of all item sizes here
  const std::size_t items = chunk.size() / kItem;
  std::mt19937 random(7);
  for (int round = 0; round < 20 && items > 0; ++round) {
    const std::size_t begin = round == 0 ? 0 : random() % items * kItem;
    const std::size_t end = round == 1 ? items * kItem : begin + (1 + random() % (items - begin / kItem)) * kItem;
    MemoryAccount account(chain.range_scratch());
    std::vector<std::byte> part(chunk.size(), std::byte{0xee});
    chain.decode_range(encoded, part, begin, end, account);
    EXPECT_TRUE(std::equal(part.begin() + static_cast<std::ptrdiff_t>(begin),
                           part.begin() + static_cast<std::ptrdiff_t>(end),
                           chunk.begin() + static_cast<std::ptrdiff_t>(begin)))
        << "[" << begin << ", " << end << ") of " << chunk.size();
    EXPECT_EQ(account.in_use(), 0u);
  }
}

// Encodes and decodes, with the account held to what the chain promises; returns the stored bytes.
std::vector<std::byte> round_trip(const CodecChain& chain, const std::vector<std::byte>& chunk) {
  std::vector<std::byte> encoded(chain.encoded_bound());
  MemoryAccount encoding(chain.encode_scratch()), decoding(chain.decode_scratch());
  const std::size_t length = chain.encode(chunk, encoded, encoding);
  EXPECT_LE(length, chain.encoded_bound());
  EXPECT_EQ(encoding.in_use(), 0u);
  encoded.resize(length);
  std::vector<std::byte> decoded(chunk.size(), std::byte{0xee});
  chain.decode(encoded, decoded, decoding);
  EXPECT_EQ(decoded, chunk);
  EXPECT_EQ(decoding.in_use(), 0u);
  if (chain.ranged()) expect_ranges(chain, chunk, encoded);
  return encoded;
}

ErrorKind kind_thrown(const std::function<void()>& call, const char* part_of_message = "") {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr(part_of_message));
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::cancelled;
}

TEST(Crc32c, known_value) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span("123456789", 9))), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

struct Case {
  const char* label;
  const char* after_bytes;
};
const Case kCases[] = {
    {"none", "[]"},
    {"crc32c", R"(["crc32c"])"},
    {"blosc_defaults", R"(["blosc"])"},
    {"blosc_lz4_crc", R"([{"name":"blosc","configuration":{"cname":"lz4","clevel":5}},"crc32c"])"},
    {"blosc_level_0", R"([{"name":"blosc","configuration":{"clevel":0}}])"},
    {"blosc_blosclz", R"([{"name":"blosc","configuration":{"cname":"blosclz","clevel":9,"shuffle":"noshuffle"}}])"},
    {"blosc_lz4hc", R"([{"name":"blosc","configuration":{"cname":"lz4hc","clevel":3,"shuffle":"bitshuffle"}}])"},
    {"blosc_snappy", R"([{"name":"blosc","configuration":{"cname":"snappy","clevel":1}}])"},
    {"blosc_zlib", R"([{"name":"blosc","configuration":{"cname":"zlib","clevel":6}}])"},
    {"blosc_zstd", R"([{"name":"blosc","configuration":{"cname":"zstd","clevel":7,"blocksize":100000}}])"},
    {"zstd", R"([{"name":"zstd","configuration":{"level":1,"checksum":false}}])"},
    {"zstd_negative", R"([{"name":"zstd","configuration":{"level":-7,"checksum":true}}])"},
    {"zstd_19_crc", R"([{"name":"zstd","configuration":{"level":13}},"crc32c"])"},
    {"gzip_0", R"([{"name":"gzip","configuration":{"level":0}}])"},
    {"gzip_9", R"([{"name":"gzip","configuration":{"level":9}}])"},
    {"zlib", R"([{"name":"numcodecs.zlib","configuration":{"level":1}}])"},
    {"lz4", R"([{"name":"numcodecs.lz4","configuration":{"acceleration":3}}])"},
    {"bz2", R"([{"name":"numcodecs.bz2","configuration":{"level":2}}])"},
    {"lzma", R"([{"name":"numcodecs.lzma","configuration":{"preset":0}}])"},
    {"crc_gzip_crc", R"(["crc32c",{"name":"gzip","configuration":{"level":1}},"crc32c"])"},
    {"three_compressors", R"([{"name":"numcodecs.lz4"},{"name":"zstd","configuration":{"level":1}},"blosc","crc32c"])"},
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.label; }

class EveryChain : public testing::TestWithParam<Case> {};

TEST_P(EveryChain, round_trips_all_dtypes_shapes_orders_within_its_promised_memory) {
  const struct {
    DType dtype;
    Shape shape;
  } kChunks[] = {{kBool, {7}},           {kInt8, {}},          {kUint16, {33, 5}},  {kInt32, {1, 1, 1}},
                 {kFloat64, {40, 3, 9}}, {kComplex64, {6, 5}}, {kComplex128, {11}}, {kInt64, {130, 90}}};
  for (const auto& [dtype, shape] : kChunks) {
    for (const char* endian : {"little", "big"}) {
      for (bool transposed : {false, true}) {
        json codecs = chain_of(GetParam().after_bytes, endian);
        if (transposed) {
          json order = json::array();
          for (std::size_t axis = shape.size(); axis-- > 0;) order.push_back(axis);
          codecs.insert(codecs.begin(), json{{"name", "transpose"}, {"configuration", {{"order", order}}}});
        }
        SCOPED_TRACE(codecs.dump() + to_string(dtype) + to_string(shape));
        const auto chain = make_codec_chain(codecs, {dtype, shape});
        const std::size_t bytes = byte_count(shape, dtype);
        round_trip(*chain, compressible_bytes(bytes, 1));
        round_trip(*chain, random_bytes(bytes, 2));
        EXPECT_EQ(chain->to_json(), codecs);
      }
    }
  }
}

// Bit flips and truncations: an error or (without a checksum) other bytes, but never a crash, never more memory than a
// stated limit, and with a checksum always an error.
TEST_P(EveryChain, survives_corrupt_input) {
  const ChunkSpec spec{kInt32, {50, 60}};
  const auto chain = make_codec_chain(chain_of(GetParam().after_bytes), spec);
  const std::vector<std::byte> chunk = compressible_bytes(12000, 3);
  const std::vector<std::byte> good = round_trip(*chain, chunk);
  const bool checked = std::string(GetParam().after_bytes).ends_with("\"crc32c\"]");
  std::mt19937 random(99);
  const auto check = [&](std::vector<std::byte> bad, const std::string& what) {
    std::vector<std::byte> exact(bad);  // its own allocation, so that AddressSanitizer sees a read beyond its end
    exact.shrink_to_fit();
    std::vector<std::byte> decoded(chunk.size());
    MemoryAccount account(chain->decode_scratch() + (64u << 20));
    try {
      chain->decode(exact, decoded, account);
      EXPECT_FALSE(checked) << what;
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::over_budget) << error.message();
    }
    EXPECT_EQ(account.in_use(), 0u);
    if (!chain->ranged()) return;
    try {
      chain->decode_range(exact, decoded, 400, 4000, account);
      EXPECT_FALSE(checked) << what;
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::over_budget) << error.message();
    }
    EXPECT_EQ(account.in_use(), 0u);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> bad = good;
    const std::size_t at = round < 160 ? static_cast<std::size_t>(round) / 8 % bad.size() : random() % bad.size();
    bad[at] ^= std::byte(1u << (round % 8));
    check(bad, "flipped bit at " + std::to_string(at));
  }
  for (int round = 0; round < 60; ++round) {
    std::vector<std::byte> bad = good;
    bad.resize(round < 30 ? static_cast<std::size_t>(round) : random() % good.size());
    check(bad, "truncated to " + std::to_string(bad.size()));
    std::vector<std::byte> longer = good;
    longer.resize(good.size() + 1 + random() % 9);
    check(longer, "lengthened");
  }
  check(random_bytes(5000, 5), "noise");
}

TEST_P(EveryChain, refuses_a_chunk_of_another_size) {
  const auto big = make_codec_chain(chain_of(GetParam().after_bytes), {kInt32, {100}});
  const auto small = make_codec_chain(chain_of(GetParam().after_bytes), {kInt32, {99}});
  MemoryAccount account;
  for (const auto& [writer, reader, bytes] : {std::tuple(big, small, 396u), std::tuple(small, big, 400u)}) {
    std::vector<std::byte> encoded(writer->encoded_bound()), decoded(bytes);
    const std::vector<std::byte> chunk = random_bytes(bytes == 396 ? 400 : 396, 8);
    encoded.resize(writer->encode(chunk, encoded, account));
    EXPECT_EQ(kind_thrown([&, reader = reader] { reader->decode(encoded, decoded, account); }), ErrorKind::corrupt);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryChain, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& test) { return test.param.label; });

TEST(CodecChains, bytes_and_transpose_lay_elements_out_as_specified) {
  // A 2 x 3 array of big-endian int16, axes reversed: column by column.
  const json codecs = json::parse(R"([{"name":"transpose","configuration":{"order":[1,0]}},
                                      {"name":"bytes","configuration":{"endian":"big"}}])");
  const auto chain = make_codec_chain(codecs, {kInt16, {2, 3}});
  EXPECT_FALSE(chain->identity());
  const std::int16_t elements[] = {0x0102, 0x0304, 0x0506, 0x0708, 0x090a, 0x0b0c};
  std::vector<std::byte> chunk(12);
  std::memcpy(chunk.data(), elements, 12);
  const auto stored = round_trip(*chain, chunk);
  const std::byte expected[] = {std::byte{1}, std::byte{2},  std::byte{7}, std::byte{8}, std::byte{3},  std::byte{4},
                                std::byte{9}, std::byte{10}, std::byte{5}, std::byte{6}, std::byte{11}, std::byte{12}};
  EXPECT_TRUE(std::equal(stored.begin(), stored.end(), std::begin(expected), std::end(expected)));
}

TEST(CodecChains, each_compressor_of_several_is_applied) {
  const ChunkSpec spec{kInt32, {1000}};
  const auto both =
      make_codec_chain(chain_of(R"(["numcodecs.lz4",{"name":"gzip","configuration":{"level":1}}])"), spec);
  const auto inner = make_codec_chain(chain_of(R"(["numcodecs.lz4"])"), spec);
  const std::vector<std::byte> chunk = random_bytes(4000, 6);
  const std::vector<std::byte> stored = round_trip(*both, chunk), once = round_trip(*inner, chunk);
  // Peeling gzip off leaves what LZ4 alone writes.
  const auto outer = make_codec_chain(json::parse(R"(["bytes",{"name":"gzip","configuration":{"level":1}}])"),
                                      {kUint8, {static_cast<std::int64_t>(once.size())}});
  std::vector<std::byte> peeled(once.size());
  MemoryAccount account;
  outer->decode(stored, peeled, account);
  EXPECT_EQ(peeled, once);
}

TEST(CodecChains, two_transposes_are_one_after_the_other) {
  const Shape shape{2, 3, 4};
  const json one = json::parse(R"([{"name":"transpose","configuration":{"order":[2,0,1]}},
    {"name":"transpose","configuration":{"order":[0,2,1]}},"bytes"])");
  const auto chain = make_codec_chain(one, {kUint8, shape});
  std::vector<std::byte> chunk(24);
  for (std::size_t i = 0; i < 24; ++i) chunk[i] = std::byte(i);
  const auto stored = round_trip(*chain, chunk);
  // First (i,j,k) -> (k,i,j), then (k,i,j) -> (k,j,i).
  std::size_t at = 0;
  for (unsigned k = 0; k < 4; ++k) {
    for (unsigned j = 0; j < 3; ++j) {
      for (unsigned i = 0; i < 2; ++i) EXPECT_EQ(stored[at++], std::byte(i * 12 + j * 4 + k));
    }
  }
}

TEST(CodecChains, the_usual_ones_decode_without_an_intermediate) {
  for (const char* name : {"blosc-lz4", "blosc-zstd", "zstd", "gzip", "lz4"}) {
    json codecs = codecs_by_name(name, kFloat64);
    codecs.push_back("crc32c");
    const auto chain = make_codec_chain(codecs, {kFloat64, {1 << 20}});  // 8 MiB
    EXPECT_LT(chain->decode_scratch(), 3u << 20) << name;
  }
  EXPECT_TRUE(make_codec_chain(codecs_by_name("none", kFloat64), {kFloat64, {10}})->identity());
}

TEST(CodecChains, decode_reads_what_other_libraries_write) {
  // python3: zlib.compress(bytes(range(16)), 9), gzip.compress twice over (two members), lzma.compress, bz2.compress
  const auto decode = [](const char* codec, std::initializer_list<unsigned> stored) {
    const auto chain = make_codec_chain(chain_of(codec), {kUint8, {16}});
    std::vector<std::byte> encoded, decoded(16);
    for (unsigned byte : stored) encoded.push_back(std::byte(byte));
    MemoryAccount account;
    chain->decode(encoded, decoded, account);
    for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(decoded[i], std::byte(i)) << codec;
  };
  decode(R"(["numcodecs.zlib"])",
         {120, 218, 99, 96, 100, 98, 102, 97, 101, 99, 231, 224, 228, 226, 230, 225, 229, 227, 7, 0, 2, 184, 0, 121});
  decode(R"([{"name":"gzip","configuration":{"level":1}}])",
         {31, 139, 8,   0,   0,   0,   0,   0,   2, 3, 99, 96,  100, 98,  102, 97, 101, 99, 231,
          0,  0,   2,   67,  225, 188, 9,   0,   0, 0, 31, 139, 8,   0,   0,   0,  0,   0,  2,
          3,  227, 228, 226, 230, 225, 229, 227, 7, 0, 46, 148, 141, 146, 7,   0,  0,   0});
  decode(R"(["numcodecs.bz2"])", {66,  90, 104, 57,  49,  65, 89, 38,  83,  89,  86, 133, 0,  178, 0,   0,  0,
                                  64,  0,  127, 255, 160, 0,  34, 140, 152, 0,   20, 192, 1,  52,  207, 0,  252,
                                  141, 21, 158, 38,  175, 52, 93, 201, 20,  225, 66, 65,  90, 20,  2,   200});
  decode(R"(["numcodecs.lzma"])",
         {253, 55,  122, 88,  90, 0, 0,  4,  230, 214, 180, 70, 2,  0,   33,  1,   22, 0,  0,  0, 116, 47, 229, 163,
          1,   0,   15,  0,   1,  2, 3,  4,  5,   6,   7,   8,  9,  10,  11,  12,  13, 14, 15, 0, 86,  83, 152, 182,
          33,  228, 100, 122, 0,  1, 40, 16, 229, 11,  108, 96, 31, 182, 243, 125, 1,  0,  0,  0, 0,   4,  89,  90});
  decode(R"(["zstd"])",
         {40, 181, 47, 253, 4, 88, 129, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 247, 105, 65, 184});
}

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes.push_back(std::byte(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

// Five elements each, encoded and decoded by numcodecs 0.16.6.
TEST(Filters, undo_what_numcodecs_did) {
  const struct {
    const char *label, *dtype, *filters, *stored, *expected;
  } kFilters[] = {
      {"delta", "<i4", R"([{"id": "delta", "dtype": "<i4", "astype": "<i2"}])", "e8030100feff14fc0c00",
       "e8030000e9030000e7030000fbffffff07000000"},
      {"delta_big_endian", ">i4", R"([{"id": "delta", "dtype": ">i4", "astype": ">i4"}])",
       "000003e800000001fffffffefffffc140000000c", "e8030000e9030000e7030000fbffffff07000000"},
      {"delta_wraps", "|u1", R"([{"id": "delta", "dtype": "|u1", "astype": "|u1"}])", "fa09fdff02", "fa0300ff01"},
      {"delta_float", "<f4", R"([{"id": "delta", "dtype": "<f4", "astype": "<f4"}])",
       "0000c03f0000403f0000a8c0000060400000f040", "0000c03f00001040000040c00000003f00000041"},
      {"fixedscaleoffset", "<f8",
       R"([{"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "|u1"}])", "01021364ff",
       "cdcccccccc408f409a99999999418f4033333333334f8f400000000000908f400000000000069040"},
      {"astype", "<f8", R"([{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}])",
       "0000003f0000a03f0000e0c000004040f9021550",
       "000000000000e03f000000000000f43f0000000000001cc00000000000000840000000205fa00242"},
      {"quantize", "<f8", R"([{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f4"}])",
       "0000003e0000a03f0000e0c00000544000002041",
       "000000000000c03f000000000000f43f0000000000001cc00000000000800a400000000000002440"},
      {"bitround", "<f4", R"([{"id": "bitround", "keepbits": 5}])", "0000cc3d0000a03f0000e0c00000544000002041",
       "0000cc3d0000a03f0000e0c00000544000002041"},
      {"packbits", "|b1", R"([{"id": "packbits"}])", "03b0", "0100010100"},
      {"shuffle", "<u4", R"([{"id": "shuffle", "elementsize": 4}])", "01020304ff00000003ff00000002ff00000001ff",
       "01000000020000000300000004030201ffffffff"},
      {"two", "<i8",
       R"([{"id": "delta", "dtype": "<i8", "astype": "<i8"}, {"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<i8"}, {"id": "shuffle", "elementsize": 2}])",
       "0a0a0afbe2000000ffff", "0a0000000000000014000000000000001e000000000000001900000000000000fbffffffffffffff"},
  };
  for (const auto& test : kFilters) {
    SCOPED_TRACE(test.label);
    json zarray =
        json::parse(R"({"zarr_format":2,"shape":[5],"chunks":[5],"compressor":null,"fill_value":0,"order":"C"})");
    zarray["dtype"] = test.dtype;
    zarray["filters"] = json::parse(test.filters);
    const ArrayMetadata metadata = parse_metadata_v2(zarray.dump(), "");
    const auto chain = make_codec_chain(metadata.codecs, {metadata.dtype, {5}});
    std::vector<std::byte> decoded(5 * metadata.dtype.size);
    MemoryAccount account(chain->decode_scratch());
    const std::vector<std::byte> stored = from_hex(test.stored);
    chain->decode(stored, decoded, account);
    EXPECT_EQ(decoded, from_hex(test.expected));
    for (std::size_t length = 0; length < stored.size(); ++length) {
      EXPECT_EQ(kind_thrown([&] { chain->decode(std::span(stored).first(length), decoded, account); }),
                ErrorKind::corrupt);
    }
    // Those that lose nothing write what numcodecs wrote; the others refuse.
    const std::string_view label = test.label;
    const bool lossless =
        label == "shuffle" || label == "delta_big_endian" || label == "delta_wraps" || label == "packbits";
    EXPECT_EQ(chain->writable(), lossless);
    decoded = from_hex(test.expected);
    std::vector<std::byte> encoded(chain->encoded_bound());
    MemoryAccount encoding(chain->encode_scratch());
    if (!lossless) {
      EXPECT_EQ(kind_thrown([&] { chain->encode(decoded, encoded, encoding); }), ErrorKind::unsupported);
      continue;
    }
    encoded.resize(chain->encode(decoded, encoded, encoding));
    EXPECT_EQ(encoded, stored);
  }
}

TEST(Filters, that_do_not_fit_are_refused) {
  for (const char* filters :
       {R"([{"id":"delta"}])", R"([{"id":"delta","dtype":"<i8"}])", R"([{"id":"delta","dtype":"<c8"}])",
        R"([{"id":"packbits"}])", R"([{"id":"fixedscaleoffset","dtype":"<i4"}])", R"([{"id":"astype"}])",
        R"([{"id":"quantize","dtype":"<i4"}])", R"([{"id":"shuffle","elementsize":0}])", R"([{"id":"categorize"}])",
        R"([{"id":"shuffle"},{"id":"delta","dtype":"<i4"}])", R"(["delta"])", R"([{"id":"bitround"}])"}) {
    json zarray = json::parse(
        R"({"zarr_format":2,"shape":[5],"chunks":[5],"dtype":"<i4","compressor":null,"fill_value":0,"order":"C"})");
    zarray["filters"] = json::parse(filters);
    EXPECT_THROW(parse_metadata_v2(zarray.dump(), ""), Error) << filters;
  }
}

// Bytes by hand, from the codec's description in zarr-extensions; those of booleans and of the bits 2 to 5 are also what
// zarrs 0.2.1 (Python) writes.
TEST(PackBits, stores_the_lowest_bits_first) {
  const struct {
    const char* configuration;
    DType dtype;
    const char *stored, *elements, *expected;  // what was stored, and what that reads as
  } kPacked[] = {
      {R"({})", kBool, "4902", "01000001000001000001", "01000001000001000001"},
      {R"({"padding_encoding":"first_byte"})", kBool, "064902", "01000001000001000001", "01000001000001000001"},
      {R"({"padding_encoding":"last_byte"})", kBool, "490206", "01000001000001000001", "01000001000001000001"},
      {R"({})", kUint16, "0102ff00", "0102ff00", "0102ff00"},
      {R"({"first_bit":null,"padding_encoding":"last_byte"})", kUint16, "0102ff0000", "0102ff00", "0102ff00"},
      {R"({"first_bit":2,"last_bit":5})", kInt8, "76b9ed2054", "", "181ce4ecf4f800081014"},
      {R"({"first_bit":2,"last_bit":5})", kUint8, "76b9ed2054", "", "181c242c343800081014"},
      {R"({"first_bit":2,"last_bit":5,"padding_encoding":"first_byte"})", kInt16, "04760b", "", "18001c00ecff"},
      {R"({"first_bit":63})", kUint64, "02", "", "00000000000000000000000000000080"},
      {R"({"first_bit":1,"last_bit":40})", kInt64, "ffffffffff0100000000", "", "feffffffffffffff0200000000000000"},
  };
  for (const auto& test : kPacked) {
    SCOPED_TRACE(test.configuration + std::string(" ") + to_string(test.dtype));
    const std::vector<std::byte> stored = from_hex(test.stored), expected = from_hex(test.expected);
    const json codecs = {{{"name", "packbits"}, {"configuration", json::parse(test.configuration)}}};
    const auto count = static_cast<std::int64_t>(expected.size() / test.dtype.size);
    const auto chain = make_codec_chain(codecs, {test.dtype, {count}});
    std::vector<std::byte> decoded(expected.size());
    MemoryAccount account(chain->decode_scratch());
    chain->decode(stored, decoded, account);
    EXPECT_EQ(decoded, expected);
    for (std::size_t length = 0; length + 1 < stored.size(); ++length)
      EXPECT_EQ(kind_thrown([&] { chain->decode(std::span(stored).first(length), decoded, account); }),
                ErrorKind::corrupt);
    std::vector<std::byte> encoded(chain->encoded_bound());
    // What leaves bits out would lose them.
    EXPECT_EQ(chain->writable(), *test.elements != 0);
    if (chain->writable()) {
      encoded.resize(chain->encode(from_hex(test.elements), encoded, account));
      EXPECT_EQ(encoded, stored);
    } else {
      EXPECT_EQ(kind_thrown([&] { chain->encode(expected, encoded, account); }), ErrorKind::unsupported);
    }
  }
  std::vector<std::byte> decoded(10);
  MemoryAccount account;
  const auto counted = make_codec_chain(
      json::parse(R"([{"name":"packbits","configuration":{"padding_encoding":"first_byte"}}])"), {kBool, {10}});
  EXPECT_EQ(kind_thrown([&] { counted->decode(from_hex("054902"), decoded, account); }, "padding"), ErrorKind::corrupt);
}

TEST(CodecChains, refuse_what_they_do_not_know) {
  const struct {
    const char* codecs;
    ErrorKind kind;
    const char* message;
  } kBad[] = {
      {"[]", ErrorKind::invalid, "codecs"},
      {R"({"name":"bytes"})", ErrorKind::invalid, "codecs"},
      {R"(["crc32c"])", ErrorKind::invalid, "out of order"},
      {R"([{"name":"bytes","configuration":{"endian":"little"}},"bytes"])", ErrorKind::invalid, "out of order"},
      {R"([{"name":"transpose","configuration":{"order":[0]}}])", ErrorKind::invalid, "no 'bytes'"},
      {R"(["bytes"])", ErrorKind::invalid, "endian"},
      {R"([{"name":"bytes","configuration":{"endian":"middle"}}])", ErrorKind::invalid, "middle"},
      {R"([{"name":"bytes","configuration":{"endian":"little"}},"snappy"])", ErrorKind::unsupported, "snappy"},
      {R"([{"name":"bytes","configuration":{"endian":"little"},"extra":1}])", ErrorKind::unsupported, "extra"},
      {R"([{"name":"bytes","configuration":{"endian":"little","x":1}}])", ErrorKind::unsupported, "x"},
      {R"([{"configuration":{}}])", ErrorKind::invalid, "name"},
      {R"([{"name":"transpose","configuration":{"order":[1]}},"bytes"])", ErrorKind::invalid, "permutation"},
      {R"([{"name":"transpose","configuration":{"order":[-1]}},"bytes"])", ErrorKind::invalid, "permutation"},
      {R"([{"name":"transpose","configuration":{"order":[0,1]}},"bytes"])", ErrorKind::invalid, "permutation"},
      {R"([{"name":"transpose"},"bytes"])", ErrorKind::invalid, "missing"},
      {R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"gzip","configuration":{"level":10}}])",
       ErrorKind::invalid, "level"},
      {R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"gzip","configuration":{"level":"1"}}])",
       ErrorKind::invalid, "level"},
      {R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"gzip","configuration":[]}])",
       ErrorKind::invalid, "object"},
      {R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"cname":"lz5"}}])",
       ErrorKind::invalid, "lz5"},
      {R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"shuffle":"x"}}])",
       ErrorKind::invalid, "shuffle"},
      {R"([{"name":"packbits","configuration":{"padding_encoding":"byte"}}])", ErrorKind::invalid, "first_byte"},
      {R"([{"name":"packbits","configuration":{"last_bit":32}}])", ErrorKind::invalid, "last_bit"},
      {R"([{"name":"packbits","configuration":{"first_bit":4,"last_bit":3}}])", ErrorKind::invalid, "last_bit"},
      {R"(["bytes","packbits"])", ErrorKind::invalid, "endian"},
      {R"(["packbits","packbits"])", ErrorKind::invalid, "out of order"},
  };
  for (const auto& bad : kBad) {
    SCOPED_TRACE(bad.codecs);
    EXPECT_EQ(kind_thrown([&] { make_codec_chain(json::parse(bad.codecs), {kInt32, {4}}); }, bad.message), bad.kind);
  }
  json many = chain_of("[]");
  for (int i = 0; i < 40; ++i) many.push_back("crc32c");
  EXPECT_EQ(kind_thrown([&] { make_codec_chain(many, {kInt32, {4}}); }), ErrorKind::invalid);
}

TEST(CodecChains, refuse_chunks_beyond_a_codecs_limit_when_made) {
  const Shape two_gib{std::int64_t{1} << 31};
  EXPECT_EQ(kind_thrown(
                [&] {
                  make_codec_chain(codecs_by_name("blosc-lz4", kUint8), {kUint8, two_gib});
                },
                "2147483631"),
            ErrorKind::invalid);
  EXPECT_EQ(kind_thrown([&] {
              make_codec_chain(codecs_by_name("lz4", kUint8), {kUint8, two_gib});
            }),
            ErrorKind::invalid);
  EXPECT_NO_THROW(make_codec_chain(codecs_by_name("zstd", kUint8), {kUint8, two_gib}));
}

TEST(CodecNames, all_of_them_work_and_unknown_ones_are_answered) {
  for (const CodecName& name : codec_names()) {
    for (DType dtype : {kUint8, kFloat32}) {
      SCOPED_TRACE(name.name);
      EXPECT_FALSE(name.doc.empty());
      const json codecs = codecs_by_name(name.name, dtype);
      round_trip(*make_codec_chain(codecs, {dtype, {1000}}), compressible_bytes(1000 * dtype.size, 4));
    }
  }
  EXPECT_EQ(kind_thrown([] { codecs_by_name("blosc-zstdd", kInt8); }, "'blosc-zstd'"), ErrorKind::invalid);
  EXPECT_EQ(kind_thrown([] { codecs_by_name("[1,", kInt8); }, "JSON"), ErrorKind::invalid);
  EXPECT_EQ(codecs_by_name(R"(["bytes"])", kInt8), json::parse(R"(["bytes"])"));
}

}  // namespace
}  // namespace cuboid
