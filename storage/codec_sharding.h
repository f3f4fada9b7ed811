// The sharding_indexed codec (Zarr v3): a shard holds inner chunks, each encoded by a chain of its own, in any order
// and with any gaps, and an index of (offset, length) pairs at its end or start. Private to storage/.
#pragma once
#include <memory>

#include "storage/codec_stage.h"
#include "storage/store.h"
#include "storage/types.h"

namespace cuboid {

class Sharding final : public CodecStage {
 public:
  // Of shards of spec.shape: the shape that is left by the transposes before.
  Sharding(CodecConfig& config, const ChunkSpec& spec);

  std::size_t bound(std::size_t decoded) const override;
  std::size_t encode_scratch(std::size_t decoded) const override;
  std::size_t decode_scratch(std::size_t decoded) const override;
  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override;
  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override;

  // Reads parts of shards: the indices, then the inner chunks that the parts meet, neighbours in one request.
  using Part = CodecChain::ChunkPart;
  void read_parts(const Store& store, std::span<Part> parts, MemoryAccount& account) const;
  std::size_t parts_at_once(const Store& store) const;
  // The peak of read_parts(); `staged`: some inner chunk cannot be decoded in place.
  std::size_t read_parts_memory(const Store& store, std::size_t parts, bool staged) const;

  // Where an inner chunk lies in a stored shard, for who decodes it himself; nullopt where there is none. Its length is
  // not held against the bound of the inner codecs, only against the shard.
  struct Found {
    std::uint64_t offset = 0, bytes = 0;
  };
  std::optional<Found> find(const Store& store, const std::string& key, const Shape& inner,
                            MemoryAccount& account) const;

 private:
  struct Index;   // the decoded index and the bounds that its entries must keep
  struct Window;  // bytes of shards that were asked for ahead

  std::vector<Index> read_indices(const Store& store, std::span<Part> parts, MemoryAccount& account) const;
  std::size_t window_bytes(const Store& store, std::size_t parts) const;
  Index make_index(MemoryAccount& account) const;
  void parse_index(std::span<const std::byte> encoded, Index& index, std::uint64_t shard_bytes,
                   MemoryAccount& account) const;
  // Decodes one inner chunk into its part of `into`, by way of `staging` (acquired when first needed) if it must.
  void place(std::span<const std::byte> encoded, const Box& within, const View& into, Buffer& staging,
             MemoryAccount& account) const;

  DType dtype_;
  std::vector<std::byte> fill_;
  Grid grid_;  // of inner chunks in the shard
  std::shared_ptr<const CodecChain> inner_, index_chain_;
  std::size_t inner_bytes_ = 0, index_bytes_ = 0, encoded_index_bytes_ = 0;
  bool index_first_ = false;
  bool may_stage_ = true;  // when a whole shard is decoded or encoded: inner chunks have gaps between their rows
};

// Codec lists with and without shards. The inner chunks of the sharding codec in a list, in the order of the array's
// axes; nullopt where there is none.
std::optional<Shape> sharded_chunks(const nlohmann::json& codecs, std::size_t rank);
// Axis i of what the transposes among the first `end` codecs give is axis result[i] of the array.
std::vector<std::size_t> axes_before(const nlohmann::json& codecs, std::size_t end, std::size_t rank);
// The list with its sharding codec made to fit: added, changed to `chunks` (without shards inside it, where it had
// others), or (shards: false) taken away with those inside it.
nlohmann::json resharded(const nlohmann::json& codecs, bool shards, const Shape& chunks);

}  // namespace cuboid
