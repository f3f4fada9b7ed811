// What nodes a store holds: groups and arrays, with their metadata, in either format.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "storage/store.h"
#include "storage/zarr.h"

namespace cuboid {

struct HierarchyNode {
  std::string path;  // below the store; "" is its root
  bool is_array = false;
  int zarr_format = 3;
  nlohmann::json attributes = nlohmann::json::object();
  std::optional<ArrayMetadata> array;  // where it is one and its metadata can be read
  std::string string_type;             // "string": its elements are of any length (storage/string_array.h); else empty
  std::string trouble;                 // else why not
};

// Every node at or below `path`, parents before their members, members by name. Of a store over a network the
// consolidated metadata is taken where there is some (format 2: .zmetadata; format 3: in zarr.json), else folder after
// folder is listed. Folders that are no nodes are looked into, arrays are not. Metadata of a node that cannot be read
// is that node's trouble; an I/O error is thrown.
std::vector<HierarchyNode> read_hierarchy(const Store& store, const std::string& path = "");

// Whether a zarr.json speaks of a group.
bool is_group_document(const std::string& zarr_json);

}  // namespace cuboid
