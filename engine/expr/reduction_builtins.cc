#include "engine/expr/builtin.h"
#include "engine/expr/reduction.h"

namespace cuboid {
namespace {

BuiltinFunction entry(const char* name, const char* text, std::shared_ptr<const Kernel> (*make)(KernelSpec),
                      std::vector<ParamDoc> more = {}) {
  BuiltinFunction function;
  function.doc.name = name;
  function.doc.kind = "builtin";
  function.doc.doc = text;
  function.doc.memory = "0 beside the partial results, which have extent 1 along the reduced axes";
  const bool one_axis = function.doc.name.starts_with("arg");
  function.doc.params = {param("axis", one_axis ? "int" : "int or list of ints",
                               "the axes to reduce, negative ones counted from the end; null: all", kNull),
                         param("keepdims", "bool", "keep the reduced axes with extent 1", false)};
  std::string extra;
  for (ParamDoc& one : more) {
    extra += ", " + one.name;
    function.doc.params.push_back(std::move(one));
  }
  function.doc.signature = std::string(name) + "(x, *, axis=null, keepdims=false" + extra + ")";
  function.make = make;
  return function;
}

}  // namespace

std::vector<BuiltinFunction> reduction_builtins() {
  const ParamDoc dtype =
      param("dtype", "string", "element type of the result; null: int64, uint64 or the input's", kNull);
  const ParamDoc correction = param("correction", "number", "degrees of freedom taken off the count", 0.0);
  return {
      entry("sum", "Sum; floats are accumulated in float64.", make_sum, {dtype}),
      entry("prod", "Product; floats are accumulated in float64.", make_prod, {dtype}),
      entry("mean", "Arithmetic mean, accumulated in float64; NaN of nothing.", make_mean),
      entry("min", "Smallest element; NaN where there is one.", make_min),
      entry("max", "Largest element; NaN where there is one.", make_max),
      entry("any", "True where any element is not 0.", make_any),
      entry("all", "True where all elements are not 0.", make_all),
      entry("count_nonzero", "How many elements are not 0.", make_count_nonzero),
      entry("var", "Variance: mean squared deviation from the mean.", make_var, {correction}),
      entry("std", "Standard deviation: square root of the variance.", make_std, {correction}),
      entry("argmin", "Index of the first smallest element (of the first NaN where there is one).", make_argmin),
      entry("argmax", "Index of the first largest element (of the first NaN where there is one).", make_argmax),
  };
}

}  // namespace cuboid
