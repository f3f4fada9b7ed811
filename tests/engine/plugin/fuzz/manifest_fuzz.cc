// Hostile manifests: whatever the text, reading it and planning with it ends in an Error or in numbers. Entry point of
// libFuzzer (clang -fsanitize=fuzzer), and of the replay of what it found (replay.cc).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/plugin/binding.h"
#include "engine/plugin/manifest.h"
#include "storage/error.h"

namespace {

using namespace cuboid;

// Plans one call over small arrays of the first type that each input takes.
void plan(const FunctionManifest& function) {
  KernelSpec spec;
  spec.function = function.id;
  for (const ArrayPattern& input : function.signature.inputs) {
    Shape shape;
    for (const ExtentPattern& extent : input.extents)
      shape.push_back(extent.form == ExtentPattern::Form::fixed ? extent.fixed : 5);
    const DType dtype = input.variable.empty() ? input.dtype : function.types.at(input.variable).front();
    spec.args.emplace_back(ArraySpec(dtype, shape));
  }
  for (const ParamManifest& param : function.params)
    if (!param.default_value && param.type == ParamType::floating) spec.params[param.name] = 1.5;
  try {
    const Binding binding(function, spec);
    for (const std::int64_t extent : {0, 1, 3}) {
      const Shape block(binding.domain().size(), extent);
      binding.memory(block);
      const Box box{Shape(block.size(), 1), block};
      for (std::size_t k = 0; k < binding.inputs().size(); ++k) binding.input_box(k, box);
      for (std::size_t k = 0; k < binding.outputs().size(); ++k) binding.room(k, block);
    }
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Manifest manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
    for (const FunctionManifest& function : manifest.functions) plan(function);
  } catch (const Error&) {
  }
  return 0;
}
