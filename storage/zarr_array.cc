// Reading boxes and writing chunks. What each path acquires, and in which order, is what read_memory() and
// write_memory() say: they are written side by side and a test holds them together.
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>

#include "storage/codec_sharding.h"
#include "storage/crc32c.h"
#include "storage/error.h"
#include "storage/hierarchy.h"
#include "storage/opaque_type.h"
#include "storage/zarr.h"
#include "storage/zarr_metadata.h"

namespace cuboid {
namespace {

constexpr std::size_t kWindowBytes = 8u << 20;  // of encoded chunks that are asked for at once

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

// Structures of format 3 in little-endian order, whatever the source's: zarr-python reads them in the machine's own.
void order_structures(nlohmann::json& codecs) {
  for (nlohmann::json& codec : codecs) {
    if (!codec.is_object() || !codec.contains("name")) continue;
    if (codec["name"] == "bytes") codec = {{"name", "bytes"}};
    if (codec["name"] == "sharding_indexed" && codec.contains("configuration") &&
        codec["configuration"].contains("codecs"))
      order_structures(codec["configuration"]["codecs"]);
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
  std::vector<Shape> starts;  // of the chunks along each axis, where the grid is rectilinear; and the end of the last

  State(std::shared_ptr<Store> the_store, std::string the_path, ArrayMetadata the_metadata)
      : store(std::move(the_store)), path(std::move(the_path)), metadata(std::move(the_metadata)) {
    check_metadata(metadata);
    chain = make_codec_chain(metadata.codecs, {metadata.dtype, metadata.write_chunks(), metadata.fill});
    grid = Grid(metadata.shape, metadata.write_chunks());
    chunk_bytes = byte_count(metadata.write_chunks(), metadata.dtype);
    for (const Shape& edges : metadata.edges) {
      Shape& axis = starts.emplace_back(1, 0);
      for (const std::int64_t edge : edges) axis.push_back(axis.back() + edge);
    }
  }

  // Where a chunk lies along an axis, and which chunks a box meets.
  std::int64_t chunk_begin(std::size_t axis, std::int64_t index) const {
    return starts.empty() ? index * grid.block()[axis] : starts[axis][static_cast<std::size_t>(index)];
  }
  std::int64_t chunk_extent(std::size_t axis, std::int64_t index) const {
    return starts.empty() ? grid.block()[axis] : metadata.edges[axis][static_cast<std::size_t>(index)];
  }
  Box chunks_meeting(const Box& box) const {
    if (starts.empty()) return grid.blocks_meeting(box);
    Box met = box;
    for (std::size_t axis = 0; axis < starts.size(); ++axis) {
      const auto at = [&](std::int64_t position) {
        return std::upper_bound(starts[axis].begin(), starts[axis].end(), position) - starts[axis].begin() - 1;
      };
      met.origin[axis] = at(box.origin[axis]);
      met.shape[axis] = at(box.end(axis) - 1) + 1 - met.origin[axis];
    }
    return met;
  }
  // The chain for chunks of these extents, which only a rectilinear grid has several of.
  const CodecChain& chain_for(const Shape& extents) const {
    if (starts.empty() || extents == grid.block()) return *chain;
    const std::lock_guard lock(chains_mutex);
    auto& slot = chains[extents];
    if (!slot) slot = make_codec_chain(metadata.codecs, {metadata.dtype, extents, metadata.fill});
    return *slot;
  }
  mutable std::mutex chains_mutex;
  mutable std::map<Shape, std::shared_ptr<const CodecChain>> chains;

  std::string below(std::string_view name) const {
    return path.empty() ? std::string(name) : path + '/' + std::string(name);
  }
  std::string array_name() const { return path.empty() ? store->name() : store->describe(path); }
  std::string key_of(const Shape& index) const { return below(metadata.chunk_key(index)); }

  // How many chunks are asked for at once: one, except of stores that answer late. Then as many as 8 MiB hold.
  std::size_t window(std::size_t most) const {
    if (chain->partial()) return std::min(chain->parts_at_once(*store), most);
    const std::size_t room = std::max<std::size_t>(1, kWindowBytes / std::max<std::size_t>(1, chain->encoded_bound()));
    return std::max<std::size_t>(1, std::min({store->parallel(), room, most}));
  }

  // A chunk that read() meets: what part of it goes where.
  struct Piece {
    Shape index;
    std::string key;
    Shape extents, within;  // of the chunk, and where the part begins inside it
    View part;
    bool in_place = false;  // the part is the whole chunk and has no gaps
    Buffer encoded, whole;  // kept from one window to the next; taken when first needed
  };
  Piece& locate(const Box& box, const View& into, const Shape& index, Piece& piece) const;
  void read_pieces(std::span<Piece> pieces, MemoryAccount& account, const ChunkSeen& seen) const;
  // The bytes of a piece's chunk from its part's first element to its last one, in C order.
  std::pair<std::size_t, std::size_t> wanted(const Piece& piece) const;
  void read(const Box& box, const View& into, MemoryAccount& account, const ChunkSeen& seen) const;
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

ZarrArray::State::Piece& ZarrArray::State::locate(const Box& box, const View& into, const Shape& index,
                                                  Piece& piece) const {
  const std::size_t rank = index.size();
  piece.extents.resize(rank);
  piece.within.resize(rank);
  piece.part = View{into.dtype, into.data, Shape(rank), into.strides};
  bool all_of_it = true;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t first = chunk_begin(axis, index[axis]);
    piece.extents[axis] = chunk_extent(axis, index[axis]);
    const std::int64_t begin = std::max(first, box.origin[axis]);
    piece.part.shape[axis] = std::min(first + piece.extents[axis], box.end(axis)) - begin;
    piece.part.data += (begin - box.origin[axis]) * into.strides[axis];
    piece.within[axis] = begin - first;
    all_of_it = all_of_it && piece.part.shape[axis] == piece.extents[axis];
  }
  piece.index = index;
  piece.key = key_of(index);
  piece.in_place = all_of_it && piece.part.contiguous();
  return piece;
}

std::pair<std::size_t, std::size_t> ZarrArray::State::wanted(const Piece& piece) const {
  std::size_t first = 0, last = 0;
  for (std::size_t axis = 0; axis < piece.extents.size(); ++axis) {
    const auto extent = static_cast<std::size_t>(piece.extents[axis]);
    first = first * extent + static_cast<std::size_t>(piece.within[axis]);
    last = last * extent + static_cast<std::size_t>(piece.within[axis] + piece.part.shape[axis] - 1);
  }
  return {first * metadata.dtype.size, (last + 1) * metadata.dtype.size};
}

// Asks for all of them at once, then decodes one after another: a staged chunk is decoded in the first piece's `whole`.
void ZarrArray::State::read_pieces(std::span<Piece> pieces, MemoryAccount& account, const ChunkSeen& seen) const {
  std::vector<Store::ReadRequest> requests(pieces.size());
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    Piece& piece = pieces[k];
    const std::size_t bytes = byte_count(piece.extents, metadata.dtype);
    requests[k].key = piece.key;
    if (!chain->identity()) {
      if (!piece.encoded) piece.encoded = account.acquire(chain->encoded_bound());
      requests[k].into = piece.encoded.bytes();
    } else if (piece.in_place) {
      requests[k].into = {piece.part.data, bytes};
    } else {
      if (!piece.whole) piece.whole = account.acquire(chunk_bytes);
      requests[k].into = piece.whole.bytes().first(bytes);
    }
  }
  const bool part_only = pieces.size() == 1 && chain->identity() && !pieces[0].in_place;
  if (part_only) {
    // What lies before and behind the part is not read.
    const auto [begin, end] = wanted(pieces[0]);
    try {
      if (store->read_range(pieces[0].key, begin, requests[0].into.subspan(begin, end - begin)))
        requests[0].length = requests[0].into.size();
    } catch (const Error&) {
      requests[0].fault = std::current_exception();
    }
  } else {
    store->read_many(requests);
  }
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    Piece& piece = pieces[k];
    const Store::ReadRequest& request = requests[k];
    try {
      if (request.fault) std::rethrow_exception(request.fault);
      if (!request.length) {
        fill_elements(piece.part, metadata.fill);
        if (seen) seen(piece.index, {});
        continue;
      }
      std::span<std::byte> chunk = request.into;
      if (!chain->identity()) {
        Buffer& staging = pieces[0].whole;
        if (!piece.in_place && !staging) staging = account.acquire(chunk_bytes);
        const std::size_t bytes = byte_count(piece.extents, metadata.dtype);
        chunk = piece.in_place ? std::span(piece.part.data, bytes) : staging.bytes().first(bytes);
        const CodecChain& codecs = chain_for(piece.extents);
        const auto stored = request.into.first(*request.length);
        if (codecs.ranged() && !piece.in_place) {
          const auto [begin, end] = wanted(piece);
          codecs.decode_range(stored, chunk, begin, end, account);
        } else {
          codecs.decode(stored, chunk, account);
        }
      } else if (*request.length != chunk.size()) {
        throw Error(ErrorKind::corrupt, store->describe(piece.key) + " has " + std::to_string(*request.length) +
                                            " bytes: expected a chunk of " + std::to_string(chunk.size()));
      }
      if (!piece.in_place) {
        const ConstView all = make_view(static_cast<const std::byte*>(chunk.data()), metadata.dtype, piece.extents);
        copy_elements(all.sub(piece.within, piece.part.shape), piece.part);
      }
      if (seen && !part_only) seen(piece.index, request.into.first(*request.length));
    } catch (Error& error) {
      error.add("chunk", piece.key);
      throw;
    }
  }
}

void ZarrArray::State::read(const Box& box, const View& into, MemoryAccount& account, const ChunkSeen& seen) const {
  check_box(box, into);
  if (box.empty()) return;
  const Box blocks = chunks_meeting(box);
  std::vector<Piece> pieces(window(static_cast<std::size_t>(element_count(blocks.shape))));
  std::vector<CodecChain::ChunkPart> parts;
  Shape index = blocks.origin;
  for (bool more = true; more;) {
    std::size_t count = 0;
    for (; more && count < pieces.size(); ++count, more = advance(index, blocks))
      locate(box, into, index, pieces[count]);
    if (!chain->partial()) {
      read_pieces(std::span(pieces).first(count), account, seen);
      continue;
    }
    parts.clear();
    for (const Piece& piece : std::span(pieces).first(count))
      parts.push_back({piece.key, {piece.within, piece.part.shape}, piece.part});
    chain->read_parts(*store, parts, account);
    for (std::size_t k = 0; k < count; ++k)
      if (!parts[k].stored) fill_elements(pieces[k].part, metadata.fill);
  }
}

std::size_t ZarrArray::read_memory(const Shape& extents, bool aligned) const {
  const CodecChain& chain = *state_->chain;
  const Shape& chunks = chain.partial() ? metadata().chunks : metadata().write_chunks();
  const Shape& shape = metadata().shape;
  // A chunk is decoded in place where it lies inside the box as a whole and the box has no other elements between its
  // own: for every chunk of every such box, or else one pooled chunk is needed.
  bool in_place =
      extents.size() == chunks.size() && metadata().edges.empty() && (chain.partial() || !metadata().shards);
  bool whole_chunks = extents.size() == chunks.size() && metadata().edges.empty(), leading = true;
  for (std::size_t axis = 0; whole_chunks && axis < chunks.size(); ++axis) {
    const std::int64_t extent = std::min(extents[axis], shape[axis]);
    const bool starts_at_border = aligned || chunks[axis] == 1 || extent == shape[axis];
    whole_chunks = starts_at_border && shape[axis] % chunks[axis] == 0 && extent % chunks[axis] == 0;
    in_place = in_place && (leading || extent == chunks[axis]);
    leading = leading && chunks[axis] == 1;
  }
  in_place = in_place && whole_chunks;
  const Shape& stored = metadata().write_chunks();
  std::size_t met = 1;  // stored chunks that such a box meets, at most
  for (std::size_t axis = 0; axis < stored.size() && met < 1024; ++axis) {
    std::int64_t smallest = stored[axis];
    if (!metadata().edges.empty() && !metadata().edges[axis].empty())
      smallest = *std::min_element(metadata().edges[axis].begin(), metadata().edges[axis].end());
    const std::int64_t extent = axis < extents.size() ? std::min(extents[axis], shape[axis]) : shape[axis];
    const std::int64_t along =
        (extent - 1) / smallest + (aligned && metadata().edges.empty() && !metadata().shards ? 1 : 2);
    met *= static_cast<std::size_t>(std::min<std::int64_t>(along, 1024));
  }
  const std::size_t window = state_->window(met);
  if (chain.partial()) return chain.read_parts_memory(*state_->store, window, !in_place);
  const std::size_t encoded = chain.identity() ? 0 : window * class_bytes(chain.encoded_bound());
  const std::size_t decoding = encoded + (chain.identity() ? 0 : chain.decode_scratch());
  if (in_place) return decoding;
  const std::size_t in_part = chain.ranged() && !whole_chunks ? encoded + chain.range_scratch() : 0;
  return std::max(decoding, in_part) + (chain.identity() ? window : 1) * class_bytes(state_->chunk_bytes);
}

bool ZarrArray::reads_ranges() const { return state_->chain->identity() || state_->chain->ranged(); }

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
  std::vector<std::string> names;
  try {
    names = store.list_dir(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;  // a web server lists nothing
  }
  for (const std::string& name : names) {
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
    store->check_writable();
    if (metadata.zarr_format == 3) check_node_names(where);
    if (metadata.zarr_format == 2) metadata.chunk_key_encoding = "v2";
    if (!metadata.edges.empty())
      throw Error(ErrorKind::unsupported,
                  "the chunk grid is rectilinear, which is read only: state chunks of one shape");
    if (metadata.zarr_format == 3 && metadata.dtype.opaque &&
        metadata.dtype.opaque->form == OpaqueType::Form::structure)
      order_structures(metadata.codecs);
    metadata.codecs = in_full(resharded(metadata.codecs, metadata.shards.has_value(), metadata.chunks));
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

ZarrArray ZarrArray::reopen(std::shared_ptr<Store> store, const std::string& path, ArrayMetadata metadata) {
  return ZarrArray(std::make_shared<State>(std::move(store), normalized_path(path), std::move(metadata)));
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

void ZarrArray::read(const Box& box, const View& into, MemoryAccount& account, const ChunkSeen& seen) const {
  try {
    state_->read(box, into, account, seen);
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

bool ZarrArray::stored_alike(const ZarrArray& other) const {
  const ArrayMetadata &a = metadata(), &b = other.metadata();
  return a.zarr_format == b.zarr_format && a.shape == b.shape && a.dtype == b.dtype && a.chunks == b.chunks &&
         a.edges.empty() && b.edges.empty() && !a.shards && !b.shards && a.fill == b.fill &&
         !state_->chain->identity() && in_full(a.codecs) == in_full(b.codecs);
}

Written ZarrArray::move_chunk(const Shape& chunk_index, std::span<const std::byte> stored, const ConstView& decoded,
                              bool durable) const {
  const std::string key = key_of(chunk_index);
  try {
    if (!stored.data() || all_elements_are(decoded, metadata().fill)) {
      state_->store->erase(key);
      return {};
    }
    state_->store->put(key, stored, durable);
    return {stored.size(), crc32c(stored)};
  } catch (Error& error) {
    error.add("chunk", key).add("array", name());
    throw;
  }
}

}  // namespace cuboid
