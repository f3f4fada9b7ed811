// The steps of a pipeline file: names, calls, arguments and parameters become arrays.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/yaml_tree.h"
#include "engine/plan/plan.h"

namespace cuboid {

class StepReader {
 public:
  // `chunks` replaces the block shape of every step whose domain has that rank.
  StepReader(Resolvers resolvers, std::optional<Shape> chunks);

  void add_source(const YamlNode& key, const ZarrArray& zarr);
  // Reads all steps in order; each may use sources and earlier steps.
  void read(const YamlNode& steps);
  // The array that `word` ("name" or "step.output") stands for; `place` and `what` are for messages.
  Array lookup(const YamlNode& place, const std::string& word, const std::string& what) const;
  // One array of each step, in order.
  const std::vector<Array>& steps() const { return steps_; }

 private:
  using DimensionNames = std::vector<std::optional<std::string>>;
  struct Named {
    std::vector<Array> outputs;
    std::vector<std::string> output_names;
    DimensionNames dimensions;  // of output 0; empty where there are none
  };
  struct Call;  // one step while it is being read

  void read_step(const YamlNode& key, const YamlNode& value);
  void read_args(const YamlNode& args, Call& call) const;
  void read_params(const YamlNode& params, Call& call) const;
  void read_max_shape(const YamlNode& node, Call& call) const;
  void read_options(const YamlNode& value, Call& call) const;
  std::shared_ptr<const Kernel> resolve(const Call& call) const;
  bool is_recipe(const std::string& function) const;
  void read_recipe(Call& call);
  [[noreturn]] void fail_at(const Error& error, const Call& call) const;
  const FunctionDoc* find_function(const std::string& name) const;
  const Named& find(const YamlNode& place, const std::string& word, const std::string& what) const;
  ParamValue axis_numbers(const YamlNode& node, ParamValue value, const Call& call) const;

  Resolvers resolvers_;
  std::optional<Shape> chunks_;
  std::vector<FunctionDoc> functions_;
  std::map<std::string, Named> named_;
  std::map<std::string, int> later_;  // steps of the file, by name: their lines
  std::vector<Array> steps_;
};

// A codec's name, or a full Zarr v3 codec list as JSON text, checked.
std::string codecs_value(const YamlNode& node, const Array& array, const std::string& what);

}  // namespace cuboid
