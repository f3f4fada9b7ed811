#include "engine/plugin/manifest_rules.h"

#include <algorithm>
#include <set>

#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

[[noreturn]] void fail(const std::string& field, const std::string& why) {
  throw Error(ErrorKind::plugin, field + ": " + why);
}

std::size_t times(const ArrayPattern& array, const std::string& axis) {
  return static_cast<std::size_t>(std::count_if(array.extents.begin(), array.extents.end(),
                                                [&](const ExtentPattern& extent) { return extent.axis == axis; }));
}

// Sets of names that the different formulas see.
struct Scope {
  std::set<std::string> params, axes, halos, sizes;

  explicit Scope(const FunctionManifest& function) {
    for (const ParamManifest& param : function.params)
      if (param.type <= ParamType::floating) params.insert(param.name);
    for (const std::string& axis : function.signature.axes) {
      axes.insert(axis);
      halos.insert("halo_" + axis);
    }
    for (const auto& [variable, dtypes] : function.types) sizes.insert("size_" + variable);
  }

  static void check(const Expression& formula, const std::string& field,
                    std::initializer_list<const std::set<std::string>*> allowed) {
    for (const std::string& name : formula.names()) {
      if (std::any_of(allowed.begin(), allowed.end(), [&](const auto* set) { return set->count(name) > 0; })) continue;
      std::vector<std::string> known;
      for (const auto* set : allowed) known.insert(known.end(), set->begin(), set->end());
      std::string all;
      for (const std::string& word : known) all += (all.empty() ? "" : ", ") + word;
      const std::optional<std::string> near = nearest_name(name, known);
      fail(field, "the formula mentions " + in_quotes(name) +
                      (near            ? ", did you mean " + *near + "?"
                       : known.empty() ? ", but no name has a value here"
                                       : ", expected one of " + all));
    }
  }
};

void check_types(const FunctionManifest& function) {
  std::set<std::string> used;
  for (const auto* side : {&function.signature.inputs, &function.signature.outputs})
    for (const ArrayPattern& array : *side)
      if (!array.variable.empty()) used.insert(array.variable);
  for (const std::string& variable : used)
    if (function.types.count(variable) == 0) fail("types", "lacks the type variable " + variable + " of the signature");
  for (const auto& [variable, dtypes] : function.types)
    if (used.count(variable) == 0) fail("types", "the signature has no type variable " + variable);
}

void check_params(const FunctionManifest& function) {
  std::set<std::string> seen;
  for (const ParamManifest& param : function.params) {
    if (!seen.insert(param.name).second) fail("params", "two parameters are named " + param.name);
    if (contains(function.signature.axes, param.name)) fail("params", param.name + " is an axis too");
  }
}

void check_formulas(const FunctionManifest& function) {
  const Scope scope(function);
  for (const auto& [axis, formula] : function.regions.halo)
    Scope::check(formula, "regions.halo." + axis, {&scope.params});
  for (std::size_t k = 0; k < function.signature.outputs.size(); ++k) {
    const ArrayPattern& output = function.signature.outputs[k];
    for (const ExtentPattern& extent : output.extents)
      if (extent.form != ExtentPattern::Form::inferred)
        Scope::check(extent.formula, "signature, output " + output.name, {&scope.axes, &scope.params});
    const OutputManifest& more = function.outputs[k];
    const std::string field = "outputs." + output.name;
    if (more.slab) Scope::check(*more.slab, field + ".slab", {&scope.axes, &scope.halos, &scope.params, &scope.sizes});
    if (more.likely) Scope::check(*more.likely, field + ".likely", {&scope.axes, &scope.params});
  }
  const std::pair<const char*, const BytesManifest*> bytes[] = {{"memory.call_bytes", &function.call_bytes},
                                                                {"memory.state_bytes", &function.state_bytes},
                                                                {"memory.outside_bytes", &function.outside_bytes}};
  for (const auto& [field, number] : bytes)
    Scope::check(number->formula, field, {&scope.axes, &scope.halos, &scope.params, &scope.sizes});
}

void check_regions(const FunctionManifest& function) {
  const std::vector<std::string>& axes = function.signature.axes;
  for (const auto& [axis, formula] : function.regions.halo)
    if (!contains(axes, axis)) fail("regions.halo", in_quotes(axis) + " is no axis of an input");
  for (const std::string& axis : function.regions.core)
    if (!contains(axes, axis)) fail("regions.core", in_quotes(axis) + " is no axis of an input");
  const std::vector<std::string> cut = cut_axes(function);
  for (const std::string& axis : function.splittable)
    if (!contains(cut, axis))
      fail("splittable", in_quotes(axis) + " is no axis that a block may cut: it is whole in every call");
}

// No extent but the concatenated one depends on a cut axis other than as its bare name.
void check_cut_extents(const FunctionManifest& function) {
  const std::vector<std::string> cut = cut_axes(function);
  for (const ArrayPattern& output : function.signature.outputs) {
    for (const ExtentPattern& extent : output.extents) {
      if (extent.data_dependent() || (!extent.axis.empty() && !output.data_dependent())) continue;
      for (const std::string& axis : cut)
        if (extent.formula.mentions(axis))
          fail("signature, output " + output.name, "extent '" + extent.formula.text() + "' depends on the axis " +
                                                       axis + ", which is cut into blocks: name it in regions.core");
    }
  }
}

void check_outputs(const FunctionManifest& function) {
  for (std::size_t k = 0; k < function.signature.outputs.size(); ++k) {
    const ArrayPattern& output = function.signature.outputs[k];
    const OutputManifest& more = function.outputs[k];
    const std::string field = "outputs." + output.name;
    if (output.data_dependent() == (more.delivery == Delivery::fill))
      fail(field + ".delivery", output.data_dependent() ? "fill is for exact extents, the first one depends on data"
                                                        : "must be fill, for every extent is exact");
    if (more.slab.has_value() != (more.delivery == Delivery::push))
      fail(field + ".slab", "belongs to the delivery push and only there");
    if (more.likely && !output.data_dependent()) fail(field + ".likely", "the first extent is exact");
  }
}

void check_combine(const FunctionManifest& function) {
  if (function.partial.empty()) return;
  Scope scope(function);
  const std::vector<std::string> cut = cut_axes(function);
  for (const std::string& axis : cut) scope.axes.erase(axis);
  for (const ArrayPattern& partial : function.partial)
    for (const ExtentPattern& extent : partial.extents)
      Scope::check(extent.formula, "combine.partial, array " + partial.name,
                   {&scope.params, &scope.sizes, &scope.axes});
  for (const ArrayPattern& output : function.signature.outputs)
    if (output.data_dependent()) fail("combine", "output " + output.name + " must have exact extents");
}

}  // namespace

std::vector<std::string> cut_axes(const FunctionManifest& function) {
  std::vector<std::string> cut;
  if (function.signature.inputs.empty() || function.regions.kind == RegionManifest::Kind::all) return cut;
  const bool reduces = !function.partial.empty();
  for (const ExtentPattern& extent : function.signature.inputs[0].extents) {
    const std::string& axis = extent.axis;
    if (axis.empty() || contains(function.regions.core, axis) || contains(cut, axis)) continue;
    const auto once = [&](const ArrayPattern& array) { return times(array, axis) <= 1; };
    // What a reduction keeps and gives depends on none of the axes that it is cut along.
    const auto free = [&](const ArrayPattern& array) {
      return std::none_of(array.extents.begin(), array.extents.end(),
                          [&](const ExtentPattern& one) { return one.formula.mentions(axis); });
    };
    const auto joined = [&](const ArrayPattern& output) {
      return reduces ? free(output) : output.data_dependent() || times(output, axis) == 1;
    };
    const Signature& signature = function.signature;
    if (std::all_of(signature.inputs.begin(), signature.inputs.end(), once) &&
        std::all_of(signature.outputs.begin(), signature.outputs.end(), joined) &&
        std::all_of(function.partial.begin(), function.partial.end(), free))
      cut.push_back(axis);
  }
  return cut;
}

void check_function(const FunctionManifest& function) {
  check_types(function);
  check_params(function);
  check_formulas(function);
  check_outputs(function);
  check_regions(function);
  check_cut_extents(function);
  check_combine(function);
}

}  // namespace cuboid
