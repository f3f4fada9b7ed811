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

// Binds the kernel again where its inputs' extents are not those it was made for: bounds that the block grid makes, facts.
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

Shape block_of(const Draft& draft, const PlannedStep& step) {
  const Shape domain = step.kernel->domain();
  Shape block;
  if (step.node->options.chunks) {
    block = *step.node->options.chunks;
    const bool right = block.size() == domain.size() && std::all_of(block.begin(), block.end(), [](auto n) { return n >= 1; });
    if (!right)
      throw Error(ErrorKind::invalid, "chunks " + to_string(block) + " do not suit " + step.kernel->spec().function +
                                          " over " + to_string(domain) + ": expected " + std::to_string(domain.size()) +
                                          " extents of at least 1", {{"step", step.name}});
  } else {
    std::vector<Shape> chunks;
    for (const Value& input : step.inputs) chunks.push_back(draft.steps[input.step].chunks[input.output]);
    block = step.kernel->preferred_block(chunks);
  }
  const std::vector<bool> whole = step.kernel->whole_axes();
  for (std::size_t axis = 0; axis < block.size(); ++axis)
    if (whole[axis]) block[axis] = domain[axis];
  return clipped(std::move(block), domain);
}

std::string array_name(const PlannedStep& step, std::size_t output) {
  return step.kernel->outputs().size() == 1 ? step.name : step.name + "." + step.kernel->outputs()[output].name;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b, const std::string& name) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > (std::int64_t{1} << 53))
    throw Error(ErrorKind::invalid, "the bound of '" + name + "' is larger than 2^53 rows; state a smaller max_shape");
  return product;
}

// The result of pieces put together: bounded by what the blocks may yield in all, known once facts are there.
void settle_ragged(Draft& draft, PlannedStep& step, std::size_t k) {
  const OutputSpec& output = step.kernel->outputs()[k];
  const std::size_t axis = *output.ragged_axis;
  const std::string name = array_name(step, k);
  const Shape piece = step.kernel->output_extents(k, step.block);
  const Grid grid(step.kernel->domain(), step.block);
  ArraySpec spec = output.spec;
  std::int64_t most = checked_product(grid.size(), piece[axis], name);
  // A built-in function's own bound concerns the whole result; a foreign one's a call.
  if (!step.kernel->foreign()) most = std::min(most, spec.extents[axis].value);
  spec.extents[axis].value = most;
  if (spec.extents[axis].trust == Trust::exact) spec.extents[axis].trust = Trust::bound;
  Shape chunk = piece;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    if (d != axis) spec.extents[d].value = piece[d];
    chunk[d] = std::max<std::int64_t>(chunk[d], 1);
  }
  std::int64_t row = static_cast<std::int64_t>(output.spec.dtype.size);
  for (std::size_t d = 0; d < chunk.size(); ++d)
    if (d != axis) row *= chunk[d];
  chunk[axis] = std::min(chunk[axis], std::max<std::int64_t>(1, kLargestCompactChunk / std::max<std::int64_t>(row, 1)));
  if (const auto fact = draft.facts.shapes.find(name); fact != draft.facts.shapes.end())
    spec = ArraySpec(spec.dtype, fact->second);
  step.specs.push_back(std::move(spec));
  step.chunks.push_back(std::move(chunk));
}

}  // namespace

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
      const OutputSpec& output = step.kernel->outputs()[k];
      if (output.ragged_axis) {
        settle_ragged(draft, step, k);
        continue;
      }
      step.specs.push_back(output.spec);
      step.chunks.push_back(clipped(step.kernel->output_extents(k, step.block), output.spec.max_shape()));
    }
  }
}

}  // namespace cuboid::passes
