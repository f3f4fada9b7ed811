#include "storage/string_array.h"

#include <cstring>
#include <map>

#include "storage/codec_sharding.h"
#include "storage/codec_stage.h"
#include "storage/error.h"
#include "storage/text_codec.h"
#include "storage/zarr_json.h"
#include "storage/zarr_metadata.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxEncoded = std::size_t{1} << 31;  // of one chunk

struct StringType {
  const char* codec;
  bool text;
  std::initializer_list<std::string_view> names;  // in format 3
};
const StringType kTypes[] = {{"vlen-utf8", true, {"string"}},
                             {"vlen-bytes", false, {"bytes", "variable_length_bytes"}}};

const StringType* type_of_codec(const json& codec, const char* key) {
  const json name = codec.is_object() && codec.contains(key) ? codec[key] : codec;
  for (const StringType& type : kTypes)
    if (name == type.codec) return &type;
  return nullptr;
}

// Base64 where it is one: what bytes are filled with has been written in both ways.
std::string fill_of(const json& found, bool text) {
  if (found.is_null() || found == 0) return "";
  if (!found.is_string()) throw_bad_key("fill_value", found, "a string");
  auto value = found.get<std::string>();
  const auto bytes = text ? std::nullopt : base64_decoded(value);
  return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : value;
}

std::uint32_t length_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

}  // namespace

// --- Metadata: read as an array of bytes by whoever reads that, with the elements' type and codec put in its place
// ----

std::optional<StringArray> StringArray::parse_v3(const std::string& zarr_json) {
  json document = parse_json(zarr_json, "zarr.json");
  if (!document.is_object() || !document.contains("data_type") || !document.contains("codecs")) return std::nullopt;
  const json data_type = document["data_type"];
  const json name = data_type.is_object() && data_type.contains("name") ? data_type["name"] : data_type;
  const StringType* type = nullptr;
  for (const StringType& known : kTypes)
    for (const std::string_view known_name : known.names)
      if (name == known_name) type = &known;
  json& codecs = document["codecs"];
  if (!type || !codecs.is_array()) return std::nullopt;
  StringArray array;
  array.type_ = name.get<std::string>();
  array.is_text_ = type->text;
  array.codecs_ = codecs;
  array.fill_ = fill_of(document.value("fill_value", json()), type->text);
  json* of_chunks = &codecs;  // in shards: those of what is inside
  json* shards = nullptr;
  for (json& codec : codecs)
    if (codec.is_object() && codec.contains("name") && codec["name"] == "sharding_indexed") shards = &codec;
  if (shards && shards->value("configuration", json()).is_object() &&
      (*shards)["configuration"].value("codecs", json()).is_array())
    of_chunks = &(*shards)["configuration"]["codecs"];
  bool serialised = false;
  for (json& codec : *of_chunks) {
    if (type_of_codec(codec, "name") != type) continue;
    codec = {{"name", "bytes"}};
    serialised = true;
  }
  if (!serialised || (shards && shards != &codecs.back()))
    throw Error(ErrorKind::unsupported, "codecs " + array.codecs_.dump() + " of an array of strings: expected '" +
                                            type->codec +
                                            "' and compressors behind it, or shards of such chunks as the last codec");
  document["data_type"] = "uint8";
  document["fill_value"] = 0;
  array.metadata_ = parse_metadata_v3(document.dump());
  array.chunk_codecs_ = resharded(array.codecs_, false, {});
  if (shards) {
    Shape stored;
    for (const std::size_t axis : axes_before(codecs, codecs.size(), array.shape().size()))
      stored.push_back((*array.metadata_.shards)[axis]);
    CodecConfig config("sharding_indexed", (*shards)["configuration"]);
    array.sharding_ = std::make_shared<Sharding>(config, ChunkSpec{kUint8, stored});
  }
  return array;
}

std::optional<StringArray> StringArray::parse_v2(const std::string& zarray, const std::string& zattrs) {
  json document = parse_json(zarray, ".zarray");
  if (!document.is_object() || !document.contains("dtype") || document["dtype"] != "|O") return std::nullopt;
  const json filters = document.value("filters", json());
  const StringType* type = filters.is_array() && filters.size() == 1 ? type_of_codec(filters[0], "id") : nullptr;
  if (!type)
    throw Error(ErrorKind::unsupported, "elements are Python objects with the filters " + filters.dump() +
                                            ": expected vlen-utf8 or vlen-bytes, the others are not read");
  StringArray array;
  array.type_ = type->names.begin()[type->names.size() - 1];
  array.is_text_ = type->text;
  array.fill_ = fill_of(document.value("fill_value", json()), type->text);
  document["dtype"] = "|u1";
  document["fill_value"] = 0;
  document["filters"] = nullptr;
  array.metadata_ = parse_metadata_v2(document.dump(), zattrs);
  array.codecs_ = array.metadata_.codecs;
  for (json& codec : array.codecs_)
    if (codec["name"] == "bytes") codec = {{"name", type->codec}};
  array.chunk_codecs_ = array.codecs_;
  return array;
}

std::optional<StringArray> StringArray::open(std::shared_ptr<Store> store, const std::string& path) {
  const std::string prefix = path.empty() ? "" : path + '/';
  std::optional<StringArray> array;
  if (const auto text = read_text(*store, prefix + "zarr.json")) {
    array = parse_v3(*text);
  } else if (const auto zarray = read_text(*store, prefix + ".zarray")) {
    array = parse_v2(*zarray, read_text(*store, prefix + ".zattrs").value_or(""));
  }
  if (array) {
    array->store_ = std::move(store);
    array->path_ = path;
  }
  return array;
}

// --- Elements -------------------------------------------------------------------------------------------------------

// A chunk as it is stored between the codecs: a count, then each element's length and bytes; where each one begins.
struct StringArray::Chunk {
  Buffer bytes, starts;  // none: no such chunk is stored

  std::string_view at(std::size_t i, const std::string& fill) const {
    if (!bytes) return fill;
    std::uint64_t start = 0;
    std::memcpy(&start, starts.data() + i * sizeof start, sizeof start);
    return {reinterpret_cast<const char*>(bytes.data()) + start, length_at(bytes.bytes(), start - 4)};
  }
};

std::string StringArray::key_of(const Shape& chunk_index) const {
  const std::string name = metadata_.chunk_key(chunk_index);
  return path_.empty() ? name : path_ + '/' + name;
}

StringArray::Chunk StringArray::read_chunk(const Shape& index, MemoryAccount& account) const {
  std::string key;
  Chunk chunk;
  try {
    Buffer encoded;
    std::uint64_t offset = 0, length = 0;
    if (sharding_) {
      const std::vector<std::size_t> axes = axes_before(codecs_, codecs_.size(), index.size());
      Shape shard(index.size()), inner(index.size());
      for (std::size_t k = 0; k < axes.size(); ++k) {
        const std::size_t axis = axes[k];
        const std::int64_t inside = (*metadata_.shards)[axis] / metadata_.chunks[axis];
        shard[axis] = index[axis] / inside;
        inner[k] = index[axis] % inside;
      }
      key = key_of(shard);
      const auto found = sharding_->find(*store_, key, inner, account);
      if (!found) return chunk;
      offset = found->offset, length = found->bytes;
    } else {
      key = key_of(index);
      const std::optional<Stamp> stamp = store_->stamp(key);
      if (!stamp) return chunk;
      length = stamp->bytes;
    }
    if (length > kMaxEncoded)
      throw Error(ErrorKind::unsupported, store_->describe(key) + " has more than 2 GiB: strings are read whole");
    encoded = account.acquire(static_cast<std::size_t>(length));
    const auto got = sharding_ ? store_->read_range(key, offset, encoded.bytes()) : store_->read(key, encoded.bytes());
    if (!got) return chunk;
    std::size_t size = 0;
    chunk.bytes = decode_bytes(chunk_codecs_, encoded.bytes().first(*got), size, account);
    encoded.release();
    const auto bytes = chunk.bytes.bytes().first(size);
    const auto count = static_cast<std::size_t>(element_count(metadata_.chunks));
    if (size < 4 || length_at(bytes, 0) != count || (size - 4) / 4 < count)
      throw_corrupt("strings", "are not the " + std::to_string(count) + " of a chunk");
    chunk.starts = account.acquire(count * sizeof(std::uint64_t));
    std::size_t at = 4;
    for (std::size_t i = 0; i < count; ++i) {
      if (size - at < 4 || length_at(bytes, at) > size - at - 4)
        throw_corrupt("strings", "end early, in element " + std::to_string(i));
      const std::uint64_t start = at + 4;
      std::memcpy(chunk.starts.data() + i * sizeof start, &start, sizeof start);
      at = start + length_at(bytes, at);
    }
    if (at != size) throw_corrupt("strings", "are followed by " + std::to_string(size - at) + " more bytes");
    return chunk;
  } catch (Error& error) {
    error.add("chunk", key).add("array", path_.empty() ? store_->name() : store_->describe(path_));
    throw;
  }
}

// Elements one by one, for who asks for them in an order that is C's or nearly so: keeps the decoded chunks of one index
// along the `outer` axis that were needed so far, as long as the account has room for them.
class StringArray::Reader {
 public:
  Reader(const StringArray& array, std::size_t outer, MemoryAccount& account)
      : array_(array), outer_(outer), account_(account), strides_(array.shape().size()), chunk_(array.shape().size()) {
    const std::vector<std::size_t> axes =
        axes_before(array.chunk_codecs_, array.chunk_codecs_.size(), array.shape().size());
    std::int64_t stride = 1;
    for (std::size_t axis = axes.size(); axis-- > 0; stride *= array.metadata_.chunks[axes[axis]])
      strides_[axes[axis]] = stride;
  }

  // Valid until the next call of any.
  std::string_view at(const Shape& index) {
    const Shape& extents = array_.metadata_.chunks;
    std::int64_t element = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      chunk_[axis] = index[axis] / extents[axis];
      element += index[axis] % extents[axis] * strides_[axis];
    }
    if (!chunk_.empty() && chunk_[outer_] != row_index_) {
      row_.clear();
      row_index_ = chunk_[outer_];
    }
    auto found = row_.find(chunk_);
    if (found == row_.end())
      found = row_.emplace(chunk_, with_room([&] { return array_.read_chunk(chunk_, account_); })).first;
    return found->second.at(static_cast<std::size_t>(element), array_.fill_);
  }
  // What `call` acquires goes before the chunks that are kept.
  template <class Call>
  auto with_room(Call call) -> decltype(call()) {
    try {
      return call();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::over_budget || row_.empty()) throw;
    }
    row_.clear();
    return call();
  }

 private:
  const StringArray& array_;
  std::size_t outer_;
  MemoryAccount& account_;
  Shape strides_, chunk_;
  std::map<Shape, Chunk> row_;
  std::int64_t row_index_ = -1;
};

void StringArray::read(std::span<const Shape> indices, MemoryAccount& account,
                       const std::function<void(std::string_view)>& each) const {
  Reader reader(*this, 0, account);
  Box all{Shape(shape().size(), 0), {}};
  for (const Shape& along : indices) all.shape.push_back(static_cast<std::int64_t>(along.size()));
  if (all.empty()) return;
  Shape at = all.origin, index(at.size());
  do {
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      index[axis] = indices[axis][static_cast<std::size_t>(at[axis])];
    each(reader.at(index));
  } while (advance(at, all));
}

// --- Copies ---------------------------------------------------------------------------------------------------------

StringArray StringArray::prepare_copy(std::shared_ptr<Store> store, const Shape& chunks, int zarr_format,
                                      json v3_codecs) const {
  try {
    store->check_writable();
    const std::string codec_name = is_text_ ? "vlen-utf8" : "vlen-bytes";
    ArrayMetadata metadata = metadata_;
    metadata.zarr_format = zarr_format;
    if (zarr_format == 2) metadata.chunk_key_encoding = "v2";
    metadata.chunks = chunks;
    metadata.shards.reset();
    if (!metadata.edges.empty())
      throw Error(ErrorKind::unsupported, "arrays of strings with a rectilinear chunk grid are not copied");
    metadata.codecs = json::array();
    for (const json& codec : in_full(resharded(v3_codecs, false, {}))) {
      const json& name = codec.contains("name") ? codec["name"] : codec;
      if (name.is_string() && is_filter(name))
        throw Error(ErrorKind::unsupported, "codec '" + name.get<std::string>() +
                                                "' is for numbers: strings and bytes of any length take compressors "
                                                "and checksums");
      metadata.codecs.push_back(name == codec_name || name == "bytes" ? json{{"name", "bytes"}} : codec);
    }
    check_metadata(metadata);
    // As an array of bytes, with the elements' type and codec put in its place.
    auto documents = format_metadata(metadata);
    const std::string fill = is_text_ ? fill_ : base64(std::as_bytes(std::span(fill_)));
    for (auto& [name, text] : documents) {
      if (name == ".zattrs") continue;
      json document = json::parse(text);
      document["fill_value"] = fill;
      if (name == ".zarray") {
        if (!document["filters"].is_null())
          throw Error(ErrorKind::unsupported, "in Zarr format 2 strings take no filters " + document["filters"].dump() +
                                                  " beside '" + codec_name + "': choose other codecs");
        document["dtype"] = "|O";
        document["filters"] = json::array({{{"id", codec_name}}});
      } else {
        document["data_type"] = type_;
        for (json& codec : document["codecs"])
          if (codec.is_object() && codec["name"] == "bytes") codec = {{"name", codec_name}};
      }
      text = dump_json(document, name == ".zarray" ? 4 : 2);
    }
    auto copy = zarr_format == 2
                    ? parse_v2(documents.back().second, documents.size() > 1 ? documents.front().second : "")
                    : parse_v3(documents.back().second);
    copy->store_ = store;
    copy->documents_ = std::move(documents);
    return *std::move(copy);
  } catch (Error& error) {
    throw error.add("array", store->name());
  }
}

std::uint64_t StringArray::write_chunk(const Shape& index, Reader& reader, MemoryAccount& account) const {
  const std::vector<std::size_t> axes = axes_before(chunk_codecs_, chunk_codecs_.size(), shape().size());
  const Shape& extents = metadata_.chunks;
  const auto count = static_cast<std::size_t>(element_count(extents));
  const auto put_length = [](std::byte* to, std::size_t value) {
    for (std::size_t i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> 8 * i);
  };
  if (count > kMaxEncoded / 16)
    throw Error(ErrorKind::unsupported, "chunks of " + std::to_string(count) + " strings: state smaller --chunks");
  Buffer value = reader.with_room([&] { return account.acquire(4 + 16 * count); });
  std::size_t length = 4;
  put_length(value.data(), count);
  bool all_fill = true;
  Box stored{Shape(axes.size(), 0), Shape(axes.size())};
  for (std::size_t axis = 0; axis < axes.size(); ++axis) stored.shape[axis] = extents[axes[axis]];
  Shape at = stored.origin, element(axes.size());
  do {
    bool inside = true;  // else it pads an edge chunk
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      element[axes[axis]] = index[axes[axis]] * extents[axes[axis]] + at[axis];
      inside = inside && element[axes[axis]] < shape()[axes[axis]];
    }
    std::string_view text = inside ? reader.at(element) : std::string_view(fill_);
    all_fill = all_fill && text == fill_;
    const std::size_t needed = length + 4 + text.size();
    if (needed > kMaxEncoded)
      throw Error(ErrorKind::unsupported, "the elements of a chunk take more than 2 GiB: state smaller --chunks");
    if (needed > value.size()) {
      Buffer larger = reader.with_room([&] { return account.acquire(std::max(needed, 2 * value.size())); });
      std::memcpy(larger.data(), value.data(), length);
      value = std::move(larger);
      if (inside) text = reader.at(element);  // making room may have taken it away
    }
    put_length(value.data() + length, text.size());
    if (!text.empty()) std::memcpy(value.data() + length + 4, text.data(), text.size());
    length = needed;
  } while (advance(at, stored));
  const std::string key = key_of(index);
  if (all_fill) {
    store_->erase(key);  // of an earlier writer that was stopped
    return 0;
  }
  Buffer encoded =
      reader.with_room([&] { return encode_bytes(chunk_codecs_, value.bytes().first(length), length, account); });
  store_->put(key, encoded.bytes().first(length));
  return length;
}

StringArray::Copied StringArray::write_all(const StringArray& from, MemoryAccount& account) const {
  const std::vector<std::size_t> axes = axes_before(chunk_codecs_, chunk_codecs_.size(), shape().size());
  Reader reader(from, axes.empty() ? 0 : axes[0], account);
  Copied copied;
  const Box all = Box::whole(metadata_.chunk_counts());
  Shape index = all.origin;
  if (!all.empty()) {
    do {
      const std::uint64_t bytes = write_chunk(index, reader, account);
      copied.chunks += bytes > 0;
      copied.bytes += bytes;
    } while (advance(index, all));
  }
  store_->erase_unfinished(path_);
  for (const auto& [name, text] : documents_)
    store_->put(path_.empty() ? name : path_ + '/' + name, std::as_bytes(std::span(text)));
  return copied;
}

}  // namespace cuboid
