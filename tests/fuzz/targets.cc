#include "tests/fuzz/targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "storage/error.h"
#include "storage/store.h"
#include "storage/string_array.h"
#include "storage/zarr.h"

namespace cuboid {
namespace {

using nlohmann::json;

// What a reader of this much input may take: far more than right data needs, far less than a header can ask for.
constexpr std::size_t kMemory = 16u << 20;

template <class Call>
void refuse_or_read(Call call) {
  try {
    call();
  } catch (const Error&) {
  }
}

// Metadata that is accepted can be written again, and then means the same.
void read_and_write(const ArrayMetadata& metadata) {
  std::string text, attributes;
  try {
    for (const auto& [name, document] : format_metadata(metadata)) (name == ".zattrs" ? attributes : text) = document;
  } catch (const Error&) {
    return;  // read only
  }
  const ArrayMetadata again = metadata.zarr_format == 2 ? parse_metadata_v2(text, attributes) : parse_metadata_v3(text);
  const bool same = again.shape == metadata.shape && again.chunks == metadata.chunks && again.dtype == metadata.dtype &&
                    again.fill == metadata.fill;
  if (!same && metadata.edges.empty()) std::abort();
}

std::string text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

}  // namespace

void fuzz_metadata_v2(const std::uint8_t* data, std::size_t size) {
  refuse_or_read([&] { read_and_write(parse_metadata_v2(text_of(data, size), "")); });
  refuse_or_read([&] { StringArray::parse_v2(text_of(data, size), ""); });
}

void fuzz_metadata_v3(const std::uint8_t* data, std::size_t size) {
  refuse_or_read([&] { read_and_write(parse_metadata_v3(text_of(data, size))); });
  refuse_or_read([&] { StringArray::parse_v3(text_of(data, size)); });
}

void fuzz_codecs(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::shared_ptr<const CodecChain>> chains = [] {
    std::vector<std::shared_ptr<const CodecChain>> made;
    for (const char* codecs :
         {R"([{"name":"blosc"}])", R"([{"name":"zstd","configuration":{"level":1,"checksum":false}}])",
          R"([{"name":"gzip","configuration":{"level":1}}])",
          R"([{"name":"numcodecs.zlib","configuration":{"level":1}}])", R"([{"name":"numcodecs.lz4"}])",
          R"([{"name":"numcodecs.bz2","configuration":{"level":1}}])",
          R"([{"name":"numcodecs.lzma","configuration":{"format":1,"check":-1,"preset":1,"filters":null}}])",
          R"([{"name":"crc32c"}])", R"([{"name":"numcodecs.shuffle","configuration":{"elementsize":4}}])",
          R"([{"name":"zstd","configuration":{"level":1,"checksum":false}},{"name":"crc32c"}])"}) {
      json list = json::array({{{"name", "bytes"}, {"configuration", {{"endian", "big"}}}}});
      for (const json& codec : json::parse(codecs)) {
        list.push_back(codec);
        if (codec["name"] == "blosc")
          list.back()["configuration"] = {
              {"cname", "lz4"}, {"clevel", 5}, {"shuffle", "shuffle"}, {"typesize", 4}, {"blocksize", 0}};
      }
      made.push_back(make_codec_chain(list, {kInt32, {16, 64}}));
    }
    for (
        const char* filter :
        {R"({"name":"numcodecs.delta","configuration":{"dtype":"<i4","astype":"<i2"}})",
         R"({"name":"numcodecs.fixedscaleoffset","configuration":{"dtype":"<i4","astype":"<f4","scale":2,"offset":1}})"})
      made.push_back(make_codec_chain(
          json::array({json::parse(filter), {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}}),
          {kInt32, {16, 64}}));
    made.push_back(
        make_codec_chain(json::parse(R"([{"name":"numcodecs.packbits"},{"name":"bytes"}])"), {kBool, {4096}}));
    return made;
  }();
  if (size == 0) return;
  const CodecChain& chain = *chains[data[0] % chains.size()];
  std::vector<std::byte> chunk(4096);
  MemoryAccount account(kMemory);
  refuse_or_read([&] { chain.decode(std::as_bytes(std::span(data + 1, size - 1)), chunk, account); });
  if (account.in_use() != 0) std::abort();
}

void fuzz_shard(const std::uint8_t* data, std::size_t size) {
  static const std::vector<ArrayMetadata> shapes = [] {
    std::vector<ArrayMetadata> made;
    for (const char* place : {"end", "start"}) {
      const std::string document =
          std::string(R"({"zarr_format":3,"node_type":"array","shape":[16,16],"data_type":"int16",
        "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[16,16]}},"chunk_key_encoding":{"name":"default"},"fill_value":3,
        "codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[4,8],"index_location":")") +
          place + R"(",
          "codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}],
          "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}]})";
      made.push_back(parse_metadata_v3(document));
    }
    return made;
  }();
  if (size == 0) return;
  const auto store = make_memory_store();
  store->put("c/0/0", std::as_bytes(std::span(data + 1, size - 1)));
  const ZarrArray array = ZarrArray::prepare(store, "", shapes[data[0] % 2]);
  std::vector<std::byte> elements(16 * 16 * 2);
  MemoryAccount account(kMemory);
  refuse_or_read([&] { array.read(Box::whole({16, 16}), make_view(elements.data(), kInt16, {16, 16}), account); });
  refuse_or_read([&] { array.read({{5, 3}, {2, 7}}, make_view(elements.data(), kInt16, {2, 7}), account); });
  if (account.in_use() != 0) std::abort();
}

void fuzz_strings(const std::uint8_t* data, std::size_t size) {
  static constexpr const char* kCodecs[] = {
      R"("vlen-utf8")", R"("vlen-utf8",{"name":"zstd","configuration":{"level":1,"checksum":false}})",
      R"("vlen-utf8","numcodecs.lz4","crc32c")",
      R"("vlen-utf8",{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"noshuffle","typesize":1,"blocksize":0}})",
      R"({"name":"sharding_indexed","configuration":{"chunk_shape":[1],"codecs":["vlen-utf8","numcodecs.lz4"],
          "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}})"};
  if (size == 0) return;
  const auto store = make_memory_store();
  const std::string document =
      R"({"zarr_format":3,"node_type":"array","shape":[5],"data_type":"string","chunk_grid":{"name":"regular",
      "configuration":{"chunk_shape":[5]}},"chunk_key_encoding":{"name":"default"},"fill_value":"","codecs":[)" +
      std::string(kCodecs[data[0] % std::size(kCodecs)]) + "]}";
  store->put("zarr.json", std::as_bytes(std::span(document)));
  store->put("c/0", std::as_bytes(std::span(data + 1, size - 1)));
  MemoryAccount account(kMemory);
  const auto array = StringArray::open(store);
  if (!array) std::abort();
  const Shape all[] = {{4, 3, 2, 1, 0}};
  std::size_t bytes = 0;
  refuse_or_read([&] { array->read(all, account, [&](std::string_view element) { bytes += element.size(); }); });
  if (bytes > kMemory || account.in_use() != 0) std::abort();
}

void fuzz_zip(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("cuboid-fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  refuse_or_read([&] {
    const auto store = make_zip_store(path);
    std::vector<std::string> keys;
    store->list("", [&](std::string_view key, const Stamp&) { keys.emplace_back(key); });
    store->list_dir("");
    std::vector<std::byte> into(1 << 16);
    for (const std::string& key : keys) {
      refuse_or_read([&] { store->read(key, into); });
      refuse_or_read([&] { store->read_range(key, 1, std::span(into).first(3)); });
    }
  });
}

}  // namespace cuboid
