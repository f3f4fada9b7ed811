#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "storage/crc32c.h"
#include "storage/error.h"
#include "storage/zarr.h"
#include "tests/storage/faulty_store.h"
#include "tests/storage/scratch_folder.h"

namespace cuboid {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ArrayMetadata array_of(DType dtype, Shape shape, Shape chunks, const std::string& codecs = "blosc-lz4",
                       int format = 3) {
  ArrayMetadata metadata;
  metadata.zarr_format = format;
  metadata.shape = std::move(shape);
  metadata.chunks = std::move(chunks);
  metadata.dtype = dtype;
  metadata.fill.resize(dtype.size);
  metadata.codecs = codecs_by_name(codecs, dtype);
  return metadata;
}

std::vector<std::byte> random_elements(const Shape& shape, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(byte_count(shape, dtype));
  for (std::byte& byte : bytes) byte = std::byte(random() % 5);
  return bytes;
}

// Writes a whole array chunk by chunk from memory.
void write_all(const ZarrArray& array, const std::vector<std::byte>& elements, bool skip_fill = true) {
  const ArrayMetadata& metadata = array.metadata();
  const Grid grid(metadata.shape, metadata.write_chunks());
  const ConstView all = make_view(elements.data(), metadata.dtype, metadata.shape);
  MemoryAccount account(array.write_memory());
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const Box box = grid.box(i);
    array.write_chunk(grid.index(i), all.sub(box.origin, box.shape), account, skip_fill);
  }
}

std::vector<std::byte> read_box(const ZarrArray& array, const Box& box, std::size_t limit = MemoryAccount::kUnlimited) {
  std::vector<std::byte> elements(byte_count(box.shape, array.dtype()), std::byte{0xee});
  MemoryAccount account(limit);
  array.read(box, make_view(elements.data(), array.dtype(), box.shape), account);
  EXPECT_EQ(account.in_use(), 0u);
  return elements;
}

std::vector<std::byte> box_of(const std::vector<std::byte>& whole, const Shape& shape, DType dtype, const Box& box) {
  std::vector<std::byte> part(byte_count(box.shape, dtype));
  copy_elements(make_view(whole.data(), dtype, shape).sub(box.origin, box.shape),
                make_view(part.data(), dtype, box.shape));
  return part;
}

template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::cancelled, "");
}

// --- Arrays that zarr-python 2 wrote; the numbers were computed with zarr-python 3.1.6 and NumPy --------------------

struct Digest {
  std::int64_t sum = 0, weighted = 0, low = INT64_MAX, high = INT64_MIN;
};

template <class Value>
Digest digest(const std::vector<std::byte>& bytes) {
  Digest digest;
  for (std::size_t i = 0; i < bytes.size() / sizeof(Value); ++i) {
    Value value;
    std::memcpy(&value, bytes.data() + i * sizeof(Value), sizeof value);
    digest.sum += value;
    digest.weighted += value * static_cast<std::int64_t>(i % 65521 + 1);
    digest.low = std::min<std::int64_t>(digest.low, value);
    digest.high = std::max<std::int64_t>(digest.high, value);
  }
  return digest;
}

TEST(ExampleArrays, elevation) {
  const ZarrArray array = ZarrArray::open(CUBOID_SOURCE_DIR "/examples/data/jacksboro_dem.zarr");
  EXPECT_EQ(array.shape(), (Shape{344, 403}));
  EXPECT_EQ(array.dtype(), kInt16);
  EXPECT_EQ(array.metadata().dimension_names[1], "lon");
  EXPECT_EQ(array.metadata().attributes.at("units"), "m");
  const Digest whole = digest<std::int16_t>(read_box(array, Box::whole(array.shape())));
  EXPECT_EQ(whole.sum, 73617913);
  EXPECT_EQ(whole.weighted, 2287909117709);
  EXPECT_EQ(whole.low, 236);
  EXPECT_EQ(whole.high, 1076);
  EXPECT_EQ(digest<std::int16_t>(read_box(array, {{172, 201}, {1, 1}})).sum, 583);
  EXPECT_EQ(digest<std::int16_t>(read_box(array, {{343, 402}, {1, 1}})).sum, 272);
}

TEST(ExampleArrays, galaxies) {
  const ZarrArray array = ZarrArray::open("file://" CUBOID_SOURCE_DIR "/examples/data/hubble_deep_field.zarr/");
  EXPECT_EQ(array.shape(), (Shape{872, 1000, 3}));
  const Digest whole = digest<std::uint8_t>(read_box(array, Box::whole(array.shape())));
  EXPECT_EQ(whole.sum, 50108051);
  EXPECT_EQ(whole.weighted, 1643014301108);
  EXPECT_EQ(digest<std::uint8_t>(read_box(array, {{436, 500, 1}, {1, 1, 1}})).sum, 34);
  EXPECT_EQ(digest<std::uint8_t>(read_box(array, {{871, 999, 2}, {1, 1, 1}})).sum, 12);
}

// --- Properties -----------------------------------------------------------------------------------------------------

struct Layout {
  const char* label;
  DType dtype;
  Shape shape, chunks;
  const char* codecs;
  int format;
  std::optional<Shape> shards = {};
};
const Layout kLayouts[] = {
    {"aligned_2d", kInt32, {40, 60}, {10, 20}, "blosc-lz4", 3},
    {"ragged_2d", kUint8, {41, 67}, {10, 20}, "zstd", 3},
    {"ragged_3d_v2", kFloat64, {13, 9, 12}, {5, 4, 7}, "blosc-zstd", 2},
    {"rows", kInt16, {64, 50}, {8, 50}, "blosc-lz4", 3},
    {"planes", kInt16, {12, 9, 50}, {1, 3, 50}, "gzip", 2},
    {"raw_aligned", kFloat32, {24, 30}, {6, 30}, "none", 3},
    {"raw_ragged", kComplex128, {25, 31}, {6, 8}, "none", 2},
    {"one_chunk", kInt64, {5, 6}, {100, 200}, "lz4", 3},
    {"long_1d", kBool, {1007}, {100}, "zlib", 3},
    {"scalar", kFloat64, {}, {}, "blosc-lz4", 3},
    {"shards", kInt32, {40, 60}, {5, 10}, "zstd", 3, Shape{10, 20}},
    {"shards_ragged", kUint16, {33, 50}, {4, 6}, "blosc-lz4", 3, Shape{12, 18}},
    {"shards_of_rows", kFloat64, {30, 40}, {2, 40}, "gzip", 3, Shape{10, 40}},
    {"shards_raw", kFloat32, {7, 9, 11}, {1, 3, 4}, "none", 3, Shape{2, 6, 12}},
    {"shards_transposed",
     kInt16,
     {20, 30},
     {5, 6},
     R"([{"name":"transpose","configuration":{"order":[1,0]}},{"name":"sharding_indexed","configuration":{
         "chunk_shape":[6,5],"codecs":[{"name":"bytes","configuration":{"endian":"big"}},"crc32c"],
         "index_codecs":[{"name":"bytes","configuration":{"endian":"big"}}],"index_location":"start"}}])",
     3,
     Shape{10, 12}},
    {"shards_compressed",
     kInt16,
     {20, 30},
     {5, 6},
     R"([{"name":"sharding_indexed","configuration":{
         "chunk_shape":[5,6],"codecs":[{"name":"bytes","configuration":{"endian":"little"}}],
         "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},"crc32c","crc32c"]}},
         {"name":"zstd","configuration":{"level":1}},"crc32c"])",
     3,
     Shape{10, 12}},
    {"shards_nested",
     kUint8,
     {16, 24},
     {4, 8},
     R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[4,8],"codecs":[
         {"name":"sharding_indexed","configuration":{"chunk_shape":[2,2],"codecs":["bytes",{"name":"gzip","configuration":{"level":1}}],
          "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},"crc32c"],"index_location":"start"}}],
         "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},"crc32c"],"index_location":"end"}}])",
     3,
     Shape{8, 16}},
    {"tiny_chunks", kUint16, {6, 5}, {1, 1}, "none", 3},
};

void PrintTo(const Layout& test, std::ostream* out) { *out << test.label; }

class EveryLayout : public testing::TestWithParam<Layout> {
 protected:
  ArrayMetadata metadata() const {
    const Layout& layout = GetParam();
    ArrayMetadata metadata = array_of(layout.dtype, layout.shape, layout.chunks, layout.codecs, layout.format);
    metadata.shards = layout.shards;
    for (std::size_t i = 0; i < metadata.fill.size(); ++i)
      metadata.fill[i] = std::byte(layout.dtype == kBool ? 1 : i + 1);
    return metadata;
  }
  Box random_box(std::mt19937& random, bool aligned) const {
    const Layout& layout = GetParam();
    Box box{Shape(layout.shape.size()), Shape(layout.shape.size())};
    for (std::size_t axis = 0; axis < box.shape.size(); ++axis) {
      const auto draw = [&](std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random);
      };
      box.origin[axis] = draw(0, layout.shape[axis] - 1);
      if (aligned) box.origin[axis] -= box.origin[axis] % layout.chunks[axis];
      box.shape[axis] = draw(0, 9) == 0 ? 0 : draw(1, layout.shape[axis] - box.origin[axis]);
    }
    return box;
  }
};

TEST_P(EveryLayout, any_box_is_the_same_box_of_the_whole) {
  const auto store = make_memory_store();
  const ZarrArray writer = ZarrArray::prepare(store, "some/array", metadata());
  EXPECT_THROW(ZarrArray::open(store, "some/array"), Error);
  const std::vector<std::byte> elements = random_elements(writer.shape(), writer.dtype(), 11);
  write_all(writer, elements);
  writer.publish();
  const ZarrArray array = ZarrArray::open(store, "some/array");
  EXPECT_EQ(metadata_to_json(array.metadata()), metadata_to_json(writer.metadata()));
  EXPECT_EQ(read_box(array, Box::whole(array.shape())), elements);
  std::mt19937 random(12);
  for (int round = 0; round < 100; ++round) {
    const Box box = random_box(random, round % 2 == 0);
    SCOPED_TRACE(to_string(box.shape) + " at " + to_string(box.origin));
    EXPECT_EQ(read_box(array, box), box_of(elements, array.shape(), array.dtype(), box));
  }
}

// Where values are asked for together, every box is the same, and no box takes more than read_memory() says.
TEST_P(EveryLayout, is_read_the_same_from_a_store_that_is_asked_for_several_values_at_once) {
  const auto late = std::make_shared<FaultyStore>(make_memory_store());
  late->set_parallel(3);
  const ZarrArray array = ZarrArray::prepare(late, "", metadata());
  std::vector<std::byte> elements = random_elements(array.shape(), array.dtype(), 17);
  write_all(array, elements);
  if (element_count(array.metadata().chunk_counts()) > 1) {  // one that is missing
    const Box first =
        intersect({Shape(array.shape().size(), 0), array.metadata().write_chunks()}, Box::whole(array.shape()));
    late->erase(array.key_of(Shape(array.shape().size(), 0)));
    fill_elements(make_view(elements.data(), array.dtype(), array.shape()).sub(first.origin, first.shape),
                  array.metadata().fill);
  }
  std::mt19937 random(18);
  for (int round = 0; round < 100; ++round) {
    const bool aligned = round % 2 == 0;
    const Box box = random_box(random, aligned);
    SCOPED_TRACE(to_string(box.shape) + " at " + to_string(box.origin));
    std::vector<std::byte> read(byte_count(box.shape, array.dtype()));
    MemoryAccount account(array.read_memory(box.shape, aligned));
    array.read(box, make_view(read.data(), array.dtype(), box.shape), account);
    EXPECT_EQ(read, box_of(elements, array.shape(), array.dtype(), box));
  }
}

TEST_P(EveryLayout, reads_into_strided_views) {
  const auto store = make_memory_store();
  const ZarrArray array = ZarrArray::prepare(store, "", metadata());
  const std::vector<std::byte> elements = random_elements(array.shape(), array.dtype(), 13);
  write_all(array, elements);
  // The destination is a Fortran-ordered block with gaps.
  const std::size_t rank = array.shape().size();
  Shape strides(rank);
  std::int64_t stride = 2 * array.dtype().size;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    strides[axis] = stride;
    stride *= array.shape()[axis] + 1;
  }
  std::vector<std::byte> memory(static_cast<std::size_t>(stride));
  const View into{array.dtype(), memory.data(), array.shape(), strides};
  MemoryAccount account(array.read_memory(Shape(rank, 1), false));
  array.read(Box::whole(array.shape()), into, account);
  std::vector<std::byte> straight(elements.size());
  copy_elements(into, make_view(straight.data(), array.dtype(), array.shape()));
  EXPECT_EQ(straight, elements);
}

// Bounds: no box takes more than read_memory() of its extents. Tightness: some box of those extents takes all of it.
TEST_P(EveryLayout, reading_takes_what_read_memory_says) {
  const auto store = make_memory_store();
  const ZarrArray array = ZarrArray::prepare(store, "", metadata());
  write_all(array, random_elements(array.shape(), array.dtype(), 14), false);
  std::mt19937 random(15);
  for (int round = 0; round < 36; ++round) {
    const bool aligned = round % 3 != 0;
    Shape extents = random_box(random, aligned).shape;
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      extents[axis] = std::max<std::int64_t>(1, extents[axis]);
      if (round % 2) {  // whole chunks: where decoding in place is possible
        const std::int64_t chunk = array.metadata().chunks[axis];
        extents[axis] = (extents[axis] + chunk - 1) / chunk * chunk;
      }
    }
    SCOPED_TRACE(to_string(extents) + (aligned ? " aligned" : " anywhere"));
    const std::size_t stated = array.read_memory(extents, aligned);
    std::size_t most = 0;
    // Every place where such a box may begin (clipped at the end).
    const Grid places(array.shape(), aligned ? array.metadata().chunks : Shape(extents.size(), 1));
    for (std::int64_t i = 0; i<places.size(); i += places.size()> 400 ? 7 : 1) {
      Box box{places.box(i).origin, extents};
      box = intersect(box, Box::whole(array.shape()));
      std::vector<std::byte> elements(byte_count(box.shape, array.dtype()));
      MemoryAccount account(stated);
      array.read(box, make_view(elements.data(), array.dtype(), box.shape), account);
      most = std::max(most, account.peak());
    }
    // With transposed or compressed shards no more is promised than a bound.
    if (const std::string label = GetParam().label; label != "shards_transposed" && label != "shards_compressed") {
      // Blosc decodes a part aside, in one block more, but most of a chunk where it belongs: stated is the former.
      const std::size_t block = array.reads_ranges() ? byte_count(array.metadata().chunks, array.dtype()) : 0;
      EXPECT_GE(most + block, stated);
      EXPECT_LE(most, stated);
    }
  }
}

TEST_P(EveryLayout, writing_takes_what_write_memory_says) {
  const auto store = make_memory_store();
  const ZarrArray array = ZarrArray::prepare(store, "", metadata());
  const Grid grid(array.shape(), array.metadata().write_chunks());
  for (bool contiguous : {true, false}) {
    std::size_t most = 0;
    for (std::int64_t i = 0; i < grid.size(); ++i) {
      const Shape extents = grid.box(i).shape;
      // A gap after each element where the view is not to be contiguous.
      const std::size_t rank = extents.size();
      Shape padded = extents;
      padded.push_back(contiguous ? 1 : 2);
      std::vector<std::byte> elements = random_elements(padded, array.dtype(), 16);
      Shape strides = contiguous_strides(padded, array.dtype().size);
      strides.pop_back();
      const ConstView view{array.dtype(), elements.data(), extents, strides};
      const bool really = contiguous || element_count(extents) == 1 || rank == 0;
      MemoryAccount account(array.write_memory(extents, contiguous));
      array.write_chunk(grid.index(i), view, account, false);
      if (contiguous == really && !GetParam().shards) {
        EXPECT_EQ(account.peak(), account.limit());
      }
      most = std::max(most, account.peak());
    }
    EXPECT_LE(most, array.write_memory(contiguous));
    if ((contiguous || grid.block() != Shape(grid.block().size(), 1)) && !GetParam().shards) {
      EXPECT_EQ(most, array.write_memory(contiguous));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Arrays, EveryLayout, testing::ValuesIn(kLayouts),
                         [](const testing::TestParamInfo<Layout>& test) { return test.param.label; });

// --- Shards ----

const char* const kIndexCodecs = R"([{"name":"bytes","configuration":{"endian":"little"}},"crc32c"])";

// A one-dimensional array of 12 bytes in one shard of four inner chunks of three raw bytes.
ArrayMetadata raw_shard(const char* location = "end", const char* index_codecs = kIndexCodecs) {
  ArrayMetadata metadata = array_of(kUint8, {12}, {3}, "none");
  metadata.shards = Shape{12};
  metadata.fill[0] = std::byte{'.'};
  metadata.codecs = json::parse(R"([{"name":"sharding_indexed"}])");
  metadata.codecs[0]["configuration"] = {{"chunk_shape", {3}},
                                         {"codecs", {"bytes"}},
                                         {"index_codecs", json::parse(index_codecs)},
                                         {"index_location", location}};
  return metadata;
}

std::string index_bytes(std::initializer_list<std::uint64_t> entries, bool checksum = true) {
  std::string bytes(reinterpret_cast<const char*>(std::data(entries)), entries.size() * 8);
  if (checksum) {
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
    bytes.append(reinterpret_cast<const char*>(&crc), 4);
  }
  return bytes;
}

std::string read_text_box(const ZarrArray& array, Box box) {
  const auto bytes = read_box(array, box);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

constexpr std::uint64_t kNone = UINT64_MAX;

TEST(Shards, are_laid_out_as_specified) {
  for (const char* location : {"end", "start"}) {
    const auto store = make_memory_store();
    const ZarrArray array = ZarrArray::prepare(store, "", raw_shard(location));
    const std::string text = "abc...ghijkl";
    MemoryAccount account;
    array.write_chunk({0}, make_view(reinterpret_cast<const std::byte*>(text.data()), kUint8, {12}), account);
    const bool first = location == std::string("start");
    const std::uint64_t base = first ? 68 : 0;
    const std::string index = index_bytes({base, 3, kNone, kNone, base + 3, 3, base + 6, 3});
    const std::string content = "abcghijkl";
    EXPECT_EQ(read_text(*store, "c/0"), first ? index + content : content + index);
    EXPECT_EQ(read_text_box(array, Box::whole({12})), text);
  }
}

TEST(Shards, gaps_any_order_and_shared_bytes_are_legal) {
  const auto store = make_memory_store();
  const ZarrArray array = ZarrArray::prepare(store, "", raw_shard());
  const std::string shard = "--ghi---abc-" + index_bytes({8, 3, kNone, kNone, 2, 3, 8, 3});
  store->put("c/0", std::as_bytes(std::span(shard)));
  EXPECT_EQ(read_text_box(array, Box::whole({12})), "abc...ghiabc");
  EXPECT_EQ(read_text_box(array, {{1}, {7}}), "bc...gh");
  EXPECT_EQ(read_text_box(array, {{10}, {1}}), "b");
}

TEST(Shards, a_bad_index_is_corrupt) {
  const struct {
    const char* what;
    std::initializer_list<std::uint64_t> entries;
  } kBad[] = {{"half missing", {kNone, 3, 3, 3, 6, 3, 9, 3}}, {"half missing too", {0, kNone, 3, 3, 6, 3, 9, 3}},
              {"beyond the end", {80, 3, 3, 3, 6, 3, 9, 3}},  {"into the index", {10, 3, 3, 3, 6, 3, 9, 3}},
              {"overflow", {kNone - 1, 3, 3, 3, 6, 3, 9, 3}}, {"too long", {0, 4, 3, 3, 6, 3, 9, 3}},
              {"too short", {0, 2, 3, 3, 6, 3, 9, 3}},        {"empty", {0, 0, 3, 3, 6, 3, 9, 3}}};
  const auto store = make_memory_store();
  const ZarrArray array = ZarrArray::prepare(store, "", raw_shard());
  for (const auto& bad : kBad) {
    SCOPED_TRACE(bad.what);
    const std::string shard = "abcdefghijkl" + index_bytes(bad.entries);
    store->put("c/0", std::as_bytes(std::span(shard)));
    EXPECT_EQ(error_of([&] { read_box(array, {{0}, {3}}); }).kind(), ErrorKind::corrupt);
    EXPECT_EQ(read_text_box(array, {{4}, {6}}), "efghij");
  }
  std::string flipped = "abcdefghijkl" + index_bytes({0, 3, 3, 3, 6, 3, 9, 3});
  flipped[20] ^= 1;
  store->put("c/0", std::as_bytes(std::span(flipped)));
  EXPECT_EQ(error_of([&] { read_box(array, {{0}, {3}}); }).kind(), ErrorKind::corrupt);
  store->put("c/0", std::as_bytes(std::span("short", 5)));
  EXPECT_EQ(error_of([&] { read_box(array, {{0}, {3}}); }).kind(), ErrorKind::corrupt);
  store->put("c/0", std::span<const std::byte>());
  EXPECT_EQ(error_of([&] { read_box(array, {{0}, {3}}); }).kind(), ErrorKind::corrupt);
}

TEST(Shards, only_the_index_and_what_is_wanted_are_read_neighbours_at_once) {
  const auto store = std::make_shared<FaultyStore>(make_memory_store());
  ArrayMetadata metadata = array_of(kUint8, {200, 1000}, {10, 1000}, "none");
  metadata.shards = Shape{200, 1000};
  const ZarrArray array = ZarrArray::prepare(store, "", metadata);
  write_all(array, random_elements({200, 1000}, kUint8, 21));
  const auto reads = [&](Box box) {
    const int before = store->calls(FaultyStore::kRead);
    read_box(array, box);
    return store->calls(FaultyStore::kRead) - before;
  };
  EXPECT_EQ(reads({{55, 3}, {1, 1}}), 2);
  EXPECT_EQ(reads({{55, 3}, {60, 900}}), 2);
  EXPECT_EQ(reads(Box::whole({200, 1000})), 2);
}

TEST(Shards, whose_metadata_disagree_are_refused) {
  const auto refuse = [](const std::function<void(json&)>& change) {
    ArrayMetadata metadata = raw_shard();
    change(metadata.codecs[0]["configuration"]);
    EXPECT_THROW(ZarrArray::prepare(make_memory_store(), "", metadata), Error) << metadata.codecs.dump();
  };
  refuse([](json& c) { c["index_location"] = "middle"; });
  refuse([](json& c) { c["codecs"] = json::array(); });
  refuse([](json& c) { c.erase("codecs"); });
  refuse([](json& c) { c.erase("index_codecs"); });
  refuse([](json& c) { c["index_codecs"] = {"bytes"}; });
  refuse([](json& c) { c["index_codecs"].push_back({{"name", "gzip"}, {"configuration", {{"level", 1}}}}); });
  refuse([](json& c) { c["unknown"] = 1; });
  const std::string text = format_metadata(raw_shard())[0].second;
  const auto refuse_text = [&](const json& chunk_shape) {
    json document = json::parse(text);
    document["codecs"][0]["configuration"]["chunk_shape"] = chunk_shape;
    EXPECT_THROW(parse_metadata_v3(document.dump()), Error) << chunk_shape.dump();
  };
  for (const json& bad :
       std::initializer_list<json>{{0}, {5}, {13}, {-3}, {3, 1}, 3, {"3"}, {3.5}, json::array(), nullptr}) {
    refuse_text(bad);
  }
}

TEST(Shards, can_be_stated_without_their_codec) {
  ArrayMetadata metadata = array_of(kInt32, {100}, {10}, "zstd");
  metadata.shards = Shape{50};
  const ZarrArray sharded = ZarrArray::prepare(make_memory_store(), "", metadata);
  EXPECT_EQ(sharded.metadata().codecs[0]["name"], "sharding_indexed");
  ArrayMetadata again = sharded.metadata();
  again.chunks = {25};
  EXPECT_EQ(ZarrArray::prepare(make_memory_store(), "", again).metadata().codecs[0]["configuration"]["chunk_shape"],
            json::parse("[25]"));
  again.shards.reset();
  EXPECT_EQ(ZarrArray::prepare(make_memory_store(), "", again).metadata().codecs, codecs_by_name("zstd", kInt32));
  metadata.zarr_format = 2;
  EXPECT_THROW(ZarrArray::prepare(make_memory_store(), "", metadata), Error);
}

// --- Rules ----------------------------------------------------------------------------------------------------------

TEST(ZarrArrays, missing_chunks_read_as_fill) {
  ArrayMetadata metadata = array_of(kFloat32, {10, 10}, {4, 4});
  const float fill = -1.5f;
  std::memcpy(metadata.fill.data(), &fill, sizeof fill);
  const ZarrArray array = ZarrArray::prepare(make_memory_store(), "", metadata);
  const auto bytes = read_box(array, {{1, 2}, {9, 8}});
  for (std::size_t i = 0; i < 72; ++i) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, sizeof value);
    ASSERT_EQ(value, fill);
  }
}

TEST(ZarrArrays, edge_chunks_are_padded_with_fill) {
  ArrayMetadata metadata = array_of(kUint8, {5}, {4}, "none");
  metadata.fill[0] = std::byte{9};
  const auto store = make_memory_store();
  const ZarrArray array = ZarrArray::prepare(store, "", metadata);
  write_all(array, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}});
  EXPECT_EQ(read_text(*store, "c/1"), "\x05\x09\x09\x09");
}

TEST(ZarrArrays, chunks_equal_to_fill_are_not_stored_and_compared_bitwise) {
  const auto store = make_memory_store();
  const ZarrArray array = ZarrArray::prepare(store, "", array_of(kFloat64, {4}, {2}, "none"));
  MemoryAccount account;
  double zeros[2] = {0, 0}, negative[2] = {0, -0.0};
  const auto view = [](double* values) { return make_view(reinterpret_cast<const std::byte*>(values), kFloat64, {2}); };
  EXPECT_EQ(array.write_chunk({0}, view(zeros), account).bytes, 0u);
  EXPECT_FALSE(store->stamp("c/0"));
  EXPECT_EQ(array.write_chunk({0}, view(negative), account).bytes, 16u);
  EXPECT_TRUE(store->stamp("c/0"));
  array.write_chunk({0}, view(zeros), account);
  EXPECT_FALSE(store->stamp("c/0"));
  const Written written = array.write_chunk({0}, view(zeros), account, false);
  EXPECT_EQ(written.bytes, 16u);
  const std::byte sixteen_zeros[16] = {};
  EXPECT_EQ(written.crc32c, crc32c(sixteen_zeros));
}

TEST(ZarrArrays, the_crc_of_what_was_written_is_that_of_the_stored_bytes) {
  const auto store = make_memory_store();
  json codecs = codecs_by_name("blosc-lz4", kInt32);
  codecs.push_back("crc32c");
  ArrayMetadata metadata = array_of(kInt32, {100}, {60});
  metadata.codecs = codecs;
  const ZarrArray array = ZarrArray::prepare(store, "a", metadata);
  const auto elements = random_elements({60}, kInt32, 17);
  MemoryAccount account;
  const Written written = array.write_chunk({0}, make_view(elements.data(), kInt32, {60}), account);
  const std::string stored = *read_text(*store, array.key_of({0}));
  EXPECT_EQ(array.key_of({0}), "a/c/0");
  EXPECT_EQ(written.bytes, stored.size());
  EXPECT_EQ(written.crc32c, crc32c(std::as_bytes(std::span(stored))));
}

TEST(ZarrArrays, faults_are_told_and_never_read_as_fill) {
  const auto inner = make_memory_store();
  const auto store = std::make_shared<FaultyStore>(inner);
  const ZarrArray array = ZarrArray::prepare(store, "deep/array", array_of(kInt32, {10}, {5}));
  write_all(array, random_elements({10}, kInt32, 18));
  store->fail_at(2, FaultyStore::kRead);
  const Error error = error_of([&] { read_box(array, Box::whole({10})); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_THAT(error.context(), testing::ElementsAre(testing::Pair("chunk", "deep/array/c/1"),
                                                    testing::Pair("array", "memory:/deep/array")));
  store->fail_at(1, FaultyStore::kWrite);
  EXPECT_THROW(write_all(array, random_elements({10}, kInt32, 19)), Error);
  for (const char* codecs : {"blosc-lz4", "none", "zstd"}) {
    const ZarrArray other = ZarrArray::prepare(inner, codecs, array_of(kInt32, {10}, {5}, codecs));
    inner->put(other.key_of({0}), std::span<const std::byte>());
    EXPECT_EQ(error_of([&] { read_box(other, Box::whole({10})); }).kind(), ErrorKind::corrupt) << codecs;
    const std::vector<std::byte> much(100'000, std::byte{1});
    inner->put(other.key_of({0}), much);
    EXPECT_EQ(error_of([&] { read_box(other, Box::whole({10})); }).kind(), ErrorKind::corrupt) << codecs;
  }
}

TEST(ZarrArrays, wrong_calls_are_refused) {
  const ZarrArray array = ZarrArray::prepare(make_memory_store(), "", array_of(kInt32, {10, 10}, {5, 5}));
  MemoryAccount account;
  std::vector<std::byte> room(400);
  const auto read = [&](Box box, DType dtype, Shape shape) {
    return error_of([&] { array.read(box, make_view(room.data(), dtype, shape), account); }).kind();
  };
  EXPECT_EQ(read({{0, 0}, {11, 1}}, kInt32, {11, 1}), ErrorKind::invalid);
  EXPECT_EQ(read({{-1, 0}, {1, 1}}, kInt32, {1, 1}), ErrorKind::invalid);
  EXPECT_EQ(read({{INT64_MAX, 0}, {1, 1}}, kInt32, {1, 1}), ErrorKind::invalid);
  EXPECT_EQ(read({{0}, {1}}, kInt32, {1}), ErrorKind::invalid);
  EXPECT_EQ(read({{0, 0}, {2, 2}}, kInt32, {2, 3}), ErrorKind::invalid);
  EXPECT_EQ(read({{0, 0}, {2, 2}}, kFloat32, {2, 2}), ErrorKind::invalid);
  const auto write = [&](Shape index, DType dtype, Shape shape) {
    return error_of([&] {
             array.write_chunk(index, make_view(static_cast<const std::byte*>(room.data()), dtype, shape), account);
           })
        .kind();
  };
  EXPECT_EQ(write({2, 0}, kInt32, {5, 5}), ErrorKind::invalid);
  EXPECT_EQ(write({0}, kInt32, {5}), ErrorKind::invalid);
  EXPECT_EQ(write({0, 0}, kInt32, {5, 4}), ErrorKind::invalid);
  EXPECT_EQ(write({0, 0}, kUint32, {5, 5}), ErrorKind::invalid);
}

TEST(ZarrArrays, zero_length_and_enormous_ones) {
  const ZarrArray empty = ZarrArray::prepare(make_memory_store(), "", array_of(kInt32, {0, 7}, {3, 3}));
  EXPECT_TRUE(read_box(empty, Box::whole({0, 7})).empty());
  const std::int64_t huge = std::int64_t{1} << 40;
  const ZarrArray array =
      ZarrArray::prepare(make_memory_store(), "", array_of(kUint8, {huge, huge / (1 << 18)}, {1000, 1000}));
  const auto bytes = read_box(array, {{huge - 3, 1 << 20}, {3, 2000}});
  EXPECT_EQ(bytes, std::vector<std::byte>(6000));
}

TEST(ZarrArrays, a_hostile_chunk_shape_is_refused_by_the_account) {
  const ZarrArray array =
      ZarrArray::prepare(make_memory_store(), "", array_of(kUint8, {4}, {std::int64_t{1} << 50}, "zstd"));
  EXPECT_EQ(error_of([&] { read_box(array, Box::whole({4}), 1u << 20); }).kind(), ErrorKind::over_budget);
}

TEST(ZarrArrays, open_says_what_is_there_instead) {
  ScratchFolder folder;
  const auto store = make_file_store(folder.path());
  EXPECT_THAT(error_of([&] { ZarrArray::open(store, "a"); }).message(), HasSubstr("nothing is there"));
  const std::string group = R"({"zarr_format":3,"node_type":"group","attributes":{}})";
  store->put("g/zarr.json", std::as_bytes(std::span(group)));
  EXPECT_THAT(error_of([&] { ZarrArray::open(store, "g"); }).message(), HasSubstr("which is empty"));
  const ZarrArray member = ZarrArray::prepare(store, "g/member", array_of(kInt8, {1}, {1}));
  member.publish();
  const Error error = error_of([&] { ZarrArray::open(folder / "g"); });
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_THAT(error.message(), HasSubstr("member"));
  EXPECT_EQ(ZarrArray::open(store, "\\g//member/").path(), "g/member");
  EXPECT_EQ(ZarrArray::open(store, "g/member").name(), folder / "g/member");
  const std::string v2 = R"({"zarr_format":2})";
  store->put("h/.zgroup", std::as_bytes(std::span(v2)));
  EXPECT_THAT(error_of([&] { ZarrArray::open(store, "h"); }).message(), HasSubstr("group"));
  store->put("bad/zarr.json", std::as_bytes(std::span(v2)));
  EXPECT_EQ(error_of([&] { ZarrArray::open(store, "bad"); }).kind(), ErrorKind::invalid);
  EXPECT_THROW(ZarrArray::open(store, "../g"), Error);
}

TEST(ZarrArrays, prepare_checks_before_anything_is_written) {
  const auto store = make_memory_store();
  const auto refuse = [&](const std::string& path, ArrayMetadata metadata) {
    EXPECT_THROW(ZarrArray::prepare(store, path, std::move(metadata)), Error) << path;
  };
  const ArrayMetadata good = array_of(kInt32, {10}, {5});
  for (const char* path : {"__private", "a/...", "zarr.json", "a/__b"}) refuse(path, good);
  for (auto change : std::initializer_list<std::function<void(ArrayMetadata&)>>{
           [](ArrayMetadata& m) { m.zarr_format = 4; }, [](ArrayMetadata& m) { m.chunks = {0}; },
           [](ArrayMetadata& m) {
             m.chunks = {5, 5};
           },
           [](ArrayMetadata& m) { m.fill.pop_back(); }, [](ArrayMetadata& m) { m.separator = '-'; },
           [](ArrayMetadata& m) { m.codecs = json::array(); },
           [](ArrayMetadata& m) {
             m.dimension_names = {"a", "b"};
           },
           [](ArrayMetadata& m) { m.attributes = 1; }, [](ArrayMetadata& m) { m.shards = Shape{7}; },
           [](ArrayMetadata& m) { m.zarr_format = 2, m.codecs.push_back("crc32c"); }}) {
    ArrayMetadata bad = good;
    change(bad);
    refuse("a", bad);
  }
  store->list("", [](std::string_view key, const Stamp&) { ADD_FAILURE() << key; });
}

// --- Chunks of several shapes ---------------------------------------------------------------------------------------

TEST(Rectilinear, EveryBoxIsThatOfTheWhole) {
  const Shape shape{20, 30};
  const std::vector<Shape> edges{{5, 4, 8, 3}, {7, 13, 12}};  // the last chunks reach beyond the end
  const auto store = make_memory_store();
  const json document = json::parse(R"({"zarr_format":3,"node_type":"array","shape":[20,30],"data_type":"int32",
    "chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[5,4,8,3],[7,13,12]]}},
    "chunk_key_encoding":{"name":"default"},"fill_value":7,
    "codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}]})");
  const std::string text = document.dump();
  store->put("a/zarr.json", std::as_bytes(std::span(text)));
  auto elements = random_elements(shape, kInt32, 5);
  // Each chunk is written as an array of its own with one chunk, and moved to its place. One is left out.
  Shape origin{0, 0};
  for (std::size_t i = 0; i < edges[0].size(); ++i, origin[0] += edges[0][i - 1], origin[1] = 0) {
    for (std::size_t j = 0; j < edges[1].size(); ++j, origin[1] += edges[1][j - 1]) {
      const Shape extents{edges[0][i], edges[1][j]};
      const Box part = intersect({origin, extents}, Box::whole(shape));
      const View here = make_view(elements.data(), kInt32, shape).sub(part.origin, part.shape);
      if (i == 1 && j == 1) {
        const std::int32_t fill = 7;
        fill_elements(here, std::as_bytes(std::span(&fill, 1)));
        continue;
      }
      const ZarrArray one = ZarrArray::prepare(store, "one", array_of(kInt32, extents, extents, "zstd"));
      std::vector<std::byte> chunk(byte_count(extents, kInt32));
      copy_elements(here, make_view(chunk.data(), kInt32, extents).sub({0, 0}, part.shape));
      write_all(one, chunk, false);
      std::vector<std::byte> stored(one.store().stamp("one/c/0/0")->bytes);
      store->read("one/c/0/0", stored);
      store->put("a/c/" + std::to_string(i) + "/" + std::to_string(j), stored);
    }
  }
  const ZarrArray array = ZarrArray::open(store, "a");
  std::mt19937 random(20261130);
  for (int trial = 0; trial < 300; ++trial) {
    Box box{{0, 0}, {0, 0}};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      box.origin[axis] = static_cast<std::int64_t>(random() % static_cast<unsigned>(shape[axis] + 1));
      box.shape[axis] = static_cast<std::int64_t>(random() % static_cast<unsigned>(shape[axis] - box.origin[axis] + 1));
    }
    SCOPED_TRACE(to_string(box.origin) + to_string(box.shape));
    EXPECT_EQ(read_box(array, box, array.read_memory(box.shape, false)), box_of(elements, shape, kInt32, box));
  }
  EXPECT_THAT(error_of([&] { ZarrArray::prepare(store, "b", array.metadata()); }).message(), HasSubstr("read only"));
}

}  // namespace
}  // namespace cuboid
