#include "storage/zarr_metadata.h"

#include <algorithm>
#include <charconv>

#include "storage/codec_sharding.h"
#include "storage/error.h"
#include "storage/zarr_json.h"

namespace cuboid {

using nlohmann::json;

std::string ArrayMetadata::chunk_key(const Shape& index) const {
  const bool prefixed = zarr_format == 3 && chunk_key_encoding == "default";
  std::string key = prefixed ? "c" : "";
  if (index.empty() && !prefixed) return "0";
  char digits[20];
  for (std::int64_t i : index) {
    if (!key.empty()) key += separator;
    key.append(digits, std::to_chars(digits, digits + sizeof digits, i).ptr);
  }
  return key;
}

Shape ArrayMetadata::chunk_counts() const {
  if (edges.empty()) return Grid(shape, write_chunks()).counts();
  Shape counts;
  for (const Shape& axis : edges) counts.push_back(static_cast<std::int64_t>(axis.size()));
  return counts;
}

void check_metadata(const ArrayMetadata& metadata) {
  const std::size_t rank = metadata.shape.size();
  if (rank > kMaxRank) throw_bad_key("shape", metadata.shape, "at most 32 axes");
  if (std::any_of(metadata.chunks.begin(), metadata.chunks.end(), [](std::int64_t extent) { return extent < 1; }))
    throw Error(ErrorKind::invalid, "chunks of " + to_string(metadata.chunks) + ": expected extents of at least 1");
  byte_count(metadata.shape, metadata.dtype);
  byte_count(metadata.write_chunks(), metadata.dtype);
  Grid(metadata.shape, metadata.write_chunks());
  Grid(metadata.write_chunks(), metadata.chunks);
  if (metadata.shards) {
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if ((*metadata.shards)[axis] % metadata.chunks[axis] != 0) {
        throw Error(ErrorKind::invalid, "shards of " + to_string(*metadata.shards) + " are no multiples of chunks of " +
                                            to_string(metadata.chunks));
      }
    }
  }
  if (metadata.fill.size() != metadata.dtype.size) {
    throw Error(ErrorKind::invalid, "the fill value has " + std::to_string(metadata.fill.size()) + " bytes: expected " +
                                        std::to_string(metadata.dtype.size) + " of " + to_string(metadata.dtype));
  }
  if (!metadata.dimension_names.empty() && metadata.dimension_names.size() != rank) {
    throw Error(ErrorKind::invalid, "'dimension_names' has " + std::to_string(metadata.dimension_names.size()) +
                                        " names: expected one per axis, " + std::to_string(rank));
  }
  if (metadata.separator != '/' && metadata.separator != '.') {
    throw Error(ErrorKind::invalid,
                std::string("the separator of chunk keys is '") + metadata.separator + "': expected '/' or '.'");
  }
  if (!metadata.attributes.is_object()) throw_bad_key("attributes", metadata.attributes, "an object");
  if (const auto inner = sharded_chunks(metadata.codecs, rank);
      inner.has_value() != metadata.shards.has_value() || (inner && *inner != metadata.chunks)) {
    throw Error(ErrorKind::invalid, "chunks " + to_string(metadata.chunks) + " and shards do not agree with codecs " +
                                        metadata.codecs.dump());
  }
  if (metadata.shards && metadata.zarr_format == 2) {
    throw Error(ErrorKind::unsupported, "Zarr format 2 has no shards: choose format 3, or leave them out");
  }
  make_codec_chain(metadata.codecs, {metadata.dtype, metadata.write_chunks(), metadata.fill});
}

std::vector<std::pair<std::string, std::string>> format_metadata(const ArrayMetadata& metadata) {
  return metadata.zarr_format == 2 ? format_metadata_v2(metadata) : format_metadata_v3(metadata);
}

namespace {

json names_to_json(const std::vector<std::optional<std::string>>& names) {
  json list = json::array();
  for (const auto& name : names) list.push_back(name ? json(*name) : json());
  return list;
}

}  // namespace

json metadata_to_json(const ArrayMetadata& metadata) {
  json fill = json::array();
  for (std::byte byte : metadata.fill) fill.push_back(std::to_integer<int>(byte));
  return {{"zarr_format", metadata.zarr_format},
          {"shape", metadata.shape},
          {"chunks", metadata.chunks},
          {"shards", metadata.shards ? json(*metadata.shards) : json()},
          {"dtype", to_string(metadata.dtype)},
          {"fill", fill},
          {"fill_undefined", metadata.fill_undefined},
          {"codecs", metadata.codecs},
          {"chunk_key_encoding", metadata.chunk_key_encoding},
          {"separator", std::string(1, metadata.separator)},
          {"dimension_names", names_to_json(metadata.dimension_names)},
          {"edges", metadata.edges},
          {"attributes", metadata.attributes}};
}

ArrayMetadata metadata_from_json(const json& from) {
  try {
    ArrayMetadata metadata;
    metadata.zarr_format = from.at("zarr_format").get<int>();
    metadata.shape = from.at("shape").get<Shape>();
    metadata.chunks = from.at("chunks").get<Shape>();
    if (!from.at("shards").is_null()) metadata.shards = from.at("shards").get<Shape>();
    const auto dtype = dtype_from_name(from.at("dtype").get<std::string>());
    if (!dtype) throw_bad_key("dtype", from.at("dtype"), "the name of a data type");
    metadata.dtype = *dtype;
    for (const json& byte : from.at("fill")) metadata.fill.push_back(static_cast<std::byte>(byte.get<int>()));
    metadata.fill_undefined = from.at("fill_undefined").get<bool>();
    metadata.codecs = from.at("codecs");
    metadata.chunk_key_encoding = from.at("chunk_key_encoding").get<std::string>();
    metadata.separator = from.at("separator").get<std::string>().at(0);
    for (const json& name : from.at("dimension_names")) {
      metadata.dimension_names.push_back(name.is_null() ? std::nullopt : std::optional(name.get<std::string>()));
    }
    metadata.edges = from.at("edges").get<std::vector<Shape>>();
    metadata.attributes = from.at("attributes");
    return metadata;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::invalid, std::string("array metadata of a plan: ") + error.what());
  } catch (const std::out_of_range&) {
    throw Error(ErrorKind::invalid, "array metadata of a plan: 'separator' is empty");
  }
}

}  // namespace cuboid
