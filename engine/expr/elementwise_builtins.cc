#include "engine/expr/builtin.h"
#include "engine/expr/elementwise.h"
#include "engine/expr/params.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using Family = std::span<const ElementwiseFunction> (*)();
constexpr Family kFamilies[]{arithmetic_functions, comparison_functions, bitwise_functions, rounding_functions,
                             math_functions};

const ElementwiseFunction& find(const std::string& name) {
  for (Family family : kFamilies)
    for (const ElementwiseFunction& function : family())
      if (name == function.name) return function;
  throw Error(ErrorKind::invalid, "no elementwise function is called \"" + name + "\"");
}

// clip(x, min, max): the limits are arguments or parameters, and either may be missing.
std::shared_ptr<const Kernel> make_clip(KernelSpec spec) {
  expect_args(spec, 1, 3);
  const ParamReader params(spec, {"max", "min"});
  ElementArgs args{spec.args[0]};
  std::optional<std::variant<ArraySpec, Scalar>> limits[2];
  constexpr const char* kNames[]{"min", "max"};
  for (std::size_t k = 0; k < 2; ++k) {
    if (spec.args.size() > k + 1) limits[k] = spec.args[k + 1];
    if (!params.given(kNames[k])) continue;
    if (limits[k])
      params.fail(std::string("the limit \"") + kNames[k] + "\" is given twice, as argument and as parameter");
    limits[k] = params.scalar(kNames[k]);
  }
  if (!limits[0] && !limits[1]) params.fail("expected a limit: min, max or both");
  for (const auto& limit : limits)
    if (limit) args.push_back(*limit);
  const ElementwiseFunction& function = find(limits[0] && limits[1] ? "clip" : limits[0] ? "maximum" : "minimum");
  return make_elementwise(function, std::move(spec), std::move(args));
}

}  // namespace

std::vector<BuiltinFunction> elementwise_builtins() {
  std::vector<BuiltinFunction> functions;
  for (Family family : kFamilies) {
    for (const ElementwiseFunction& function : family()) {
      BuiltinFunction entry{document(function),
                            [&function](KernelSpec spec) { return make_elementwise(function, std::move(spec)); }};
      if (entry.doc.name == "clip") {
        entry.make = make_clip;
        entry.doc.params = {param("min", "number", "the least value", kNull),
                            param("max", "number", "the greatest value", kNull)};
      }
      functions.push_back(std::move(entry));
    }
  }
  return functions;
}

}  // namespace cuboid
