#include "engine/cli/pipeline_steps.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/cli/pipeline_values.h"

namespace cuboid {

struct StepReader::Call {
  const YamlNode* key = nullptr;       // the step's name
  const YamlNode* value = nullptr;     // its map
  const YamlNode* function = nullptr;  // the word after `call`
  const YamlNode* params = nullptr;
  std::string what;                  // "step 'smooth'"
  const FunctionDoc* doc = nullptr;  // nullptr: not known
  KernelSpec spec;
  std::vector<Array> inputs;
  DimensionNames dimensions;  // of the first array argument that has names
  StepOptions options;
};

namespace {

std::string without_revision(const std::string& function) { return function.substr(0, function.find('/')); }

nlohmann::json to_json(const YamlNode& node) {
  switch (node.type) {
    case YamlNode::Type::scalar:
      return std::visit(
          [](const auto& value) -> nlohmann::json {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
              return nullptr;
            } else {
              return value;
            }
          },
          node.scalar);
    case YamlNode::Type::sequence: {
      auto list = nlohmann::json::array();
      for (const YamlNodePtr& item : node.items) list.push_back(to_json(*item));
      return list;
    }
    case YamlNode::Type::map: {
      auto map = nlohmann::json::object();
      for (const auto& [key, value] : node.entries) map[key->text] = to_json(*value);
      return map;
    }
  }
  return nullptr;
}

// Kernels write `parameter sigma`, and names in quotes.
bool speaks_of(const std::string& message, const std::string& param) {
  for (const std::string& form : {"'" + param + "'", "\"" + param + "\"", "parameter " + param + " "})
    if (message.find(form) != std::string::npos) return true;
  return false;
}

// The place of what a kernel's message speaks of: the value of a parameter that it names, else the arguments.
const YamlNode& place_of(const Error& error, const YamlNode* params, const YamlNode& arguments) {
  if (!params) return arguments;
  for (const auto& [key, value] : error.context())
    if (key == "parameter")
      if (const YamlNode* node = find_entry(*params, value)) return *node;
  for (const auto& [key, value] : params->entries)
    if (speaks_of(error.message(), key->text)) return *value;
  return arguments;
}

// Names of the result's axes where they follow from the input's: the reduced ones go, others stay in their places.
std::vector<std::optional<std::string>> result_dimensions(const Kernel& kernel,
                                                          const std::vector<std::optional<std::string>>& input) {
  if (input.empty()) return {};
  const std::size_t rank = kernel.outputs()[0].spec.rank();
  if (const ReductionForm* form = kernel.reduction()) {
    std::vector<std::optional<std::string>> kept;
    for (std::size_t axis = 0; axis < input.size(); ++axis)
      if (form->keepdims || std::find(form->axes.begin(), form->axes.end(), axis) == form->axes.end())
        kept.push_back(input[axis]);
    return kept.size() == rank ? kept : std::vector<std::optional<std::string>>{};
  }
  if (rank != input.size() || kernel.spec().inputs().empty() || !kernel.input_is_block(0)) return {};
  return input;
}

}  // namespace

StepReader::StepReader(Resolvers resolvers, std::optional<Shape> chunks)
    : resolvers_(std::move(resolvers)), chunks_(std::move(chunks)) {
  for (const KernelResolver* resolver : resolvers_)
    for (FunctionDoc& doc : resolver->functions()) functions_.push_back(std::move(doc));
}

void StepReader::add_source(const YamlNode& key, const ZarrArray& zarr) {
  Named named;
  named.outputs = {source(zarr, key.text)};
  named.output_names = {"0"};
  named.dimensions = zarr.metadata().dimension_names;
  named_.emplace(key.text, std::move(named));
}

void StepReader::read(const YamlNode& steps) {
  for (const auto& [key, value] : steps.entries) {
    if (named_.contains(key->text)) key->fail("step '" + key->text + "': an array of that name is listed under arrays");
    later_.emplace(key->text, key->line);
  }
  for (const auto& [key, value] : steps.entries) {
    read_step(*key, *value);
    later_.erase(key->text);
  }
}

void StepReader::read_step(const YamlNode& key, const YamlNode& value) {
  Call call;
  call.key = &key;
  call.value = &value;
  call.what = "step '" + key.text + "'";
  check_keys(value,
             {"call", "args", "params", "max_shape", "extra_memory", "chunks", "timeout", "isolation", "on_exceed"},
             call.what);
  call.function = find_entry(value, "call");
  if (!call.function) key.fail(call.what + ": the key 'call' is missing: it names the function");
  call.spec.function = string_value(*call.function, call.what + ": call");
  call.doc = find_function(call.spec.function);
  if (!call.doc) {
    std::vector<std::string> names;
    for (const FunctionDoc& doc : functions_) names.push_back(without_revision(doc.name));
    std::string hint = suggestion(call.spec.function, names);
    if (hint.empty()) hint = "; `cuboid functions` lists what there is";
    call.function->fail(call.what + ": unknown function '" + call.spec.function + "'" + hint);
  }
  if (const YamlNode* args = find_entry(value, "args")) read_args(*args, call);
  if (const YamlNode* params = find_entry(value, "params")) read_params(*params, call);
  if (const YamlNode* memory = find_entry(value, "extra_memory"))
    call.spec.extra_memory = size_value(*memory, call.what + ": extra_memory");
  read_options(value, call);
  const YamlNode* bound = find_entry(value, "max_shape");
  if (bound && is_recipe(call.spec.function))
    bound->fail(call.what + ": max_shape: " + call.spec.function + " is made of several functions, call them singly");
  if (bound) read_max_shape(*bound, call);

  if (is_recipe(call.spec.function)) return read_recipe(call);
  const std::shared_ptr<const Kernel> kernel = resolve(call);
  const std::size_t rank = kernel->domain().size();
  if (chunks_ && chunks_->size() == rank) call.options.chunks = chunks_;
  // Those of a reduction may be meant for its result.
  const std::size_t result_rank = kernel->reduction() ? kernel->outputs()[0].spec.rank() : rank;
  if (call.options.chunks && call.options.chunks->size() != rank && call.options.chunks->size() != result_rank)
    find_entry(value, "chunks")
        ->fail(call.what + ": chunks: expected " + std::to_string(rank) +
               " extents, one per axis of the step's domain " + to_string(kernel->domain()) + ", got " +
               std::to_string(call.options.chunks->size()));
  Named named;
  named.outputs = apply(kernel, call.inputs, key.text, call.options);
  for (const OutputSpec& output : kernel->outputs()) named.output_names.push_back(output.name);
  named.dimensions = result_dimensions(*kernel, call.dimensions);
  steps_.push_back(named.outputs[0]);
  named_.emplace(key.text, std::move(named));
}

bool StepReader::is_recipe(const std::string& function) const {
  return std::any_of(resolvers_.begin(), resolvers_.end(),
                     [&](const KernelResolver* resolver) { return resolver->recipe(function) != nullptr; });
}

void StepReader::read_recipe(Call& call) {
  if (chunks_) call.options.chunks = chunks_;
  Named named;
  try {
    named.outputs = apply_function(resolvers_, call.spec, call.inputs, call.key->text, call.options);
  } catch (const Error& error) {
    fail_at(error, call);
  }
  const Kernel& kernel = *named.outputs[0].node().kernel;
  for (const OutputSpec& output : kernel.outputs()) named.output_names.push_back(output.name);
  named.dimensions = result_dimensions(kernel, call.dimensions);
  steps_.push_back(named.outputs[0]);
  named_.emplace(call.key->text, std::move(named));
}

void StepReader::read_args(const YamlNode& args, Call& call) const {
  if (args.type != YamlNode::Type::sequence)
    args.fail(call.what + ": args: expected a list of arrays and numbers, got " + args.describe());
  for (const YamlNodePtr& item : args.items) {
    if (item->type == YamlNode::Type::map || item->is_null())
      item->fail(call.what + ": args: expected the name of an array, a number or a list of numbers, got " +
                 item->describe());
    if (item->type == YamlNode::Type::sequence) {
      KernelSpec constant;
      constant.function = "asarray";
      constant.params = small_array_params(*item, call.what + ": args");
      try {
        call.inputs.push_back(apply(resolve_kernel(resolvers_, constant), {})[0]);
      } catch (const Error& error) {
        item->fail(call.what + ": args: " + error.message());
      }
      call.spec.args.push_back(call.inputs.back().spec());
    } else if (const std::string* word = item->as_string()) {
      call.inputs.push_back(lookup(*item, *word, call.what));
      call.spec.args.push_back(call.inputs.back().spec());
      const Named& named = find(*item, *word, call.what);
      if (call.dimensions.empty() && call.inputs.back().output() == 0) call.dimensions = named.dimensions;
    } else if (const auto* flag = std::get_if<bool>(&item->scalar)) {
      call.spec.args.push_back(Scalar(*flag));
    } else if (const auto* integer = std::get_if<std::int64_t>(&item->scalar)) {
      call.spec.args.push_back(Scalar(*integer));
    } else {
      call.spec.args.push_back(Scalar(std::get<double>(item->scalar)));
    }
  }
}

void StepReader::read_params(const YamlNode& params, Call& call) const {
  if (params.is_null()) return;
  if (params.type != YamlNode::Type::map)
    params.fail(call.what + ": params: expected a map from names to values, got " + params.describe());
  call.params = &params;
  std::vector<std::string> names;
  for (const ParamDoc& doc : call.doc->params) names.push_back(doc.name);
  for (const auto& [key, value] : params.entries) {
    if (std::find(names.begin(), names.end(), key->text) == names.end()) {
      const std::string hint = names.empty() ? ", which takes none" : suggestion(key->text, names);
      key->fail(call.what + ": unknown parameter '" + key->text + "' of " + call.spec.function + hint);
    }
    const std::string what = call.what + ": " + key->text;
    ParamValue read = param_value(*value, what);
    const bool axis = key->text == "axis" || key->text == "axes";
    call.spec.params[key->text] = axis ? axis_numbers(*value, std::move(read), call) : std::move(read);
  }
}

ParamValue StepReader::axis_numbers(const YamlNode& node, ParamValue value, const Call& call) const {
  const auto number = [&](const YamlNode& place, const std::string& name) {
    std::vector<std::string> known;
    for (std::size_t axis = 0; axis < call.dimensions.size(); ++axis) {
      if (call.dimensions[axis] == name) return static_cast<std::int64_t>(axis);
      if (call.dimensions[axis]) known.push_back(*call.dimensions[axis]);
    }
    place.fail(
        call.what + ": no axis is named '" + name + "'" +
        (known.empty() ? "; the array has no dimension names: give the axis as a number" : suggestion(name, known)));
  };
  if (const auto* name = std::get_if<std::string>(&value)) return number(node, *name);
  if (const auto* names = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<std::int64_t> axes;
    for (std::size_t k = 0; k < names->size(); ++k) axes.push_back(number(*node.items[k], (*names)[k]));
    return axes;
  }
  return value;
}

void StepReader::read_max_shape(const YamlNode& node, Call& call) const {
  const std::string what = call.what + ": max_shape";
  const std::shared_ptr<const Kernel> kernel = resolve(call);  // without bounds: tells the outputs' names and ranks
  const auto& outputs = kernel->outputs();
  const auto read = [&](const YamlNode& value, std::size_t output) {
    Shape shape = extents_value(value, what, 0);
    if (shape.size() != outputs[output].spec.rank())
      value.fail(what + ": expected " + std::to_string(outputs[output].spec.rank()) + " extents for output '" +
                 outputs[output].name + "', got " + std::to_string(shape.size()));
    call.spec.max_shape[output] = std::move(shape);
  };
  if (node.type == YamlNode::Type::sequence) {
    read(node, 0);
    return;
  }
  if (node.type != YamlNode::Type::map)
    node.fail(what + ": expected a list of extents, or a map from outputs to such lists, got " + node.describe());
  std::vector<std::string> names;
  for (const OutputSpec& output : outputs) names.push_back(output.name);
  for (const auto& [key, value] : node.entries) {
    const auto found = std::find(names.begin(), names.end(), key->text);
    if (found == names.end()) key->fail(what + ": unknown output '" + key->text + "'" + suggestion(key->text, names));
    read(*value, static_cast<std::size_t>(found - names.begin()));
  }
}

void StepReader::read_options(const YamlNode& value, Call& call) const {
  if (const YamlNode* chunks = find_entry(value, "chunks"))
    call.options.chunks = extents_value(*chunks, call.what + ": chunks", 1);
  if (const YamlNode* timeout = find_entry(value, "timeout"))
    call.options.timeout = duration_value(*timeout, call.what + ": timeout");
  if (const YamlNode* isolation = find_entry(value, "isolation")) {
    const std::string& word = string_value(*isolation, call.what + ": isolation");
    if (word != "process" && word != "thread")
      isolation->fail(call.what + ": isolation: unknown word '" + word + "'" + suggestion(word, {"process", "thread"}));
    call.options.isolation = word == "process" ? Isolation::process : Isolation::thread;
  }
  if (const YamlNode* policy = find_entry(value, "on_exceed"))
    call.options.on_exceed = exceed_policy_value(*policy, call.what + ": on_exceed");
}

std::shared_ptr<const Kernel> StepReader::resolve(const Call& call) const {
  try {
    return resolve_kernel(resolvers_, call.spec);
  } catch (const Error& error) {
    fail_at(error, call);
  }
}

void StepReader::fail_at(const Error& error, const Call& call) const {
  const YamlNode* args = find_entry(*call.value, "args");
  place_of(error, call.params, args ? *args : *call.function).fail(call.what + ": " + error.message());
}

const FunctionDoc* StepReader::find_function(const std::string& name) const {
  const FunctionDoc* found = nullptr;
  for (const FunctionDoc& doc : functions_)
    if (doc.name == name || without_revision(doc.name) == name) found = &doc;
  return found;
}

const StepReader::Named& StepReader::find(const YamlNode& place, const std::string& word,
                                          const std::string& what) const {
  const std::string name = word.substr(0, word.find('.'));
  const auto found = named_.find(name);
  if (found != named_.end()) return found->second;
  if (const auto later = later_.find(name); later != later_.end())
    place.fail(what + ": '" + name + "' is not computed before this step (it stands in line " +
               std::to_string(later->second) + "); a step uses arrays and earlier steps");
  std::vector<std::string> names;
  for (const auto& [known, ignored] : named_) names.push_back(known);
  place.fail(what + ": no array or step is named '" + name + "'" + suggestion(name, names));
}

Array StepReader::lookup(const YamlNode& place, const std::string& word, const std::string& what) const {
  const Named& named = find(place, word, what);
  const std::size_t dot = word.find('.');
  if (dot == std::string::npos) {
    if (named.outputs.size() == 1) return named.outputs[0];
    std::vector<std::string> choices;
    for (const std::string& output : named.output_names) choices.push_back(word + "." + output);
    place.fail(what + ": '" + word + "' has several outputs" + suggestion("", choices));
  }
  const std::string output = word.substr(dot + 1);
  for (std::size_t k = 0; k < named.outputs.size(); ++k)
    if (named.output_names[k] == output) return named.outputs[k];
  place.fail(what + ": no output '" + word + "': unknown output '" + output + "'" +
             suggestion(output, named.output_names));
}

std::string codecs_value(const YamlNode& node, const Array& array, const std::string& what) {
  std::string codecs;
  if (node.type == YamlNode::Type::sequence) {
    codecs = to_json(node).dump();
  } else {
    codecs = string_value(node, what + ": codecs");
  }
  try {
    codecs_by_name(codecs, array.spec().dtype);
  } catch (const Error& error) {
    node.fail(what + ": codecs: " + error.message());
  }
  return codecs;
}

}  // namespace cuboid
