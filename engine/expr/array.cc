#include "engine/expr/array.h"

#include <algorithm>
#include <map>

#include "storage/error.h"

namespace cuboid {

ArraySpec Array::spec() const {
  if (node_->source) return ArraySpec(node_->source->dtype(), node_->source->shape());
  return node_->kernel->outputs()[output_].spec;
}

Array source(ZarrArray zarr, std::string name) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  node->source = std::move(zarr);
  return Array(std::move(node), 0);
}

namespace {

std::vector<Array> apply_as(std::shared_ptr<const Kernel> kernel, std::vector<Array> inputs, std::string name,
                            StepOptions options, const std::string& part_of);

// Outputs bear the step's name, other calls their function's behind it.
std::string name_of_call(const Kernel& kernel, std::size_t node, const std::string& name, const std::string& function,
                         std::map<std::string, int>& numbers, bool& result) {
  const Expansion& expansion = *kernel.expansion();
  for (std::size_t k = 0; k < expansion.outputs.size(); ++k) {
    if (expansion.outputs[k].node != node) continue;
    result = true;
    return expansion.outputs.size() == 1 ? name : name + "." + kernel.outputs()[k].name;
  }
  const int number = ++numbers[function];
  return name + "." + function + (number > 1 ? std::to_string(number) : "");
}

std::vector<Array> expand(const Kernel& kernel, const std::vector<Array>& inputs, const std::string& name,
                          const StepOptions& options, const std::string& part_of) {
  const Expansion& expansion = *kernel.expansion();
  std::vector<std::vector<Array>> nodes;
  for (const Array& input : inputs) nodes.push_back({input});
  std::map<std::string, int> numbers;
  StepOptions inner = options;
  inner.chunks.reset();
  for (const Expansion::Call& call : expansion.calls) {
    KernelSpec spec;
    spec.function = call.function;
    spec.params = call.params;
    std::vector<Array> arrays;
    for (const auto& arg : call.args) {
      if (const auto* scalar = std::get_if<Scalar>(&arg)) {
        spec.args.emplace_back(*scalar);
        continue;
      }
      const Expansion::Ref& ref = std::get<Expansion::Ref>(arg);
      arrays.push_back(nodes.at(ref.node).at(ref.output));
      spec.args.emplace_back(arrays.back().spec());
    }
    bool result = false;
    std::string own = name_of_call(kernel, nodes.size(), name, call.function, numbers, result);
    const std::string& owner = part_of.empty() && own != name ? name : part_of;
    nodes.push_back(apply_as(builtin_kernels().resolve(spec), std::move(arrays), name.empty() ? "" : own,
                             result ? options : inner, owner));
  }
  std::vector<Array> outputs;
  for (const Expansion::Ref& ref : expansion.outputs) outputs.push_back(nodes.at(ref.node).at(ref.output));
  return outputs;
}

std::vector<Array> apply_as(std::shared_ptr<const Kernel> kernel, std::vector<Array> inputs, std::string name,
                            StepOptions options, const std::string& part_of) {
  kernel->check_extents();
  if (kernel->expansion() != nullptr) return expand(*kernel, inputs, name, options, part_of);
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  node->kernel = std::move(kernel);
  node->inputs = std::move(inputs);
  node->options = std::move(options);
  node->part_of = part_of;
  std::vector<Array> outputs;
  for (std::size_t k = 0; k < node->kernel->outputs().size(); ++k) outputs.emplace_back(node, k);
  return outputs;
}

}  // namespace

std::vector<Array> apply(std::shared_ptr<const Kernel> kernel, std::vector<Array> inputs, std::string name,
                         StepOptions options) {
  return apply_as(std::move(kernel), std::move(inputs), std::move(name), std::move(options), "");
}

namespace {

const Recipe* find_recipe(const std::vector<const KernelResolver*>& resolvers, const std::string& function) {
  for (const KernelResolver* resolver : resolvers)
    if (const Recipe* recipe = resolver->recipe(function)) return recipe;
  return nullptr;
}

// Follows a recipe: what was made so far, by name.
class Cook {
 public:
  Cook(const std::vector<const KernelResolver*>& resolvers, const Recipe& recipe, const KernelSpec& spec)
      : resolvers_(resolvers), recipe_(recipe), spec_(spec) {
    if (spec.inputs().size() != recipe.inputs.size() || spec.args.size() != recipe.inputs.size())
      throw Error(ErrorKind::invalid, spec.function + ": got " + std::to_string(spec.args.size()) +
                                          " arguments, expected " + std::to_string(recipe.inputs.size()) + " arrays");
    if (!spec.max_shape.empty() || spec.extra_memory)
      throw Error(
          ErrorKind::invalid,
          spec.function + " is made of several functions: max_shape and extra_memory are theirs, call them singly");
    for (const auto& [name, value] : spec.params) {
      const auto takes = [&, &key = name](const Recipe::Part& part) {
        return std::find(part.params.begin(), part.params.end(), key) != part.params.end();
      };
      if (std::none_of(recipe.parts.begin(), recipe.parts.end(), takes))
        throw Error(ErrorKind::invalid, spec.function + ": unknown parameter '" + name + "'", {{"parameter", name}});
    }
  }

  std::vector<Array> cook(std::vector<Array> inputs, const std::string& name, const StepOptions& options) {
    for (std::size_t k = 0; k < inputs.size(); ++k) made_[recipe_.inputs[k]] = {inputs[k]};
    for (const Recipe::Part& part : recipe_.parts) {
      const bool last = &part == &recipe_.parts.back();
      made_[part.name] = make(part, last ? name : name.empty() ? "" : name + "." + part.name, options);
    }
    return made_.at(recipe_.parts.back().name);
  }

 private:
  std::vector<Array> make(const Recipe::Part& part, const std::string& name, StepOptions options) {
    KernelSpec spec;
    std::vector<Array> inputs;
    spec.function = part.function;
    for (const std::string& arg : part.args) {
      inputs.push_back(operand(arg));
      spec.args.emplace_back(inputs.back().spec());
    }
    for (const std::string& param : part.params)
      if (const auto given = spec_.params.find(param); given != spec_.params.end()) spec.params.insert(*given);
    auto kernel = resolve_kernel(resolvers_, spec);
    if (options.chunks && options.chunks->size() != kernel->domain().size()) options.chunks.reset();
    return apply(std::move(kernel), std::move(inputs), name, std::move(options));
  }

  Array operand(const std::string& word) const {
    const std::size_t dot = word.find('.');
    const std::vector<Array>& outputs = made_.at(word.substr(0, dot));
    if (dot == std::string::npos) return outputs.at(0);
    for (const Array& output : outputs)
      if (output.node().kernel->outputs()[output.output()].name == word.substr(dot + 1)) return output;
    throw Error(ErrorKind::invalid, spec_.function + ": its recipe names an output that is none: " + word);
  }

  const std::vector<const KernelResolver*>& resolvers_;
  const Recipe& recipe_;
  const KernelSpec& spec_;
  std::map<std::string, std::vector<Array>> made_;
};

}  // namespace

std::vector<Array> apply_function(const std::vector<const KernelResolver*>& resolvers, const KernelSpec& spec,
                                  std::vector<Array> inputs, const std::string& name, const StepOptions& options) {
  if (const Recipe* recipe = find_recipe(resolvers, spec.function))
    return Cook(resolvers, *recipe, spec).cook(std::move(inputs), name, options);
  return apply(resolve_kernel(resolvers, spec), std::move(inputs), name, options);
}

}  // namespace cuboid
