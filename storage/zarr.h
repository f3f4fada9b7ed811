// Zarr arrays, formats 2 and 3: metadata, reading any box straight into a destination, writing whole chunks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/buffer.h"
#include "storage/codec.h"
#include "storage/store.h"
#include "storage/types.h"

namespace cuboid {

// One array's metadata in one vocabulary, whatever the format. Plain data, as parsed and checked.
struct ArrayMetadata {
  int zarr_format = 3;
  Shape shape;
  Shape chunks;                 // inner chunks where sharded
  std::optional<Shape> shards;  // outer chunks where sharded
  // The extents of the chunks one after another, per axis, where the grid is rectilinear; `chunks` are then the largest
  // of each axis. Read only. Else empty.
  std::vector<Shape> edges;
  DType dtype;
  std::vector<std::byte> fill;  // one element, native order; zeros where v2 says null
  bool fill_undefined = false;  // v2 "fill_value": null
  nlohmann::json codecs;  // the v3 list; v2 compressor, filters, order and byte order translated; a sharding codec too
  std::string chunk_key_encoding = "default";               // v3: "default" | "v2"
  char separator = '/';                                     // between chunk indices in keys
  std::vector<std::optional<std::string>> dimension_names;  // empty: none stated
  nlohmann::json attributes = nlohmann::json::object();

  // Extents of what is stored under one key and written as a whole: shards where there are any, else chunks.
  const Shape& write_chunks() const { return shards ? *shards : chunks; }
  // How many stored chunks there are along each axis.
  Shape chunk_counts() const;
  // "2.0.1", "c/2/0/1", "0", "c": the key of a stored chunk below the array.
  std::string chunk_key(const Shape& index) const;
};

// Parses .zarray (+ .zattrs) or zarr.json. Throws Error{invalid | unsupported} naming key and value, what was expected.
ArrayMetadata parse_metadata_v2(const std::string& zarray, const std::string& zattrs);
ArrayMetadata parse_metadata_v3(const std::string& zarr_json);
// Key-value pairs to store below the array, in the order to write them: the one that makes it visible last.
std::vector<std::pair<std::string, std::string>> format_metadata(const ArrayMetadata& metadata);
// Internal form for plans: to and from JSON without loss.
nlohmann::json metadata_to_json(const ArrayMetadata& metadata);
ArrayMetadata metadata_from_json(const nlohmann::json& json);

// What became of a written chunk: the length 0 stands for "equal to fill, not stored".
struct Written {
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
};

// Cheap to copy, immutable, thread-safe. Refers to a store and a path below it.
class ZarrArray {
 public:
  // Reads metadata only. Error{not_found} where there is no array; says what is there instead (a group, nothing).
  static ZarrArray open(std::shared_ptr<Store> store, const std::string& path = "");
  static ZarrArray open(const std::string& path_or_url);
  // An array that is about to be written: checks the metadata, writes nothing. It becomes visible with publish(). Where
  // `shards` is set and `codecs` say nothing of shards (or the other way round), codecs are made to fit.
  static ZarrArray prepare(std::shared_ptr<Store> store, const std::string& path, ArrayMetadata metadata);
  void publish(bool durable = false) const;
  // An array whose metadata is known, to be read: checks it, and asks the store for nothing.
  static ZarrArray reopen(std::shared_ptr<Store> store, const std::string& path, ArrayMetadata metadata);

  const ArrayMetadata& metadata() const;
  const Shape& shape() const { return metadata().shape; }
  DType dtype() const { return metadata().dtype; }
  const Store& store() const;
  Store& mutable_store() const;
  const std::string& path() const;
  std::string name() const;                            // for messages: store and path
  std::string key_of(const Shape& chunk_index) const;  // full key below the store

  // Shown each chunk that is read as a whole, once it is decoded: its index, and its stored bytes as they lie in the
  // store (data() is nullptr: none is stored, it reads as fill). May throw. Parts of chunks and of shards are not shown.
  using ChunkSeen = std::function<void(const Shape& index, std::span<const std::byte> stored)>;
  // Reads a box into `into` (same shape, any strides). Missing chunks read as fill. Chunks inside the box are decoded
  // in place where strides allow. Throws Error{corrupt | io} with array, chunk and file.
  void read(const Box& box, const View& into, MemoryAccount& account, const ChunkSeen& seen = {}) const;
  // True where reading part of a chunk leaves out what lies before and behind it in C order, rather than decoding all.
  bool reads_ranges() const;
  // The box of whole write-chunks at `chunk_index`, from a view of its extents clipped at the array; padded with fill.
  // skip_fill: an all-fill chunk is not stored (compared bitwise) and a stored one is erased.
  Written write_chunk(const Shape& chunk_index, const ConstView& from, MemoryAccount& account, bool skip_fill = true,
                      bool durable = false) const;
  // True where chunks of both, one by one, are encoded the same under the same grid, so that stored ones may be moved.
  // False where elements are stored as they are: there is nothing to spare.
  bool stored_alike(const ZarrArray& other) const;
  // The chunk of an array that is stored_alike(), as ChunkSeen shows it, with the elements it decodes to. An all-fill
  // chunk is not stored.
  Written move_chunk(const Shape& chunk_index, std::span<const std::byte> stored, const ConstView& decoded,
                     bool durable = false) const;
  // The most account bytes that read() takes for any box of `extents` (clipped at the array's end) into a contiguous
  // view. `aligned`: boxes begin at chunk borders.
  std::size_t read_memory(const Shape& extents, bool aligned) const;
  // The most that write_chunk() takes. `contiguous`: every view is C-contiguous, so that whole chunks are not staged.
  std::size_t write_memory(bool contiguous = false) const;
  // The same for views of these extents only (a chunk's, or clipped ones).
  std::size_t write_memory(const Shape& extents, bool contiguous) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
  explicit ZarrArray(std::shared_ptr<const State> state) : state_(std::move(state)) {}
};

}  // namespace cuboid
