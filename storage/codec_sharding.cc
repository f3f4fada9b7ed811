#include "storage/codec_sharding.h"

#include <algorithm>
#include <cstring>

#include "storage/codec_layout.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMissing = UINT64_MAX;
// Requests are joined up to this size, over gaps of at most kGap. Files gain little from more, and it is memory.
constexpr std::size_t kWindow = std::size_t{2} << 20;
constexpr std::size_t kGap = std::size_t{32} << 10;
constexpr std::size_t kMaxShard = std::size_t{1} << 61;

Shape index_shape(const Grid& grid) {
  Shape shape = grid.counts();
  shape.push_back(2);
  return shape;
}

}  // namespace

struct Sharding::Index {
  Buffer entries;
  std::uint64_t begin = 0, end = 0;  // where inner chunks may lie
  std::size_t longest = 0;

  struct Entry {
    std::uint64_t offset = 0, bytes = 0;
    bool missing() const { return offset == kMissing; }
    std::uint64_t end() const { return offset + bytes; }
  };

  // Checked: inside the shard, off the index, no longer than an encoded inner chunk can be.
  Entry at(std::int64_t linear) const {
    std::uint64_t pair[2];
    std::memcpy(pair, entries.data() + static_cast<std::size_t>(linear) * sizeof pair, sizeof pair);
    const Entry entry{pair[0], pair[1]};
    if (pair[0] == kMissing && pair[1] == kMissing) return entry;
    std::uint64_t stop = 0;
    if (pair[0] == kMissing || pair[1] == kMissing || __builtin_add_overflow(pair[0], pair[1], &stop) ||
        pair[0] < begin || stop > end || pair[1] > longest) {
      throw_corrupt("shard index", "says that inner chunk " + std::to_string(linear) + " has " +
                                       std::to_string(pair[1]) + " bytes at " + std::to_string(pair[0]) +
                                       ": expected at most " + std::to_string(longest) + " between " +
                                       std::to_string(begin) + " and " + std::to_string(end));
    }
    return entry;
  }
  void set(std::int64_t linear, std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t pair[2] = {offset, bytes};
    std::memcpy(entries.data() + static_cast<std::size_t>(linear) * sizeof pair, pair, sizeof pair);
  }
};

Sharding::Sharding(CodecConfig& config, const ChunkSpec& spec) : dtype_(spec.dtype), fill_(spec.fill) {
  if (fill_.empty()) fill_.resize(dtype_.size);
  const json* extents = config.value("chunk_shape");
  Shape chunk;
  if (extents && extents->is_array()) {
    for (const json& extent : *extents) {
      if (extent.is_number_integer() && extent >= 1 && extent <= std::int64_t{1} << 62) chunk.push_back(extent);
    }
  }
  bool fits = extents && extents->is_array() && chunk.size() == extents->size() && chunk.size() == spec.shape.size();
  for (std::size_t axis = 0; fits && axis < chunk.size(); ++axis) fits = spec.shape[axis] % chunk[axis] == 0;
  if (!fits) {
    config.fail("'chunk_shape' is " + (extents ? extents->dump() : "missing") + ": expected extents that divide the " +
                "shard's, " + to_string(spec.shape));
  }
  grid_ = Grid(spec.shape, chunk);
  inner_bytes_ = byte_count(chunk, dtype_);

  const json* inner = config.value("codecs");
  const json* index = config.value("index_codecs");
  if (!inner) config.fail("'codecs' is missing: expected the codecs of inner chunks");
  if (!index) config.fail("'index_codecs' is missing: expected the codecs of the index");
  const std::string location = config.text("index_location", "end");
  if (location != "start" && location != "end") {
    config.fail("'index_location' is '" + location + "': expected start or end");
  }
  index_first_ = location == "start";

  inner_ = make_codec_chain(*inner, {dtype_, chunk, fill_});
  index_bytes_ = byte_count(index_shape(grid_), kUint64);
  index_chain_ = make_codec_chain(*index, {kUint64, index_shape(grid_)});
  if (!index_chain_->fixed_size()) config.fail("'index_codecs' compress: expected an encoded index of fixed size");
  encoded_index_bytes_ = index_chain_->encoded_bound();

  std::size_t all = 0;
  if (__builtin_mul_overflow(inner_->encoded_bound(), static_cast<std::size_t>(grid_.size()), &all) ||
      all > kMaxShard || encoded_index_bytes_ > kMaxShard) {
    config.fail("shards of " + to_string(spec.shape) + " are too large");
  }
  window_bytes_ = std::max(inner_->encoded_bound(), std::min(all, kWindow));
  may_stage_ = false;
  bool leading = true;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    may_stage_ = may_stage_ || (!leading && chunk[axis] != spec.shape[axis]);
    leading = leading && chunk[axis] == 1;
  }
}

std::size_t Sharding::bound(std::size_t) const {
  return encoded_index_bytes_ + static_cast<std::size_t>(grid_.size()) * inner_->encoded_bound();
}

std::size_t Sharding::encode_scratch(std::size_t) const {
  const std::size_t stage = may_stage_ ? class_bytes(inner_bytes_) : 0;
  return class_bytes(index_bytes_) + std::max(stage + inner_->encode_scratch(), index_chain_->encode_scratch());
}

std::size_t Sharding::decode_scratch(std::size_t) const {
  const std::size_t stage = may_stage_ ? class_bytes(inner_bytes_) : 0;
  return class_bytes(index_bytes_) + std::max(stage + inner_->decode_scratch(), index_chain_->decode_scratch());
}

std::size_t Sharding::read_part_memory(bool staged) const {
  return class_bytes(index_bytes_) +
         std::max(class_bytes(encoded_index_bytes_) + index_chain_->decode_scratch(),
                  class_bytes(window_bytes_) + inner_->decode_scratch() + (staged ? class_bytes(inner_bytes_) : 0));
}

Sharding::Index Sharding::make_index(MemoryAccount& account) const {
  Index index;
  index.entries = account.acquire(index_bytes_);
  index.longest = inner_->encoded_bound();
  return index;
}

void Sharding::parse_index(std::span<const std::byte> encoded, Index& index, std::uint64_t shard_bytes,
                           MemoryAccount& account) const {
  index.begin = index_first_ ? encoded_index_bytes_ : 0;
  index.end = index_first_ ? shard_bytes : shard_bytes - encoded_index_bytes_;
  index_chain_->decode(encoded, index.entries.bytes(), account);
}

void Sharding::place(std::span<const std::byte> encoded, const Box& within, const View& into, Buffer& staging,
                     MemoryAccount& account) const {
  if (within.shape == grid_.block() && into.contiguous()) {
    inner_->decode(encoded, {into.data, inner_bytes_}, account);
    return;
  }
  if (!staging) staging = account.acquire(inner_bytes_);
  inner_->decode(encoded, staging.bytes(), account);
  const ConstView chunk = make_view(static_cast<const std::byte*>(staging.data()), dtype_, grid_.block());
  copy_elements(chunk.sub(within.origin, within.shape), into);
}

std::size_t Sharding::encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const {
  const ConstView shard = make_view(from.data(), dtype_, grid_.shape());
  Index index = make_index(account);
  std::size_t at = index_first_ ? encoded_index_bytes_ : 0;
  {
    Buffer staging;
    for (std::int64_t i = 0; i < grid_.size(); ++i) {
      const Box box = grid_.box(i);
      const ConstView part = shard.sub(box.origin, box.shape);
      if (all_elements_are(part, fill_)) {
        index.set(i, kMissing, kMissing);
        continue;
      }
      std::span<const std::byte> chunk(part.data, inner_bytes_);
      if (!part.contiguous()) {
        if (!staging) staging = account.acquire(inner_bytes_);
        copy_elements(part, make_view(staging.data(), dtype_, box.shape));
        chunk = staging.bytes();
      }
      const std::size_t length = inner_->encode(chunk, to.subspan(at), account);
      index.set(i, at, length);
      at += length;
    }
  }
  std::span<std::byte> place = to.subspan(index_first_ ? 0 : at, encoded_index_bytes_);
  index_chain_->encode(index.entries.bytes(), place, account);
  return index_first_ ? at : at + encoded_index_bytes_;
}

std::size_t Sharding::decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const {
  if (from.size() < encoded_index_bytes_) {
    throw_corrupt("shard", "has " + std::to_string(from.size()) + " bytes: expected an index of " +
                               std::to_string(encoded_index_bytes_) + " at least");
  }
  if (to.size() != byte_count(grid_.shape(), dtype_)) throw_corrupt("shard", "is of another size than expected");
  Index index = make_index(account);
  parse_index(index_first_ ? from.first(encoded_index_bytes_) : from.last(encoded_index_bytes_), index, from.size(),
              account);
  const View shard = make_view(to.data(), dtype_, grid_.shape());
  Buffer staging;
  for (std::int64_t i = 0; i < grid_.size(); ++i) {
    const Box box = grid_.box(i);
    const View part = shard.sub(box.origin, box.shape);
    const Index::Entry entry = index.at(i);
    if (entry.missing()) {
      fill_elements(part, fill_);
    } else {
      place(from.subspan(entry.offset, entry.bytes), Box::whole(box.shape), part, staging, account);
    }
  }
  return to.size();
}

bool Sharding::read_part(const Store& store, std::string_view key, const Box& part, const View& into,
                         MemoryAccount& account) const {
  Index index = make_index(account);
  {
    const Buffer encoded = account.acquire(encoded_index_bytes_);
    // With the index first the shard's length is not known: the store refuses to read beyond its end.
    std::optional<std::uint64_t> shard_bytes;
    if (!index_first_) {
      shard_bytes = store.read_suffix(key, encoded.bytes());
    } else if (store.read_range(key, 0, encoded.bytes())) {
      shard_bytes = std::uint64_t{INT64_MAX};
    }
    if (!shard_bytes) return false;
    parse_index(encoded.bytes(), index, *shard_bytes, account);
  }
  const Buffer window = account.acquire(window_bytes_);
  Buffer staging;
  std::uint64_t window_begin = 0, window_end = 0;  // what of the shard is in the window

  // Everything from this inner chunk on that is wanted next, lies close behind it and fits.
  const Box range = grid_.blocks_meeting(part);
  const auto fetch = [&](const Shape& first, const Index::Entry& entry) {
    std::uint64_t end = entry.end();
    Shape next = first;
    while (advance(next, range)) {
      const Index::Entry following = index.at(grid_.linear(next));
      if (following.missing()) continue;
      if (following.offset < end || following.offset - end > kGap || following.end() - entry.offset > window_bytes_) {
        break;
      }
      end = following.end();
    }
    window_begin = entry.offset, window_end = end;
    if (!store.read_range(key, window_begin, window.bytes().first(window_end - window_begin))) {
      throw Error(ErrorKind::io, store.describe(key) + " was removed while it was read");
    }
  };

  Shape inner = range.origin;
  do {
    const std::int64_t linear = grid_.linear(inner);
    const Box chunk = grid_.box(inner);
    Box common = intersect(chunk, part);
    Box within = common, target = common;
    for (std::size_t axis = 0; axis < inner.size(); ++axis) {
      within.origin[axis] -= chunk.origin[axis];
      target.origin[axis] -= part.origin[axis];
    }
    const View destination = into.sub(target.origin, target.shape);
    const Index::Entry entry = index.at(linear);
    if (entry.missing()) {
      fill_elements(destination, fill_);
      continue;
    }
    if (entry.offset < window_begin || entry.end() > window_end) fetch(inner, entry);
    place(window.bytes().subspan(entry.offset - window_begin, entry.bytes), within, destination, staging, account);
  } while (advance(inner, range));
  return true;
}

// --- Codec lists ----------------------------------------------------------------------------------------------------

namespace {

constexpr const char* kName = "sharding_indexed";

bool is_codec(const json& codec, const char* name) {
  return codec == name || (codec.is_object() && codec.contains("name") && codec["name"] == name);
}

// Where the sharding codec stands in the list; its size where there is none.
std::size_t sharding_at(const json& codecs) {
  std::size_t at = 0;
  while (at < codecs.size() && !is_codec(codecs[at], kName)) ++at;
  return at;
}

// Stored axis -> axis of the array, by the transposes before `end`.
std::vector<std::size_t> axes_before(const json& codecs, std::size_t end, std::size_t rank) {
  std::vector<std::size_t> axes(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) axes[axis] = axis;
  for (std::size_t i = 0; i < end; ++i) {
    if (!is_codec(codecs[i], "transpose")) continue;
    CodecConfig config("transpose", codecs[i].is_object() ? codecs[i].value("configuration", json::object()) : json());
    const std::vector<std::size_t> order = transpose_order(config, rank);
    std::vector<std::size_t> next(rank);
    for (std::size_t axis = 0; axis < rank; ++axis) next[axis] = axes[order[axis]];
    axes = std::move(next);
  }
  return axes;
}

}  // namespace

std::optional<Shape> sharded_chunks(const json& codecs, std::size_t rank) {
  if (!codecs.is_array()) return std::nullopt;
  const std::size_t at = sharding_at(codecs);
  if (at == codecs.size()) return std::nullopt;
  const json configuration =
      codecs[at].is_object() ? codecs[at].value("configuration", json::object()) : json::object();
  const auto found = configuration.is_object() ? configuration.find("chunk_shape") : configuration.end();
  const bool listed = found != configuration.end() && found->is_array() && found->size() == rank;
  if (!listed || !std::all_of(found->begin(), found->end(), [](const json& n) { return n.is_number_integer(); })) {
    throw Error(ErrorKind::invalid, "codec 'sharding_indexed': 'chunk_shape' is missing or no list of " +
                                        std::to_string(rank) + " integers");
  }
  const std::vector<std::size_t> axes = axes_before(codecs, at, rank);
  Shape chunks(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) chunks[axes[axis]] = (*found)[axis].get<std::int64_t>();
  return chunks;
}

json resharded(const json& codecs, bool shards, const Shape& chunks) {
  if (!codecs.is_array()) return codecs;
  const std::size_t at = sharding_at(codecs);
  if (at == codecs.size()) {
    if (!shards) return codecs;
    const json index = json::parse(R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}])");
    return json::array(
        {{{"name", kName},
          {"configuration",
           {{"chunk_shape", chunks}, {"codecs", codecs}, {"index_codecs", index}, {"index_location", "end"}}}}});
  }
  json result = codecs;
  if (shards) {
    const std::vector<std::size_t> axes = axes_before(codecs, at, chunks.size());
    Shape stored(chunks.size());
    for (std::size_t axis = 0; axis < chunks.size(); ++axis) stored[axis] = chunks[axes[axis]];
    result[at]["configuration"]["chunk_shape"] = stored;
    return result;
  }
  json flat = json::array();
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    if (i != at) {
      flat.push_back(codecs[i]);
    } else {
      for (const json& inner : codecs[at].at("configuration").at("codecs")) flat.push_back(inner);
    }
  }
  return flat;
}

}  // namespace cuboid
