// From the elements of a chunk to stored bytes and back: the chain of codecs that an array's metadata names.
// Each codec states the memory it takes, its library's own allocations included, so that a plan can count it.
#pragma once
#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/buffer.h"
#include "storage/types.h"

namespace cuboid {

class Store;

// What the chain is given in memory: a C-ordered, native-endian chunk.
struct ChunkSpec {
  DType dtype;
  Shape shape;
  std::vector<std::byte> fill = {};  // one element, for what a shard leaves out; empty: zeros
};

// Immutable and thread-safe: one chain serves all chunks of an array.
class CodecChain {
 public:
  virtual ~CodecChain() = default;

  // Bytes that an encoded chunk never exceeds.
  virtual std::size_t encoded_bound() const = 0;
  // Peak bytes (as the pool and the libraries take them) beyond source and destination of one call.
  virtual std::size_t encode_scratch() const = 0;
  virtual std::size_t decode_scratch() const = 0;

  // Encodes a whole chunk into the front of `into` (at least encoded_bound() bytes) and returns the length. Throws
  // Error{unsupported} for codecs that are read only.
  virtual std::size_t encode(std::span<const std::byte> chunk, std::span<std::byte> into,
                             MemoryAccount& account) const = 0;
  // Decodes into exactly the chunk's bytes. Any mismatch of length, checksum or content is Error{corrupt}. Never
  // allocates what an untrusted header asks for.
  virtual void decode(std::span<const std::byte> encoded, std::span<std::byte> chunk, MemoryAccount& account) const = 0;
  // True where decode_range() takes less than decode(): the chain can leave out bytes that are not wanted.
  virtual bool ranged() const = 0;
  // Where ranged(): decodes into `chunk`, which has all of the chunk's bytes, at least those of [begin, end); others are
  // left undefined. Faults as decode(), as far as what it looks at tells.
  virtual void decode_range(std::span<const std::byte> encoded, std::span<std::byte> chunk, std::size_t begin,
                            std::size_t end, MemoryAccount& account) const = 0;
  virtual std::size_t range_scratch() const = 0;
  // True where stored bytes are the chunk's bytes, so that reading may go straight to the destination.
  virtual bool identity() const = 0;
  // False where some codec is read only: encode() throws Error{unsupported}.
  virtual bool writable() const = 0;
  // True where every encoded chunk has encoded_bound() bytes.
  virtual bool fixed_size() const = 0;

  // True for shards: a part of a stored chunk can be read without the rest.
  virtual bool partial() const = 0;
  // Where partial(): reads parts of chunks, each into a view of its extents. Stores that answer late are asked for
  // several at once. Errors name the chunk. `parts` is
  // used up: boxes and views may be turned.
  struct ChunkPart {
    std::string key;
    Box part;
    View into;
    bool stored = false;  // the result: false where there is no such chunk, and nothing was read
  };
  virtual void read_parts(const Store& store, std::span<ChunkPart> parts, MemoryAccount& account) const = 0;
  // How many chunks read_parts() should be given at once of a store, at most.
  virtual std::size_t parts_at_once(const Store& store) const = 0;
  // The peak of read_parts(); `staged`: inner chunks may lie across a part's border or with gaps in the view.
  virtual std::size_t read_parts_memory(const Store& store, std::size_t parts, bool staged) const = 0;

  // The Zarr v3 list of codecs, full form.
  virtual nlohmann::json to_json() const = 0;
};

// From a Zarr v3 codec list. Throws Error{invalid | unsupported} that names the codec and key at fault, or where a
// chunk exceeds what a codec can hold (checked here, not at the first write).
std::shared_ptr<const CodecChain> make_codec_chain(const nlohmann::json& v3_codecs, const ChunkSpec& chunk);

// A v3 codec list by name, as `codecs:` and --codecs take it ("blosc-lz4", "zstd", "gzip", "none", ...), or for a JSON
// list itself. Throws Error{invalid} with the nearest valid name.
nlohmann::json codecs_by_name(const std::string& name, DType dtype);
struct CodecName {
  std::string name, doc;
};
std::vector<CodecName> codec_names();

}  // namespace cuboid
