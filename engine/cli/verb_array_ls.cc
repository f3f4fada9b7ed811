#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/cli/element_text.h"
#include "engine/cli/open_array.h"
#include "engine/report/table.h"
#include "storage/hierarchy.h"
#include "storage/printable.h"
#include "storage/zarr_dtype.h"

namespace cuboid {
namespace {

// The lines that lead to each node from its parents: "|  +- ". Nodes come parents first; a folder between that is no
// node is part of the name.
std::vector<std::string> drawn(const std::vector<HierarchyNode>& nodes) {
  std::vector<std::string> lines(nodes.size());
  std::vector<std::size_t> parents;  // of the current node: indices, outermost first
  std::vector<std::vector<std::size_t>> chains(nodes.size());
  const auto holds = [](const std::string& parent, const std::string& path) {
    return parent.empty() ? !path.empty()
                          : path.size() > parent.size() && path.starts_with(parent) && path[parent.size()] == '/';
  };
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    while (!parents.empty() && !holds(nodes[parents.back()].path, nodes[k].path)) parents.pop_back();
    chains[k] = parents;
    parents.push_back(k);
  }
  // Whether a later node has the same parent.
  const auto has_next = [&](std::size_t k) {
    for (std::size_t later = k + 1; later < nodes.size() && chains[later].size() >= chains[k].size(); ++later)
      if (chains[later] == chains[k]) return true;
    return false;
  };
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const std::vector<std::size_t>& chain = chains[k];
    for (std::size_t level = 1; level < chain.size(); ++level) lines[k] += has_next(chain[level]) ? "│  " : "   ";
    if (!chain.empty()) lines[k] += has_next(k) ? "├─ " : "└─ ";
    const std::size_t above =
        chain.empty() || nodes[chain.back()].path.empty() ? 0 : nodes[chain.back()].path.size() + 1;
    lines[k] += nodes[k].path.empty() ? "." : printable(nodes[k].path.substr(above));
  }
  return lines;
}

nlohmann::json node_json(const HierarchyNode& node) {
  nlohmann::json json = {{"path", node.path},
                         {"kind", node.is_array ? "array" : "group"},
                         {"zarr_format", node.zarr_format},
                         {"attributes", node.array ? node.array->attributes : node.attributes}};
  if (node.array) {
    json["shape"] = node.array->shape;
    const bool strings = !node.string_type.empty();  // whose size only reading them tells
    json["dtype"] = strings ? node.string_type : type_name(node.array->dtype);
    if (node.array->dtype.opaque) json["data_type"] = data_type_to_json(node.array->dtype);
    json["chunks"] = node.array->chunks;
    json["bytes"] = strings ? nlohmann::json() : nlohmann::json(byte_count(node.array->shape, node.array->dtype));
  } else if (!node.trouble.empty()) {
    json["error"] = node.trouble;
  }
  return json;
}

}  // namespace

int array_ls_command(const ArrayCommand& command) {
  const std::vector<HierarchyNode> nodes =
      with_metadata_as_input([&] { return read_hierarchy(*open_store(command.path)); });
  if (nodes.empty()) throw Error(ErrorKind::not_found, command.path + ": no Zarr array or group at or below this path");
  if (command.common.json) {
    auto list = nlohmann::json::array();
    for (const HierarchyNode& node : nodes) list.push_back(node_json(node));
    print_json({{"path", command.path}, {"nodes", list}});
    return kExitDone;
  }
  Table table;
  table.columns = {{"path"}, {"kind"}, {"shape"}, {"dtype"}, {"chunks"}, {"size", true}};
  const std::vector<std::string> lines = drawn(nodes);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    std::vector<Table::Cell> row{lines[k], nodes[k].is_array ? "array" : "group"};
    if (nodes[k].array) {
      const ArrayMetadata& metadata = *nodes[k].array;
      const bool strings = !nodes[k].string_type.empty();
      row.insert(row.end(),
                 {to_string(metadata.shape), strings ? nodes[k].string_type : to_string(metadata.dtype),
                  to_string(metadata.chunks), strings ? "-" : format_size(byte_count(metadata.shape, metadata.dtype))});
    } else if (!nodes[k].trouble.empty()) {
      row.push_back({printable(nodes[k].trouble), Ink::red});
    }
    table.rows.push_back(std::move(row));
  }
  std::cout << to_text(table, style_for(1));
  return kExitDone;
}

}  // namespace cuboid
