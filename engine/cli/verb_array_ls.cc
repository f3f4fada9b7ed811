#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/report/table.h"
#include "storage/zarr.h"

namespace cuboid {
namespace {

constexpr int kDeepest = 32;

struct Found {
  std::string path;  // below the one asked for; "" is itself
  bool is_array = false;
  int zarr_format = 3;
  std::optional<ZarrArray> array;  // where its metadata can be read
  std::string trouble;             // else why not
};

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

// What kind of node a folder is; nullopt where it is none (chunks, other files).
std::optional<Found> identify(const Store& store, const std::string& path) {
  Found found;
  found.path = path;
  if (const auto text = read_text(store, below(path, "zarr.json"))) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    const bool group = json.is_object() && json.contains("node_type") && json["node_type"] == "group";
    found.is_array = !group;
    return found;
  }
  found.zarr_format = 2;
  if (store.stamp(below(path, ".zarray"))) {
    found.is_array = true;
    return found;
  }
  if (store.stamp(below(path, ".zgroup"))) return found;
  return std::nullopt;
}

void walk(const std::shared_ptr<Store>& store, const std::string& path, int depth, std::vector<Found>& all) {
  auto found = identify(*store, path);
  const bool is_array = found && found->is_array;
  if (is_array) {
    try {
      found->array = ZarrArray::open(store, path);
    } catch (const Error& error) {
      found->trouble = error.message();
    }
  }
  if (found) all.push_back(std::move(*found));
  if (is_array || depth >= kDeepest) return;
  for (const std::string& name : store->list_dir(path))
    if (name.ends_with('/')) walk(store, below(path, name.substr(0, name.size() - 1)), depth + 1, all);
}

}  // namespace

int array_ls_command(const ArrayCommand& command) {
  const std::shared_ptr<Store> store = open_store(command.path);
  std::vector<Found> all;
  walk(store, "", 0, all);
  if (all.empty()) throw Error(ErrorKind::not_found, command.path + ": no Zarr array or group at or below this path");
  auto nodes = nlohmann::json::array();
  Table table;
  table.columns = {{"path"}, {"kind"}, {"shape"}, {"dtype"}, {"chunks"}};
  for (const Found& found : all) {
    nlohmann::json node = {
        {"path", found.path}, {"kind", found.is_array ? "array" : "group"}, {"zarr_format", found.zarr_format}};
    std::vector<Table::Cell> row{printable(found.path.empty() ? "." : found.path), found.is_array ? "array" : "group"};
    if (found.array) {
      const ArrayMetadata& metadata = found.array->metadata();
      node["shape"] = metadata.shape;
      node["dtype"] = to_string(metadata.dtype);
      node["chunks"] = metadata.chunks;
      row.insert(row.end(), {to_string(metadata.shape), to_string(metadata.dtype), to_string(metadata.chunks)});
    } else if (!found.trouble.empty()) {
      node["error"] = found.trouble;
      row.push_back({printable(found.trouble), Ink::red});
    }
    nodes.push_back(std::move(node));
    table.rows.push_back(std::move(row));
  }
  if (command.common.json) {
    print_json({{"path", command.path}, {"nodes", nodes}});
  } else {
    std::cout << to_text(table, style_for(1));
  }
  return kExitDone;
}

}  // namespace cuboid
