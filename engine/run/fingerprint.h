// What identifies the result of a block: the kernels and their parameters, the chunking, and the identity of everything
// it was computed from. Equal fingerprints mean equal bytes. Memory, workers, policies and bounds that are merely
// guessed take no part, so changing them keeps finished work.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/task.h"

namespace cuboid {

struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// XXH3 (128 bits) of a sequence of values; texts and lists carry their length, so that no two sequences run together.
// Reusable: clear() keeps the memory.
class Digest {
 public:
  Digest& number(std::uint64_t value);
  Digest& text(std::string_view value);
  Digest& shape(const Shape& value);
  Digest& add(const Fingerprint& value) { return number(value.low).number(value.high); }
  Fingerprint result() const;
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};
std::uint64_t hash_key(std::string_view key);

// Identity of a source array: its metadata and, by one listing, the stamps of its stored chunks. Where a store cannot
// list, chunks are asked for one by one. A chunk of which only times changed since an earlier run read it keeps the
// identity that it had then, if its bytes are still those.
class SourceIdentity {
 public:
  // What identifies one chunk, and the hash of its stamp as listed. Equal unless it was touched. 0: not stored.
  struct Chunk {
    std::uint64_t identity = 0, stamp = 0;
  };
  explicit SourceIdentity(ZarrArray array);
  Fingerprint metadata() const { return metadata_; }
  // An earlier run saw this chunk of this identity, stamp (hash), length and crc32c. True where the chunk has another
  // stamp now and takes over the identity, for which all of it was read. Throws Error{io}.
  bool recognise(std::int64_t chunk, const Chunk& seen, std::uint64_t bytes, std::optional<std::uint32_t> crc32c);
  Chunk chunk(std::int64_t index) const { return chunk(grid_.index(index)); }
  // Adds the identity of every stored chunk that the box meets.
  void add_chunks(const Box& box, Digest& digest) const;

 private:
  static std::uint64_t hash(const Stamp& stamp);
  Chunk chunk(const Shape& index) const;
  ZarrArray array_;
  Grid grid_;
  Fingerprint metadata_;
  bool listed_ = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> stamps_;  // hash of key, hash of stamp; sorted
  std::unordered_map<std::uint64_t, std::uint64_t> recognised_;  // hash of key, identity
};

// What determines the stored bytes of an array's chunks, apart from their values: not attributes, not where it lies.
Fingerprint metadata_fingerprint(const ArrayMetadata& metadata);

// The pieces, as a range of indices, that [begin, end) along the ragged axis meets. Empty ones are none of them.
std::pair<std::size_t, std::size_t> pieces_meeting(const PieceList& list, std::int64_t begin, std::int64_t end);

// Of every block of a stage. `upstream`: by stage, the fingerprints of the stages that it reads. `sources`: by array
// index. `pieces`: by array index, for stages that gather.
std::vector<Fingerprint> fingerprint_stage(const Plan& plan, int stage,
                                           const std::vector<std::vector<Fingerprint>>& upstream,
                                           std::map<int, std::unique_ptr<SourceIdentity>>& sources,
                                           const Pieces& pieces);

}  // namespace cuboid
