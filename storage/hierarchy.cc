#include "storage/hierarchy.h"

#include <algorithm>
#include <map>

#include "storage/error.h"
#include "storage/store_key.h"
#include "storage/string_array.h"
#include "storage/zarr_json.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr int kDeepest = 32;

// The documents of one node; null: none.
struct Documents {
  std::optional<std::string> zarr_json, zarray, zgroup, zattrs;
};

std::string below(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : folder + "/" + std::string(name);
}

json attributes_of(const std::string& text, const char* what) {
  json attributes = parse_json(text, what);
  if (!attributes.is_object()) throw_bad_key(what, attributes, "an object");
  return attributes;
}

void take_array(HierarchyNode& node, std::optional<StringArray> strings) {
  if (!strings) return;
  node.array = strings->metadata();
  node.string_type = strings->type();
}

// nullopt where the documents speak of no node.
std::optional<HierarchyNode> node_of(const std::string& path, const Documents& documents) {
  HierarchyNode node;
  node.path = path;
  node.zarr_format = documents.zarr_json ? 3 : 2;
  if (!documents.zarr_json && !documents.zarray && !documents.zgroup) return std::nullopt;
  node.is_array = !documents.zarr_json && documents.zarray;
  try {
    if (documents.zarr_json) {
      node.is_array = !is_group_document(*documents.zarr_json);
      const json document = parse_json(*documents.zarr_json, "zarr.json");
      if (document.is_object() && document.contains("attributes") && document["attributes"].is_object())
        node.attributes = document["attributes"];
      if (node.is_array) take_array(node, StringArray::parse_v3(*documents.zarr_json));
      if (node.is_array && !node.array) node.array = parse_metadata_v3(*documents.zarr_json);
    } else {
      if (documents.zattrs) node.attributes = attributes_of(*documents.zattrs, ".zattrs");
      if (node.is_array) take_array(node, StringArray::parse_v2(*documents.zarray, documents.zattrs.value_or("")));
      if (node.is_array && !node.array)
        node.array = parse_metadata_v2(*documents.zarray, documents.zattrs.value_or(""));
    }
  } catch (const Error& error) {
    node.trouble = error.message();
  }
  return node;
}

void walk(const Store& store, const std::string& path, int depth, std::vector<HierarchyNode>& nodes) {
  Documents documents;
  documents.zarr_json = read_text(store, below(path, "zarr.json"));
  if (!documents.zarr_json) {
    documents.zarray = read_text(store, below(path, ".zarray"));
    if (!documents.zarray) documents.zgroup = read_text(store, below(path, ".zgroup"));
    if (documents.zarray || documents.zgroup) documents.zattrs = read_text(store, below(path, ".zattrs"));
  }
  const auto node = node_of(path, documents);
  if (node) nodes.push_back(*node);
  if ((node && node->is_array) || depth >= kDeepest) return;
  for (const std::string& name : store.list_dir(path))
    if (name.ends_with('/')) walk(store, below(path, name.substr(0, name.size() - 1)), depth + 1, nodes);
}

// --- Consolidated ---------------------------------------------------------------------------------------------------

// In the order of a walk: '/' sorts before every other character.
struct TreeOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
      const auto rank = [](char c) { return c == '/' ? -1 : static_cast<int>(static_cast<unsigned char>(c)); };
      return rank(x) < rank(y);
    });
  }
};
using ByPath = std::map<std::string, Documents, TreeOrder>;

void take_v2(const json& metadata, const std::string& path, ByPath& found) {
  for (const auto& [key, document] : metadata.items()) {
    check_key(key);
    const std::size_t slash = key.find_last_of('/');
    Documents& documents = found[slash == key.npos ? path : below(path, key.substr(0, slash))];
    const std::string name = slash == key.npos ? key : key.substr(slash + 1);
    if (name == ".zarray") documents.zarray = dump_json(document);
    if (name == ".zgroup") documents.zgroup = dump_json(document);
    if (name == ".zattrs") documents.zattrs = dump_json(document);
  }
}

std::optional<ByPath> consolidated(const Store& store, const std::string& path) {
  ByPath found;
  if (const auto text = read_text(store, below(path, "zarr.json"))) {
    const json document = parse_json(*text, "zarr.json");
    const json none;
    const json& inside =
        document.is_object() && document.contains("consolidated_metadata") ? document["consolidated_metadata"] : none;
    if (!inside.is_object() || !inside.contains("metadata") || !inside["metadata"].is_object()) return std::nullopt;
    found[path].zarr_json = *text;
    for (const auto& [key, member] : inside["metadata"].items()) {
      check_key(key);
      found[below(path, key)].zarr_json = dump_json(member);
    }
    return found;
  }
  const auto text = read_text(store, below(path, ".zmetadata"));
  if (!text) return std::nullopt;
  const json document = parse_json(*text, ".zmetadata");
  const json& metadata = required(document, "metadata", "an object of documents");
  if (!metadata.is_object()) throw_bad_key("metadata", metadata, "an object of documents");
  take_v2(metadata, path, found);
  return found;
}

}  // namespace

bool is_group_document(const std::string& zarr_json) {
  const json document = parse_json(zarr_json, "zarr.json");
  return document.is_object() && document.contains("node_type") && document["node_type"] == "group";
}

std::vector<HierarchyNode> read_hierarchy(const Store& store, const std::string& path) {
  std::vector<HierarchyNode> nodes;
  if (!store.local()) {
    if (const auto found = consolidated(store, path)) {
      for (const auto& [where, documents] : *found)
        if (auto node = node_of(where, documents)) nodes.push_back(std::move(*node));
      return nodes;
    }
  }
  walk(store, path, 0, nodes);
  return nodes;
}

}  // namespace cuboid
