#include "engine/plugin/manifest.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <set>

#include "engine/plugin/json_field.h"
#include "engine/plugin/library_file.h"
#include "engine/plugin/manifest_rules.h"
#include "engine/plugin/parameters.h"
#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

using Words = std::vector<std::string_view>;
const Words kParamTypes = {"bool", "int", "float", "string", "int[]", "float[]", "string[]"};
const Words kModes = {"reflect", "nearest", "constant", "wrap", "clip"};
const Words kRegionKinds = {"same", "halo", "all", "callback"};
const Words kDeliveries = {"fill", "trim", "emit", "grow", "push"};
const Words kTrusts = {"exact", "bound", "guess"};
const Words kFlags = {"pure", "reentrant", "state_local", "threads", "in_place", "fork_safe"};
constexpr std::size_t kMaxDoc = 4096;
constexpr std::int64_t kMaxListItems = 65536;

template <class Make>
auto parsed(const JsonField& field, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    field.fail(error.message());
  }
}

Expression read_formula(const JsonField& field) {
  const std::string text = field.text(Expression::kMaxLength);
  return parsed(field, [&] { return Expression(text); });
}

std::string read_doc(const JsonField& object) {
  const auto doc = object.find("doc");
  return doc ? doc->text(kMaxDoc) : "";
}

std::string read_identifier(const JsonField& field) {
  const std::string word = field.text(64);
  if (!is_identifier(word)) field.expected("an identifier ([a-z][a-z0-9_]*)");
  if (is_reserved_word(word)) field.expected("a name that is not reserved");
  return word;
}

std::vector<std::string> read_identifiers(const JsonField& field) {
  std::vector<std::string> words;
  for (const JsonField& entry : field.list(0, kMaxPluginRank)) {
    words.push_back(read_identifier(entry));
    if (std::count(words.begin(), words.end(), words.back()) > 1) entry.fail("occurs twice");
  }
  return words;
}

ParamType element_type(ParamType type) {
  switch (type) {
    case ParamType::integers:
      return ParamType::integer;
    case ParamType::floats:
      return ParamType::floating;
    case ParamType::strings:
      return ParamType::string;
    default:
      return type;
  }
}

ParamValue read_scalar(const JsonField& field) {
  const JsonField::Json& json = field.value();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return field.text(kMaxDoc);
  if (json.is_number_integer()) return field.integer(INT64_MIN, INT64_MAX);
  return field.number();
}

template <class T>
std::optional<ParamValue> list_of(const std::vector<ParamValue>& values) {
  std::vector<T> result;
  for (const ParamValue& value : values) {
    if constexpr (std::is_same_v<T, double>) {
      if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        result.push_back(static_cast<double>(*whole));
        continue;
      }
    }
    const T* one = std::get_if<T>(&value);
    if (!one) return std::nullopt;
    result.push_back(*one);
  }
  return result;
}

// A value of a manifest in the types that a pipeline file would give it.
ParamValue read_value(const JsonField& field) {
  if (!field.value().is_array()) return read_scalar(field);
  std::vector<ParamValue> values;
  for (const JsonField& entry : field.list(0, kMaxListItems)) values.push_back(read_scalar(entry));
  if (auto list = list_of<std::int64_t>(values)) return *list;
  if (auto list = list_of<double>(values)) return *list;
  if (auto list = list_of<std::string>(values)) return *list;
  field.expected("a list of numbers or a list of strings");
}

ParamValue read_limit(const JsonField& field, ParamType type) {
  if (element_type(type) == ParamType::integer) return field.integer(INT64_MIN, INT64_MAX);
  if (element_type(type) == ParamType::floating) return field.number();
  field.fail("is for int and float only");
}

void read_choices(const JsonField& field, ParamManifest& param) {
  if (param.type == ParamType::boolean) field.fail("is not for bool");
  ParamManifest element;
  element.name = param.name;
  element.type = element_type(param.type);
  for (const JsonField& entry : field.list(1, 64))
    param.choices.push_back(parsed(entry, [&] { return checked_value(element, read_scalar(entry)); }));
}

ParamManifest read_param(const JsonField& field) {
  field.object({"name", "type", "required", "default", "min", "max", "min_items", "max_items", "choices", "doc"},
               {"name", "type"});
  ParamManifest param;
  param.name = read_identifier(field.at("name"));
  param.type = static_cast<ParamType>(field.at("type").choice(kParamTypes));
  param.doc = read_doc(field);
  if (const auto min = field.find("min")) param.min = read_limit(*min, param.type);
  if (const auto max = field.find("max")) param.max = read_limit(*max, param.type);
  if (param.min && param.max && *param.max < *param.min) field.fail("max is below min");
  for (const auto& [key, target] :
       {std::pair("min_items", &param.min_items), std::pair("max_items", &param.max_items)}) {
    const auto limit = field.find(key);
    if (limit && element_type(param.type) == param.type) limit->fail("is for lists only");
    if (limit) *target = limit->integer(0, kMaxListItems);
  }
  if (const auto choices = field.find("choices")) read_choices(*choices, param);
  const auto required = field.find("required");
  const auto preset = field.find("default");
  if ((required && required->boolean()) == preset.has_value())
    field.fail("needs either a default or \"required\": true");
  if (preset) param.default_value = parsed(*preset, [&] { return checked_value(param, read_value(*preset)); });
  return param;
}

RegionManifest read_regions(const JsonField& field) {
  field.object({"kind", "halo", "modes", "default", "core"}, {"kind"});
  RegionManifest regions;
  regions.kind = static_cast<RegionManifest::Kind>(field.at("kind").choice(kRegionKinds));
  if (const auto core = field.find("core")) {
    if (regions.kind == RegionManifest::Kind::all) core->fail("has no meaning with kind all");
    regions.core = read_identifiers(*core);
  }
  if (regions.kind != RegionManifest::Kind::halo) {
    for (const char* key : {"halo", "modes", "default"})
      if (const auto extra = field.find(key)) extra->fail("is for kind halo only");
    return regions;
  }
  field.object({"kind", "halo", "modes", "default", "core"}, {"halo", "modes", "default"});
  const auto halos = field.at("halo").members();
  if (halos.empty() || halos.size() > kMaxPluginRank) field.at("halo").expected("1 to 16 axes");
  for (const auto& [axis, formula] : halos) regions.halo.emplace(axis, read_formula(formula));
  for (const std::size_t mode : field.at("modes").choices(kModes, 1))
    regions.modes.push_back(static_cast<BoundaryMode>(mode));
  regions.default_mode = static_cast<BoundaryMode>(field.at("default").choice(kModes));
  if (std::find(regions.modes.begin(), regions.modes.end(), regions.default_mode) == regions.modes.end())
    field.at("default").expected("one of the modes");
  return regions;
}

BytesManifest read_bytes(const JsonField& field) {
  field.object({"expr", "trust"}, {"expr"});
  BytesManifest bytes;
  const std::string text = field.at("expr").text(Expression::kMaxLength);
  const bool word = text == "unknown" || text == "callback";
  if (word && field.find("trust")) field.at("trust").fail("has no meaning with " + text);
  if (word) {
    bytes.source = text == "unknown" ? BytesManifest::Source::unknown : BytesManifest::Source::callback;
    bytes.trust = Trust::unknown;
    return bytes;
  }
  bytes.formula = read_formula(field.at("expr"));
  bytes.trust = static_cast<Trust>(field.at("trust").choice(kTrusts));
  return bytes;
}

void read_outputs(const JsonField& function, FunctionManifest& result) {
  for (const ArrayPattern& pattern : result.signature.outputs) {
    OutputManifest output;
    if (pattern.data_dependent())
      output.delivery = pattern.extents[0].form == ExtentPattern::Form::bound ? Delivery::trim : Delivery::grow;
    result.outputs.push_back(std::move(output));
  }
  const auto outputs = function.find("outputs");
  if (!outputs) return;
  for (const auto& [name, field] : outputs->members()) {
    std::size_t k = 0;
    while (k < result.outputs.size() && result.signature.outputs[k].name != name) ++k;
    if (k == result.outputs.size()) field.fail("the signature has no output of this name");
    field.object({"delivery", "slab", "likely", "doc"}, {});
    OutputManifest& output = result.outputs[k];
    if (const auto delivery = field.find("delivery"))
      output.delivery = static_cast<Delivery>(delivery->choice(kDeliveries));
    if (const auto slab = field.find("slab")) output.slab = read_formula(*slab);
    if (const auto likely = field.find("likely")) output.likely = read_formula(*likely);
    output.doc = read_doc(field);
  }
}

void read_types(const JsonField& field, FunctionManifest& result) {
  for (const auto& [variable, codes] : field.members()) {
    std::vector<DType>& dtypes = result.types[variable];
    for (const JsonField& code : codes.list(1, 13)) {
      const std::optional<DType> dtype = dtype_from_code(code.text(8));
      if (!dtype) code.expected("an element type: b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16");
      if (std::find(dtypes.begin(), dtypes.end(), *dtype) != dtypes.end()) code.fail("occurs twice");
      dtypes.push_back(*dtype);
    }
  }
}

// "vendor.name/revision"
template <class Function>
void read_id(const JsonField& field, Function& result) {
  result.id = field.text(160);
  const std::size_t dot = result.id.find('.'), slash = result.id.find('/');
  bool valid = dot != std::string::npos && slash != std::string::npos && dot < slash;
  if (valid) {
    const std::string revision = result.id.substr(slash + 1);
    valid = is_identifier(result.id.substr(0, dot)) && is_identifier(result.id.substr(dot + 1, slash - dot - 1)) &&
            !revision.empty() && revision.size() <= 6 && revision[0] != '0' &&
            revision.find_first_not_of("0123456789") == std::string::npos;
    if (valid) result.revision = std::stoll(revision);
  }
  if (!valid) field.expected("vendor.name/revision, as sky.sources/1");
  result.name = result.id.substr(0, slash);
}

double read_element_number(const JsonField& field) {
  if (field.value().is_string()) {
    switch (field.choice({"NaN", "Infinity", "-Infinity"})) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return std::numeric_limits<double>::infinity();
      default:
        return -std::numeric_limits<double>::infinity();
    }
  }
  return field.number();
}

template <class T>
void put(std::vector<std::byte>& data, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  data.insert(data.end(), bytes, bytes + sizeof value);
}

void put_integer(const JsonField& field, DType dtype, std::vector<std::byte>& data) {
  const bool is_signed = dtype.kind == Kind::signed_int;
  const int bits = static_cast<int>(dtype.size) * 8;
  std::uint64_t pattern = 0;
  if (!is_signed && dtype.size == 8 && field.value().is_number_unsigned()) {
    pattern = field.value().get<std::uint64_t>();
  } else {
    const std::int64_t most = bits == 64 ? INT64_MAX : (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    pattern = static_cast<std::uint64_t>(field.integer(is_signed ? -most - 1 : 0, most));
  }
  switch (dtype.size) {
    case 1:
      return put(data, static_cast<std::uint8_t>(pattern));
    case 2:
      return put(data, static_cast<std::uint16_t>(pattern));
    case 4:
      return put(data, static_cast<std::uint32_t>(pattern));
    default:
      return put(data, pattern);
  }
}

void put_element(const JsonField& field, DType dtype, std::vector<std::byte>& data) {
  switch (dtype.kind) {
    case Kind::boolean:
      return put(data, static_cast<std::uint8_t>(field.boolean()));
    case Kind::signed_int:
    case Kind::unsigned_int:
      return put_integer(field, dtype, data);
    case Kind::floating:
      if (dtype.size == 4) return put(data, static_cast<float>(read_element_number(field)));
      return put(data, read_element_number(field));
    case Kind::complex_float:
      for (const JsonField& part : field.list(2, 2)) {
        if (dtype.size == 8)
          put(data, static_cast<float>(read_element_number(part)));
        else
          put(data, read_element_number(part));
      }
      return;
    case Kind::opaque:  // has no code in a signature
      return;
  }
}

ExampleArray read_example_array(const JsonField& field, const ArrayPattern& pattern, const FunctionManifest& function) {
  field.object({"dtype", "shape", "data"}, {"dtype", "shape", "data"});
  ExampleArray array;
  const std::optional<DType> dtype = dtype_from_code(field.at("dtype").text(8));
  const bool fits =
      dtype && (pattern.variable.empty() ? *dtype == pattern.dtype
                                         : std::count(function.types.at(pattern.variable).begin(),
                                                      function.types.at(pattern.variable).end(), *dtype) > 0);
  if (!fits) field.at("dtype").expected("an element type of " + pattern.name);
  array.dtype = *dtype;
  for (const JsonField& extent : field.at("shape").list(pattern.extents.size(), pattern.extents.size()))
    array.shape.push_back(extent.integer(0, kMaxListItems));
  const std::int64_t count = parsed(field.at("shape"), [&] { return element_count(array.shape); });
  if (count > kMaxListItems) field.at("shape").fail("has more than 65536 elements");
  for (const JsonField& element :
       field.at("data").list(static_cast<std::size_t>(count), static_cast<std::size_t>(count)))
    put_element(element, array.dtype, array.data);
  return array;
}

ExampleManifest read_example(const JsonField& field, const FunctionManifest& function) {
  field.object({"doc", "params", "in", "out", "tolerance"}, {"in", "out"});
  ExampleManifest example;
  example.doc = read_doc(field);
  if (const auto params = field.find("params")) {
    for (const auto& [name, value] : params->members()) example.params.emplace(name, read_value(value));
    parsed(*params, [&] { return bind_params(function, example.params); });
  } else {
    parsed(field, [&] { return bind_params(function, {}); });
  }
  const auto arrays = [&](const char* key, const std::vector<ArrayPattern>& patterns, std::vector<ExampleArray>& to) {
    const std::vector<JsonField> fields = field.at(key).list(patterns.size(), patterns.size());
    for (std::size_t k = 0; k < fields.size(); ++k) to.push_back(read_example_array(fields[k], patterns[k], function));
  };
  arrays("in", function.signature.inputs, example.in);
  arrays("out", function.signature.outputs, example.out);
  if (const auto tolerance = field.find("tolerance")) {
    example.tolerance = tolerance->number();
    if (example.tolerance < 0) tolerance->expected("at least 0");
  }
  return example;
}

FunctionFlags read_flags(const JsonField& field) {
  FunctionFlags flags;
  for (const std::size_t flag : field.choices(kFlags, 0)) {
    bool* const all[] = {&flags.pure,    &flags.reentrant, &flags.state_local,
                         &flags.threads, &flags.in_place,  &flags.fork_safe};
    *all[flag] = true;
  }
  return flags;
}

FunctionManifest read_function(const JsonField& field) {
  field.object({"id", "doc", "signature", "types", "params", "regions", "outputs", "memory", "flags", "splittable",
                "combine", "examples"},
               {"id", "doc", "signature", "memory"});
  FunctionManifest result;
  read_id(field.at("id"), result);
  result.doc = read_doc(field);
  const std::string signature = field.at("signature").text(kMaxSignatureLength);
  result.signature = parsed(field.at("signature"), [&] { return parse_signature(signature); });
  if (const auto types = field.find("types")) read_types(*types, result);
  if (const auto params = field.find("params"))
    for (const JsonField& param : params->list(0, 64)) result.params.push_back(read_param(param));
  if (const auto regions = field.find("regions")) result.regions = read_regions(*regions);
  read_outputs(field, result);
  const JsonField memory = field.at("memory");
  memory.object({"call_bytes", "state_bytes", "outside_bytes"}, {"call_bytes", "outside_bytes"});
  result.call_bytes = read_bytes(memory.at("call_bytes"));
  result.outside_bytes = read_bytes(memory.at("outside_bytes"));
  if (const auto state = memory.find("state_bytes")) result.state_bytes = read_bytes(*state);
  if (const auto flags = field.find("flags")) result.flags = read_flags(*flags);
  if (const auto splittable = field.find("splittable")) result.splittable = read_identifiers(*splittable);
  if (const auto combine = field.find("combine")) {
    combine->object({"partial"}, {"partial"});
    const std::string partial = combine->at("partial").text(kMaxSignatureLength);
    result.partial = parsed(combine->at("partial"), [&] { return parse_partials(partial); });
  }
  parsed(field, [&] { return check_function(result), 0; });
  if (const auto examples = field.find("examples"))
    for (const JsonField& example : examples->list(0, 64)) result.examples.push_back(read_example(example, result));
  return result;
}

std::vector<std::string> read_words(const JsonField& field) {
  std::vector<std::string> words;
  for (const JsonField& entry : field.list(0, 64)) words.push_back(entry.text(129));
  return words;
}

// One step of a recipe. `known`: what may be an argument, "image", "blocks", "blocks.border".
Recipe::Part read_part(const JsonField& field, const Manifest& manifest, std::set<std::string>& known,
                       RecipeManifest& result) {
  field.object({"name", "call", "args", "params"}, {"name", "call", "args"});
  Recipe::Part part{read_identifier(field.at("name")), field.at("call").text(140), read_words(field.at("args")), {}};
  const auto called = std::find_if(manifest.functions.begin(), manifest.functions.end(),
                                   [&](const FunctionManifest& function) { return function.id == part.function; });
  if (called == manifest.functions.end()) field.at("call").expected("the id of a function of this manifest");
  if (part.args.size() != called->signature.inputs.size())
    field.at("args").expected(std::to_string(called->signature.inputs.size()) + " names: " + called->signature.text);
  for (const std::string& arg : part.args)
    if (known.count(arg) == 0) field.at("args").fail(in_quotes(arg) + " is neither an input nor an earlier step");
  if (const auto params = field.find("params")) part.params = read_words(*params);
  for (const std::string& name : part.params) {
    const auto same = [&](const ParamManifest& param) { return param.name == name; };
    const auto param = std::find_if(called->params.begin(), called->params.end(), same);
    if (param == called->params.end()) field.at("params").fail(in_quotes(name) + " is no parameter of " + called->id);
    if (std::none_of(result.params.begin(), result.params.end(), same)) result.params.push_back(*param);
  }
  for (const ParamManifest& param : called->params)
    if (!param.default_value && std::find(part.params.begin(), part.params.end(), param.name) == part.params.end())
      field.fail("does not take the parameter " + param.name + ", which " + called->id + " requires");
  if (!known.insert(part.name).second) field.at("name").fail("is taken");
  for (const ArrayPattern& output : called->signature.outputs) known.insert(part.name + "." + output.name);
  return part;
}

RecipeManifest read_recipe(const JsonField& field, const Manifest& manifest) {
  field.object({"id", "doc", "signature", "steps"}, {"id", "doc", "signature", "steps"});
  RecipeManifest result;
  read_id(field.at("id"), result);
  result.doc = read_doc(field);
  const std::string signature = field.at("signature").text(kMaxSignatureLength);
  result.signature = parsed(field.at("signature"), [&] { return parse_signature(signature); });
  std::set<std::string> known;
  for (const ArrayPattern& input : result.signature.inputs) {
    result.recipe.inputs.push_back(input.name);
    known.insert(input.name);
  }
  for (const JsonField& step : field.at("steps").list(1, 16))
    result.recipe.parts.push_back(read_part(step, manifest, known, result));
  return result;
}

void read_name_and_version(const JsonField& root, Manifest& manifest) {
  const auto made_of = [](const std::string& text, std::string_view extra) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || extra.find(c) != std::string_view::npos;
    });
  };
  manifest.name = root.at("name").text(64);
  if (!made_of(manifest.name, "_-") || manifest.name[0] < 'a' || manifest.name[0] > 'z')
    root.at("name").expected("a name ([a-z][a-z0-9_-]*)");
  manifest.version = root.at("version").text(64);
  if (!made_of(manifest.version, ".+-ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    root.at("version").expected("a version ([0-9A-Za-z.+-])");
}

}  // namespace

std::string_view to_string(ParamType type) { return kParamTypes[static_cast<std::size_t>(type)]; }
std::string_view to_string(BoundaryMode mode) { return kModes[static_cast<std::size_t>(mode)]; }

Manifest parse_manifest(std::string_view json) {
  const JsonField::Json document = parse_json(json, kMaxManifestBytes, kMaxManifestDepth);
  const JsonField root(document, "");
  root.object({"schema", "name", "version", "abi", "doc", "functions", "recipes"},
              {"schema", "name", "version", "functions"});
  root.at("schema").integer(1, 1);
  Manifest manifest;
  read_name_and_version(root, manifest);
  manifest.doc = read_doc(root);
  if (const auto abi = root.find("abi")) {
    abi->object({"major", "needs_minor"}, {"major", "needs_minor"});
    abi->at("major").integer(1, 1);
    manifest.needs_minor = static_cast<std::uint32_t>(abi->at("needs_minor").integer(0, 65535));
  }
  std::set<std::string> ids;
  for (const JsonField& field : root.at("functions").list(1, 256)) {
    manifest.functions.push_back(read_function(field));
    if (!ids.insert(manifest.functions.back().id).second)
      field.at("id").fail("two functions have the id " + manifest.functions.back().id);
  }
  if (const auto recipes = root.find("recipes"))
    for (const JsonField& field : recipes->list(0, 64)) {
      manifest.recipes.push_back(read_recipe(field, manifest));
      if (!ids.insert(manifest.recipes.back().id).second)
        field.at("id").fail("two functions have the id " + manifest.recipes.back().id);
    }
  manifest.json = document.dump();
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& library) {
  const LibraryFile file(library);
  std::vector<const LibraryFile*> hashed{&file};
  std::optional<ManifestBlob> blob = read_manifest_section(file);
  std::optional<LibraryFile> sidecar;
  if (!blob) {
    const std::filesystem::path beside = std::filesystem::path(library).replace_extension(".cuboid.json");
    try {
      sidecar.emplace(beside);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found) throw;
      file.fail("has no section .cuboid, and there is no " + beside.filename().string() +
                " beside it: no plugin (its source states CUBOID_PLUGIN or CUBOID_MANIFEST once)");
    }
    if (sidecar->size() > kMaxManifestBytes) sidecar->fail("is larger than 1 MiB");
    blob = ManifestBlob{1, 0, sidecar->read_text(0, static_cast<std::size_t>(sidecar->size()), "manifest")};
    hashed.push_back(&*sidecar);
  }
  try {
    Manifest manifest = parse_manifest(blob->json);
    if (!sidecar && manifest.needs_minor != blob->needs_minor)
      throw Error(ErrorKind::plugin, "abi.needs_minor: is " + std::to_string(manifest.needs_minor) +
                                         ", but the head of the section says " + std::to_string(blob->needs_minor));
    manifest.path = library;
    manifest.content_hash = hash_files(hashed);
    return manifest;
  } catch (const Error& error) {
    throw Error(error.kind(), library.string() + ": manifest: " + error.message());
  }
}

std::string manifest_to_json(const Manifest& manifest) { return JsonField::Json::parse(manifest.json).dump(2); }

std::string content_hash(const std::filesystem::path& file) {
  const LibraryFile library(file);
  return hash_files({&library});
}

}  // namespace cuboid
