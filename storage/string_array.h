// Arrays whose elements are strings or bytes of any length (Zarr v2 "|O" with vlen-utf8 or vlen-bytes; v3 "string" and
// "bytes"). Tasks compute on elements of one size only, so these are no ZarrArray: they are shown and copied.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "storage/zarr.h"

namespace cuboid {

class Sharding;

// Thread-safe; cheap to copy.
class StringArray {
 public:
  // nullopt where the metadata at `path` is of no such array, or there is none.
  static std::optional<StringArray> open(std::shared_ptr<Store> store, const std::string& path = "");
  // The same from a node's documents: zarr.json, or .zarray and .zattrs.
  static std::optional<StringArray> parse_v3(const std::string& zarr_json);
  static std::optional<StringArray> parse_v2(const std::string& zarray, const std::string& zattrs);

  const Store& store() const { return *store_; }
  const std::string& path() const { return path_; }
  // Shape, chunks, keys, attributes. `dtype` and `fill` stand in for what elements are: see type() and fill().
  const ArrayMetadata& metadata() const { return metadata_; }
  const Shape& shape() const { return metadata_.shape; }
  bool is_text() const { return is_text_; }  // else bytes
  const std::string& type() const { return type_; }
  const std::string& fill() const { return fill_; }
  const nlohmann::json& codecs() const { return codecs_; }  // the v3 list

  // Calls `each`, in C order, on every element whose indices are listed, axis by axis, in whatever order. Decoded chunks
  // are charged to the account and kept while it has room: those of one row of the grid. Throws as ZarrArray::read() does.
  void read(std::span<const Shape> indices, MemoryAccount& account,
            const std::function<void(std::string_view)>& each) const;

  // An array of the same elements, shape and attributes that is about to be written: checks, writes nothing. `v3_codecs`
  // name the elements' codec ("vlen-utf8"), or "bytes" in its place; shards among them are left out. Throws as ZarrArray::prepare() does.
  StringArray prepare_copy(std::shared_ptr<Store> store, const Shape& chunks, int zarr_format,
                           nlohmann::json v3_codecs) const;
  struct Copied {
    std::int64_t chunks = 0;  // that are stored: those that are all fill are not
    std::uint64_t bytes = 0;
  };
  // Of a prepared copy: reads all elements of `from`, writes every chunk, then makes the array visible.
  Copied write_all(const StringArray& from, MemoryAccount& account) const;

 private:
  struct Chunk;
  class Reader;
  Chunk read_chunk(const Shape& index, MemoryAccount& account) const;
  // Returns the stored length; 0 where all elements are fill.
  std::uint64_t write_chunk(const Shape& index, Reader& reader, MemoryAccount& account) const;
  std::string key_of(const Shape& chunk_index) const;

  std::shared_ptr<Store> store_;
  std::string path_, type_, fill_;
  ArrayMetadata metadata_;
  nlohmann::json codecs_, chunk_codecs_;      // in shards: all, and of one chunk, as if there were none
  std::shared_ptr<const Sharding> sharding_;  // of bytes in the elements' place; else null
  std::vector<std::pair<std::string, std::string>> documents_;  // of a prepared copy, in the order to write them
  bool is_text_ = true;
};

}  // namespace cuboid
