// Blocks: how each step's domain is cut into tasks, and in which chunks steps exchange their results.
#include <algorithm>

#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {

// A dense result of pieces is stored in chunks of one piece's bound, up to this many bytes.
constexpr std::int64_t kLargestCompactChunk = 16 << 20;

Shape clipped(Shape block, const Shape& domain) {
  for (std::size_t axis = 0; axis < block.size(); ++axis)
    block[axis] = std::max<std::int64_t>(1, std::min(block[axis], domain[axis]));
  return block;
}

// Binds the kernel again where its inputs' extents are not those it was made for: bounds that the block grid makes,
// facts.
void rebind(Draft& draft, PlannedStep& step) {
  KernelSpec spec = step.kernel->spec();
  bool changed = false;
  std::size_t input = 0;
  for (auto& arg : spec.args) {
    auto* array = std::get_if<ArraySpec>(&arg);
    if (!array) continue;
    const Value& value = step.inputs[input++];
    const ArraySpec& known = draft.steps[value.step].specs[value.output];
    changed |= !(*array == known);
    *array = known;
  }
  if (!changed) return;
  try {
    step.kernel = resolve_kernel(draft.resolvers, spec);
  } catch (Error& error) {
    throw error.add("step", step.name);
  }
}

// The block that a user's `chunks` mean: extents of the step's domain; for a reduction also those of its result, which
// leave the reduced axes as they come.
Shape wanted_block(const PlannedStep& step, const Shape& domain, const Shape& preferred) {
  Shape block = *step.node->options.chunks;
  const ReductionForm* form = step.kernel->reduction();
  if (form && block.size() != domain.size() && block.size() + form->axes.size() == domain.size()) {
    Shape whole = preferred;
    std::size_t next = 0;
    for (std::size_t axis = 0; axis < whole.size(); ++axis)
      if (std::find(form->axes.begin(), form->axes.end(), axis) == form->axes.end()) whole[axis] = block[next++];
    block = std::move(whole);
  }
  if (block.size() != domain.size() || std::any_of(block.begin(), block.end(), [](auto n) { return n < 1; }))
    throw Error(ErrorKind::invalid,
                "chunks " + to_string(*step.node->options.chunks) + " do not suit " + step.kernel->spec().function +
                    " over " + to_string(domain) + ": expected " + std::to_string(domain.size()) +
                    " extents of at least 1",
                {{"step", step.name}});
  return block;
}

Shape block_of(const Draft& draft, const PlannedStep& step) {
  const Shape domain = step.kernel->domain();
  std::vector<Shape> chunks;
  for (const Value& input : step.inputs) chunks.push_back(draft.steps[input.step].chunks[input.output]);
  Shape block = step.kernel->preferred_block(chunks);
  if (step.node->options.chunks) block = wanted_block(step, domain, block);
  const std::vector<bool> whole = step.kernel->whole_axes();
  for (std::size_t axis = 0; axis < block.size(); ++axis)
    if (whole[axis]) block[axis] = domain[axis];
  block = clipped(std::move(block), domain);
  if (step.kernel->in_c_order()) {
    std::size_t axis = 0;
    while (axis < block.size() && block[axis] == 1) ++axis;
    for (++axis; axis < block.size(); ++axis) block[axis] = std::max<std::int64_t>(domain[axis], 1);
  }
  return block;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b, const std::string& name) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > (std::int64_t{1} << 53))
    throw Error(ErrorKind::invalid, "the bound of '" + name + "' is larger than 2^53 rows; state a smaller max_shape");
  return product;
}

// Binds the kernel to a bound that was grown after blocks had exceeded it.
void grow_bound(Draft& draft, PlannedStep& step, std::size_t k, Shape piece, std::size_t axis) {
  const auto grown = draft.facts.bounds.find(step.value_name(k));
  if (grown == draft.facts.bounds.end() || grown->second <= piece[axis]) return;
  piece[axis] = grown->second;
  KernelSpec spec = step.kernel->spec();
  spec.max_shape[k] = std::move(piece);
  step.kernel = resolve_kernel(draft.resolvers, spec);
}

// The result of pieces put together: bounded by what the blocks may yield in all, known once facts are there.
void settle_ragged(Draft& draft, PlannedStep& step, std::size_t k) {
  const std::size_t axis = *step.kernel->outputs()[k].ragged_axis;
  const std::string name = step.value_name(k);
  Shape chunk = step.kernel->room(k, step.block);  // as declared: a grown bound must not move chunk borders
  if (step.kernel->foreign()) grow_bound(draft, step, k, step.kernel->output_extents(k, step.block), axis);
  const Shape piece = step.kernel->output_extents(k, step.block);
  ArraySpec spec = step.kernel->outputs()[k].spec;
  const Grid grid(step.kernel->domain(), step.block);
  std::int64_t most = checked_product(grid.size(), piece[axis], name);
  // A built-in function's own bound concerns the whole result; a foreign one's a call.
  if (!step.kernel->foreign()) most = std::min(most, spec.extents[axis].value);
  std::int64_t row = spec.dtype.size;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    chunk[d] = std::max<std::int64_t>(chunk[d], 1);
    if (d == axis) continue;
    spec.extents[d].value = piece[d];
    row *= chunk[d];
  }
  // A built-in function may know better: what sorts yields as many rows as there are.
  if (step.kernel->foreign() || spec.extents[axis].trust != Trust::exact)
    spec.extents[axis] = {most, std::max(spec.extents[axis].trust, Trust::bound)};
  chunk[axis] = std::min(chunk[axis], std::max<std::int64_t>(1, kLargestCompactChunk / row));
  if (const auto fact = draft.facts.shapes.find(name); fact != draft.facts.shapes.end())
    spec = ArraySpec(spec.dtype, fact->second);
  step.specs.push_back(std::move(spec));
  step.chunks.push_back(std::move(chunk));
}

}  // namespace

std::string PlannedStep::value_name(std::size_t output) const {
  return !kernel || kernel->outputs().size() == 1 ? name : name + "." + kernel->outputs()[output].name;
}

void choose_blocks(Draft& draft) {
  for (PlannedStep& step : draft.steps) {
    if (step.node->source) {
      const ArrayMetadata& metadata = step.node->source->metadata();
      step.specs.emplace_back(metadata.dtype, metadata.shape);
      step.chunks.push_back(clipped(metadata.chunks, metadata.shape));
      continue;
    }
    rebind(draft, step);
    step.block = block_of(draft, step);
    for (std::size_t k = 0; k < step.kernel->outputs().size(); ++k) {
      if (step.kernel->outputs()[k].ragged_axis) {
        settle_ragged(draft, step, k);
        continue;
      }
      const OutputSpec& output = step.kernel->outputs()[k];
      step.specs.push_back(output.spec);
      step.chunks.push_back(clipped(step.kernel->output_extents(k, step.block), output.spec.max_shape()));
    }
  }
}

}  // namespace cuboid::passes
