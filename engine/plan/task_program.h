// The central idea of Cuboid: a stage is a short straight-line list of steps over named buffers, and that one list is
// read twice. On sizes (project(), here) it gives the peak memory of a task before anything runs. On bytes (run_task(),
// in engine/run/task.h) it does the work, acquiring the same buffers from an account whose limit is that peak. There is
// no second formula to drift from the truth.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/expr/kernel.h"

namespace cuboid {

// One kernel in a task. The root's domain box is the task's block; a fused producer's is the box that its consumer's
// input needs. An op whose kernel is a reduction works in the kernel's domain (accumulate) or, where `merges`, in the
// index space of its partial results.
struct ProgramOp {
  std::shared_ptr<const Kernel> kernel;
  int consumer = -1;      // op that takes this op's output 0; -1: the root
  std::size_t input = 0;  // as which of its inputs
  bool merges = false;
};

// A buffer is the part of one operand of one op that the op's domain box calls for.
struct BufferDecl {
  enum class Operand : std::uint8_t { input, output, state };
  Operand operand = Operand::input;
  int op = 0;
  std::size_t index = 0;  // which input, output or state
  DType dtype;
  Shape extents;  // at most
  // Written by code that is not ours: kFence bytes before it and behind it show where that wrote beside it.
  bool fenced = false;

  static constexpr std::size_t kFence = 64;
  // What a buffer takes from the account for such extents, and where in it the elements begin.
  std::size_t bytes(const Shape& actual) const { return byte_count(actual, dtype) + 2 * begin(); }
  std::size_t begin() const { return fenced ? kFence : 0; }
};

struct Step {
  enum class What : std::uint8_t {
    acquire,      // buffer
    read,         // array -> buffer (acquired before)
    gather,       // pieces -> buffer: what the buffer's box meets of the pieces of a ragged array
    call,         // op's kernel, phase, in -> out
    write,        // buffer -> chunks of array
    write_piece,  // buffer, as trimmed by the call that filled it -> one object of a ragged array
    release,      // buffer
    merge,        // runs of ragged arrays (`in`, a column each), those of the blocks that the root's box says, in a
    // stream -> one run (`out`, likewise), by the op's kernel; and notes of it -> array, where there is one
    loop_begin,  // repeat up to the matching loop_end for each inner block of the task's block, in C order
    loop_end,
    move,     // array -> buffer (acquired before), to check; and each of its stored chunks as it is -> array `out`
    split,    // a merge gone back: its notes (array) and the rank of each row that it made (`in`; none: its own number)
              // -> the rank of each row of the runs that it merged (`out`)
    look_up,  // buffer: of each row of the block's run that it names -> the rank (array)
  };
  What what = What::acquire;
  int buffer = -1;
  int array = -1;  // index into Plan::arrays
  int op = -1;
  Phase phase = Phase::map;
  std::vector<int> in,
      out;  // buffers, by input and output of the op (-1: not there); of a merge, split or move: arrays
  // Of a call, by output: the array of pieces that takes its slabs while it runs (-1: there is none). Empty: none hands
  // slabs over.
  std::vector<int> slabs = {};
};

struct TaskProgram {
  std::vector<ProgramOp> ops;  // ops[0] is the root; a consumer comes before its producers
  std::vector<BufferDecl> buffers;
  std::vector<Step> steps;
  Shape loop_block;  // extents of inner blocks where the program loops, else empty
};

// The part of a whole operand that a buffer holds, given the root's domain box: the task's block, or the inner block
// inside a loop. `task_block_extents`: extents of an uncut task block (says which partial result a block is).
Box buffer_box(const TaskProgram& program, int buffer, const Box& root_box, const Shape& task_block_extents);
// The domain boxes of all ops at once, by op; and a buffer's box from them (what an executor uses: linear in ops).
std::vector<Box> op_boxes(const TaskProgram& program, const Box& root_box);
Box buffer_box(const TaskProgram& program, int buffer, const std::vector<Box>& op_boxes,
               const Shape& task_block_extents);

// What one step takes from storage beside its buffer; supplied by the plan, which knows the arrays.
class IoMemory {
 public:
  virtual ~IoMemory() = default;
  virtual std::uint64_t read(int array, const BufferDecl& buffer) const = 0;
  virtual std::uint64_t gather(int array, const BufferDecl& buffer) const = 0;
  virtual std::uint64_t write(int array, const BufferDecl& buffer) const = 0;
  virtual std::uint64_t write_piece(int array, const BufferDecl& buffer) const = 0;
  // All that a merge or split of so many runs holds.
  virtual std::uint64_t runs(const Step& step, std::int64_t runs) const = 0;
  virtual std::uint64_t look_up(int array, const BufferDecl& buffer) const = 0;
};

// The program read on sizes. Bytes, in the pool's size classes.
struct Projection {
  std::uint64_t peak = 0;         // with the declared uncertain bytes: projected(task)
  std::uint64_t sure = 0;         // what the task takes with no uncertain bytes at all
  std::uint64_t around_call = 0;  // sure bytes at the uncertain call: peak = max(sure, around_call + uncertain)
  std::uint64_t uncertain = 0;    // declared by the estimate that escalation may raise
  std::uint64_t outside = 0;      // of a call, bypassing host services
  bool unknown = false;

  // The projection with other uncertain bytes.
  std::uint64_t with_uncertain(std::uint64_t bytes) const { return std::max(sure, around_call + bytes); }
};
// What a task holds at the moment of its peak, in the order of acquisition; the bytes add up to the peak.
struct Held {
  enum class What : std::uint8_t {
    buffer,     // of the program
    io,         // what a step of storage takes beside it: decoding, encoding, all that a merge or split holds
    call,       // what a call takes beside its inputs and outputs
    uncertain,  // the same, estimated
  };
  What what = What::buffer;
  int index = -1;  // of the buffer, or of the step
  std::uint64_t bytes = 0;
};
Projection project(const TaskProgram& program, const Shape& block, const IoMemory& io,
                   std::vector<Held>* at_peak = nullptr);

}  // namespace cuboid
