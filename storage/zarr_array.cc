// Reading boxes and writing chunks. What each path acquires, and in which order, is what read_memory() and
// write_memory() say: they are written side by side and a test holds them together.
#include <algorithm>
#include <cstring>

#include "storage/codec_sharding.h"
#include "storage/crc32c.h"
#include "storage/error.h"
#include "storage/zarr.h"
#include "storage/zarr_metadata.h"

namespace cuboid {
namespace {

// Parts separated by single slashes; backslashes count as such. "" is the root.
std::string normalized_path(const std::string& path) {
  std::string result;
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t end = std::min(path.find_first_of("/\\", at), path.size());
    const std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty()) continue;
    if (part == "." || part == "..") {
      throw Error(ErrorKind::invalid, "path '" + path + "' has a part '" + part + "': expected plain names");
    }
    if (!result.empty()) result += '/';
    result += part;
  }
  return result;
}

void check_node_names(const std::string& path) {
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part.find_first_not_of('.') == part.npos || part.starts_with("__") || part == "zarr.json") {
      throw Error(ErrorKind::invalid,
                  "path '" + path + "': the name '" + part + "' is reserved in Zarr format 3. Choose another");
    }
  }
}

}  // namespace

struct ZarrArray::State {
  std::shared_ptr<Store> store;
  std::string path;
  ArrayMetadata metadata;
  std::shared_ptr<const CodecChain> chain;
  Grid grid;
  std::size_t chunk_bytes = 0;

  State(std::shared_ptr<Store> the_store, std::string the_path, ArrayMetadata the_metadata)
      : store(std::move(the_store)), path(std::move(the_path)), metadata(std::move(the_metadata)) {
    check_metadata(metadata);
    chain = make_codec_chain(metadata.codecs, {metadata.dtype, metadata.write_chunks(), metadata.fill});
    grid = Grid(metadata.shape, metadata.write_chunks());
    chunk_bytes = byte_count(metadata.write_chunks(), metadata.dtype);
  }

  std::string below(std::string_view name) const {
    return path.empty() ? std::string(name) : path + '/' + std::string(name);
  }
  std::string array_name() const { return path.empty() ? store->name() : store->describe(path); }
  std::string key_of(const Shape& index) const { return below(metadata.chunk_key(index)); }

  // Reads the chunk at `key` into `chunk`, at least its bytes [begin, end); false where none is stored. `encoded` has
  // room for any encoded chunk, unless the chain is the identity.
  bool read_range(const std::string& key, std::span<std::byte> chunk, std::size_t begin, std::size_t end,
                  const Buffer& encoded, MemoryAccount& account) const {
    if (chain->identity()) return store->read_range(key, begin, chunk.subspan(begin, end - begin)).has_value();
    if (!chain->ranged()) return read_chunk(key, chunk, encoded, account);
    const auto length = store->read(key, encoded.bytes());
    if (!length) return false;
    chain->decode_range(encoded.bytes().first(*length), chunk, begin, end, account);
    return true;
  }

  // Reads the chunk at `key` into `chunk`; false where none is stored.
  bool read_chunk(const std::string& key, std::span<std::byte> chunk, const Buffer& encoded,
                  MemoryAccount& account) const {
    if (chain->identity()) {
      const auto length = store->read(key, chunk);
      if (!length) return false;
      if (*length != chunk.size()) {
        throw Error(ErrorKind::corrupt, store->describe(key) + " has " + std::to_string(*length) +
                                            " bytes: expected a chunk of " + std::to_string(chunk.size()));
      }
      return true;
    }
    const auto length = store->read(key, encoded.bytes());
    if (!length) return false;
    chain->decode(encoded.bytes().first(*length), chunk, account);
    return true;
  }

  void read(const Box& box, const View& into, MemoryAccount& account) const;
  void check_box(const Box& box, const View& into) const;
  Written write(const Shape& index, const std::string& key, const ConstView& from, MemoryAccount& account,
                bool skip_fill, bool durable) const;
};

void ZarrArray::State::check_box(const Box& box, const View& into) const {
  const std::size_t rank = metadata.shape.size();
  bool inside = box.origin.size() == rank && box.shape.size() == rank;
  for (std::size_t axis = 0; inside && axis < rank; ++axis) {
    inside = box.origin[axis] >= 0 && box.shape[axis] >= 0 && box.origin[axis] <= metadata.shape[axis] &&
             box.shape[axis] <= metadata.shape[axis] - box.origin[axis];
  }
  if (!inside) {
    throw Error(ErrorKind::invalid, "reading " + to_string(box.shape) + " at " + to_string(box.origin) +
                                        ": expected a box inside " + to_string(metadata.shape));
  }
  if (into.shape != box.shape || into.strides.size() != rank || into.dtype != metadata.dtype) {
    throw Error(ErrorKind::invalid, "reading " + to_string(box.shape) + " of " + to_string(metadata.dtype) +
                                        " into a view of " + to_string(into.shape) + " of " + to_string(into.dtype));
  }
}

void ZarrArray::State::read(const Box& box, const View& into, MemoryAccount& account) const {
  check_box(box, into);
  if (box.empty()) return;
  const Shape& extents = metadata.write_chunks();
  const std::size_t rank = extents.size();
  Buffer encoded, whole;
  if (!chain->identity() && !chain->partial()) encoded = account.acquire(chain->encoded_bound());

  const Box blocks = grid.blocks_meeting(box);
  Shape index = blocks.origin;
  View part{into.dtype, nullptr, Shape(rank), into.strides};
  Shape within(rank);  // where the part begins inside its chunk
  do {
    part.data = into.data;
    bool all_of_it = true;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::int64_t chunk_begin = index[axis] * extents[axis];
      const std::int64_t begin = std::max(chunk_begin, box.origin[axis]);
      part.shape[axis] = std::min(chunk_begin + extents[axis], box.end(axis)) - begin;
      part.data += (begin - box.origin[axis]) * into.strides[axis];
      within[axis] = begin - chunk_begin;
      all_of_it = all_of_it && part.shape[axis] == extents[axis];
    }
    const std::string key = key_of(index);
    try {
      if (chain->partial()) {
        if (!chain->read_part(*store, key, {within, part.shape}, part, account)) fill_elements(part, metadata.fill);
        continue;
      }
      if (all_of_it && part.contiguous()) {
        if (!read_chunk(key, {part.data, chunk_bytes}, encoded, account)) fill_elements(part, metadata.fill);
        continue;
      }
      if (!whole) whole = account.acquire(chunk_bytes);
      // The elements from the part's first to its last one, in C order: what lies before and behind is not decoded.
      std::int64_t first = 0, last = 0;
      for (std::size_t axis = 0; axis < rank; ++axis) {
        first = first * extents[axis] + within[axis];
        last = last * extents[axis] + within[axis] + part.shape[axis] - 1;
      }
      const std::size_t item = metadata.dtype.size;
      if (read_range(key, whole.bytes(), static_cast<std::size_t>(first) * item,
                     (static_cast<std::size_t>(last) + 1) * item, encoded, account)) {
        const ConstView chunk = make_view(static_cast<const std::byte*>(whole.data()), metadata.dtype, extents);
        copy_elements(chunk.sub(within, part.shape), part);
      } else {
        fill_elements(part, metadata.fill);
      }
    } catch (Error& error) {
      error.add("chunk", key);
      throw;
    }
  } while (advance(index, blocks));
}

bool ZarrArray::reads_ranges() const { return state_->chain->identity() || state_->chain->ranged(); }

std::size_t ZarrArray::read_memory(const Shape& extents, bool aligned) const {
  const CodecChain& chain = *state_->chain;
  const Shape& chunks = chain.partial() ? metadata().chunks : metadata().write_chunks();
  const Shape& shape = metadata().shape;
  // A chunk is decoded in place where it lies inside the box as a whole and the box has no other elements between its
  // own: for every chunk of every such box, or else one pooled chunk is needed.
  bool in_place = extents.size() == chunks.size() && (chain.partial() || !metadata().shards);
  bool whole_chunks = extents.size() == chunks.size(), leading = true;
  for (std::size_t axis = 0; whole_chunks && axis < chunks.size(); ++axis) {
    const std::int64_t extent = std::min(extents[axis], shape[axis]);
    const bool starts_at_border = aligned || chunks[axis] == 1 || extent == shape[axis];
    whole_chunks = starts_at_border && shape[axis] % chunks[axis] == 0 && extent % chunks[axis] == 0;
    in_place = in_place && (leading || extent == chunks[axis]);
    leading = leading && chunks[axis] == 1;
  }
  in_place = in_place && whole_chunks;
  if (chain.partial()) return chain.read_part_memory(!in_place);
  const std::size_t decoding = chain.identity() ? 0 : class_bytes(chain.encoded_bound()) + chain.decode_scratch();
  if (in_place) return decoding;
  const std::size_t in_part =
      chain.ranged() && !whole_chunks ? class_bytes(chain.encoded_bound()) + chain.range_scratch() : 0;
  return std::max(decoding, in_part) + class_bytes(state_->chunk_bytes);
}

Written ZarrArray::State::write(const Shape& index, const std::string& key, const ConstView& from,
                                MemoryAccount& account, bool skip_fill, bool durable) const {
  bool inside = index.size() == grid.counts().size();
  for (std::size_t axis = 0; inside && axis < index.size(); ++axis) {
    inside = index[axis] >= 0 && index[axis] < grid.counts()[axis];
  }
  if (!inside) {
    throw Error(ErrorKind::invalid,
                "chunk " + to_string(index) + ": expected an index inside " + to_string(grid.counts()));
  }
  const Shape clipped = grid.box(index).shape;
  if (from.shape != clipped || from.dtype != metadata.dtype) {
    throw Error(ErrorKind::invalid, "chunk " + to_string(index) + " from a view of " + to_string(from.shape) + " of " +
                                        to_string(from.dtype) + ": expected " + to_string(clipped) + " of " +
                                        to_string(metadata.dtype));
  }
  if (skip_fill && all_elements_are(from, metadata.fill)) {
    store->erase(key);
    return {};
  }

  Buffer staging;
  std::span<const std::byte> chunk(from.data, chunk_bytes);
  const bool ragged = clipped != grid.block();
  if (ragged || !from.contiguous()) {
    staging = account.acquire(chunk_bytes);
    const View all = make_view(staging.data(), metadata.dtype, grid.block());
    if (ragged) fill_elements(all, metadata.fill);
    copy_elements(from, all.sub(Shape(clipped.size(), 0), clipped));
    chunk = staging.bytes();
  }
  if (chain->identity()) {
    store->put(key, chunk, durable);
    return {chunk.size(), crc32c(chunk)};
  }
  const Buffer encoded = account.acquire(chain->encoded_bound());
  const auto stored = encoded.bytes().first(chain->encode(chunk, encoded.bytes(), account));
  store->put(key, stored, durable);
  return {stored.size(), crc32c(stored)};
}

std::size_t ZarrArray::write_memory(bool contiguous) const { return write_memory(metadata().shape, contiguous); }

std::size_t ZarrArray::write_memory(const Shape& extents, bool contiguous) const {
  const Shape& chunks = metadata().write_chunks();
  bool staged = !contiguous || extents.size() != chunks.size();
  for (std::size_t axis = 0; !staged && axis < chunks.size(); ++axis) staged = extents[axis] % chunks[axis] != 0;
  const CodecChain& chain = *state_->chain;
  return (chain.identity() ? 0 : class_bytes(chain.encoded_bound()) + chain.encode_scratch()) +
         (staged ? class_bytes(state_->chunk_bytes) : 0);
}

// --- Doors ----------------------------------------------------------------------------------------------------------

namespace {

std::string what_is_there(const Store& store, const std::string& path, bool is_group) {
  std::string members;
  std::size_t count = 0;
  for (const std::string& name : store.list_dir(path)) {
    if (name.back() != '/' || name == "c/") continue;
    if (++count <= 10) members += (members.empty() ? "" : ", ") + name.substr(0, name.size() - 1);
  }
  if (count > 10) members += " and " + std::to_string(count - 10) + " more";
  if (is_group) {
    return "a group is there" +
           (members.empty() ? std::string(", which is empty") : ": open one of its members, " + members);
  }
  return members.empty() ? "nothing is there" : "a folder without Zarr metadata is there, with " + members;
}

}  // namespace

ZarrArray ZarrArray::open(std::shared_ptr<Store> store, const std::string& path) {
  const std::string where = normalized_path(path);
  const std::string prefix = where.empty() ? "" : where + '/';
  const std::string name = where.empty() ? store->name() : store->describe(where);
  try {
    bool is_group = false;
    if (const auto text = read_text(*store, prefix + "zarr.json")) {
      is_group = is_group_document(*text);
      if (!is_group) return ZarrArray(std::make_shared<State>(store, where, parse_metadata_v3(*text)));
    } else if (const auto zarray = read_text(*store, prefix + ".zarray")) {
      const std::string zattrs = read_text(*store, prefix + ".zattrs").value_or("");
      return ZarrArray(std::make_shared<State>(store, where, parse_metadata_v2(*zarray, zattrs)));
    } else {
      is_group = store->stamp(prefix + ".zgroup").has_value();
    }
    throw Error(ErrorKind::not_found, name + " is no Zarr array: " + what_is_there(*store, where, is_group));
  } catch (Error& error) {
    error.add("array", name);
    throw;
  }
}

ZarrArray ZarrArray::open(const std::string& path_or_url) { return open(open_store(path_or_url)); }

ZarrArray ZarrArray::prepare(std::shared_ptr<Store> store, const std::string& path, ArrayMetadata metadata) {
  const std::string where = normalized_path(path);
  const std::string name = where.empty() ? store->name() : store->describe(where);
  try {
    if (metadata.zarr_format != 2 && metadata.zarr_format != 3) {
      throw Error(ErrorKind::invalid, "Zarr format " + std::to_string(metadata.zarr_format) + ": expected 2 or 3");
    }
    if (metadata.zarr_format == 3) check_node_names(where);
    if (metadata.zarr_format == 2) metadata.chunk_key_encoding = "v2";
    metadata.codecs = resharded(metadata.codecs, metadata.shards.has_value(), metadata.chunks);
    check_metadata(metadata);
    format_metadata(metadata);  // refuses what the format cannot say
    auto state = std::make_shared<State>(std::move(store), where, std::move(metadata));
    if (!state->chain->writable()) {
      throw Error(ErrorKind::unsupported,
                  "codecs " + state->metadata.codecs.dump() + " are read only in part: choose others to write with");
    }
    return ZarrArray(std::move(state));
  } catch (Error& error) {
    error.add("array", name);
    throw;
  }
}

void ZarrArray::publish(bool durable) const {
  for (const auto& [name, text] : format_metadata(metadata())) {
    state_->store->put(state_->below(name), std::as_bytes(std::span(text)), durable);
  }
}

const ArrayMetadata& ZarrArray::metadata() const { return state_->metadata; }
const Store& ZarrArray::store() const { return *state_->store; }
Store& ZarrArray::mutable_store() const { return *state_->store; }
const std::string& ZarrArray::path() const { return state_->path; }
std::string ZarrArray::name() const { return state_->array_name(); }
std::string ZarrArray::key_of(const Shape& chunk_index) const { return state_->key_of(chunk_index); }

void ZarrArray::read(const Box& box, const View& into, MemoryAccount& account) const {
  try {
    state_->read(box, into, account);
  } catch (Error& error) {
    error.add("array", name());
    throw;
  }
}

Written ZarrArray::write_chunk(const Shape& chunk_index, const ConstView& from, MemoryAccount& account, bool skip_fill,
                               bool durable) const {
  const std::string key = key_of(chunk_index);
  try {
    return state_->write(chunk_index, key, from, account, skip_fill, durable);
  } catch (Error& error) {
    error.add("chunk", key).add("array", name());
    throw;
  }
}

}  // namespace cuboid
