// What the stages take: the task programs read on sizes, how many tasks at once, bytes moved, disk, and whether it
// fits.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>

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

namespace {

// For each axis of an input of a reduction the axis of the domain that it runs along, as its boxes show; nothing where
// it runs along none.
std::vector<std::optional<std::size_t>> axes_of_input(const Kernel& kernel, std::size_t input, const Shape& block) {
  const Box first = kernel.input_box(input, Box::whole(block));
  std::vector<std::optional<std::size_t>> axes(first.origin.size());
  for (std::size_t axis = 0; axis < block.size(); ++axis) {
    Box next = Box::whole(block);
    next.origin[axis] = block[axis];
    const Box moved = kernel.input_box(input, next);
    for (std::size_t k = 0; k < axes.size(); ++k)
      if (moved.origin[k] != first.origin[k]) axes[k] = axis;
  }
  return axes;
}

bool at_borders(std::int64_t extent, std::int64_t chunk, std::int64_t whole) {
  return extent % chunk == 0 || extent >= whole;
}

}  // namespace

// Where every op on the way passes its own block on, the boxes read are the blocks (and inner blocks) themselves. A
// reduction may have a domain of more axes than its input.
bool PlanIo::begins_at_borders(const BufferDecl& buffer, const Shape& shape, const Shape& chunks) const {
  if (!program_) return false;
  const ProgramOp* op = &program_->ops[buffer.op];
  std::vector<std::optional<std::size_t>> axes;
  const Shape& smallest = program_->loop_block.empty() ? block_ : program_->loop_block;
  if (op->merges || op->kernel->input_is_block(buffer.index)) {
    if (shape.size() != block_.size()) return false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) axes.emplace_back(axis);
  } else if (op->consumer < 0 && op->kernel->reduction()) {
    axes = axes_of_input(*op->kernel, buffer.index, smallest);
  } else {
    return false;
  }
  for (; op->consumer >= 0; op = &program_->ops[op->consumer])
    if (!program_->ops[op->consumer].kernel->input_is_block(op->input)) return false;
  for (const Shape* extents : {&block_, &program_->loop_block})
    for (std::size_t axis = 0; axis < axes.size() && !extents->empty(); ++axis)
      if (axes[axis] && !at_borders((*extents)[*axes[axis]], chunks[axis], shape[axis])) return false;
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

// A merge holds an object of each run that it reads, a split of each that it writes; of all else one.
std::uint64_t PlanIo::runs(const Step& step, std::int64_t runs) const {
  std::uint64_t held = 0, beside = 0;
  const auto hold = [&](int index, std::int64_t objects) {
    const PlanArray& array = plan_.arrays[index];
    held += class_bytes(byte_count(array.chunks, array.spec.dtype)) * static_cast<std::uint64_t>(objects);
    beside = std::max<std::uint64_t>({beside, piece_read_memory(array.chunks, array.spec.dtype),
                                      piece_write_memory(array.chunks, array.spec.dtype)});
  };
  for (int index : step.in) hold(index, step.what == Step::What::merge ? runs : 1);
  for (int index : step.out) hold(index, step.what == Step::What::split ? runs : 1);
  if (step.array >= 0) hold(step.array, 1);
  return held + beside;
}

std::uint64_t PlanIo::look_up(int array, const BufferDecl& buffer) const {
  const PlanArray& ranks = plan_.arrays[array];
  return class_bytes(byte_count(buffer.extents, ranks.spec.dtype)) + piece_read_memory(ranks.chunks, ranks.spec.dtype);
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
    if (step.what == Step::What::merge || step.what == Step::What::split) {
      for (int array : step.in) read += bound_bytes(plan.arrays[array]);
      for (int array : step.out) written += bound_bytes(plan.arrays[array]);
      if (step.array >= 0) (step.what == Step::What::split ? read : written) += bound_bytes(plan.arrays[step.array]);
      continue;
    }
    if (step.what == Step::What::look_up) read += bound_bytes(plan.arrays[step.array]);
    const DType dtype = step.buffer < 0 ? kBool : stage.program.buffers[step.buffer].dtype;
    // A loop's inner boxes tile the task's block, so the box of the whole block counts the same elements.
    const bool moves = step.what == Step::What::move;
    if (step.what == Step::What::read || step.what == Step::What::gather || moves)
      read += total_bytes(stage.grid, dtype, box_of(step.buffer));
    if (step.what == Step::What::write || moves)
      written += total_bytes(stage.grid, dtype, box_of(step.buffer));
    else if (step.what == Step::What::write_piece)  // all of it, of which the buffer may hold a slab
      written += total_bytes(stage.grid, dtype, [&](const Box& block) {
        const BufferDecl& piece = stage.program.buffers[step.buffer];
        return Box::whole(stage.program.ops[piece.op].kernel->output_extents(piece.index, block.shape));
      });
  }
  stage.numbers.bytes_read = static_cast<std::uint64_t>(read);
  stage.numbers.bytes_written = static_cast<std::uint64_t>(written);
}

std::uint64_t cap_of(const Plan& plan, const Stage& stage) {
  const std::uint64_t base = smallest_budget(plan.baselines, 0, stage.isolated);
  const std::uint64_t most = plan.options.budget > base ? plan.options.budget - base : 0;
  return std::min(most, stage.options.on_exceed.max_task_memory.value_or(most));
}

void project_stage(const Draft& draft, Stage& stage) {
  const Plan& plan = draft.plan;
  stage.projection = project(stage.program, stage.grid.block(), PlanIo(plan, stage.program, stage.grid.block()));
  Projection& p = stage.projection;
  // Nobody knows what the call takes: it is given all that one task may have, alone.
  const std::uint64_t cap = cap_of(plan, stage);
  if (p.unknown) p.uncertain = cap > p.around_call ? cap - p.around_call : 0, p.peak = p.with_uncertain(p.uncertain);
  stage.numbers.tasks = stage.grid.size();
  stage.numbers.projected = p.peak;
  stage.numbers.concurrency = p.unknown ? 1
                                        : std::max(1, tasks_at_once(plan.options.budget, plan.baselines, p.peak,
                                                                    stage.isolated, plan.options.workers));
  stage.confidence = confidence_of(plan, stage);
  for (int array : stage.inputs) stage.approximate |= guessed(plan.arrays[array].spec);
  count_bytes(plan, stage);
}

// A step's stage with other blocks: the program, and the block of a task.
struct Retried {
  TaskProgram program;
  Shape block;
};

// Memory of storage steps where blocks, and with them the chunks that they write, are smaller than planned.
class SmallerIo final : public IoMemory {
 public:
  SmallerIo(const Plan& plan, const Retried& again) : plan_(plan), io_(plan, again.program, again.block) {}
  std::uint64_t read(int array, const BufferDecl& buffer) const override { return io_.read(array, buffer); }
  std::uint64_t gather(int array, const BufferDecl& buffer) const override { return io_.gather(array, buffer); }
  std::uint64_t write(int array, const BufferDecl& buffer) const override {
    const PlanArray& to = plan_.arrays[array];
    ArrayMetadata metadata = to.zarr->metadata();
    if (metadata.shards || metadata.chunks.size() != buffer.extents.size()) return io_.write(array, buffer);
    for (std::size_t axis = 0; axis < metadata.chunks.size(); ++axis)
      metadata.chunks[axis] = std::max<std::int64_t>(1, std::min(metadata.chunks[axis], buffer.extents[axis]));
    const bool runs = chunks_are_runs(buffer.extents, metadata.chunks);
    return ZarrArray::prepare(open_store(to.location), "", std::move(metadata)).write_memory(runs);
  }
  std::uint64_t write_piece(int array, const BufferDecl& buffer) const override {
    return io_.write_piece(array, buffer);
  }
  std::uint64_t runs(const Step& step, std::int64_t runs) const override { return io_.runs(step, runs); }
  std::uint64_t look_up(int array, const BufferDecl& buffer) const override { return io_.look_up(array, buffer); }

 private:
  const Plan& plan_;
  PlanIo io_;
};

// The arrays that a stage writes, per output of its step (or per partial result): -1 where it writes none.
std::vector<int> targets_of(const Draft& draft, const PlannedStep& step, const Stage& stage) {
  std::vector<int> targets;
  for (std::size_t output = 0; output < step.kernel->outputs().size(); ++output) {
    const std::string value = step.value_name(output);
    const auto stored = std::find_if(stage.outputs.begin(), stage.outputs.end(), [&](int array) {
      const std::string& name = draft.plan.arrays[array].name;
      return name == value || name == value + ".pieces" || name == value + ".runs" || name == value + ".places";
    });
    targets.push_back(stored == stage.outputs.end() ? -1 : *stored);
  }
  return targets;
}

Retried retry_with(const Draft& draft, int index, const Stage& stage, const Shape& block) {
  const PlannedStep& step = draft.steps[index];
  ProgramRequest request{.root = index, .block = block};
  if (const ReductionForm* form = step.kernel->reduction()) {
    Shape domain = step.kernel->domain();
    for (std::size_t axis : form->axes) domain[axis] = std::max<std::int64_t>(domain[axis], 1);
    const Shape group = reduction_group(Grid(domain, block).counts(), form->axes, true);
    request.loop_block = block;
    for (std::size_t axis : form->axes) request.block[axis] *= group[axis];
    request.partial = stage.name != step.name;
    request.targets = request.partial ? stage.outputs : targets_of(draft, step, stage);
  } else {
    request.targets = targets_of(draft, step, stage);
  }
  return {build_program(draft, request), request.block};
}

// The step whose blocks are a stage's tasks: its own, or the first level of a reduction.
int step_of(const Draft& draft, const Stage& stage) {
  if (stage.program.ops[0].merges) return -1;
  for (std::size_t k = 0; k < draft.steps.size(); ++k) {
    const PlannedStep& step = draft.steps[k];
    if (!step.kernel || step.kernel->identity_map() || !step.part_of.empty()) continue;
    if (step.name == stage.name || (step.kernel->reduction() && stage.name == step.name + ".partial"))
      return static_cast<int>(k);
  }
  return -1;
}

// Blocks with which a task of the stage takes at most `bytes`: halves the longest axis until it does.
std::optional<Shape> fitting_block(const Draft& draft, const Stage& stage, std::uint64_t bytes, std::uint64_t& takes) {
  const int index = step_of(draft, stage);
  if (index < 0) return std::nullopt;
  const PlannedStep& step = draft.steps[index];
  const std::vector<bool> whole = step.kernel->whole_axes();
  for (Shape block = step.block;;) {
    std::size_t longest = block.size();
    for (std::size_t axis = 0; axis < block.size(); ++axis)
      if (!whole[axis] && block[axis] > 1 && (longest == block.size() || block[axis] > block[longest])) longest = axis;
    if (longest == block.size()) return std::nullopt;
    block[longest] = (block[longest] + 1) / 2;
    const Retried again = retry_with(draft, index, stage, block);
    takes = project(again.program, again.block, SmallerIo(draft.plan, again)).peak;
    if (takes <= bytes) return block;
  }
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
    const std::uint64_t needs = smallest_budget(plan.baselines, stage.numbers.projected, stage.isolated);
    if (needs > plan.options.budget && needs > most) worst = &stage, most = needs;
  }
  if (!worst) return;
  Refusal refusal{"memory", worst->name, worst->numbers.projected, plan.options.budget, ""};
  const std::string memory = "--memory " + std::to_string((most + kMiB - 1) / kMiB) + "MiB";
  const std::uint64_t base = smallest_budget(plan.baselines, 0, worst->isolated);
  std::uint64_t takes = 0;
  const auto block =
      plan.options.budget > base ? fitting_block(draft, *worst, plan.options.budget - base, takes) : std::nullopt;
  refusal.hint = block ? "give step '" + worst->name + "' chunks: " + list(*block) + ", or run with " + memory
                       : "run with " + memory;
  plan.refused = std::move(refusal);
}

// Which stage decides how small the budget may be, and with what blocks it would take at most two thirds.
void find_deciding(Draft& draft) {
  Plan& plan = draft.plan;
  const Stage* worst = nullptr;
  std::uint64_t most = 0;
  for (const Stage& stage : plan.stages) {
    const std::uint64_t needs = smallest_budget(plan.baselines, stage.numbers.projected, stage.isolated);
    if (stage.numbers.tasks > 0 && needs > most) worst = &stage, most = needs;
  }
  if (!worst) return;
  plan.deciding = Deciding{worst->name, most};
  if (worst->projection.unknown) return;
  std::uint64_t takes = 0;
  if (const auto block = fitting_block(draft, *worst, worst->numbers.projected / 3 * 2, takes)) {
    plan.deciding->chunks = *block;
    plan.deciding->step = draft.steps[step_of(draft, *worst)].name;
    plan.deciding->budget_then = smallest_budget(plan.baselines, takes, worst->isolated);
  }
}

// The largest sum of what is on disk at once if stages run one after another, of the arrays that count; decoded bytes,
// bounds where extents are.
std::uint64_t peak_on_disk(const Plan& plan, const std::function<bool(int array)>& counts) {
  std::vector<int> last_use(plan.arrays.size(), -1);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (int array : plan.stages[s].inputs) last_use[array] = static_cast<int>(s);
  const auto bytes = [&](int array) {
    if (!counts(array)) return std::uint64_t{0};
    return static_cast<std::uint64_t>(byte_count(plan.arrays[array].spec.max_shape(), plan.arrays[array].spec.dtype));
  };
  std::uint64_t now = 0, peak = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (int array : plan.stages[s].outputs) now += bytes(array);
    peak = std::max(peak, now);
    if (plan.options.keep) continue;
    for (int array : plan.stages[s].inputs) {
      const auto role = plan.arrays[array].role;
      if (last_use[array] == static_cast<int>(s) &&
          (role == PlanArray::Role::intermediate || role == PlanArray::Role::pieces))
        now -= bytes(array);
    }
  }
  return peak;
}

// The nearest folder that exists, of a place on this machine, and its file system; nullopt: elsewhere.
struct Disk {
  std::filesystem::path folder;
  dev_t device = 0;
};
std::optional<Disk> disk_of(const std::string& location) {
  if (location.find("://") != std::string::npos) return std::nullopt;
  std::error_code error;
  Disk disk{std::filesystem::absolute(location, error)};
  struct stat info {};
  while (::stat(disk.folder.c_str(), &info) != 0) {
    if (disk.folder == disk.folder.parent_path()) return std::nullopt;
    disk.folder = disk.folder.parent_path();
  }
  disk.device = info.st_dev;
  return disk;
}

std::uint64_t bytes_below(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    struct stat info {};
    if (::lstat(entry->path().c_str(), &info) == 0) bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

// Each array on the file system that it is written to. What an earlier run stored there is no further need: it is kept
// or replaced; looked for only where the run would be refused otherwise.
void refuse_disk(Plan& plan) {
  std::map<int, Disk> disks;  // by array
  for (const Stage& stage : plan.stages)
    for (const int array : stage.outputs)
      if (const auto disk = disk_of(plan.arrays[array].location)) disks.emplace(array, *disk);
  std::set<dev_t> seen;
  for (const auto& [first, disk] : disks) {
    if (!seen.insert(disk.device).second) continue;
    const auto counts = [&, device = disk.device](int array) {
      const auto found = disks.find(array);
      return found != disks.end() && found->second.device == device;
    };
    std::error_code error;
    const auto space = std::filesystem::space(disk.folder, error);
    const std::uint64_t needed = peak_on_disk(plan, counts);
    if (error || needed <= space.available) continue;
    std::uint64_t stored = 0;
    for (const auto& [array, other] : disks)
      if (counts(array)) stored += bytes_below(plan.arrays[array].location);
    const std::uint64_t free = space.available + stored;
    if (needed <= free) continue;
    plan.refused = Refusal{"disk", std::nullopt, needed, free,
                           "the plan holds up to " + format_size(needed) + " on the disk of " + disk.folder.string() +
                               ", which has " + format_size(free) +
                               " for it: use other paths or another --run-dir, or state smaller bounds (max_shape)"};
    return;
  }
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
  plan.disk_peak = peak_on_disk(plan, [](int) { return true; });
  find_deciding(draft);
  refuse_memory(draft);
  if (!plan.refused) refuse_disk(plan);
}

}  // namespace cuboid::passes
