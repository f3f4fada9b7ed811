// zarr.json of arrays.
#include <algorithm>
#include <utility>

#include "storage/codec_sharding.h"
#include "storage/error.h"
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
    if (key == "consolidated_metadata" && value.is_null()) continue;
    const bool optional = value.is_object() && value.contains("must_understand") && value["must_understand"] == false;
    if (!optional) {
      throw Error(ErrorKind::unsupported, "zarr.json has the unknown key '" + key +
                                              "', and does not say that it need not be understood: this array uses an "
                                              "extension that is not read");
    }
  }
}

DType parse_data_type(const json& found) {
  const Extension type = extension(found, "data_type");
  const auto dtype = dtype_from_name(type.name);
  if (!dtype) {
    throw_unsupported("data_type", type.name,
                      "bool, int8 to int64, uint8 to uint64, float32, float64, complex64 or complex128");
  }
  if (!type.configuration.empty()) throw_bad_key("data_type", found, "no configuration");
  return *dtype;
}

Shape parse_chunk_grid(const json& found) {
  const Extension grid = extension(found, "chunk_grid");
  if (grid.name != "regular") throw_unsupported("chunk_grid", grid.name, "regular");
  return shape_from_json(required(grid.configuration, "chunk_shape", "a list of integers"), "chunk_shape");
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

bool is_group_document(const std::string& zarr_json) {
  const json document = parse_json(zarr_json, "zarr.json");
  return document.is_object() && document.contains("node_type") && document["node_type"] == "group";
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
  metadata.dtype = parse_data_type(required(document, "data_type", "the name of a data type"));
  metadata.chunks = parse_chunk_grid(required(document, "chunk_grid", "a regular grid"));
  parse_key_encoding(required(document, "chunk_key_encoding", "default or v2"), metadata);
  metadata.fill = fill_from_json(required(document, "fill_value", "a value"), metadata.dtype);
  metadata.codecs = required(document, "codecs", "a list of codecs");
  if (auto inner = sharded_chunks(metadata.codecs, metadata.shape.size())) {
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
      {"data_type", to_string(metadata.dtype)},
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
  return {{"zarr.json", document.dump(2)}};
}

}  // namespace cuboid
