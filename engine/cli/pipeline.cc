#include "engine/cli/pipeline.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "engine/cli/pipeline_steps.h"
#include "engine/cli/pipeline_values.h"
#include "engine/plan/places.h"

namespace cuboid {
namespace {

constexpr std::size_t kLargestFile = 1u << 20;

// Where relative paths of the file start.
std::string resolve_path(const std::string& directory, const std::string& path) {
  if (path.find("://") != std::string::npos || path.front() == '/' || directory.empty()) return path;
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

void read_plugins(const YamlNode& node, const std::string& directory, FunctionCatalog& catalog) {
  if (node.type != YamlNode::Type::sequence)
    node.fail("plugins: expected a list of paths or names, got " + node.describe());
  for (const YamlNodePtr& item : node.items) {
    const std::string& library = string_value(*item, "plugins");
    const std::string path = resolve_path(directory, library);
    std::error_code ignored;
    const bool is_path = library.find('/') != std::string::npos || std::filesystem::exists(path, ignored);
    try {
      catalog.add_plugin(is_path ? path : library);
    } catch (const Error& error) {
      item->fail("plugin '" + library + "': " + error.message());
    }
  }
}

void check_name(const YamlNode& key, const char* what) {
  const std::string& name = key.text;
  const bool good =
      !name.empty() && name.size() <= 100 && name[0] != '-' &&
      name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == std::string::npos;
  if (!good)
    key.fail(std::string(what) + " name '" + name + "': expected at most 100 letters, digits, '_' and '-' (no dot)");
}

void read_arrays(const YamlNode& node, const std::string& directory, StepReader& steps) {
  if (node.type != YamlNode::Type::map) node.fail("arrays: expected a map from names to paths, got " + node.describe());
  for (const auto& [key, value] : node.entries) {
    check_name(*key, "array");
    const std::string path = resolve_path(directory, string_value(*value, "array '" + key->text + "'"));
    try {
      steps.add_source(*key, ZarrArray::open(path));
    } catch (const Error& error) {
      const bool named = error.message().find(path) != std::string::npos;
      value->fail("array '" + key->text + "'" + (named ? ": " : " at " + path + ": ") + error.message());
    }
  }
}

OutputRequest read_output(const YamlNode& key, const YamlNode& value, const std::string& directory,
                          const StepReader& steps) {
  const std::string what = "store '" + key.text + "'";
  OutputRequest output{.array = steps.lookup(key, key.text, "store"),
                       .path = "",
                       .chunks = {},
                       .shards = {},
                       .attributes = {},
                       .like = {}};
  if (value.as_string()) {
    output.path = resolve_path(directory, string_value(value, what));
    return output;
  }
  if (value.type != YamlNode::Type::map)
    value.fail(what + ": expected a path, or a map with the key path, got " + value.describe());
  check_keys(value, {"path", "chunks", "format", "codecs", "shards", "overwrite"}, what);
  const YamlNode* path = find_entry(value, "path");
  if (!path) value.fail(what + ": the key 'path' is missing");
  output.path = resolve_path(directory, string_value(*path, what + ": path"));
  const std::size_t rank = output.array.spec().rank();
  const auto extents = [&](const char* name) -> std::optional<Shape> {
    const YamlNode* node = find_entry(value, name);
    if (!node) return std::nullopt;
    Shape shape = extents_value(*node, what + ": " + name, 1);
    if (shape.size() != rank)
      node->fail(what + ": " + name + ": expected " + std::to_string(rank) + " extents, one per axis, got " +
                 std::to_string(shape.size()));
    return shape;
  };
  output.chunks = extents("chunks");
  output.shards = extents("shards");
  if (const YamlNode* format = find_entry(value, "format")) {
    const auto* number = format->type == YamlNode::Type::scalar ? std::get_if<std::int64_t>(&format->scalar) : nullptr;
    if (!number || (*number != 2 && *number != 3))
      format->fail(what + ": format: expected 2 or 3, got " + format->describe());
    output.zarr_format = static_cast<int>(*number);
    if (output.shards && output.zarr_format == 2)
      find_entry(value, "shards")->fail(what + ": shards: Zarr format 2 has none; use format 3");
  }
  if (const YamlNode* codecs = find_entry(value, "codecs")) output.codecs = codecs_value(*codecs, output.array, what);
  if (const YamlNode* overwrite = find_entry(value, "overwrite"))
    output.overwrite = bool_value(*overwrite, what + ": overwrite");
  return output;
}

std::vector<OutputRequest> read_store(const YamlNode& node, const std::string& directory, const StepReader& steps,
                                      std::map<std::string, std::string>& places) {
  if (node.type != YamlNode::Type::map || node.entries.empty())
    node.fail("store: expected a map from steps to the paths of their results, got " +
              (node.type == YamlNode::Type::map ? "an empty one" : node.describe()));
  std::vector<OutputRequest> outputs;
  std::map<std::string, std::string> taken;
  for (const auto& [key, value] : node.entries) {
    outputs.push_back(read_output(*key, *value, directory, steps));
    const YamlNode* path = value->type == YamlNode::Type::map ? find_entry(*value, "path") : value.get();
    places.emplace(outputs.back().path, path->where());
    const auto [previous, fresh] = taken.emplace(outputs.back().path, key->text);
    if (!fresh)
      value->fail("store '" + key->text + "': '" + outputs.back().path + "' is also where '" + previous->second +
                  "' is stored; give each its own path");
  }
  return outputs;
}

// Steps that no output needs: an array of each, so that they are checked.
std::vector<Array> unused_steps(const std::vector<OutputRequest>& outputs, const std::vector<Array>& steps) {
  std::set<const Node*> needed;
  std::vector<const Node*> open;
  for (const OutputRequest& output : outputs) open.push_back(&output.array.node());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!needed.insert(node).second) continue;
    for (const Array& input : node->inputs) open.push_back(&input.node());
  }
  std::vector<Array> unused;
  for (const Array& step : steps)
    if (!needed.contains(&step.node())) unused.push_back(step);
  return unused;
}

}  // namespace

Pipeline load_pipeline(const std::string& file, FunctionCatalog& catalog, const PipelineOverrides& overrides) {
  const YamlNodePtr root = parse_yaml(read_file(file, kLargestFile), file);
  check_keys(*root, {"memory", "plugins", "arrays", "steps", "store", "durable", "on_exceed"}, "the pipeline file");
  const std::string directory = std::filesystem::path(file).parent_path().string();

  Pipeline pipeline;
  if (const YamlNode* memory = find_entry(*root, "memory")) pipeline.memory = size_value(*memory, "memory");
  if (const YamlNode* durable = find_entry(*root, "durable"))
    pipeline.request.options.durable = bool_value(*durable, "durable");
  if (const YamlNode* policy = find_entry(*root, "on_exceed"))
    pipeline.on_exceed = exceed_policy_value(*policy, "on_exceed");
  if (const YamlNode* plugins = find_entry(*root, "plugins")) read_plugins(*plugins, directory, catalog);

  StepReader steps(catalog.resolvers(), overrides.chunks);
  if (const YamlNode* arrays = find_entry(*root, "arrays")) read_arrays(*arrays, directory, steps);
  if (const YamlNode* list = find_entry(*root, "steps")) {
    if (list->type != YamlNode::Type::map)
      list->fail("steps: expected a map from names to calls, got " + list->describe());
    for (const auto& [key, value] : list->entries) {
      check_name(*key, "step");
      pipeline.step_places.emplace(key->text, key->where());
    }
    steps.read(*list);
  }
  const YamlNode* store = find_entry(*root, "store");
  if (!store) root->fail("the pipeline file: the key 'store' is missing: it says which results are kept, and where");
  pipeline.request.outputs = read_store(*store, directory, steps, pipeline.output_places);
  pipeline.request.unused = unused_steps(pipeline.request.outputs, steps.steps());
  return pipeline;
}

Error with_place(const Error& error, const Pipeline& pipeline) {
  const auto placed = [&error](const std::string& place, const std::string& what) {
    return Error(error.kind(), place + ": " + what + error.message(), error.context());
  };
  for (const auto& [key, value] : error.context())
    if (key == "step")
      if (const auto found = pipeline.step_places.find(value); found != pipeline.step_places.end())
        return placed(found->second, "step '" + value + "': ");
  // The output whose path the message holds; of several the longest, for one may be part of another.
  std::string longest;
  std::string place;
  for (const auto& [path, where] : pipeline.output_places) {
    const bool named = error.message().find(path) != std::string::npos ||
                       error.message().find(cuboid::place(path)) != std::string::npos;
    if (named && path.size() > longest.size()) longest = path, place = where;
  }
  return place.empty() ? error : placed(place, "");
}

}  // namespace cuboid
