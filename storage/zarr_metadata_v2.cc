// .zarray and .zattrs. Compressor, filters, order and byte order are translated to the v3 list of codecs and back, so
// that nothing above knows two ways to say the same thing.
#include <algorithm>
#include <bit>

#include "storage/codec_stage.h"
#include "storage/error.h"
#include "storage/opaque_type.h"
#include "storage/zarr_dtype.h"
#include "storage/zarr_json.h"
#include "storage/zarr_metadata.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr const char* kDimensionsKey = "_ARRAY_DIMENSIONS";  // the convention of xarray

// The fill of a structure is written as the bytes that an element is stored as.
void swap_structure(std::vector<std::byte>& fill, DType dtype, const char* endian) {
  const std::string_view native = std::endian::native == std::endian::little ? "little" : "big";
  if (!dtype.opaque || dtype.opaque->form != OpaqueType::Form::structure || !endian || endian == native) return;
  for (const auto& number : dtype.opaque->numbers) {
    const auto first = fill.begin() + static_cast<std::ptrdiff_t>(number.offset);
    std::reverse(first, first + number.size);
  }
}

// --- Compressors: {"id": ..., keys} <-> {"name": ..., "configuration": {keys}} ---------------------------------------

struct Translation {
  const char* id;
  const char* name;
  std::initializer_list<std::pair<const char*, const char*>> keys;  // key, JSON of its default
};
const Translation kTranslations[] = {
    {"zstd", "zstd", {{"level", "1"}, {"checksum", "false"}}},
    {"gzip", "gzip", {{"level", "1"}}},
    {"zlib", "numcodecs.zlib", {{"level", "1"}}},
    {"lz4", "numcodecs.lz4", {{"acceleration", "1"}}},
    {"bz2", "numcodecs.bz2", {{"level", "1"}}},
    {"lzma", "numcodecs.lzma", {{"format", "1"}, {"check", "-1"}, {"preset", "null"}, {"filters", "null"}}},
    {"blosc", "blosc", {{"cname", "\"lz4\""}, {"clevel", "5"}, {"shuffle", "1"}, {"blocksize", "0"}}},
};
constexpr const char* kShuffles[] = {"noshuffle", "shuffle", "bitshuffle"};

json compressor_to_v3(const json& found, DType dtype) {
  if (!found.is_object() || !found.contains("id") || !found["id"].is_string()) {
    throw_bad_key("compressor", found, "null or an object with an \"id\"");
  }
  const auto id = found["id"].get<std::string>();
  for (const Translation& translation : kTranslations) {
    if (id != translation.id) continue;
    json configuration = json::object();
    for (const auto& [key, fallback] : translation.keys) {
      configuration[key] = found.contains(key) ? found[key] : json::parse(fallback);
    }
    if (id == "blosc") {
      const json shuffle = configuration["shuffle"];
      if (!shuffle.is_number_integer() || shuffle < -1 || shuffle > 2) {
        throw_bad_key("compressor", found, "'shuffle' from -1 to 2");
      }
      const int mode = shuffle == -1 ? (dtype.size == 1 ? 2 : 1) : shuffle.get<int>();  // -1: as suits the items
      configuration["shuffle"] = kShuffles[mode];
      configuration["typesize"] = dtype.size;
    }
    return {{"name", translation.name}, {"configuration", std::move(configuration)}};
  }
  throw Error(ErrorKind::unsupported,
              "compressor '" + id + "' is not known: expected null, blosc, zstd, gzip, zlib, " + "lz4, bz2 or lzma");
}

json compressor_to_v2(const json& codec) {
  const auto name = codec.at("name").get<std::string>();
  const json configuration = codec.value("configuration", json::object());
  for (const Translation& translation : kTranslations) {
    if (name != translation.name && name != translation.id) continue;
    json compressor = {{"id", translation.id}};
    for (const auto& [key, fallback] : translation.keys) {
      compressor[key] = configuration.contains(key) ? configuration[key] : json::parse(fallback);
    }
    // tensorstore refuses the key, which older writers do not know either: stated only where it says something.
    if (name == "zstd" && compressor["checksum"] == false) compressor.erase("checksum");
    if (name == "blosc") {
      const auto shuffle =
          std::find(std::begin(kShuffles), std::end(kShuffles), configuration.value("shuffle", "shuffle"));
      compressor["shuffle"] = shuffle - std::begin(kShuffles);
    }
    return compressor;
  }
  throw Error(ErrorKind::unsupported,
              "codec '" + name + "' cannot be written in Zarr format 2: choose format 3, or another codec");
}

json order_codec(std::size_t rank) {
  json order = json::array();
  for (std::size_t axis = rank; axis-- > 0;) order.push_back(axis);
  return {{"name", "transpose"}, {"configuration", {{"order", std::move(order)}}}};
}

// {"id": "delta", keys} -> {"name": "numcodecs.delta", "configuration": {keys}}; which ones there are the codecs know.
json filter_to_v3(const json& filter) {
  if (!filter.is_object() || !filter.contains("id") || !filter["id"].is_string()) {
    throw_bad_key("filters", filter, "objects with an \"id\"");
  }
  json configuration = filter;
  configuration.erase("id");
  return {{"name", "numcodecs." + filter["id"].get<std::string>()}, {"configuration", std::move(configuration)}};
}

// The inverse; nullopt for what is no filter.
std::optional<json> filter_to_v2(const json& codec) {
  const auto name = codec.at("name").get<std::string>();
  const bool shuffle = name == "numcodecs.shuffle" || name == "shuffle";
  if (!is_filter(name) && !shuffle) return std::nullopt;
  json filter = codec.value("configuration", json::object());
  filter["id"] = shuffle ? "shuffle" : name.substr(name.find('.') + 1);
  return filter;
}

// The byte order of what a filter stores.
const char* endian_after(const json& codec, const char* before) {
  if (codec["name"] == "numcodecs.packbits") return nullptr;
  for (const char* key : {"encode_dtype", "astype", "dtype"}) {
    const json& configuration = codec["configuration"];
    if (configuration.contains(key) && configuration[key].is_string())
      return numpy_dtype(configuration[key], key).endian;
  }
  return before;
}

json codecs_to_v3(const json& zarray, const StoredDType& stored, std::size_t rank) {
  json codecs = json::array();
  const json& order = required(zarray, "order", "\"C\" or \"F\"");
  if (order != "C" && order != "F") throw_bad_key("order", order, "\"C\" or \"F\"");
  if (order == "F" && rank > 1) codecs.push_back(order_codec(rank));
  const char* endian = stored.endian;
  json after_bytes = json::array();
  const auto filters = zarray.find("filters");
  if (filters != zarray.end() && !filters->is_null()) {
    if (!filters->is_array()) throw_bad_key("filters", *filters, "null or a list");
    for (const json& filter : *filters) {
      json codec = filter_to_v3(filter);
      if (codec["name"] == "numcodecs.shuffle") {
        after_bytes.push_back(std::move(codec));
        continue;
      }
      if (!after_bytes.empty())
        throw Error(ErrorKind::unsupported, "'filters': shuffle before another one is not read");
      endian = endian_after(codec, endian);
      codecs.push_back(std::move(codec));
    }
  }
  json bytes = {{"name", "bytes"}};
  if (endian) bytes["configuration"] = {{"endian", endian}};
  codecs.push_back(std::move(bytes));
  for (json& codec : after_bytes) codecs.push_back(std::move(codec));
  const json& compressor = required(zarray, "compressor", "null or an object with an \"id\"");
  if (!compressor.is_null()) codecs.push_back(compressor_to_v3(compressor, stored.dtype));
  return codecs;
}

// _ARRAY_DIMENSIONS becomes the names of the axes where it is what the convention says; else it stays an attribute.
void take_dimension_names(ArrayMetadata& metadata) {
  const auto found = metadata.attributes.find(kDimensionsKey);
  if (found == metadata.attributes.end() || !found->is_array() || found->size() != metadata.shape.size()) return;
  const auto is_name = [](const json& name) { return name.is_string(); };
  if (!std::all_of(found->begin(), found->end(), is_name)) return;
  for (const json& name : *found) metadata.dimension_names.emplace_back(name.get<std::string>());
  metadata.attributes.erase(kDimensionsKey);
}

}  // namespace

ArrayMetadata parse_metadata_v2(const std::string& zarray, const std::string& zattrs) {
  const json document = parse_json(zarray, ".zarray");
  if (!document.is_object()) throw Error(ErrorKind::invalid, ".zarray holds no JSON object");
  ArrayMetadata metadata;
  metadata.zarr_format = 2;
  const json& format = required(document, "zarr_format", "2");
  if (format != 2) throw_bad_key("zarr_format", format, "2");
  metadata.shape = shape_from_json(required(document, "shape", "a list of integers"), "shape");
  metadata.chunks = shape_from_json(required(document, "chunks", "a list of integers"), "chunks");
  const StoredDType stored = numpy_dtype(required(document, "dtype", "a string such as \"<f8\""), "dtype");
  metadata.dtype = stored.dtype;
  const json& fill = required(document, "fill_value", "a value or null");
  metadata.fill_undefined = fill.is_null();
  metadata.fill = fill.is_null() ? std::vector<std::byte>(stored.dtype.size) : fill_from_json(fill, stored.dtype);
  swap_structure(metadata.fill, stored.dtype, stored.endian);
  metadata.codecs = codecs_to_v3(document, stored, metadata.shape.size());
  metadata.chunk_key_encoding = "v2";
  metadata.separator = '.';
  if (const auto found = document.find("dimension_separator"); found != document.end() && !found->is_null()) {
    if (*found != "." && *found != "/") throw_bad_key("dimension_separator", *found, "\".\" or \"/\"");
    metadata.separator = found->get_ref<const std::string&>()[0];
  }
  if (!zattrs.empty()) {
    metadata.attributes = parse_json(zattrs, ".zattrs");
    if (!metadata.attributes.is_object()) throw_bad_key(".zattrs", metadata.attributes, "an object");
    take_dimension_names(metadata);
  }
  check_metadata(metadata);
  return metadata;
}

std::vector<std::pair<std::string, std::string>> format_metadata_v2(const ArrayMetadata& metadata) {
  json zarray = {{"zarr_format", 2},
                 {"shape", metadata.shape},
                 {"chunks", metadata.chunks},
                 {"filters", nullptr},
                 {"compressor", nullptr},
                 {"order", "C"},
                 {"dimension_separator", std::string(1, metadata.separator)}};
  std::string endian = "little";
  const char* stated_dtype = nullptr;
  for (const json& item : metadata.codecs) {
    const json codec = item.is_string() ? json{{"name", item}} : item;
    const std::string name = codec.at("name");
    if (name == "transpose") {
      if (codec != order_codec(metadata.shape.size()) || zarray["order"] == "F") {
        throw Error(ErrorKind::unsupported,
                    "codec " + codec.dump() + " cannot be written in Zarr format 2, which knows orders C and F only");
      }
      zarray["order"] = "F";
    } else if (name == "bytes") {
      if (codec.contains("configuration")) endian = codec["configuration"].value("endian", "little");
    } else if (const auto filter = filter_to_v2(codec); filter && zarray["compressor"].is_null()) {
      // What a filter says of its type's byte order is what the array's elements have before it.
      for (const char* key : {"decode_dtype", "dtype"}) {
        if (zarray["filters"].is_null() && filter->contains(key))
          stated_dtype = numpy_dtype((*filter)[key], key).endian;
      }
      if (zarray["filters"].is_null()) zarray["filters"] = json::array();
      zarray["filters"].push_back(*filter);
    } else {
      json compressor = compressor_to_v2(codec);
      if (!zarray["compressor"].is_null()) {
        throw Error(ErrorKind::unsupported, "Zarr format 2 has one compressor: '" + name +
                                                "' cannot be added. Choose format 3, or leave one out");
      }
      zarray["compressor"] = std::move(compressor);
    }
  }
  if (stated_dtype) endian = stated_dtype;
  std::vector<std::byte> fill = metadata.fill;
  swap_structure(fill, metadata.dtype, endian.c_str());
  zarray["fill_value"] = metadata.fill_undefined ? json() : fill_to_json(fill, metadata.dtype, 2);
  zarray["dtype"] = numpy_dtype_to_json(metadata.dtype, endian);

  json attributes = metadata.attributes;
  if (!metadata.dimension_names.empty()) {
    json names = json::array();
    for (std::size_t axis = 0; axis < metadata.dimension_names.size(); ++axis) {
      names.push_back(metadata.dimension_names[axis].value_or("dim_" + std::to_string(axis)));
    }
    attributes[kDimensionsKey] = std::move(names);
  }
  std::vector<std::pair<std::string, std::string>> documents;
  if (!attributes.empty()) documents.emplace_back(".zattrs", dump_json(attributes, 4));
  documents.emplace_back(".zarray", dump_json(zarray, 4));
  return documents;
}

}  // namespace cuboid
