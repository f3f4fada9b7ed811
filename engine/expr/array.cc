#include "engine/expr/array.h"

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

std::vector<Array> apply(std::shared_ptr<const Kernel> kernel, std::vector<Array> inputs, std::string name,
                         StepOptions options) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  node->kernel = std::move(kernel);
  node->inputs = std::move(inputs);
  node->options = std::move(options);
  std::vector<Array> outputs;
  for (std::size_t k = 0; k < node->kernel->outputs().size(); ++k) outputs.emplace_back(node, k);
  return outputs;
}

}  // namespace cuboid
