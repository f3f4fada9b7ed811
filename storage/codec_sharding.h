// The sharding_indexed codec (Zarr v3): a shard holds inner chunks, each encoded by a chain of its own, in any order
// and with any gaps, and an index of (offset, length) pairs at its end or start. Private to storage/.
#pragma once
#include <memory>
#include <string_view>

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

  // Reads a part of the shard that is stored at `key`: the index and the inner chunks that the part meets, neighbours
  // in one request. False where there is no such shard.
  bool read_part(const Store& store, std::string_view key, const Box& part, const View& into,
                 MemoryAccount& account) const;
  // The peak of read_part(); `staged`: some inner chunk cannot be decoded in place.
  std::size_t read_part_memory(bool staged) const;

 private:
  struct Index;  // the decoded index and the bounds that its entries must keep

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
  std::size_t window_bytes_ = 0;  // the most that read_part() asks of the store at once
  bool index_first_ = false;
  bool may_stage_ = true;  // when a whole shard is decoded or encoded: inner chunks have gaps between their rows
};

// Codec lists with and without shards. The inner chunks of the sharding codec in a list, in the order of the array's
// axes; nullopt where there is none.
std::optional<Shape> sharded_chunks(const nlohmann::json& codecs, std::size_t rank);
// The list with its sharding codec made to fit: added, changed to `chunks`, or (shards: false) taken away.
nlohmann::json resharded(const nlohmann::json& codecs, bool shards, const Shape& chunks);

}  // namespace cuboid
