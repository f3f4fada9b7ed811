// What codecs take from the heap, counted by standing in for malloc: never more than they state, and nothing else in a
// read or write takes 64 KiB. A program of its own, because the stand-in serves the whole process.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "storage/zarr.h"

extern "C" {
void* __libc_malloc(std::size_t);
void __libc_free(void*);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

std::atomic<std::size_t> g_bytes{0}, g_peak{0};

void* counted(void* block) {
  if (!block) return block;
  const std::size_t now = g_bytes.fetch_add(malloc_usable_size(block)) + malloc_usable_size(block);
  std::size_t peak = g_peak.load();
  while (peak < now && !g_peak.compare_exchange_weak(peak, now)) {
  }
  return block;
}
void uncounted(void* block) {
  if (block) g_bytes.fetch_sub(malloc_usable_size(block));
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) { return counted(__libc_malloc(bytes)); }
void free(void* block) {
  uncounted(block);
  __libc_free(block);
}
void* calloc(std::size_t count, std::size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void* realloc(void* block, std::size_t bytes) {
  uncounted(block);
  return counted(__libc_realloc(block, bytes));
}
void* memalign(std::size_t alignment, std::size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block ? 0 : ENOMEM;
}
}

namespace cuboid {
namespace {

using nlohmann::json;

template <class Call>
std::size_t heap_peak(Call call) {
  MemoryAccount().acquire(1);  // makes the pool
  const std::size_t before = g_bytes.load();
  g_peak = before;
  call();
  return g_peak.load() - before;
}

TEST(Heap, the_count_counts) {
  EXPECT_GE(heap_peak([] { std::vector<char> block(100'000); }), 100'000u);
  EXPECT_LT(heap_peak([] { MemoryAccount().acquire(1'000'000); }), 4096u);
}

std::vector<std::byte> elements(std::size_t bytes, unsigned noise) {
  std::mt19937 random(31);
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = std::byte(i / 16 + random() % noise);
  return result;
}

const char* const kCodecs[] = {
    R"({"name":"blosc","configuration":{"cname":"blosclz","clevel":9}})",
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":1}})",
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5}})",
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":9}})",
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"blocksize":3000000}})",
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"blocksize":5000,"shuffle":"bitshuffle"}})",
    R"({"name":"blosc","configuration":{"cname":"lz4hc","clevel":9}})",
    R"({"name":"blosc","configuration":{"cname":"snappy","clevel":5}})",
    R"({"name":"blosc","configuration":{"cname":"zlib","clevel":9}})",
    R"({"name":"blosc","configuration":{"cname":"zstd","clevel":1}})",
    R"({"name":"blosc","configuration":{"cname":"zstd","clevel":5}})",
    R"({"name":"blosc","configuration":{"cname":"zstd","clevel":9}})",
    R"({"name":"zstd","configuration":{"level":3}})",
    R"({"name":"zstd","configuration":{"level":12}})",
    R"({"name":"gzip","configuration":{"level":0}})",
    R"({"name":"gzip","configuration":{"level":1}})",
    R"({"name":"gzip","configuration":{"level":6}})",
    R"({"name":"numcodecs.zlib","configuration":{"level":9}})",
    R"({"name":"numcodecs.lz4"})",
    R"({"name":"numcodecs.bz2","configuration":{"level":1}})",
    R"({"name":"numcodecs.bz2","configuration":{"level":9}})",
    R"({"name":"numcodecs.lzma","configuration":{"preset":0}})",
    R"({"name":"numcodecs.lzma","configuration":{"preset":2}})",
};

TEST(Heap, codecs_take_no_more_than_they_state) {
  for (const char* codec : kCodecs) {
    for (std::size_t count : {10'000u, 200'000u}) {
      for (unsigned noise : {1u, 200u}) {
        SCOPED_TRACE(std::string(codec) + " on " + std::to_string(count) + " x 8 bytes");
        const json codecs =
            json::array({json::parse(R"({"name":"bytes","configuration":{"endian":"little"}})"), json::parse(codec)});
        const auto chain = make_codec_chain(codecs, {kFloat64, {static_cast<std::int64_t>(count)}});
        const std::vector<std::byte> chunk = elements(8 * count, noise);
        std::vector<std::byte> encoded(chain->encoded_bound()), decoded(chunk.size());
        MemoryAccount encoding(chain->encode_scratch()), decoding(chain->decode_scratch());
        std::size_t length = 0;
        // Beside what is stated: a few strings and vectors, and the padding of aligned blocks.
        EXPECT_LE(heap_peak([&] { length = chain->encode(chunk, encoded, encoding); }), chain->encode_scratch() + 4096);
        EXPECT_LE(heap_peak([&] {
                    chain->decode({encoded.data(), length}, decoded, decoding);
                  }),
                  chain->decode_scratch() + 4096);
        EXPECT_EQ(decoded, chunk);
        if (!chain->ranged()) continue;
        MemoryAccount part(chain->range_scratch());
        EXPECT_LE(heap_peak([&] {
                    chain->decode_range({encoded.data(), length}, decoded, 4 * count, 4 * count + 800, part);
                  }),
                  chain->range_scratch() + 4096);
      }
    }
  }
}

TEST(Heap, reading_and_writing_take_none_to_speak_of) {
  for (const char* name : {"none", "zstd", "lz4"}) {
    SCOPED_TRACE(name);
    ArrayMetadata metadata;
    metadata.shape = {1000, 1000};
    metadata.chunks = {300, 300};
    metadata.dtype = kFloat64;
    metadata.fill.resize(8);
    metadata.codecs = codecs_by_name(name, kFloat64);
    std::string folder = testing::TempDir() + "cuboid-heap-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder.data()));
    const ZarrArray array = ZarrArray::prepare(make_file_store(folder), "", metadata);
    const std::vector<std::byte> block = elements(8 * 300 * 300, 3);
    MemoryAccount account;
    const ConstView view = make_view(block.data(), kFloat64, {300, 300});
    EXPECT_LT(heap_peak([&] { array.write_chunk({1, 1}, view, account); }), 64u << 10);
    std::vector<std::byte> part(8 * 400 * 400);
    const View into = make_view(part.data(), kFloat64, {400, 400});
    const auto read = [&] { array.read({{290, 290}, {400, 400}}, into, account); };
    read();  // what codecs state and a thread keeps is there from now on
    EXPECT_LT(heap_peak(read), 64u << 10);
    array.mutable_store().erase_prefix("");
    std::remove(folder.c_str());
  }
}

}  // namespace
}  // namespace cuboid
