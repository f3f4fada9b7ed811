// Single values of a pipeline file: each reads one node or says, with its place, what was expected there.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "engine/cli/yaml_tree.h"
#include "engine/expr/array.h"

namespace cuboid {

// ", did you mean 'sigma'?" where a candidate is near; else "; expected a, b or c".
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

// The entry of a map by key; nullptr where there is none.
const YamlNode* find_entry(const YamlNode& map, const std::string& key);
// Throws unless `node` is a map of these keys alone. `what`: "the pipeline file", "step 'smooth'".
void check_keys(const YamlNode& node, const std::vector<std::string>& allowed, const std::string& what);

// `what` stands first in messages: "memory", "step 'smooth': chunks".
const std::string& string_value(const YamlNode& node, const std::string& what);
bool bool_value(const YamlNode& node, const std::string& what);
std::uint64_t size_value(const YamlNode& node, const std::string& what);                  // bytes, at least 1
Shape extents_value(const YamlNode& node, const std::string& what, std::int64_t least);   // a list of integers
std::chrono::milliseconds duration_value(const YamlNode& node, const std::string& what);  // "500ms", "2s", "5m", "1h"
ExceedPolicy exceed_policy_value(const YamlNode& node, const std::string& what);
ExceedAction exceed_action(const YamlNode& node, const std::string& word, const std::string& what);
ParamValue param_value(const YamlNode& node, const std::string& what);
// A list of numbers as the engine's small array: parameters `dtype`, `shape` and `data` of the function "asarray".
Params small_array_params(const YamlNode& list, const std::string& what);

}  // namespace cuboid
