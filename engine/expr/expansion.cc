#include "engine/expr/expansion.h"

#include "engine/expr/params.h"

namespace cuboid {
namespace {

class ExpandedKernel final : public Kernel {
 public:
  ExpandedKernel(KernelSpec spec, std::vector<OutputSpec> outputs, Expansion expansion)
      : Kernel(std::move(spec)), expansion_(std::move(expansion)) {
    outputs_ = std::move(outputs);
  }
  std::string identity() const override { return spec_.function + "#1"; }
  const Expansion* expansion() const override { return &expansion_; }
  Shape preferred_block(const std::vector<Shape>&) const override { return domain(); }
  Box input_box(std::size_t k, const Box&) const override { return Box::whole(spec_.inputs().at(k).max_shape()); }
  Shape input_extents(std::size_t k, const Shape&) const override { return spec_.inputs().at(k).max_shape(); }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  void run(KernelCall&) const override {
    throw Error(ErrorKind::invalid, "internal error: " + spec_.function + " was to be expanded, not run");
  }

 private:
  Expansion expansion_;
};

}  // namespace

Expanding::Expanding(const KernelSpec& spec) {
  for (const ArraySpec& input : spec.inputs()) specs_.push_back({input});
}

Expansion::Ref Expanding::call(const std::string& function, std::vector<Arg> args, Params params) {
  KernelSpec made;
  made.function = function;
  made.params = params;
  for (const Arg& arg : args)
    if (const auto* ref = std::get_if<Ref>(&arg))
      made.args.emplace_back(spec(*ref));
    else
      made.args.emplace_back(std::get<Scalar>(arg));
  const auto kernel = builtin_kernels().resolve(made);
  std::vector<ArraySpec> outputs;
  for (const OutputSpec& output : kernel->outputs()) outputs.push_back(output.spec);
  specs_.push_back(std::move(outputs));
  expansion_.calls.push_back({function, std::move(args), std::move(params)});
  return {specs_.size() - 1, 0};
}

std::shared_ptr<const Kernel> Expanding::finish(KernelSpec spec, std::vector<Ref> outputs,
                                                std::vector<std::string> names) {
  std::vector<OutputSpec> made;
  for (std::size_t k = 0; k < outputs.size(); ++k) made.push_back({names.at(k), this->spec(outputs[k]), std::nullopt});
  expansion_.outputs = std::move(outputs);
  return std::make_shared<ExpandedKernel>(std::move(spec), std::move(made), std::move(expansion_));
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < count; ++k) names.push_back(std::to_string(k));
  return names;
}

const ArraySpec& exact_arg(const KernelSpec& spec, std::size_t k) {
  const ArraySpec& array = array_arg(spec, k);
  if (!array.exact())
    fail_call(spec, "an extent of argument " + std::to_string(k) +
                        " depends on data; expected an array whose extents are known when it is planned");
  return array;
}

}  // namespace cuboid
