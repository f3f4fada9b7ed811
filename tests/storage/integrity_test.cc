// What becomes of arrays whose bytes are not what was written: a flipped bit, a torn shard, a writer that was killed,
// two writers; and that any part of an array reads as that part of the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "storage/error.h"
#include "storage/zarr.h"
#include "tests/storage/faulty_store.h"
#include "tests/storage/scratch_folder.h"

namespace cuboid {
namespace {

using nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;

constexpr unsigned kSeed = 20261130;

ArrayMetadata array_of(DType dtype, Shape shape, Shape chunks, json codecs) {
  ArrayMetadata metadata;
  metadata.shape = std::move(shape);
  metadata.chunks = std::move(chunks);
  metadata.dtype = dtype;
  metadata.fill.resize(dtype.size);
  metadata.codecs = std::move(codecs);
  return metadata;
}

std::vector<std::byte> elements_of(const ArrayMetadata& metadata, std::mt19937& random) {
  std::vector<std::byte> elements(byte_count(metadata.shape, metadata.dtype));
  for (std::byte& byte : elements) byte = std::byte(random() % 5);
  return elements;
}

void write_all(const ZarrArray& array, const std::vector<std::byte>& elements, bool skip_fill = true) {
  const Grid grid(array.shape(), array.metadata().write_chunks());
  const ConstView all = make_view(elements.data(), array.dtype(), array.shape());
  MemoryAccount account(array.write_memory());
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const Box box = grid.box(i);
    array.write_chunk(grid.index(i), all.sub(box.origin, box.shape), account, skip_fill);
  }
}

std::vector<std::byte> read_box(const ZarrArray& array, const Box& box) {
  std::vector<std::byte> elements(byte_count(box.shape, array.dtype()), std::byte{0xee});
  MemoryAccount account(array.read_memory(box.shape, false));
  array.read(box, make_view(elements.data(), array.dtype(), box.shape), account);
  return elements;
}
std::vector<std::byte> read_all(const ZarrArray& array) { return read_box(array, Box::whole(array.shape())); }

std::vector<std::byte> box_of(const std::vector<std::byte>& whole, const Shape& shape, DType dtype, const Box& box) {
  std::vector<std::byte> part(byte_count(box.shape, dtype));
  copy_elements(make_view(whole.data(), dtype, shape).sub(box.origin, box.shape),
                make_view(part.data(), dtype, box.shape));
  return part;
}

std::vector<std::byte> value_at(const Store& store, const std::string& key) {
  std::vector<std::byte> bytes(store.stamp(key)->bytes);
  store.read(key, bytes);
  return bytes;
}

json codecs(const char* after_bytes) {
  json list = json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}});
  for (const json& codec : json::parse(after_bytes)) list.push_back(codec);
  return list;
}
const char* const kZstd = R"([{"name":"zstd","configuration":{"level":1,"checksum":false}}])";
const char* const kCrc = R"([{"name":"crc32c"}])";
const char* const kZstdCrc = R"([{"name":"zstd","configuration":{"level":1,"checksum":false}},{"name":"crc32c"}])";
const char* const kBloscCrc =
    R"([{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}},{"name":"crc32c"}])";

json sharded(const json& inner, Shape chunks, const char* index_place = "end", const char* index_after = kCrc) {
  return json::array({{{"name", "sharding_indexed"},
                       {"configuration",
                        {{"chunk_shape", chunks},
                         {"codecs", inner},
                         {"index_codecs", codecs(index_after)},
                         {"index_location", index_place}}}}});
}

// --- Any box is that of the whole -----------------------------------------------------------------------------------

ArrayMetadata any_metadata(std::mt19937& random) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const DType types[] = {kBool,
                         kInt16,
                         kFloat32,
                         kFloat64,
                         kComplex128,
                         *dtype_from_name("null_terminated_bytes[5]"),
                         *dtype_from_name("numpy.datetime64[ns]")};
  ArrayMetadata metadata;
  metadata.dtype = types[random() % std::size(types)];
  metadata.fill.resize(metadata.dtype.size);
  for (std::byte& byte : metadata.fill) byte = std::byte(random() % 2);
  if (metadata.dtype == kBool) metadata.fill = {std::byte{1}};
  const int rank = pick(0, 4);
  bool shards = rank > 0 && pick(0, 2) == 0;
  json order = json::array();
  for (int axis = 0; axis < rank; ++axis) {
    metadata.shape.push_back(pick(0, 12) == 0 ? 0 : pick(1, 14));
    metadata.chunks.push_back(pick(1, 6));
    order.push_back(static_cast<unsigned>(rank - 1 - axis));
  }
  const char* names[] = {"none", "blosc-lz4", "zstd", "gzip", "lz4", "blosc-zstd"};
  metadata.codecs = codecs_by_name(names[random() % std::size(names)], metadata.dtype);
  if (metadata.codecs[0].contains("configuration") && pick(0, 1)) metadata.codecs[0]["configuration"]["endian"] = "big";
  if (pick(0, 1)) metadata.codecs.push_back({{"name", "crc32c"}});
  if (pick(0, 2) == 0)
    metadata.codecs.insert(metadata.codecs.begin(),
                           json{{"name", "transpose"}, {"configuration", json{{"order", order}}}});
  if (shards) {
    metadata.shards = metadata.chunks;
    for (auto& extent : *metadata.shards) extent *= pick(1, 3);
    metadata.codecs = sharded(metadata.codecs, metadata.chunks, pick(0, 1) ? "end" : "start");
    if (pick(0, 3) == 0) metadata.codecs.push_back({{"name", "crc32c"}});  // then no part can be read alone
  }
  metadata.separator = pick(0, 1) ? '/' : '.';
  return metadata;
}

TEST(Property, AnyBoxOfAnyArrayIsThatOfTheWhole) {
  std::cout << "seed " << kSeed << "\n";
  for (unsigned trial = 0; trial < 300; ++trial) {
    std::mt19937 random(kSeed + trial);
    const ArrayMetadata metadata = any_metadata(random);
    SCOPED_TRACE("seed " + std::to_string(kSeed + trial) + ": " + metadata_to_json(metadata).dump());
    const auto store = make_memory_store();
    const ZarrArray written = ZarrArray::prepare(store, "a", metadata);
    const std::vector<std::byte> elements = elements_of(metadata, random);
    write_all(written, elements);
    written.publish();
    const ZarrArray array = ZarrArray::open(store, "a");
    ASSERT_EQ(read_all(array), elements);
    for (int part = 0; part < 20; ++part) {
      Box box{metadata.shape, metadata.shape};
      for (std::size_t axis = 0; axis < box.origin.size(); ++axis) {
        const auto extent = static_cast<unsigned>(metadata.shape[axis]);
        box.origin[axis] = static_cast<std::int64_t>(random() % (extent + 1));
        box.shape[axis] = static_cast<std::int64_t>(random() % (extent - static_cast<unsigned>(box.origin[axis]) + 1));
      }
      ASSERT_EQ(read_box(array, box), box_of(elements, metadata.shape, metadata.dtype, box))
          << to_string(box.origin) << to_string(box.shape);
    }
  }
}

// --- Flipped bits ---------------------------------------------------------------------------------------------------

struct Kind_ {
  const char* name;
  json list;
  bool checked;  // by a checksum that covers every byte
};

// Every single bit of a stored chunk: with a checksum always an error that names array and chunk; without one an error,
// or elements, but never a crash and never more memory than was promised.
TEST(FlippedBits, AreErrorsWhereThereAreChecksums) {
  const Kind_ kinds[] = {{"raw", codecs("[]"), false},
                         {"crc32c", codecs(kCrc), true},
                         {"zstd", codecs(kZstd), false},
                         {"zstd + crc32c", codecs(kZstdCrc), true},
                         {"blosc + crc32c, as intermediates", codecs(kBloscCrc), true},
                         {"shard", sharded(codecs(kZstd), {4, 4}), false},
                         {"shard, checked", sharded(codecs(kZstdCrc), {4, 4}), true},
                         {"shard, index first, checked", sharded(codecs(kBloscCrc), {4, 4}, "start"), true},
                         {"shard, checksum behind it",
                          [] {
                            json list = sharded(codecs(kZstd), {4, 4});
                            list.push_back({{"name", "crc32c"}});
                            return list;
                          }(),
                          true}};
  for (const Kind_& kind : kinds) {
    SCOPED_TRACE(kind.name);
    std::mt19937 random(kSeed);
    ArrayMetadata metadata = array_of(kInt32, {8, 8}, {8, 8}, kind.list);
    if (kind.list[0]["name"] == "sharding_indexed") metadata.shards = std::exchange(metadata.chunks, Shape{4, 4});
    const auto store = make_memory_store();
    const ZarrArray array = ZarrArray::prepare(store, "a", metadata);
    const std::vector<std::byte> elements = elements_of(metadata, random);
    write_all(array, elements);
    const std::vector<std::byte> good = value_at(*store, "a/c/0/0");
    int errors = 0;
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::vector<std::byte> bad = good;
      bad[bit / 8] ^= std::byte(1u << bit % 8);
      store->put("a/c/0/0", bad);
      try {
        const std::vector<std::byte> read = read_all(array);
        EXPECT_FALSE(kind.checked) << "bit " << bit << " of " << 8 * good.size();
      } catch (const Error& error) {
        ++errors;
        EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.message();
        std::string context;
        for (const auto& [key, value] : error.context()) context += key + "=" + value + ";";
        EXPECT_THAT(context, HasSubstr("chunk=a/c/0/0;"));
        EXPECT_THAT(context, HasSubstr("array=memory:/a;"));
      }
    }
    EXPECT_LE(errors, static_cast<int>(8 * good.size()));
    EXPECT_GE(errors, kind.checked ? static_cast<int>(8 * good.size()) : 0);
  }
}

// --- Torn and unfinished --------------------------------------------------------------------------------------------

// The front of a shard, as a writer leaves it that does not put whole files in place: no length of it is taken for
// right.
TEST(TornShard, IsAnErrorAtEveryLength) {
  for (const char* place : {"end", "start"}) {
    SCOPED_TRACE(place);
    std::mt19937 random(kSeed);
    ArrayMetadata metadata = array_of(kInt32, {8, 8}, {4, 4}, sharded(codecs(kZstdCrc), {4, 4}, place));
    metadata.shards = Shape{8, 8};
    const auto store = make_memory_store();
    const ZarrArray array = ZarrArray::prepare(store, "a", metadata);
    write_all(array, elements_of(metadata, random));
    const std::vector<std::byte> whole = value_at(*store, "a/c/0/0");
    for (std::size_t length = 0; length < whole.size(); ++length) {
      store->put("a/c/0/0", std::span(whole).first(length));
      EXPECT_THROW(read_all(array), Error) << length << " of " << whole.size();
    }
  }
}

TEST(UnfinishedFiles, AreNoObstacleAndAreNeverSeen) {
  const ScratchFolder folder;
  const std::string root = folder.path() + "/a.zarr";
  std::mt19937 random(kSeed);
  const ArrayMetadata metadata = array_of(kInt32, {8, 8}, {4, 4}, codecs(kZstd));
  const ZarrArray array = ZarrArray::prepare(make_file_store(root), "", metadata);
  const std::vector<std::byte> elements = elements_of(metadata, random);
  std::filesystem::create_directories(root + "/c/0");
  for (const char* stale : {"/.cuboid-put-0123456789abcdef-1-0", "/c/0/.cuboid-put-0123456789abcdef-1-1"})
    std::ofstream(root + stale) << "half of a chunk";
  write_all(array, elements);
  EXPECT_THROW(ZarrArray::open(root), Error);  // not published: there is no array yet
  array.publish();
  EXPECT_EQ(read_all(ZarrArray::open(root)), elements);
  std::size_t keys = 0;
  array.store().list("", [&](std::string_view key, const Stamp&) {
    ++keys;
    EXPECT_EQ(key.find("cuboid-put"), key.npos);
  });
  EXPECT_EQ(keys, 5u);  // four chunks and the metadata
  array.mutable_store().erase_unfinished("");
  EXPECT_FALSE(std::filesystem::exists(root + "/.cuboid-put-0123456789abcdef-1-0"));
  EXPECT_EQ(read_all(ZarrArray::open(root)), elements);
}

// Two writers of one chunk, and readers meanwhile: every read is one writer's chunk as a whole, and so is what remains.
TEST(TwoWriters, LeaveOneOfTheirChunksWhole) {
  const ScratchFolder folder;
  const auto store = make_file_store(folder.path() + "/a.zarr");
  const ZarrArray array = ZarrArray::prepare(store, "", array_of(kInt32, {64, 64}, {64, 64}, codecs(kZstdCrc)));
  array.publish();
  const auto uniform = [&](std::int32_t value) {
    std::vector<std::byte> elements(byte_count({64, 64}, kInt32));
    fill_elements(make_view(elements.data(), kInt32, {64, 64}), std::as_bytes(std::span(&value, 1)));
    return elements;
  };
  const std::vector<std::byte> one = uniform(1), two = uniform(2);
  write_all(array, one);
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0}, reads{0};
  std::thread reader([&] {
    while (!stop) {
      const auto read = read_all(array);
      ++reads;
      if (read != one && read != two) ++torn;
    }
  });
  std::thread first([&] {
    for (int k = 0; k < 200; ++k) write_all(array, one);
  });
  std::thread second([&] {
    for (int k = 0; k < 200; ++k) write_all(array, two);
  });
  first.join();
  second.join();
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(reads, 0);
  EXPECT_THAT(read_all(array), AnyOf(one, two));
  std::size_t files = 0;
  store->list("", [&](std::string_view, const Stamp&) { ++files; });
  EXPECT_EQ(files, 2u);
}

// --- Many chunks ----------------------------------------------------------------------------------------------------

TEST(ManyChunks, OpeningAsksForMetadataOnlyAndListingIsOnePass) {
  const auto inner = make_memory_store();
  const auto store = std::make_shared<FaultyStore>(inner);
  const ArrayMetadata metadata = array_of(kUint8, {1000, 1000000}, {1, 1000}, codecs("[]"));
  const ZarrArray array = ZarrArray::prepare(store, "a", metadata);
  array.publish();
  const std::byte one{1};
  for (int i = 0; i < 1000; ++i)
    for (int j = 0; j < 1000; ++j) inner->put("a/c/" + std::to_string(i) + "/" + std::to_string(j), {&one, 1});
  const int reads = store->calls(FaultyStore::kRead), lists = store->calls(FaultyStore::kList);
  const auto begin = std::chrono::steady_clock::now();
  const ZarrArray opened = ZarrArray::open(store, "a");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took, std::chrono::milliseconds(50));
  EXPECT_LE(store->calls(FaultyStore::kRead) - reads, 3);
  EXPECT_EQ(store->calls(FaultyStore::kList), lists);
  std::int64_t chunks = 0;
  opened.store().list("a", [&](std::string_view, const Stamp&) { ++chunks; });
  EXPECT_EQ(chunks, 1000001);
  EXPECT_EQ(store->calls(FaultyStore::kList), lists + 1);
  EXPECT_LE(store->calls(FaultyStore::kRead) - reads, 3);
}

}  // namespace
}  // namespace cuboid
