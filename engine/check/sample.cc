#include "engine/check/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "engine/plugin/parameters.h"
#include "storage/error.h"

namespace cuboid::check {
namespace {

enum class Content : std::uint8_t { noise, constant, ascending, alternating };
constexpr std::array kContents{Content::noise, Content::constant, Content::ascending, Content::alternating};
constexpr std::array<const char*, 4> kContentNames{"noise", "constant", "ascending", "alternating"};

void put(std::byte* to, DType dtype, double value) {
  const auto store = [to](auto typed) { std::memcpy(to, &typed, sizeof typed); };
  if (dtype == kFloat32) return store(static_cast<float>(value));
  if (dtype == kFloat64) return store(value);
  if (dtype == kBool) return store(static_cast<std::uint8_t>(value >= 100));
  const auto whole = static_cast<std::int64_t>(value);  // little-endian: the low bytes are the smaller type's
  std::memcpy(to, &whole, dtype.size);
}

// Values from 0 to 200 around 100: what fits every element type but the narrow ones, which get half of it.
double value_at(Content content, std::int64_t index, std::mt19937_64& random) {
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  switch (content) {
    case Content::noise:
      return std::clamp(100 + 60 * (uniform() + uniform() + uniform() - 1.5), 0.0, 200.0);
    case Content::constant:
      return 7;
    case Content::ascending:
      return static_cast<double>(index % 200);
    case Content::alternating:
      return index % 2 == 0 ? 0 : 200;
  }
  return 0;
}

std::vector<std::byte> fill(Content content, DType dtype, std::int64_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * dtype.size);
  const double scale = dtype == kInt8 ? 0.5 : 1;
  const std::size_t parts = dtype.kind == Kind::complex_float ? 2 : 1;
  const DType part = parts == 1 ? dtype : DType{Kind::floating, dtype.size / 2};
  for (std::int64_t i = 0; i < count; ++i)
    for (std::size_t p = 0; p < parts; ++p)
      put(bytes.data() + static_cast<std::size_t>(i) * dtype.size + p * part.size, part,
          scale * value_at(content, i, random));
  return bytes;
}

// A value for a parameter without a default.
std::optional<ParamValue> guess(const ParamManifest& param) {
  const auto within = [&](double value) {
    const auto number = [](const ParamValue& bound) {
      if (const auto* whole = std::get_if<std::int64_t>(&bound)) return static_cast<double>(*whole);
      return std::get<double>(bound);
    };
    if (param.max) value = std::min(value, number(*param.max));
    if (param.min) value = std::max(value, number(*param.min));
    return value;
  };
  if (!param.choices.empty() && param.type <= ParamType::string) return param.choices[0];
  switch (param.type) {
    case ParamType::boolean:
      return false;
    case ParamType::integer:
      return static_cast<std::int64_t>(within(3));
    case ParamType::floating:
      return within(3);
    case ParamType::string:
      return std::string("text");
    case ParamType::integers:
    case ParamType::floats:
    case ParamType::strings:
      break;
  }
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(param.min_items.value_or(1), 1));
  if (!param.choices.empty()) return std::nullopt;
  if (param.type == ParamType::integers) return std::vector<std::int64_t>(count, static_cast<std::int64_t>(within(3)));
  if (param.type == ParamType::floats) return std::vector<double>(count, within(3));
  return std::vector<std::string>(count, "text");
}

// The parameter sets to try, each with a name; those of examples come after the defaults.
std::vector<std::pair<std::string, Params>> parameter_sets(const FunctionManifest& function) {
  std::vector<std::pair<std::string, Params>> sets;
  Params plain;
  bool complete = true;
  for (const ParamManifest& param : function.params) {
    if (param.default_value) continue;
    std::optional<ParamValue> value;
    for (const ExampleManifest& example : function.examples)
      if (const auto found = example.params.find(param.name); !value && found != example.params.end())
        value = found->second;
    if (!value) value = guess(param);
    complete = complete && value;
    if (value) plain[param.name] = *value;
  }
  if (complete) sets.emplace_back("", plain);
  for (std::size_t k = 0; k < function.examples.size(); ++k)
    sets.emplace_back(", parameters of example " + std::to_string(k), function.examples[k].params);
  return sets;
}

class SampleMaker {
 public:
  SampleMaker(const FunctionManifest& function, const SampleOptions& options) : function_(function), options_(options) {
    bind_extents();
    for (const auto& [name, dtypes] : function.types) widest_ = std::max(widest_, dtypes.size());
  }

  std::size_t type_choices() const { return widest_; }

  Sample make(std::size_t types, Content content, const std::pair<std::string, Params>& params) const {
    Sample sample;
    sample.spec.function = function_.id;
    sample.spec.params = params.second;
    std::mt19937_64 random(options_.seed * 1000003 + types * 31 + static_cast<std::size_t>(content));
    for (std::size_t k = 0; k < function_.signature.inputs.size(); ++k) {
      const ArrayPattern& pattern = function_.signature.inputs[k];
      DType dtype = pattern.dtype;
      if (!pattern.variable.empty()) {
        const std::vector<DType>& allowed = function_.types.at(pattern.variable);
        dtype = allowed[types % allowed.size()];
      }
      const Shape shape = shape_of(pattern);
      if (sample.name.empty()) sample.name = to_string(dtype);
      sample.spec.args.emplace_back(ArraySpec(dtype, shape));
      const bool given = k == 0 && options_.data && options_.data->dtype == dtype && options_.data->shape == shape;
      sample.in.push_back(given ? options_.data->elements : fill(content, dtype, element_count(shape), random));
    }
    const bool given = options_.data && !sample.in.empty() && sample.in[0] == options_.data->elements;
    sample.name += (sample.name.empty() ? "" : " ") +
                   std::string(given ? "data" : kContentNames[static_cast<std::size_t>(content)]) + params.first;
    return sample;
  }

 private:
  void bind_extents() {
    if (function_.signature.inputs.empty()) return;
    const std::vector<ExtentPattern>& first = function_.signature.inputs[0].extents;
    static const std::vector<Shape> kSmall{{}, {1009}, {47, 61}, {13, 17, 11}, {5, 7, 6, 8}};
    const Shape extents = first.size() < kSmall.size() ? kSmall[first.size()] : Shape(first.size(), 3);
    const bool suits = options_.data && options_.data->shape.size() == first.size();
    for (std::size_t a = 0; a < first.size(); ++a) {
      if (first[a].axis.empty()) continue;
      std::int64_t extent = options_.first_extents ? options_.first_extents->at(a) : extents[a];
      if (suits) extent = options_.data->shape[a];
      axes_.emplace(first[a].axis, extent);
    }
    std::int64_t other = 6;
    for (const std::string& axis : function_.signature.axes) axes_.emplace(axis, ++other);
  }
  Shape shape_of(const ArrayPattern& pattern) const {
    Shape shape;
    for (const ExtentPattern& extent : pattern.extents)
      shape.push_back(extent.axis.empty() ? extent.fixed : axes_.at(extent.axis));
    return shape;
  }

  const FunctionManifest& function_;
  const SampleOptions& options_;
  std::map<std::string, std::int64_t> axes_;
  std::size_t widest_ = 1;
};

}  // namespace

std::vector<Sample> make_samples(const FunctionManifest& function, const SampleOptions& options) {
  const SampleMaker maker(function, options);
  auto sets = parameter_sets(function);
  if (options.params) sets = {{", parameters given", *options.params}};
  std::vector<Sample> samples;
  for (const auto& set : sets) {
    const bool first = &set == &sets.front();
    for (std::size_t types = 0; types < (first ? maker.type_choices() : 1); ++types)
      for (const Content content : kContents)
        if (content == Content::noise || (first && types == 0)) samples.push_back(maker.make(types, content, set));
  }
  return samples;
}

}  // namespace cuboid::check
