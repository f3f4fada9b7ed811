// What the stages take: the task programs read on sizes, how many tasks at once, bytes moved, disk, and whether it
// fits.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/plan/passes.h"
#include "engine/plan/piece.h"

namespace cuboid::passes {

namespace {

// True where every whole chunk of a C-contiguous buffer is one run of its memory, so that none is staged to be written:
// behind the first axis along which a chunk extends, the buffer is as wide as the chunk.
bool chunks_are_runs(const Shape& buffer, const Shape& chunk) {
  std::size_t axis = 0;
  while (axis < chunk.size() && chunk[axis] == 1) ++axis;
  for (++axis; axis < chunk.size(); ++axis)
    if (buffer[axis] != chunk[axis]) return false;
  return true;
}

}  // namespace

std::uint64_t PlanIo::read(int array, const BufferDecl& buffer) const {
  const ZarrArray& from = *plan_.arrays[array].zarr;
  return from.read_memory(buffer.extents, begins_at_borders(buffer, from.shape(), from.metadata().chunks));
}

// Where every op on the way passes its own block on, the boxes read are the blocks (and inner blocks) themselves.
bool PlanIo::begins_at_borders(const BufferDecl& buffer, const Shape& shape, const Shape& chunks) const {
  if (!program_ || shape.size() != block_.size()) return false;
  const ProgramOp* op = &program_->ops[buffer.op];
  if (!op->merges && !op->kernel->input_is_block(buffer.index)) return false;
  for (; op->consumer >= 0; op = &program_->ops[op->consumer])
    if (!program_->ops[op->consumer].kernel->input_is_block(op->input)) return false;
  for (const Shape* extents : {&block_, &program_->loop_block})
    for (std::size_t axis = 0; axis < extents->size(); ++axis)
      if ((*extents)[axis] % chunks[axis] != 0 && (*extents)[axis] < shape[axis]) return false;
  return true;
}

std::uint64_t PlanIo::gather(int array, const BufferDecl& buffer) const {
  const Shape& piece = plan_.arrays[array].chunks;
  return class_bytes(byte_count(piece, buffer.dtype)) + piece_read_memory(piece, buffer.dtype);
}

std::uint64_t PlanIo::write(int array, const BufferDecl& buffer) const {
  const ZarrArray& zarr = *plan_.arrays[array].zarr;
  return zarr.write_memory(chunks_are_runs(buffer.extents, zarr.metadata().write_chunks()));
}

std::uint64_t PlanIo::write_piece(int, const BufferDecl& buffer) const {
  return piece_write_memory(buffer.extents, buffer.dtype);
}

std::uint64_t PlanIo::merge(const Step& step, std::int64_t runs) const {
  std::uint64_t held = 0, beside = 0;
  for (const auto* side : {&step.in, &step.out})
    for (int index : *side) {
      const PlanArray& array = plan_.arrays[index];
      const std::uint64_t object = class_bytes(byte_count(array.chunks, array.spec.dtype));
      held += object * static_cast<std::uint64_t>(side == &step.in ? runs : 1);
      beside = std::max<std::uint64_t>({beside, piece_read_memory(array.chunks, array.spec.dtype),
                                        piece_write_memory(array.chunks, array.spec.dtype)});
    }
  return held + beside;
}

// Each extent of the box varies with the block's index along few axes, so the sum is the product of sums along single
// axes.
double total_bytes(const Grid& grid, DType dtype, const std::function<Box(const Box&)>& box_of) {
  if (grid.size() == 0) return 0;
  const Shape first(grid.counts().size(), 0);
  const auto volume = [&](const Shape& index) {
    return static_cast<double>(element_count(box_of(grid.box(index)).shape));
  };
  // A block away from borders, so that no extent is zero where others are not.
  Shape middle = first;
  for (std::size_t axis = 0; axis < middle.size(); ++axis) middle[axis] = (grid.counts()[axis] - 1) / 2;
  const double base = volume(middle);
  if (base == 0) return 0;
  double total = base;
  for (std::size_t axis = 0; axis < middle.size(); ++axis) {
    const std::int64_t count = grid.counts()[axis];
    Shape index = middle;
    double sum = 0;
    // Beyond the first and last few, blocks are alike.
    constexpr std::int64_t kEdge = 64;
    for (std::int64_t n = 0; n < count; ++n) {
      if (n == kEdge && count > 2 * kEdge) {
        index[axis] = middle[axis];
        sum += volume(index) * static_cast<double>(count - 2 * kEdge);
        n = count - kEdge;
      }
      index[axis] = n;
      sum += volume(index);
    }
    total *= sum / base;
  }
  return std::round(total) * dtype.size;
}

namespace {

constexpr std::uint64_t kMiB = 1u << 20;

Confidence confidence_of(const Plan& plan, const Stage& stage) {
  const Projection& p = stage.projection;
  if (p.uncertain > 0 || p.unknown || p.outside > 0) return Confidence::unsafe;
  bool bounded = false;
  const auto look = [&](const ArraySpec& spec) {
    for (const Extent& extent : spec.extents) bounded |= extent.trust != Trust::exact;
  };
  for (const ProgramOp& op : stage.program.ops) {
    const KernelSpec& spec = op.kernel->spec();
    if (spec.extra_memory) return Confidence::unsafe;
    if (stage.compacts) continue;
    for (const OutputSpec& output : op.kernel->outputs()) {
      if (output.ragged_axis && output.spec.extents[*output.ragged_axis].trust == Trust::guess)
        return Confidence::unsafe;
      look(output.spec);
    }
  }
  for (int array : stage.outputs) look(plan.arrays[array].spec);
  return bounded ? Confidence::bounded : Confidence::exact;
}

// Rests on an extent that somebody guessed, upstream or here.
bool guessed(const ArraySpec& spec) {
  return std::any_of(spec.extents.begin(), spec.extents.end(), [](const Extent& e) { return e.trust == Trust::guess; });
}

double bound_bytes(const PlanArray& array) {
  return static_cast<double>(byte_count(array.spec.max_shape(), array.spec.dtype));
}

void count_bytes(const Plan& plan, Stage& stage) {
  double read = 0, written = 0;
  const Shape& task_block = stage.grid.block();
  const auto box_of = [&](int buffer) {
    return [&, buffer](const Box& block) { return buffer_box(stage.program, buffer, block, task_block); };
  };
  for (const Step& step : stage.program.steps) {
    if (step.what == Step::What::merge) {
      for (int array : step.in) read += bound_bytes(plan.arrays[array]);
      for (int array : step.out) written += bound_bytes(plan.arrays[array]);
      continue;
    }
    const DType dtype = step.buffer < 0 ? kBool : stage.program.buffers[step.buffer].dtype;
    // A loop's inner boxes tile the task's block, so the box of the whole block counts the same elements.
    if (step.what == Step::What::read || step.what == Step::What::gather)
      read += total_bytes(stage.grid, dtype, box_of(step.buffer));
    else if (step.what == Step::What::write || step.what == Step::What::write_piece)
      written += total_bytes(stage.grid, dtype, box_of(step.buffer));
  }
  stage.numbers.bytes_read = static_cast<std::uint64_t>(read);
  stage.numbers.bytes_written = static_cast<std::uint64_t>(written);
}

std::uint64_t cap_of(const Plan& plan, const Baselines& baselines, const Stage& stage) {
  const std::uint64_t base = smallest_budget(baselines, 0, stage.isolated);
  const std::uint64_t most = plan.options.budget > base ? plan.options.budget - base : 0;
  return std::min(most, stage.options.on_exceed.max_task_memory.value_or(most));
}

void project_stage(const Draft& draft, Stage& stage) {
  const Plan& plan = draft.plan;
  stage.projection = project(stage.program, stage.grid.block(), PlanIo(plan, stage.program, stage.grid.block()));
  Projection& p = stage.projection;
  // Nobody knows what the call takes: it is given all that one task may have, alone.
  const std::uint64_t cap = cap_of(plan, draft.baselines, stage);
  if (p.unknown) p.uncertain = cap > p.around_call ? cap - p.around_call : 0, p.peak = p.with_uncertain(p.uncertain);
  stage.numbers.tasks = stage.grid.size();
  stage.numbers.projected = p.peak;
  stage.numbers.concurrency = p.unknown ? 1
                                        : std::max(1, tasks_at_once(plan.options.budget, draft.baselines, p.peak,
                                                                    stage.isolated, plan.options.workers));
  stage.confidence = confidence_of(plan, stage);
  for (int array : stage.inputs) stage.approximate |= guessed(plan.arrays[array].spec);
  count_bytes(plan, stage);
}

// Blocks that would fit: halves the longest axis of a step's block until its own stage does.
std::optional<Shape> fitting_block(const Draft& draft, const Stage& stage) {
  for (std::size_t k = 0; k < draft.steps.size(); ++k) {
    const PlannedStep& step = draft.steps[k];
    if (step.name != stage.name || !step.kernel || step.kernel->reduction() || step.kernel->identity_map()) continue;
    ProgramRequest request{.root = static_cast<int>(k), .block = step.block};
    for (std::size_t output = 0; output < step.kernel->outputs().size(); ++output) {
      const auto stored = std::find_if(stage.outputs.begin(), stage.outputs.end(), [&](int array) {
        const std::string& name = draft.plan.arrays[array].name;
        return name == step.value_name(output) || name == step.value_name(output) + ".pieces";
      });
      request.targets.push_back(stored == stage.outputs.end() ? -1 : *stored);
    }
    const std::vector<bool> whole = step.kernel->whole_axes();
    for (;;) {
      std::size_t longest = request.block.size();
      for (std::size_t axis = 0; axis < request.block.size(); ++axis)
        if (!whole[axis] && request.block[axis] > 1 &&
            (longest == request.block.size() || request.block[axis] > request.block[longest]))
          longest = axis;
      if (longest == request.block.size()) return std::nullopt;
      request.block[longest] = (request.block[longest] + 1) / 2;
      // Chunks of the result shrink with the block; the memory of writing them is bounded by that of today's.
      const TaskProgram program = build_program(draft, request);
      const Projection p = project(program, request.block, PlanIo(draft.plan, program, request.block));
      if (tasks_at_once(draft.plan.options.budget, draft.baselines, p.peak, stage.isolated, 1) > 0)
        return request.block;
    }
  }
  return std::nullopt;
}

std::string list(const Shape& shape) {
  std::string text = "[";
  for (std::size_t k = 0; k < shape.size(); ++k) text += (k ? ", " : "") + std::to_string(shape[k]);
  return text + "]";
}

void refuse_memory(Draft& draft) {
  Plan& plan = draft.plan;
  const Stage* worst = nullptr;
  std::uint64_t most = 0;
  for (const Stage& stage : plan.stages) {
    const std::uint64_t needs = smallest_budget(draft.baselines, stage.numbers.projected, stage.isolated);
    if (needs > plan.options.budget && needs > most) worst = &stage, most = needs;
  }
  if (!worst) return;
  Refusal refusal{"memory", worst->name, worst->numbers.projected, plan.options.budget, ""};
  const std::string memory = "--memory " + std::to_string((most + kMiB - 1) / kMiB) + "MiB";
  const auto block = fitting_block(draft, *worst);
  refusal.hint = block ? "give step '" + worst->name + "' chunks: " + list(*block) + ", or run with " + memory
                       : "run with " + memory;
  plan.refused = std::move(refusal);
}

// The largest sum of what is on disk at once if stages run one after another; decoded bytes, bounds where extents are.
void count_disk(Plan& plan) {
  std::vector<int> last_use(plan.arrays.size(), -1);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (int array : plan.stages[s].inputs) last_use[array] = static_cast<int>(s);
  const auto bytes = [&](int array) {
    return static_cast<std::uint64_t>(byte_count(plan.arrays[array].spec.max_shape(), plan.arrays[array].spec.dtype));
  };
  std::uint64_t now = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (int array : plan.stages[s].outputs) now += bytes(array);
    plan.disk_peak = std::max(plan.disk_peak, now);
    if (plan.options.keep) continue;
    for (int array : plan.stages[s].inputs) {
      const auto role = plan.arrays[array].role;
      if (last_use[array] == static_cast<int>(s) &&
          (role == PlanArray::Role::intermediate || role == PlanArray::Role::pieces))
        now -= bytes(array);
    }
  }
}

void refuse_disk(Plan& plan) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(plan.options.run_dir, error);
  while (!folder.empty() && !std::filesystem::exists(folder, error) && folder != folder.parent_path())
    folder = folder.parent_path();
  const auto space = std::filesystem::space(folder, error);
  if (error || plan.disk_peak <= space.available) return;
  plan.refused =
      Refusal{"disk", std::nullopt, plan.disk_peak, space.available,
              "the plan holds up to " + format_size(plan.disk_peak) + " on disk; " + folder.string() + " has " +
                  format_size(space.available) + " free: use another --run-dir, or state smaller bounds (max_shape)"};
}

}  // namespace

void project_all(Draft& draft) {
  Plan& plan = draft.plan;
  for (Stage& stage : plan.stages) {
    project_stage(draft, stage);
    plan.bytes_read += stage.numbers.bytes_read;
    plan.bytes_written += stage.numbers.bytes_written;
    plan.tasks += stage.numbers.tasks;
  }
  count_disk(plan);
  refuse_memory(draft);
  if (!plan.refused) refuse_disk(plan);
}

}  // namespace cuboid::passes
