// zarr.json of arrays.
#include <algorithm>
#include <utility>

#include "storage/codec_sharding.h"
#include "storage/error.h"
#include "storage/zarr_dtype.h"
#include "storage/zarr_json.h"
#include "storage/zarr_metadata.h"

namespace cuboid {
namespace {

using nlohmann::json;

// An extension point: {"name": ..., "configuration": {...}}, or the name alone (the short-hand of 3.1).
struct Extension {
  std::string name;
  json configuration = json::object();
};

Extension extension(const json& found, const char* key) {
  if (found.is_string()) return {found.get<std::string>()};
  if (!found.is_object() || !found.contains("name") || !found["name"].is_string()) {
    throw_bad_key(key, found, "{\"name\": ..., \"configuration\": {...}}");
  }
  Extension result{found["name"].get<std::string>()};
  if (found.contains("configuration")) result.configuration = found["configuration"];
  if (!result.configuration.is_object()) throw_bad_key(key, found, "an object as 'configuration'");
  return result;
}

[[noreturn]] void throw_unsupported(const char* key, const std::string& name, const std::string& expected) {
  throw Error(ErrorKind::unsupported,
              "'" + std::string(key) + "' is '" + name + "', which is not read: expected " + expected);
}

void check_known_keys(const json& document) {
  static constexpr const char* kKnown[] = {
      "zarr_format", "node_type",          "shape",           "data_type",  "chunk_grid",          "fill_value",
      "codecs",      "chunk_key_encoding", "dimension_names", "attributes", "storage_transformers"};
  for (const auto& [key, value] : document.items()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown)) continue;
    if (key == "consolidated_metadata") continue;  // of an array it says nothing
    const bool optional = value.is_object() && value.contains("must_understand") && value["must_understand"] == false;
    if (!optional) {
      throw Error(ErrorKind::unsupported, "zarr.json has the unknown key '" + key +
                                              "', and does not say that it need not be understood: this array uses an "
                                              "extension that is not read");
    }
  }
}

constexpr std::size_t kMaxEdges = 1u << 22;  // per axis, of a rectilinear grid

// The edge lengths of one axis: one integer for all, or a list of integers and of [length, how many].
Shape parse_edges(const json& found, std::int64_t extent) {
  constexpr const char* kKey = "chunk_shapes";
  if (found.is_number()) {
    const std::int64_t edge = shape_from_json(json::array({found}), kKey)[0];
    if (edge < 1 || static_cast<std::uint64_t>(extent / edge) >= kMaxEdges)
      throw_bad_key(kKey, found, "1 to 2^22 chunks per axis");
    return Shape(static_cast<std::size_t>((extent + edge - 1) / edge), edge);
  }
  if (!found.is_array()) throw_bad_key(kKey, found, "an integer or a list per axis");
  Shape edges;
  std::int64_t sum = 0;
  for (const json& entry : found) {
    const Shape run = entry.is_array() ? shape_from_json(entry, kKey) : shape_from_json(json::array({entry, 1}), kKey);
    if (run.size() != 2 || run[0] < 1 || run[1] < 0)
      throw_bad_key(kKey, entry, "a length of at least 1, or [length, how many]");
    std::int64_t run_sum = 0;
    if (static_cast<std::uint64_t>(run[1]) > kMaxEdges - edges.size() ||
        __builtin_mul_overflow(run[0], run[1], &run_sum) || __builtin_add_overflow(sum, run_sum, &sum)) {
      throw_bad_key(kKey, entry, "at most 2^22 chunks per axis and lengths that add up to less than 2^63");
    }
    edges.insert(edges.end(), static_cast<std::size_t>(run[1]), run[0]);
  }
  // Chunks that lie behind the end as a whole have no elements.
  while (!edges.empty() && sum - edges.back() >= extent) {
    sum -= edges.back();
    edges.pop_back();
  }
  if (sum < extent) {
    throw Error(ErrorKind::invalid, "'chunk_shapes' add up to " + std::to_string(sum) +
                                        ": expected the extent of the axis, " + std::to_string(extent));
  }
  return edges;
}

void parse_chunk_grid(const json& found, ArrayMetadata& metadata) {
  const Extension grid = extension(found, "chunk_grid");
  if (grid.name == "rectilinear") {
    if (const json kind = grid.configuration.value("kind", json("inline")); kind != "inline")
      throw_bad_key("kind", kind, "\"inline\"");
    const json& shapes = required(grid.configuration, "chunk_shapes", "a list per axis");
    if (!shapes.is_array() || shapes.size() != metadata.shape.size())
      throw_bad_key("chunk_shapes", shapes, "one entry per axis of " + to_string(metadata.shape));
    for (std::size_t axis = 0; axis < metadata.shape.size(); ++axis) {
      metadata.edges.push_back(parse_edges(shapes[axis], metadata.shape[axis]));
      const Shape& edges = metadata.edges.back();
      metadata.chunks.push_back(edges.empty() ? 1 : *std::max_element(edges.begin(), edges.end()));
    }
    return;
  }
  if (grid.name != "regular") throw_unsupported("chunk_grid", grid.name, "regular or rectilinear");
  metadata.chunks = shape_from_json(required(grid.configuration, "chunk_shape", "a list of integers"), "chunk_shape");
}

void parse_key_encoding(const json& found, ArrayMetadata& metadata) {
  const Extension encoding = extension(found, "chunk_key_encoding");
  if (encoding.name != "default" && encoding.name != "v2") {
    throw_unsupported("chunk_key_encoding", encoding.name, "default or v2");
  }
  metadata.chunk_key_encoding = encoding.name;
  const json separator = encoding.configuration.value("separator", json(encoding.name == "v2" ? "." : "/"));
  if (separator != "." && separator != "/") throw_bad_key("separator", separator, "\".\" or \"/\"");
  metadata.separator = separator.get_ref<const std::string&>()[0];
}

void parse_dimension_names(const json& found, ArrayMetadata& metadata) {
  if (found.is_null()) return;
  if (!found.is_array() || found.size() != metadata.shape.size()) {
    throw_bad_key("dimension_names", found, "one name or null per axis");
  }
  for (const json& name : found) {
    if (!name.is_string() && !name.is_null()) throw_bad_key("dimension_names", found, "strings or null");
    metadata.dimension_names.push_back(name.is_null() ? std::nullopt : std::optional(name.get<std::string>()));
  }
}

}  // namespace

json in_full(const json& codecs) {
  json full = json::array();
  for (const json& codec : codecs) {
    full.push_back(codec.is_string() ? json{{"name", codec}} : codec);
    json& last = full.back();
    if (last["name"] != "sharding_indexed" || !last.contains("configuration")) continue;
    for (const char* key : {"codecs", "index_codecs"})
      if (last["configuration"].contains(key)) last["configuration"][key] = in_full(last["configuration"][key]);
  }
  return full;
}

ArrayMetadata parse_metadata_v3(const std::string& zarr_json) {
  const json document = parse_json(zarr_json, "zarr.json");
  if (!document.is_object()) throw Error(ErrorKind::invalid, "zarr.json holds no JSON object");
  const json& format = required(document, "zarr_format", "3");
  if (format != 3) throw_bad_key("zarr_format", format, "3");
  const json& type = required(document, "node_type", "\"array\"");
  if (type != "array") throw_bad_key("node_type", type, "\"array\"");
  check_known_keys(document);

  ArrayMetadata metadata;
  metadata.zarr_format = 3;
  metadata.shape = shape_from_json(required(document, "shape", "a list of integers"), "shape");
  metadata.dtype = data_type_from_json(required(document, "data_type", "the name of a data type"));
  parse_chunk_grid(required(document, "chunk_grid", "a regular grid"), metadata);
  parse_key_encoding(required(document, "chunk_key_encoding", "default or v2"), metadata);
  metadata.fill = fill_from_json(required(document, "fill_value", "a value"), metadata.dtype);
  metadata.codecs = required(document, "codecs", "a list of codecs");
  if (auto inner = sharded_chunks(metadata.codecs, metadata.shape.size())) {
    if (!metadata.edges.empty()) {
      throw Error(ErrorKind::unsupported,
                  "'chunk_grid' is rectilinear and 'codecs' have shards: the two together are not read");
    }
    metadata.shards = std::exchange(metadata.chunks, std::move(*inner));
  }
  if (const auto found = document.find("storage_transformers"); found != document.end() && !found->empty()) {
    throw Error(ErrorKind::unsupported, "'storage_transformers' is " + found->dump() + ": only an empty list is read");
  }
  if (const auto found = document.find("dimension_names"); found != document.end()) {
    parse_dimension_names(*found, metadata);
  }
  if (const auto found = document.find("attributes"); found != document.end()) metadata.attributes = *found;
  check_metadata(metadata);
  return metadata;
}

std::vector<std::pair<std::string, std::string>> format_metadata_v3(const ArrayMetadata& metadata) {
  json document = {
      {"zarr_format", 3},
      {"node_type", "array"},
      {"shape", metadata.shape},
      {"data_type", data_type_to_json(metadata.dtype)},
      {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", metadata.write_chunks()}}}}},
      {"chunk_key_encoding",
       {{"name", metadata.chunk_key_encoding}, {"configuration", {{"separator", std::string(1, metadata.separator)}}}}},
      {"fill_value", fill_to_json(metadata.fill, metadata.dtype, 3)},
      {"codecs", metadata.codecs},
      {"attributes", metadata.attributes},
  };
  if (!metadata.dimension_names.empty()) {
    json names = json::array();
    for (const auto& name : metadata.dimension_names) names.push_back(name ? json(*name) : json());
    document["dimension_names"] = std::move(names);
  }
  return {{"zarr.json", dump_json(document, 2)}};
}

}  // namespace cuboid
