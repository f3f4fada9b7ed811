#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/cli/element_text.h"
#include "engine/cli/open_array.h"
#include "engine/report/table.h"
#include "storage/printable.h"
#include "storage/zarr_dtype.h"
#include "storage/zarr_json.h"

namespace cuboid {
namespace {

struct Stored {
  std::int64_t chunks = 0;
  std::uint64_t bytes = 0;
};

// The index that a key below the array names; empty optional where it names no chunk.
std::optional<Shape> chunk_index(const ArrayMetadata& metadata, std::string_view key) {
  Shape index;
  std::int64_t number = -1;
  for (char byte : key) {
    if (byte >= '0' && byte <= '9') {
      if (number > (INT64_MAX - 9) / 10) return std::nullopt;
      number = (number < 0 ? 0 : number * 10) + (byte - '0');
    } else if (number >= 0) {
      index.push_back(number);
      number = -1;
    }
  }
  if (number >= 0) index.push_back(number);
  if (metadata.shape.empty() && index == Shape{0}) index.clear();  // v2 names the only chunk of a scalar "0"
  if (index.size() != metadata.shape.size() || metadata.chunk_key(index) != key) return std::nullopt;
  return index;
}

// nullopt: the store does not list what it holds.
std::optional<Stored> count_stored(const Store& store, const std::string& path, const ArrayMetadata& metadata) {
  const Shape counts = metadata.chunk_counts();
  const std::string prefix = path.empty() ? "" : path + "/";
  Stored stored;
  const auto count = [&](std::string_view key, const Stamp& stamp) {
    const auto index = chunk_index(metadata, key.substr(std::min(prefix.size(), key.size())));
    if (!index) return;
    for (std::size_t axis = 0; axis < counts.size(); ++axis)
      if ((*index)[axis] >= counts[axis]) return;
    ++stored.chunks;
    stored.bytes += stamp.bytes;
  };
  try {
    store.list(path, count);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return std::nullopt;
  }
  return stored;
}

nlohmann::json fill_value(const ArrayMetadata& metadata) {
  if (metadata.fill_undefined) return nullptr;
  std::string text;
  append_element(text, metadata.dtype, metadata.fill.data(), ElementForm::json);
  return nlohmann::json::parse(text);
}

nlohmann::json dimension_names(const ArrayMetadata& metadata) {
  if (metadata.dimension_names.empty()) return nullptr;
  auto names = nlohmann::json::array();
  for (const auto& name : metadata.dimension_names)
    names.push_back(name ? nlohmann::json(*name) : nlohmann::json(nullptr));
  return names;
}

void print_info(const nlohmann::json& info, const ArrayMetadata& metadata) {
  Table table;
  table.columns = {{"array"}, {printable(info["path"].get<std::string>())}};
  const auto add = [&table](const char* name, std::string value) { table.rows.push_back({name, printable(value)}); };
  add("format", "Zarr " + std::to_string(metadata.zarr_format));
  add("shape", to_string(metadata.shape));
  add("dtype", info["bytes"].is_null() ? info["dtype"].get<std::string>() : to_string(metadata.dtype));
  add("chunks", (metadata.edges.empty() ? "" : "rectilinear, up to ") + to_string(metadata.chunks));
  if (metadata.shards) add("shards", to_string(*metadata.shards));
  add("fill value", info["fill_value"].dump());
  std::string codecs;
  for (const nlohmann::json& codec : info["codecs"]) {
    if (!codecs.empty()) codecs += ", ";
    codecs += codec.value("name", "?");
    if (codec.contains("configuration") && !codec["configuration"].empty())
      codecs += " " + codec["configuration"].dump();
  }
  add("codecs", codecs);
  if (!metadata.dimension_names.empty()) {
    std::string names;
    for (const auto& name : metadata.dimension_names) names += (names.empty() ? "" : ", ") + name.value_or("-");
    add("dimensions", names);
  }
  if (!info["bytes"].is_null()) add("size", format_size(info["bytes"].get<std::uint64_t>()));
  const std::int64_t chunks = element_count(metadata.chunk_counts());
  if (info["chunks_stored"].is_null()) {
    add("stored", "unknown: the store does not list what it holds");
  } else {
    add("stored", format_size(info["bytes_stored"].get<std::uint64_t>()) + " in " +
                      std::to_string(info["chunks_stored"].get<std::int64_t>()) + " of " +
                      count_of(chunks, metadata.shards ? "shard" : "chunk"));
  }
  for (const auto& [key, value] : metadata.attributes.items()) {
    std::string text = dump_json(value);
    if (text.size() > 200) text = text.substr(0, 197) + "...";
    add("attribute", key + " = " + text);
  }
  std::cout << to_text(table, style_for(1));
}

}  // namespace

int array_info_command(const ArrayCommand& command) {
  const auto array = open_any_array_at(command.path);
  const auto* strings = std::get_if<StringArray>(&array);
  const ArrayMetadata& metadata = std::visit(
      [](const auto& a) -> const auto& { return a.metadata(); }, array);
  const std::optional<Stored> stored =
      std::visit([&](const auto& a) { return count_stored(a.store(), a.path(), metadata); }, array);
  nlohmann::json info = {{"path", command.path},
                         {"zarr_format", metadata.zarr_format},
                         {"shape", metadata.shape},
                         {"chunks", metadata.chunks},
                         {"shards", metadata.shards ? nlohmann::json(*metadata.shards) : nlohmann::json(nullptr)},
                         {"dtype", type_name(metadata.dtype)},
                         {"fill_value", nullptr},
                         {"codecs", metadata.codecs},
                         {"dimension_names", dimension_names(metadata)},
                         {"attributes", metadata.attributes},
                         {"bytes", nullptr},
                         {"bytes_stored", stored ? nlohmann::json(stored->bytes) : nlohmann::json()},
                         {"chunks_stored", stored ? nlohmann::json(stored->chunks) : nlohmann::json()}};
  if (strings) {  // whose size only reading them tells
    info["dtype"] = strings->type();
    info["codecs"] = strings->codecs();
    std::string text;
    append_string(text, strings->fill(), strings->is_text(), ElementForm::json);
    info["fill_value"] = nlohmann::json::parse(text);
  } else {
    info["fill_value"] = fill_value(metadata);
    info["bytes"] = byte_count(metadata.shape, metadata.dtype);
  }
  if (!metadata.edges.empty()) info["edges"] = metadata.edges;
  if (metadata.dtype.opaque) info["data_type"] = data_type_to_json(metadata.dtype);
  if (command.common.json) {
    print_json(info);
  } else {
    print_info(info, metadata);
  }
  return kExitDone;
}

int array_codecs_command(const ArrayCommand& command) {
  const std::vector<CodecName> names = codec_names();
  if (command.common.json) {
    auto list = nlohmann::json::array();
    for (const CodecName& codec : names) list.push_back({{"name", codec.name}, {"doc", codec.doc}});
    print_json({{"codecs", list}});
    return kExitDone;
  }
  std::size_t width = 0;
  for (const CodecName& codec : names) width = std::max(width, codec.name.size());
  for (const CodecName& codec : names)
    std::cout << paint(style_for(1), Ink::bold, codec.name) << std::string(width + 2 - codec.name.size(), ' ')
              << codec.doc << "\n";
  return kExitDone;
}

}  // namespace cuboid
