#include "engine/plugin/binding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/plugin/manifest_rules.h"
#include "storage/buffer.h"
#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

constexpr std::int64_t kMaxHalo = std::int64_t{1} << 40;  // keeps every sum of extents far from overflow

std::string codes(const std::vector<DType>& dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += (text.empty() ? "" : ", ") + to_string(dtype);
  return text;
}

Trust worse(Trust a, Trust b) { return std::max(a, b); }  // in the order of the enumeration

// True where every element of the type can be this number.
bool holds(DType dtype, double value) {
  switch (dtype.kind) {
    case Kind::boolean:
      return value == 0 || value == 1;
    case Kind::floating:
    case Kind::complex_float:
      return true;
    case Kind::opaque:
      return false;
    case Kind::signed_int:
    case Kind::unsigned_int:
      break;
  }
  const int bits = static_cast<int>(dtype.size) * 8 - (dtype.kind == Kind::signed_int ? 1 : 0);
  const double limit = std::ldexp(1.0, bits);
  return value == std::floor(value) && value < limit && value >= (dtype.kind == Kind::signed_int ? -limit : 0);
}

}  // namespace

// Requests below the pool's threshold are charged as they are, larger ones in size classes: at most an eighth more.
std::uint64_t with_rounding(std::uint64_t bytes) { return bytes + (bytes + 7) / 8; }

Binding::Binding(const FunctionManifest& function, const KernelSpec& spec, Ask ask)
    : function_(&function),
      params_(bind_params(function, spec.params)),
      extra_memory_(spec.extra_memory),
      ask_(std::move(ask)) {
  if (asks_regions() && !ask_.regions)
    throw Error(ErrorKind::unsupported,
                function.id + ": its manifest leaves regions to the plugin's code, which is not asked here");
  bind_inputs(spec);
  bind_axes();
  bind_halos();
  bind_outputs(spec);
  if (!function.partial.empty()) bind_partials();
}

void Binding::bind_inputs(const KernelSpec& spec) {
  const std::vector<ArrayPattern>& patterns = function_->signature.inputs;
  for (std::size_t k = 0; k < spec.args.size(); ++k)
    if (!std::holds_alternative<ArraySpec>(spec.args[k]))
      refuse("argument " + std::to_string(k + 1) + " is a number, expected an array (numbers are passed in params)");
  inputs_ = spec.inputs();
  if (inputs_.size() != patterns.size())
    refuse("got " + std::to_string(inputs_.size()) + " arrays, expected " + std::to_string(patterns.size()) + ": " +
           function_->signature.text);
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const ArrayPattern& pattern = patterns[k];
    const std::string name = "argument " + std::to_string(k + 1) + " (" + pattern.name + ")";
    if (inputs_[k].rank() != pattern.extents.size())
      refuse(name + " has " + std::to_string(inputs_[k].rank()) + " axes, expected " +
             std::to_string(pattern.extents.size()) + ": " + function_->signature.text);
    const DType given = inputs_[k].dtype;
    if (pattern.variable.empty()) {
      if (given != pattern.dtype) refuse(name + " is " + to_string(given) + ", expected " + to_string(pattern.dtype));
      continue;
    }
    const std::vector<DType>& allowed = function_->types.at(pattern.variable);
    if (std::find(allowed.begin(), allowed.end(), given) == allowed.end())
      refuse(name + " is " + to_string(given) + ", expected one of " + codes(allowed));
    const auto [bound, fresh] = variables_.emplace(pattern.variable, given);
    if (!fresh && bound->second != given)
      refuse(name + " is " + to_string(given) + ", expected " + to_string(bound->second) + " as the other " +
             pattern.variable);
  }
}

void Binding::bind_axes() {
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const ArrayPattern& pattern = function_->signature.inputs[k];
    const std::string name = "argument " + std::to_string(k + 1) + " (" + pattern.name + ")";
    for (std::size_t a = 0; a < pattern.extents.size(); ++a) {
      const Extent given = inputs_[k].extents[a];
      const ExtentPattern& expected = pattern.extents[a];
      if (expected.form == ExtentPattern::Form::fixed) {
        if (given.trust != Trust::exact || given.value != expected.fixed)
          refuse(name + " has extent " + std::to_string(given.value) + " along axis " + std::to_string(a) +
                 ", expected exactly " + std::to_string(expected.fixed));
        continue;
      }
      const auto [axis, fresh] = axes_.emplace(expected.axis, given);
      if (fresh) continue;
      if (given.value != axis->second.value && given.trust == Trust::exact && axis->second.trust == Trust::exact)
        refuse(name + " has extent " + std::to_string(given.value) + " along " + expected.axis + ", expected " +
               std::to_string(axis->second.value) + " as before");
      axis->second.trust = worse(axis->second.trust, given.trust);
    }
  }
  if (inputs_.empty()) return;
  const std::vector<std::string> cut = cut_axes(*function_);
  domain_ = inputs_[0].max_shape();
  for (const ExtentPattern& extent : function_->signature.inputs[0].extents) {
    domain_names_.push_back(extent.axis);
    whole_.push_back(std::find(cut.begin(), cut.end(), extent.axis) == cut.end());
  }
}

void Binding::bind_halos() {
  constants_ = params_.numbers(*function_);
  for (const auto& [axis, formula] : function_->regions.halo) {
    const std::int64_t halo = count(formula, constants_);
    if (halo > kMaxHalo) refuse("the halo along " + axis + " is " + std::to_string(halo) + " elements: too large");
    halos_[axis] = halo;
  }
  for (const auto& [axis, extent] : axes_) {
    constants_["halo_" + axis] = static_cast<double>(halo(axis));
    constants_[axis] = static_cast<double>(extent.value);
  }
  for (const auto& [variable, dtype] : variables_) constants_["size_" + variable] = dtype.size;
  check_boundary_value();
}

void Binding::check_boundary_value() const {
  if (params_.boundary != BoundaryMode::constant) return;
  for (const ArraySpec& input : inputs_)
    if (!holds(input.dtype, params_.boundary_value))
      refuse("parameter boundary_value is " + to_string(ParamValue(params_.boundary_value)) +
             ", expected a number that " + to_string(input.dtype) + " can hold");
}

Trust Binding::worst_trust(const ExtentPattern& extent) const {
  Trust trust = extent.form == ExtentPattern::Form::bound   ? Trust::bound
                : extent.form == ExtentPattern::Form::guess ? Trust::guess
                                                            : Trust::exact;
  for (const auto& [axis, known] : axes_)
    if (extent.formula.mentions(axis)) trust = worse(trust, known.trust);
  return trust;
}

void Binding::bind_outputs(const KernelSpec& spec) {
  const std::vector<ArrayPattern>& patterns = function_->signature.outputs;
  for (const auto& [k, shape] : spec.max_shape) {
    const std::string name = "max_shape of output " + std::to_string(k);
    if (k >= patterns.size()) refuse(name + ": there are " + std::to_string(patterns.size()) + " outputs");
    if (!patterns[k].data_dependent()) refuse(name + ": " + patterns[k].name + " has no extent that depends on data");
    if (shape.size() != patterns[k].extents.size())
      refuse(name + " is " + to_string(shape) + ", expected " + std::to_string(patterns[k].extents.size()) +
             " extents");
    if (shape[0] < 1) refuse(name + " is " + to_string(shape) + ", expected a first extent of at least 1");
    user_rows_[k] = shape[0];
  }
  for (std::size_t k = 0; k < patterns.size(); ++k) {
    OutputSpec output;
    output.name = patterns[k].name;
    output.spec.dtype = dtype(patterns[k]);
    for (std::size_t a = 0; a < patterns[k].extents.size(); ++a) {
      const ExtentPattern& extent = patterns[k].extents[a];
      if (extent.form == ExtentPattern::Form::inferred) {
        const InferAnswer::Output& answer = inferred(domain_).outputs[k];
        output.spec.extents.push_back({answer.max_shape[0], std::max(answer.trust, Trust::bound)});
      } else {
        // Of the whole domain; a data-dependent extent is bounded block by block, this one may be beyond all measure.
        const bool vast = extent.data_dependent() && value(extent.formula, constants_) > Expression::kMaxValue;
        output.spec.extents.push_back(
            {vast ? static_cast<std::int64_t>(Expression::kMaxValue) : count(extent.formula, constants_),
             worst_trust(extent)});
      }
    }
    if (patterns[k].data_dependent()) output.ragged_axis = 0;
    if (user_rows_.count(k) > 0) {
      output.spec.extents[0].trust = Trust::guess;
      for (std::size_t a = 1; a < output.spec.extents.size(); ++a)
        if (spec.max_shape.at(k)[a] != output.spec.extents[a].value)
          refuse("max_shape of output " + std::to_string(k) + " is " + to_string(spec.max_shape.at(k)) + ", expected " +
                 std::to_string(output.spec.extents[a].value) + " along axis " + std::to_string(a));
    }
    if (!output.ragged_axis) byte_count(output.spec.max_shape(), output.spec.dtype);  // refuses what nothing could hold
    outputs_.push_back(std::move(output));
  }
}

DType Binding::dtype(const ArrayPattern& pattern) const {
  return pattern.variable.empty() ? pattern.dtype : variables_.at(pattern.variable);
}

std::int64_t Binding::halo(const std::string& axis) const {
  const auto found = halos_.find(axis);
  return found == halos_.end() ? 0 : found->second;
}

std::optional<std::size_t> Binding::domain_axis(const std::string& axis) const {
  const auto found = std::find(domain_names_.begin(), domain_names_.end(), axis);
  if (axis.empty() || found == domain_names_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - domain_names_.begin());
}

Expression::Variables Binding::variables(const Shape& block) const {
  Expression::Variables result = constants_;
  for (std::size_t d = 0; d < domain_names_.size(); ++d)
    if (!domain_names_[d].empty()) result[domain_names_[d]] = static_cast<double>(block[d]);
  return result;
}

Box Binding::block_part(std::size_t k, const Box& block) const {
  const std::vector<ExtentPattern>& extents = function_->signature.inputs[k].extents;
  Box box = Box::whole(inputs_[k].max_shape());
  for (std::size_t a = 0; a < extents.size(); ++a) {
    const auto d = domain_axis(extents[a].axis);
    if (!d) continue;
    box.origin[a] = block.origin[*d];
    box.shape[a] = block.shape[*d];
  }
  return box;
}

Box Binding::interior(std::size_t k, const Box& block) const {
  const Box box = block_part(k, block);
  if (!asks_regions()) return box;
  const Box region = regions_of(block)[k];
  const Box common = intersect(box, region);
  return common.empty() ? region : common;
}

Box Binding::wanted(std::size_t k, const Box& block) const {
  if (asks_regions()) return regions_of(block)[k];
  const std::vector<ExtentPattern>& extents = function_->signature.inputs[k].extents;
  Box box = interior(k, block);
  for (std::size_t a = 0; a < extents.size(); ++a) {
    const std::int64_t h = box.shape[a] > 0 ? halo(extents[a].axis) : 0;
    box.origin[a] -= h;
    box.shape[a] += 2 * h;
    if (params_.boundary != BoundaryMode::clip) continue;
    const std::int64_t end = std::min(box.end(a), inputs_[k].extents[a].value);
    box.origin[a] = std::max<std::int64_t>(box.origin[a], 0);
    box.shape[a] = std::max<std::int64_t>(end - box.origin[a], 0);
  }
  return box;
}

Box Binding::input_box(std::size_t k, const Box& block) const {
  Box box = wanted(k, block);
  for (std::size_t a = 0; a < box.shape.size(); ++a) {
    const std::int64_t extent = inputs_[k].extents[a].value;
    const bool outside = box.origin[a] < 0 || box.end(a) > extent;
    if (!outside) continue;
    // What `wrap` puts before the first element lies at the other end of the array.
    const bool wraps = params_.boundary == BoundaryMode::wrap;
    const std::int64_t end = wraps ? extent : std::min(box.end(a), extent);
    box.origin[a] = wraps ? 0 : std::max<std::int64_t>(box.origin[a], 0);
    box.shape[a] = std::max<std::int64_t>(end - box.origin[a], 0);
  }
  return box;
}

// One question about every block of the grid: so that the answer bounds them all.
Shape Binding::largest_region(std::size_t k, const Shape& block) const {
  constexpr std::int64_t kMostBlocks = 1 << 16;
  {
    const std::lock_guard lock(asking_);
    if (const auto known = largest_.find(block); known != largest_.end()) return known->second[k];
  }
  Shape domain = domain_, extents = block;
  for (std::size_t axis = 0; axis < domain.size(); ++axis) {
    domain[axis] = std::max<std::int64_t>(domain[axis], 1);
    extents[axis] = std::clamp<std::int64_t>(extents[axis], 1, domain[axis]);
  }
  const Grid grid(domain, extents);
  if (grid.size() > kMostBlocks)
    refuse("its regions would be asked for " + std::to_string(grid.size()) +
           " blocks, at most 65536: state larger chunks");
  std::vector<Shape> largest;
  for (const ArraySpec& input : inputs_) largest.emplace_back(input.rank(), 0);
  RegionsAsk wanted;
  for (std::int64_t n = 0; n < grid.size(); ++n) wanted.push_back(output_boxes(grid.box(n)));
  const RegionsAnswer answer = ask_.regions(ask_about(domain_), wanted);
  const std::lock_guard lock(asking_);
  for (std::int64_t n = 0; n < grid.size(); ++n) {
    const std::vector<Box>& boxes = answer.at(static_cast<std::size_t>(n));
    for (std::size_t input = 0; input < largest.size(); ++input)
      for (std::size_t a = 0; a < largest[input].size(); ++a)
        largest[input][a] = std::max(largest[input][a], boxes.at(input).shape.at(a));
    const Box box = grid.box(n);
    regions_.emplace(std::pair(box.origin, box.shape), boxes);
  }
  return largest_.emplace(block, std::move(largest)).first->second[k];
}

std::vector<Box> Binding::regions_of(const Box& block) const {
  {
    const std::lock_guard lock(asking_);
    const auto known = regions_.find({block.origin, block.shape});
    if (known != regions_.end()) return known->second;
  }
  std::vector<Box> boxes = ask_.regions(ask_about(domain_), {output_boxes(block)}).at(0);
  const std::lock_guard lock(asking_);
  return regions_.emplace(std::pair(block.origin, block.shape), std::move(boxes)).first->second;
}

std::vector<Box> Binding::output_boxes(const Box& block) const {
  std::vector<Box> boxes;
  for (std::size_t k = 0; k < outputs_.size(); ++k)
    boxes.push_back(outputs_[k].ragged_axis ? block : output_box(k, block));
  return boxes;
}

Shape Binding::input_extents(std::size_t k, const Shape& block) const {
  if (asks_regions()) return largest_region(k, block);
  const std::vector<ExtentPattern>& extents = function_->signature.inputs[k].extents;
  Shape shape = inputs_[k].max_shape();
  for (std::size_t a = 0; a < extents.size(); ++a) {
    const auto d = domain_axis(extents[a].axis);
    const std::int64_t h = halo(extents[a].axis);
    if (!d || (h > 0 && params_.boundary == BoundaryMode::wrap)) continue;
    shape[a] = std::min(shape[a], block[*d] > 0 ? block[*d] + 2 * h : 0);
  }
  return shape;
}

bool Binding::input_is_block(std::size_t k) const {
  if (asks_regions()) return false;
  const std::vector<ExtentPattern>& extents = function_->signature.inputs[k].extents;
  if (extents.size() != domain_.size()) return false;
  for (std::size_t a = 0; a < extents.size(); ++a) {
    const bool same = k == 0 || (!extents[a].axis.empty() && domain_axis(extents[a].axis) == a);
    if (!same || halo(extents[a].axis) > 0) return false;
  }
  return true;
}

Box Binding::output_box(std::size_t k, const Box& block) const {
  Box box = Box::whole(outputs_[k].spec.max_shape());
  const std::vector<ExtentPattern>& extents = function_->signature.outputs[k].extents;
  for (std::size_t a = 0; a < extents.size(); ++a) {
    const auto d = domain_axis(extents[a].axis);
    if (!d) continue;
    box.origin[a] = block.origin[*d];
    box.shape[a] = block.shape[*d];
  }
  return box;
}

std::int64_t Binding::first_extent(std::size_t k, const Shape& block) const {
  const ExtentPattern& extent = function_->signature.outputs[k].extents[0];
  if (extent.form == ExtentPattern::Form::inferred) return inferred(block).outputs[k].max_shape[0];
  return count(extent.formula, variables(block));
}

Shape Binding::output_extents(std::size_t k, const Shape& block) const {
  const std::vector<ExtentPattern>& extents = function_->signature.outputs[k].extents;
  Shape shape = outputs_[k].spec.max_shape();
  for (std::size_t a = 0; a < extents.size(); ++a)
    if (const auto d = domain_axis(extents[a].axis)) shape[a] = block[*d];
  if (!outputs_[k].ragged_axis) return shape;
  shape[0] = first_extent(k, block);
  const auto user = user_rows_.find(k);
  if (user == user_rows_.end()) return shape;
  // A user's number replaces a guess; a promised bound may not be exceeded anyway, so the smaller one suffices.
  shape[0] = promised_rows(k, block) ? std::min(shape[0], user->second) : user->second;
  return shape;
}

Shape Binding::room(std::size_t k, const Shape& block) const {
  constexpr std::int64_t kLeastObject = 1 << 20;  // bytes
  Shape shape = output_extents(k, block);
  const auto slab = promised_slab(k, block);
  if (!slab) return shape;
  std::int64_t row = outputs_[k].spec.dtype.size;
  for (std::size_t a = 1; a < shape.size(); ++a)
    row = row > kLeastObject / std::max<std::int64_t>(shape[a], 1) ? kLeastObject + 1
                                                                   : row * std::max<std::int64_t>(shape[a], 1);
  shape[0] = std::min(shape[0], std::max(*slab, kLeastObject / row + 1));
  return shape;
}

std::optional<std::int64_t> Binding::promised_rows(std::size_t k, const Shape& block) const {
  const ExtentPattern::Form form = function_->signature.outputs[k].extents[0].form;
  const bool guessed = form == ExtentPattern::Form::guess ||
                       (form == ExtentPattern::Form::inferred && inferred(block).outputs[k].trust == Trust::guess);
  if (guessed) return std::nullopt;
  return first_extent(k, block);
}

std::optional<std::int64_t> Binding::promised_slab(std::size_t k, const Shape& block) const {
  const std::optional<Expression>& slab = function_->outputs[k].slab;
  if (!slab) return std::nullopt;
  return std::max<std::int64_t>(count(*slab, variables(block)), 1);
}

InferAnswer::Bytes Binding::number(const BytesManifest& bytes, const Shape& block) const {
  switch (bytes.source) {
    case BytesManifest::Source::unknown:
      return {0, Trust::unknown};
    case BytesManifest::Source::formula:
      return {static_cast<std::uint64_t>(count(bytes.formula, variables(block))), bytes.trust};
    case BytesManifest::Source::callback:
      break;
  }
  const InferAnswer& answer = inferred(block);
  return &bytes == &function_->call_bytes    ? answer.call
         : &bytes == &function_->state_bytes ? answer.state
                                             : answer.outside;
}

InferAsk Binding::ask_about(const Shape& block) const {
  InferAsk ask;
  ask.params = params_.values;
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    ask.dtypes.push_back(inputs_[k].dtype);
    ask.whole.push_back(inputs_[k].max_shape());
    ask.interior.push_back(block_part(k, Box{Shape(block.size(), 0), block}).shape);
    Shape& halos = ask.halo.emplace_back();
    for (const ExtentPattern& extent : function_->signature.inputs[k].extents) halos.push_back(halo(extent.axis));
  }
  for (const ArrayPattern& output : function_->signature.outputs) ask.output_ranks.push_back(output.extents.size());
  return ask;
}

// References into the map stay valid: it only grows.
const InferAnswer& Binding::inferred(const Shape& block) const {
  const std::lock_guard lock(asking_);
  const auto known = answers_.find(block);
  if (known != answers_.end()) return known->second;
  if (!ask_.infer)
    throw Error(ErrorKind::unsupported, function_->id +
                                            ": its manifest leaves extents or bytes to the plugin's code, "
                                            "which is not asked here: state them as formulas");
  InferAnswer answer = ask_.infer(ask_about(block));
  for (std::size_t k = 0; k < function_->signature.outputs.size(); ++k) {
    const ArrayPattern& pattern = function_->signature.outputs[k];
    const auto wrong = [&](const std::string& what) {
      throw Error(ErrorKind::plugin, function_->id + ": its infer gave output " + pattern.name + " another " + what +
                                         " than its manifest says");
    };
    if (answer.outputs.at(k).dtype != dtype(pattern)) wrong("type");
    for (std::size_t a = 0; a < pattern.extents.size(); ++a) {
      if (pattern.extents[a].form == ExtentPattern::Form::inferred) continue;
      if (answer.outputs[k].max_shape[a] != count(pattern.extents[a].formula, variables(block)))
        wrong("extent along axis " + std::to_string(a));
    }
  }
  return answers_.emplace(block, std::move(answer)).first->second;
}

std::optional<std::uint64_t> Binding::promised_bytes(const BytesManifest& bytes, const Shape& block) const {
  if (extra_memory_ && &bytes != &function_->state_bytes) return std::nullopt;
  const InferAnswer::Bytes known = number(bytes, block);
  if (known.trust > Trust::bound) return std::nullopt;
  return known.bytes;
}

void Binding::bind_partials() {
  reduction_.emplace();
  for (std::size_t axis = 0; axis < domain_.size(); ++axis) reduction_->axes.push_back(axis);
  for (const ArrayPattern& partial : function_->partial) {
    Shape& tail = reduction_->tails.emplace_back();
    for (const ExtentPattern& extent : partial.extents) tail.push_back(count(extent.formula, constants_));
    if (element_count(tail) == 0) refuse("its partial result " + partial.name + " has no elements");
    reduction_->states.push_back(dtype(partial));
  }
}

std::uint64_t Binding::padding_bytes(const Shape& block) const {
  if (params_.boundary == BoundaryMode::clip) return 0;
  std::uint64_t total = 0;
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const std::vector<ExtentPattern>& extents = function_->signature.inputs[k].extents;
    Shape padded = inputs_[k].max_shape();
    bool grown = false;
    for (std::size_t a = 0; a < extents.size(); ++a) {
      if (const auto d = domain_axis(extents[a].axis)) padded[a] = block[*d];
      const std::int64_t h = padded[a] > 0 ? halo(extents[a].axis) : 0;
      padded[a] += 2 * h;
      grown = grown || h > 0;
    }
    if (grown) total += class_bytes(byte_count(padded, inputs_[k].dtype));
  }
  return total;
}

CallMemory Binding::memory(const Shape& block, bool padded) const {
  CallMemory memory;
  if (padded) memory.sure = padding_bytes(block);
  const auto through_host = [&](const BytesManifest& bytes) {
    const InferAnswer::Bytes known = number(bytes, block);
    if (known.trust == Trust::unknown) memory.unknown = true;
    (known.trust == Trust::guess ? memory.uncertain : memory.sure) += with_rounding(known.bytes);
  };
  through_host(function_->state_bytes);
  const InferAnswer::Bytes outside = number(function_->outside_bytes, block);
  if (extra_memory_) {
    memory.uncertain += std::max<std::uint64_t>(*extra_memory_, 1);  // an estimate of nothing is an estimate too
    const bool all_through_host = outside.trust <= Trust::bound && outside.bytes == 0;
    if (!all_through_host) memory.outside = *extra_memory_;
    return memory;
  }
  through_host(function_->call_bytes);
  if (outside.trust == Trust::unknown) memory.unknown = true;
  memory.outside = outside.bytes;
  memory.uncertain += outside.bytes;
  return memory;
}

double Binding::value(const Expression& formula, const Expression::Variables& variables) const {
  try {
    return formula.value(variables);
  } catch (const Error& error) {
    refuse(error.message());
  }
}

std::int64_t Binding::count(const Expression& formula, const Expression::Variables& variables) const {
  try {
    return formula.count(variables);
  } catch (const Error& error) {
    refuse(error.message());
  }
}

void Binding::refuse(const std::string& why) const { throw Error(ErrorKind::invalid, function_->id + ": " + why); }

}  // namespace cuboid
