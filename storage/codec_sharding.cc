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
constexpr std::size_t kRemoteWindow = std::size_t{8} << 20;  // of stores that answer late
constexpr std::size_t kIndices = std::size_t{1} << 20;       // encoded, that are asked for at once
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
  std::shared_ptr<const void> shard;  // what it was read from, where the store holds it

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

std::size_t Sharding::window_bytes(const Store& store, std::size_t parts) const {
  const std::size_t all = inner_->encoded_bound() * static_cast<std::size_t>(grid_.size());
  const std::size_t limit = store.parallel() > 1 ? kRemoteWindow : kWindow;
  return std::max(inner_->encoded_bound(), all > limit / parts ? limit : all * parts);
}

std::size_t Sharding::parts_at_once(const Store& store) const {
  return std::clamp<std::size_t>(kIndices / encoded_index_bytes_, 1, store.parallel());
}

std::size_t Sharding::read_parts_memory(const Store& store, std::size_t parts, bool staged) const {
  return parts * class_bytes(index_bytes_) +
         std::max(class_bytes(parts * encoded_index_bytes_) + index_chain_->decode_scratch(),
                  class_bytes(window_bytes(store, parts)) + inner_->decode_scratch() +
                      (staged ? class_bytes(inner_bytes_) : 0));
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

std::vector<Sharding::Index> Sharding::read_indices(const Store& store, std::span<Part> parts,
                                                    MemoryAccount& account) const {
  std::vector<Index> indices;
  for (std::size_t k = 0; k < parts.size(); ++k) indices.push_back(make_index(account));
  const Buffer encoded = account.acquire(parts.size() * encoded_index_bytes_);
  std::vector<Store::PartRequest> requests(parts.size());
  for (std::size_t k = 0; k < parts.size(); ++k) {
    requests[k].key = parts[k].key;
    requests[k].into = encoded.bytes().subspan(k * encoded_index_bytes_, encoded_index_bytes_);
    requests[k].suffix = !index_first_;
  }
  store.read_parts(requests);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    try {
      if (requests[k].fault) std::rethrow_exception(requests[k].fault);
      parts[k].stored = requests[k].found.has_value();
      indices[k].shard = std::move(requests[k].held);
      // With the index first the shard's length is not known: the store refuses to read beyond its end.
      if (parts[k].stored)
        parse_index(requests[k].into, indices[k], index_first_ ? std::uint64_t{INT64_MAX} : *requests[k].found,
                    account);
    } catch (Error& error) {
      error.add("chunk", parts[k].key);
      throw;
    }
  }
  return indices;
}

std::optional<Sharding::Found> Sharding::find(const Store& store, const std::string& key, const Shape& inner,
                                              MemoryAccount& account) const {
  Part part{key, {}, {}};
  std::vector<Index> indices = read_indices(store, {&part, 1}, account);
  if (!part.stored) return std::nullopt;
  indices[0].longest = SIZE_MAX;
  const Index::Entry entry = indices[0].at(grid_.linear(inner));
  if (entry.missing()) return std::nullopt;
  return Found{entry.offset, entry.bytes};
}

// The inner chunks that are wanted, part after part; what the window holds of them, and what it is filled with next:
// runs of bytes, one behind another, of as many places in as many shards as the store takes requests at once.
struct Sharding::Window {
  const Sharding& sharding;
  const Store& store;
  std::span<Part> parts;
  const std::vector<Index>& indices;
  Buffer bytes;
  std::vector<Store::PartRequest> runs = {};
  std::vector<std::size_t> owners = {};  // of the runs: which part

  struct Place {
    std::size_t part = 0;
    Box range = {};  // of inner chunks that the part meets
    Shape inner = {};
  };
  // The first wanted inner chunk of the first part from `part` on that is stored; false where there is none.
  bool enter(Place& place, std::size_t part) const {
    while (part < parts.size() && !parts[part].stored) ++part;
    if (part == parts.size()) return false;
    Box range = sharding.grid_.blocks_meeting(parts[part].part);
    Shape first = range.origin;
    place = {part, std::move(range), std::move(first)};
    return true;
  }
  bool next(Place& place) const { return advance(place.inner, place.range) || enter(place, place.part + 1); }
  Index::Entry entry(const Place& place) const {
    try {
      return indices[place.part].at(sharding.grid_.linear(place.inner));
    } catch (Error& error) {
      error.add("chunk", parts[place.part].key);
      throw;
    }
  }

  const std::byte* find(std::size_t part, const Index::Entry& wanted) const {
    for (std::size_t r = 0; r < runs.size(); ++r)
      if (owners[r] == part && wanted.offset >= runs[r].offset && wanted.end() <= runs[r].offset + runs[r].into.size())
        return runs[r].into.data() + (wanted.offset - runs[r].offset);
    return nullptr;
  }

  // Everything from `place` on that is wanted next and fits: what lies close behind goes into the same run.
  void fetch(Place place) {
    runs.clear();
    owners.clear();
    std::size_t used = 0;  // of the window, before the last run
    Index::Entry first = entry(place);
    std::size_t part = place.part;
    std::uint64_t begin = first.offset, end = first.end();
    const auto add_run = [&] {
      runs.push_back({.key = parts[part].key,
                      .into = bytes.bytes().subspan(used, end - begin),
                      .offset = begin,
                      .held = indices[part].shard});
      owners.push_back(part);
      used += end - begin;
    };
    while (next(place)) {
      const Index::Entry following = entry(place);
      if (following.missing()) continue;
      if (place.part == part && following.offset >= end && following.offset - end <= kGap &&
          following.end() - begin <= bytes.size() - used) {
        end = following.end();
        continue;
      }
      if (runs.size() + 1 >= store.parallel() || used + (end - begin) + following.bytes > bytes.size()) break;
      add_run();
      part = place.part;
      begin = following.offset, end = following.end();
    }
    add_run();
    store.read_parts(runs);
    for (std::size_t r = 0; r < runs.size(); ++r) {
      try {
        if (runs[r].fault) std::rethrow_exception(runs[r].fault);
        if (!runs[r].found) throw Error(ErrorKind::io, store.describe(runs[r].key) + " was removed while it was read");
      } catch (Error& error) {
        error.add("chunk", parts[owners[r]].key);
        throw;
      }
    }
  }
};

void Sharding::read_parts(const Store& store, std::span<Part> parts, MemoryAccount& account) const {
  const std::vector<Index> indices = read_indices(store, parts, account);
  Window window{*this, store, parts, indices, account.acquire(window_bytes(store, parts.size()))};
  Buffer staging;
  Window::Place place;
  for (bool more = window.enter(place, 0); more; more = window.next(place)) {
    const Part& part = parts[place.part];
    const Box chunk = grid_.box(place.inner);
    const Box common = intersect(chunk, part.part);
    Box within = common, target = common;
    for (std::size_t axis = 0; axis < place.inner.size(); ++axis) {
      within.origin[axis] -= chunk.origin[axis];
      target.origin[axis] -= part.part.origin[axis];
    }
    const View destination = part.into.sub(target.origin, target.shape);
    const Index::Entry entry = window.entry(place);
    if (entry.missing()) {
      fill_elements(destination, fill_);
      continue;
    }
    const std::byte* encoded = window.find(place.part, entry);
    if (!encoded) {
      window.fetch(place);
      encoded = window.runs[0].into.data();
    }
    try {
      this->place({encoded, entry.bytes}, within, destination, staging, account);
    } catch (Error& error) {
      error.add("chunk", part.key);
      throw;
    }
  }
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

}  // namespace

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
    json& configuration = result[at]["configuration"];
    if (configuration.value("chunk_shape", json()) == json(stored)) return result;
    configuration["chunk_shape"] = stored;  // shards inside it were made for other chunks
    if (configuration.contains("codecs")) configuration["codecs"] = resharded(configuration["codecs"], false, {});
    return result;
  }
  json flat = json::array();
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    if (i != at) {
      flat.push_back(codecs[i]);
    } else {
      for (const json& inner : resharded(codecs[at].at("configuration").at("codecs"), false, {})) flat.push_back(inner);
    }
  }
  return flat;
}

}  // namespace cuboid
