// Tasks over several chunks, where blocks overlap in what they read: a halo's chunks are decoded less often. Needs a
// function whose results do not depend on how its domain is cut, so neither bytes nor chunks of the result change.
#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {

constexpr double kMostDecodes = 1.25;      // how often each element of the inputs is decoded: fewer is not worth memory
constexpr double kLeastGain = 0.95;        // of the reads, or a task of twice the memory is not worth it
constexpr std::int64_t kFewestTasks = 16;  // so that a run has parts to share out and to keep
constexpr int kTasksPerWorker = 4;
// A widened task takes at most a share of the budget that leaves room for so many: a run that goes on with half the
// memory still fits.
constexpr int kLeastShares = 4;

bool estimated(const Projection& p) { return p.uncertain > 0 || p.unknown; }

// Whether what a block reads into a buffer overlaps with what its neighbours do.
bool has_halo(const TaskProgram& program, int buffer) {
  const ProgramOp* op = &program.ops[program.buffers[buffer].op];
  std::size_t input = program.buffers[buffer].index;
  for (; op->kernel->input_is_block(input); op = &program.ops[op->consumer]) {
    if (op->consumer < 0) return false;
    input = op->input;
  }
  return true;
}

// What storage decodes to read a box: whole chunks, but along the first axis only what is wanted where that can be.
Box decoded(const ZarrArray& array, Box box) {
  const Shape& chunks = array.metadata().chunks;
  for (std::size_t axis = 0; axis < chunks.size(); ++axis) {
    if (axis == 0 && array.reads_ranges()) continue;
    const std::int64_t end =
        std::min(array.shape()[axis], (box.end(axis) + chunks[axis] - 1) / chunks[axis] * chunks[axis]);
    box.origin[axis] -= box.origin[axis] % chunks[axis];
    box.shape[axis] = end - box.origin[axis];
  }
  return box;
}

// Of the axes that may be widened, doubles the one that saves most decoding until that is little enough.
class Widening {
 public:
  Widening(const Draft& draft, const Stage& stage, const ProgramRequest& request)
      : draft_(draft), stage_(stage), request_(request) {}

  std::optional<ProgramRequest> widened() const {
    ProgramRequest best = request_;
    std::vector<bool> open = draft_.steps[request_.root].kernel->splittable_axes();
    double now = times_decoded(stage_.program, stage_.grid.block());
    while (now > kMostDecodes) {
      std::size_t axis = open.size();
      double least = now;
      for (std::size_t d = 0; d < open.size(); ++d) {
        if (!open[d]) continue;
        const Shape block = doubled(best.block, d);
        const double then = block == best.block || !fits(block) ? now : times_decoded(program_of(block), block);
        open[d] = then < kLeastGain * now;
        if (open[d] && then < least) axis = d, least = then;
      }
      if (axis == open.size()) break;
      best.block = doubled(best.block, axis);
      now = least;
    }
    if (best.block == request_.block) return std::nullopt;
    return best;
  }

 private:
  Shape doubled(Shape block, std::size_t axis) const {
    block[axis] = std::min(2 * block[axis], stage_.grid.shape()[axis]);
    return block;
  }
  TaskProgram program_of(const Shape& block) const {
    ProgramRequest request = request_;
    request.block = block;
    return build_program(draft_, request);
  }

  bool fits(const Shape& block) const {
    const PlanOptions& options = draft_.plan.options;
    const std::int64_t tasks = Grid(stage_.grid.shape(), block).size();
    if (tasks < kFewestTasks || tasks < static_cast<std::int64_t>(options.workers) * kTasksPerWorker) return false;
    const TaskProgram program = program_of(block);
    const Projection p = project(program, block, PlanIo(draft_.plan, program, block));
    const int shares = std::max(options.workers, kLeastShares);
    return tasks_at_once(options.budget, draft_.plan.baselines, p.peak, stage_.isolated, shares) == shares;
  }

  double times_decoded(const TaskProgram& program, const Shape& block) const {
    const Grid grid(stage_.grid.shape(), block);
    double bytes = 0, once = 0;
    for (const Step& step : program.steps) {
      if (step.what != Step::What::read || !has_halo(program, step.buffer)) continue;
      const PlanArray& from = draft_.plan.arrays[step.array];
      const DType dtype = from.spec.dtype;
      bytes += total_bytes(grid, dtype, [&](const Box& box) {
        return decoded(*from.zarr, buffer_box(program, step.buffer, box, block));
      });
      once += static_cast<double>(byte_count(from.spec.max_shape(), dtype));
    }
    return once > 0 ? bytes / once : 1;
  }

  const Draft& draft_;
  const Stage& stage_;
  const ProgramRequest& request_;
};

}  // namespace

void widen(const Draft& draft, Stage& stage, const ProgramRequest& request) {
  const Kernel& kernel = *draft.steps[request.root].kernel;
  const std::vector<bool> splittable = kernel.splittable_axes();
  if (stage.options.chunks || std::find(splittable.begin(), splittable.end(), true) == splittable.end()) return;
  const auto& outputs = kernel.outputs();
  if (std::any_of(outputs.begin(), outputs.end(), [](const OutputSpec& output) { return output.ragged_axis; })) return;
  const auto use = [&](const ProgramRequest& chosen) {
    stage.program = build_program(draft, chosen);
    stage.grid = Grid(stage.grid.shape(), chosen.block);
  };
  // A run directory keeps the blocks that its first plan chose.
  const Plan* earlier = draft.request->earlier.get();
  if (const int before = earlier ? earlier->stage_index(stage.name) : -1; before >= 0) {
    ProgramRequest same = request;
    same.block = earlier->stages[before].grid.block();
    if (same.block.size() != request.block.size()) return;
    for (std::size_t axis = 0; axis < same.block.size(); ++axis)
      if (same.block[axis] % request.block[axis] != 0 && same.block[axis] < stage.grid.shape()[axis]) return;
    return use(same);
  }
  const Shape& block = stage.grid.block();
  if (estimated(project(stage.program, block, PlanIo(draft.plan, stage.program, block)))) return;
  if (const auto wider = Widening(draft, stage, request).widened()) use(*wider);
}

}  // namespace cuboid::passes
