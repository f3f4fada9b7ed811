// The task program read on bytes: the executor's half of the central idea (the planner's half is project()). Every step
// takes what it needs from the account, so a projection that was wrong is an error here, not a statistic.
#include "engine/run/task.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>
#include <set>
#include <span>
#include <utility>

#include "engine/plan/piece.h"
#include "engine/run/executor.h"
#include "engine/run/sorted_runs.h"
#include "engine/run/split.h"
#include "storage/crc32c.h"
#include "storage/error.h"

namespace cuboid {
namespace {

constexpr std::byte kFenceByte{0xC5};

Error internal_error(const std::string& what) {
  return Error(ErrorKind::invalid, "internal error: " + what + ": please report this, with the plan (plan.json)");
}

bool contains(const Box& outer, const Box& inner) {
  if (outer.shape.size() != inner.shape.size()) return false;
  for (std::size_t axis = 0; axis < outer.shape.size(); ++axis) {
    if (inner.origin[axis] < outer.origin[axis] || inner.end(axis) > outer.end(axis)) return false;
  }
  return true;
}

std::string describe(const Box& box) { return to_string(box.shape) + " at " + to_string(box.origin); }

// Moves the leading part `extents` of a C-contiguous view to the front of its memory, so that it is contiguous itself.
// In place: every run moves towards the front.
View pack_leading(const View& view, const Shape& extents) {
  const View packed = make_view(view.data, view.dtype, extents);
  const View leading{view.dtype, view.data, extents, view.strides};
  if (leading.contiguous() || extents.empty()) return packed;
  const std::size_t run = static_cast<std::size_t>(extents.back()) * view.dtype.size;
  std::byte* to = view.data;
  Shape index(extents.size() - 1, 0);
  for (;;) {
    const std::byte* from = view.data;
    for (std::size_t axis = 0; axis < index.size(); ++axis) from += index[axis] * view.strides[axis];
    std::memmove(to, from, run);
    to += run;
    std::size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == extents[axis - 1]) index[--axis] = 0;
    if (axis == 0) return packed;
  }
}

// Threads that one call may use: where memory, or the number of blocks, lets fewer tasks run at once than the user wants,
// the cores left over go to those that do.
int lanes_of(const Plan& plan, const Stage& stage) {
  const std::int64_t tasks = std::min<std::int64_t>(stage.numbers.concurrency, stage.numbers.tasks);
  return static_cast<int>(plan.options.workers / std::max<std::int64_t>(tasks, 1));
}

class TaskRun {
 public:
  TaskRun(const Plan& plan, const TaskOrder& order, MemoryAccount& account, TaskMonitor& monitor, const Pieces& pieces)
      : plan_(plan),
        stage_(plan.stages[static_cast<std::size_t>(order.stage)]),
        program_(stage_.program),
        order_(order),
        account_(account),
        monitor_(monitor),
        pieces_(pieces),
        block_(stage_.grid.box(order.block)),
        lanes_(std::max(lanes_of(plan, stage_), 1)),
        op_boxes_(op_boxes(program_, block_)),
        slots_(program_.buffers.size()) {}

  TaskResult run() {
    try {
      run_steps(0, program_.steps.size());
    } catch (...) {
      remove_pieces();
      throw;
    }
    result_.account_peak = account_.peak();
    return std::move(result_);
  }

 private:
  struct Slot {
    Buffer memory;
    View view;               // all of it
    Box box;                 // where that lies in the operand
    std::uint64_t turn = 0;  // the inner block for which `box` was computed
    Shape produced;          // of a ragged output: what the call that filled it produced
    std::int64_t parts = 0;  // of a ragged output: objects stored already
    bool held = false;
  };
  // What one step sees of a buffer: inside a loop the part that the inner block calls for.
  struct Window {
    View view;
    Box box;
  };

  void run_steps(std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) {
      if (monitor_.cancelled()) throw Error(ErrorKind::cancelled, "the task was cancelled");
      const Step& step = program_.steps[at];
      switch (step.what) {
        case Step::What::acquire:
          acquire(step);
          break;
        case Step::What::read: {
          const Window window = window_of(step.buffer);
          if (!window.box.empty()) read(step.array, window);
          break;
        }
        case Step::What::move:
          move(step);
          break;
        case Step::What::gather:
          gather(step);
          break;
        case Step::What::call:
          call(step);
          break;
        case Step::What::write:
          write(step);
          break;
        case Step::What::write_piece:
          write_one_piece(step);
          break;
        case Step::What::merge:
          merge_runs(runs_order(step), account_, monitor_, result_.written);
          break;
        case Step::What::split:
          split_ranks(runs_order(step), account_, monitor_, result_.written);
          break;
        case Step::What::look_up:
          look_up_ranks(runs_order(step), window_of(step.buffer).view, account_);
          break;
        case Step::What::release:
          held_slot(step.buffer) = Slot{};
          break;
        case Step::What::loop_begin:
          at = loop(at, end);
          break;
        case Step::What::loop_end:
          throw internal_error("a loop ends that did not begin");
      }
    }
  }

  RunsOrder runs_order(const Step& step) const { return {plan_, order_, step, program_, block_, pieces_}; }

  // Runs the steps after `begin` up to the matching end once for each inner block, and returns the end's index.
  std::size_t loop(std::size_t begin, std::size_t end) {
    std::size_t close = begin + 1;
    while (close < end && program_.steps[close].what != Step::What::loop_end) ++close;
    if (close == end) throw internal_error("a loop has no end");
    const Grid inner(block_.shape, program_.loop_block);
    for (std::int64_t i = 0; i < inner.size(); ++i) {
      Box root_box = inner.box(i);
      for (std::size_t axis = 0; axis < block_.origin.size(); ++axis) root_box.origin[axis] += block_.origin[axis];
      turn_to(root_box);
      run_steps(begin + 1, close);
    }
    turn_to(block_);
    return close;
  }

  void turn_to(const Box& root_box) {
    op_boxes_ = op_boxes(program_, root_box);
    ++turn_;
  }

  Slot& slot(int buffer) {
    if (buffer < 0 || static_cast<std::size_t>(buffer) >= slots_.size()) throw internal_error("no such buffer");
    return slots_[static_cast<std::size_t>(buffer)];
  }
  Slot& held_slot(int buffer) {
    Slot& found = slot(buffer);
    if (!found.held) throw internal_error("buffer " + std::to_string(buffer) + " is used before it is acquired");
    return found;
  }
  const BufferDecl& decl(int buffer) const { return program_.buffers[static_cast<std::size_t>(buffer)]; }
  const PlanArray& array(int index) const { return plan_.arrays[static_cast<std::size_t>(index)]; }
  const ZarrArray& zarr_of(int index) const {
    if (!array(index).zarr)
      throw internal_error("array '" + array(index).name + "' is read or written but has no place");
    return *array(index).zarr;
  }
  Box box_of(int buffer) const { return buffer_box(program_, buffer, op_boxes_, stage_.grid.block()); }

  void acquire(const Step& step) {
    Slot& into = slot(step.buffer);
    if (into.held) throw internal_error("buffer " + std::to_string(step.buffer) + " is acquired twice");
    const BufferDecl& declared = decl(step.buffer);
    into.box = box_of(step.buffer);
    bool fits = into.box.shape.size() == declared.extents.size();
    for (std::size_t axis = 0; fits && axis < declared.extents.size(); ++axis) {
      fits = into.box.shape[axis] <= declared.extents[axis];
    }
    if (!fits) {
      throw internal_error("buffer " + std::to_string(step.buffer) + " would hold " + describe(into.box) +
                           " where the program declares " + to_string(declared.extents));
    }
    into.memory = account_.acquire(declared.bytes(into.box.shape));
    for (std::span<std::byte> fence : fences(step.buffer)) std::fill(fence.begin(), fence.end(), kFenceByte);
    into.view = make_view(into.memory.data() + declared.begin(), declared.dtype, into.box.shape);
    into.turn = turn_;
    into.held = true;
  }

  // The bytes before and behind a fenced buffer.
  std::vector<std::span<std::byte>> fences(int buffer) {
    const BufferDecl& declared = decl(buffer);
    if (!declared.fenced) return {};
    Slot& of = slot(buffer);
    std::byte* begin = of.memory.data();
    return {{begin, BufferDecl::kFence},
            {begin + BufferDecl::kFence + byte_count(of.box.shape, declared.dtype), BufferDecl::kFence}};
  }

  // After a call, however it ended. What lies beyond the fence may be damaged too.
  void check_fences(const Kernel& kernel, const Step& step) {
    for (std::size_t k = 0; k < step.out.size(); ++k) {
      const auto around = fences(step.out[k]);
      for (std::size_t side = 0; side < around.size(); ++side) {
        if (std::all_of(around[side].begin(), around[side].end(), [](std::byte b) { return b == kFenceByte; }))
          continue;
        const bool result = decl(step.out[k]).operand == BufferDecl::Operand::output;
        throw Error(ErrorKind::plugin,
                    "function " + kernel.spec().function + " wrote " + (side == 0 ? "before" : "behind") + " its " +
                        (result ? "output " + kernel.outputs()[k].name : "partial result " + std::to_string(k)) +
                        ", into memory that is not its own: the function is wrong; report it to its author",
                    {{"function", kernel.spec().function}, {"memory", "overwritten"}});
      }
    }
  }

  Window window_of(int buffer) {
    Slot& from = held_slot(buffer);
    if (from.turn == turn_) return {from.view, from.box};
    Box box = box_of(buffer);
    if (!contains(from.box, box)) {
      throw internal_error("buffer " + std::to_string(buffer) + " holds " + describe(from.box) +
                           " where a step needs " + describe(box));
    }
    View view = part_of(from.view, from.box, box);
    return {std::move(view), std::move(box)};
  }

  // Of a source, what was read is noted, so that a later run can tell whether a chunk that was touched has changed. An
  // intermediate has every chunk.
  void read(int index, const Window& into, const ZarrArray::ChunkSeen& also = {}) {
    const ZarrArray& zarr = zarr_of(index);
    const PlanArray::Role role = array(index).role;
    const Grid grid(zarr.shape(), zarr.metadata().write_chunks());
    zarr.read(into.box, into.view, account_, [&](const Shape& chunk, std::span<const std::byte> stored) {
      if (also) also(chunk, stored);
      if (role == PlanArray::Role::source && stored.data())
        note_read({index, grid.linear(chunk), {stored.size(), crc32c(stored)}});
      if (role == PlanArray::Role::intermediate && !stored.data())
        throw Error(ErrorKind::corrupt, "a block's result is missing: " + zarr.store().describe(zarr.key_of(chunk)) +
                                            "; expected every chunk of an intermediate to be there");
    });
  }

  // Chunk by chunk, as each was found to decode.
  void move(const Step& step) {
    const int to = step.out.at(0);
    const ZarrArray& zarr = zarr_of(to);
    const Grid grid(zarr.shape(), zarr.metadata().write_chunks());
    const Window window = window_of(step.buffer);
    if (window.box.empty()) return;
    const std::size_t before = result_.written.size();
    read(step.array, window, [&](const Shape& chunk, std::span<const std::byte> stored) {
      const ConstView decoded = part_of(window.view, window.box, grid.box(chunk));
      result_.written.push_back(
          {to, grid.linear(chunk), zarr.move_chunk(chunk, stored, decoded, plan_.options.durable), {}, {}});
    });
    const auto chunks = static_cast<std::size_t>(element_count(grid.blocks_meeting(window.box).shape));
    if (result_.written.size() != before + chunks) throw internal_error("a chunk was not moved");
  }

  void note_read(const ReadChunk& chunk) {
    constexpr std::size_t kNotedAtMost = 1u << 14;  // the message to the coordinator has an end
    if (result_.read.size() < kNotedAtMost && noted_.emplace(chunk.array, chunk.chunk).second)
      result_.read.push_back(chunk);
  }

  // Only the pieces that the box meets are read, one at a time.
  void gather(const Step& step) {
    const auto found = pieces_.find(step.array);
    const PlanArray& from = array(step.array);
    if (found == pieces_.end()) throw internal_error("the pieces of '" + from.name + "' are not known");
    const PieceList& list = *found->second;
    const std::size_t axis = from.ragged_axis;
    const Window into = window_of(step.buffer);
    if (into.box.empty()) return;
    const auto store = open_store(from.location);
    const std::int64_t end = into.box.end(axis);
    auto offset = std::upper_bound(list.offsets.begin(), list.offsets.end(), into.box.origin[axis]);
    std::int64_t filled = into.box.origin[axis];
    if (offset == list.offsets.begin()) throw internal_error("the pieces of '" + from.name + "' begin too late");
    for (auto piece = static_cast<std::size_t>(offset - list.offsets.begin()) - 1;
         piece < list.pieces.size() && list.offsets[piece] < end; ++piece) {
      filled = std::max(filled, gather_piece(*store, list.pieces[piece], list.offsets[piece], axis, into));
    }
    if (filled < end) {
      throw internal_error("the pieces of '" + from.name + "' end at " + std::to_string(filled) + " along axis " +
                           std::to_string(axis) + " where " + std::to_string(end) + " is needed");
    }
  }

  // Returns the index along the ragged axis up to which the window is filled now.
  std::int64_t gather_piece(const Store& store, const PieceList::Piece& piece, std::int64_t offset, std::size_t axis,
                            const Window& into) {
    Box box = Box::whole(piece.extents);
    box.origin[axis] = offset;
    const Box common = intersect(box, into.box);
    if (common.empty()) return into.box.origin[axis];
    const View target = part_of(into.view, into.box, common);
    if (common == box && target.contiguous()) {
      read_piece(store, piece.key, target, account_);
    } else {
      const Buffer memory = account_.acquire(byte_count(piece.extents, target.dtype));
      const View whole = make_view(memory.data(), target.dtype, piece.extents);
      read_piece(store, piece.key, whole, account_);
      copy_elements(part_of(whole, box, common), target);
    }
    return common.end(axis);
  }

  void call(const Step& step) {
    const Kernel& kernel = *program_.ops[static_cast<std::size_t>(step.op)].kernel;
    KernelCall call;
    call.phase = step.phase;
    call.block = op_boxes_[static_cast<std::size_t>(step.op)];
    if (step.phase == Phase::accumulate && call.block.empty()) return;  // of nothing the initial state is the result
    call.monitor = &monitor_;
    call.lanes = lanes_;
    for (int buffer : step.in) {
      if (buffer < 0) {  // another call's
        call.in.emplace_back();
        call.in_box.emplace_back();
        continue;
      }
      Window window = window_of(buffer);
      call.in.push_back(window.view);
      call.in_box.push_back(std::move(window.box));
    }
    for (int buffer : step.out) {
      call.out.push_back(window_of(buffer).view);
      call.produced.push_back(call.out.back().shape);
    }
    if (!step.slabs.empty())
      call.store = [this, &step](std::size_t k, std::int64_t rows) {
        monitor_.aside([&] { store_slab(step.slabs.at(k), step.out.at(k), rows); });
      };
    try {
      if (order_.splits > 1 && step.phase == Phase::map &&
          is_estimated(kernel, kernel.memory(call.phase, call.block.shape)))
        run_in_pieces(kernel, call, order_.splits, [&](KernelCall& piece) { run_kernel(kernel, piece); });
      else
        run_kernel(kernel, call);
    } catch (...) {
      check_fences(kernel, step);  // it may be the cause
      throw;
    }
    check_fences(kernel, step);
    accept_produced(kernel, step, call);
  }

  void run_kernel(const Kernel& kernel, KernelCall& call) {
    const CallMemory declared = kernel.memory(call.phase, call.block.shape);
    const bool estimated = is_estimated(kernel, declared);
    const std::uint64_t allowance = estimated ? order_.allowance : 0;
    std::uint64_t limit = 0;
    if (__builtin_add_overflow(declared.sure, allowance, &limit)) limit = MemoryAccount::kUnlimited;
    MemoryAccount memory(limit, &account_);
    call.memory = &memory;
    monitor_.call_begins({kernel, memory, declared, allowance, estimated});
    try {
      kernel.run(call);
    } catch (Error& error) {
      note_peak(memory, declared, monitor_.call_ends(), estimated);
      if (error.kind() == ErrorKind::over_budget && estimated) add_evidence(error, memory, declared);
      error.add("function", kernel.spec().function);
      throw;
    } catch (...) {
      note_peak(memory, declared, monitor_.call_ends(), estimated);
      throw;
    }
    note_peak(memory, declared, monitor_.call_ends(), estimated);
  }

  // True where a number of the call is somebody's estimate, so that the order's allowance is meant for it.
  static bool is_estimated(const Kernel& kernel, const CallMemory& declared) {
    return declared.uncertain > 0 || declared.unknown || kernel.foreign() || kernel.spec().extra_memory.has_value();
  }

  // A refusal by the call's own account is exact evidence. A plugin's host has said so already, in bytes that the
  // call's account would hold; what escalation counts are the uncertain ones among them.
  static void add_evidence(Error& error, const MemoryAccount& memory, const CallMemory& declared) {
    const auto said = [&](std::string_view key) {
      const auto found = std::find_if(error.context().begin(), error.context().end(),
                                      [&](const auto& pair) { return pair.first == key; });
      return found == error.context().end() ? nullptr : &found->second;
    };
    const bool refused = memory.needed() > memory.limit();
    if (!said("evidence") && !refused) return;
    std::uint64_t needed = refused ? memory.needed() : 0;
    if (const std::string* text = said("needed")) {
      std::uint64_t stated = 0;
      std::from_chars(text->data(), text->data() + text->size(), stated);
      needed = std::max(needed, stated);
    }
    if (!said("evidence")) error.add("evidence", to_string(Evidence::own_account));
    error.add("needed_uncertain", std::to_string(needed - std::min(needed, declared.sure)));
  }

  void note_peak(const MemoryAccount& memory, const CallMemory& declared, std::uint64_t outside, bool estimated) {
    if (!estimated) return;
    const std::uint64_t taken = memory.peak() + outside;
    result_.call_peak = std::max(result_.call_peak, taken - std::min(taken, declared.sure));
  }

  // Only a ragged output may be shorter than asked for, and only along its ragged axis.
  void accept_produced(const Kernel& kernel, const Step& step, const KernelCall& call) {
    for (std::size_t k = 0; k < step.out.size(); ++k) {
      const Shape& produced = call.produced[k];
      const Shape& capacity = call.out[k].shape;
      std::optional<std::size_t> ragged;
      if (call.phase == Phase::map && k < kernel.outputs().size()) ragged = kernel.outputs()[k].ragged_axis;
      bool right = produced.size() == capacity.size();
      for (std::size_t axis = 0; right && axis < capacity.size(); ++axis) {
        right = produced[axis] == capacity[axis] ||
                (ragged == axis && produced[axis] >= 0 && produced[axis] < capacity[axis]);
      }
      if (!right) {
        throw Error(ErrorKind::plugin, "function " + kernel.spec().function + " produced " + to_string(produced) +
                                           " as output " + std::to_string(k) + " where " + to_string(capacity) +
                                           (ragged ? " is the most it may produce" : " was asked for") +
                                           ": the function is wrong; report it to its author");
      }
      if (ragged) held_slot(step.out[k]).produced = produced;
    }
  }

  // What a failed attempt stored under names of its own: nobody will ask for it.
  void remove_pieces() noexcept {
    for (const WrittenChunk& done : result_.written) {
      try {
        if (!done.piece.empty()) open_store(array(done.array).location)->erase(done.piece);
      } catch (...) {
        return;  // a store that fails has been reported; what stays goes with its folder
      }
    }
  }

  // Every chunk that is written lies whole in the window (clipped at the array): no other task writes it.
  void write(const Step& step) {
    const PlanArray& to = array(step.array);
    const ZarrArray& zarr = zarr_of(step.array);
    const Window from = window_of(step.buffer);
    const bool output = to.role == PlanArray::Role::output;
    const Grid grid(zarr.shape(), zarr.metadata().write_chunks());
    const Box range = grid.blocks_meeting(from.box);
    if (range.empty()) return;
    Shape chunk = range.origin;
    for (;;) {
      write_chunk(step.array, zarr, grid, chunk, from, output);
      std::size_t axis = chunk.size();
      while (axis > 0 && ++chunk[axis - 1] == range.end(axis - 1)) --axis, chunk[axis] = range.origin[axis];
      if (axis == 0) return;
    }
  }

  void write_chunk(int index, const ZarrArray& zarr, const Grid& grid, const Shape& chunk, const Window& from,
                   bool output) {
    const Box box = grid.box(chunk);
    if (!contains(from.box, box)) {
      throw internal_error("a task holds " + describe(from.box) + " of '" + array(index).name +
                           "' and would write the chunk " + describe(box) + " that it holds only in part");
    }
    const ConstView view = part_of(from.view, from.box, box);
    WrittenChunk done;
    done.array = index;
    done.chunk = grid.linear(chunk);
    done.written = zarr.write_chunk(chunk, view, account_, output, output && plan_.options.durable);
    result_.written.push_back(std::move(done));
  }

  void write_one_piece(const Step& step) {
    Slot& from = held_slot(step.buffer);
    store_rows(step.array, from, from.produced.size() == from.view.shape.size() ? from.produced : from.view.shape);
  }

  // The leading rows of an output that is handed over in slabs; into nothing where nobody wants the output.
  void store_slab(int index, int buffer, std::int64_t rows) {
    if (index < 0 || rows <= 0) return;
    Slot& from = held_slot(buffer);
    Shape extents = from.view.shape;
    extents[array(index).ragged_axis] = rows;
    store_rows(index, from, extents);
  }

  // Larger results than an object may have are several: a call's slabs, or runs. An empty result is one, so that it is
  // known.
  void store_rows(int index, Slot& from, const Shape& extents) {
    const PlanArray& to = array(index);
    const ConstView whole = pack_leading(from.view, extents);
    const auto store = open_store(to.location);
    const std::size_t axis = to.ragged_axis;
    const std::int64_t rows = extents[axis], most = std::max<std::int64_t>(to.chunks[axis], 1);
    for (std::int64_t begin = 0; begin < rows || from.parts == 0; begin += most) {
      Shape origin(extents.size(), 0), shape = extents;
      origin[axis] = begin;
      shape[axis] = std::min(most, rows - begin);
      WrittenChunk done;
      done.array = index;
      done.chunk = order_.block;
      done.extents = shape;
      done.piece = piece_key(order_, from.parts++);
      done.written = write_piece(*store, done.piece, whole.sub(origin, shape), account_);
      result_.written.push_back(std::move(done));
    }
  }

  const Plan& plan_;
  const Stage& stage_;
  const TaskProgram& program_;
  const TaskOrder& order_;
  MemoryAccount& account_;
  TaskMonitor& monitor_;
  const Pieces& pieces_;
  const Box block_;
  const int lanes_;
  std::vector<Box> op_boxes_;  // of the block, or of the inner block inside a loop
  std::uint64_t turn_ = 0;     // counts changes of them
  std::vector<Slot> slots_;
  TaskResult result_;
  std::set<std::pair<int, std::int64_t>> noted_;  // of result_.read: array, chunk
};

}  // namespace

TaskResult run_task(const Plan& plan, const TaskOrder& order, MemoryAccount& account, TaskMonitor& monitor,
                    const Pieces& pieces) {
  if (order.stage < 0 || static_cast<std::size_t>(order.stage) >= plan.stages.size()) {
    throw internal_error("there is no stage " + std::to_string(order.stage));
  }
  const Stage& stage = plan.stages[static_cast<std::size_t>(order.stage)];
  const auto located = [&](Error error) {
    error.add("block", to_string(stage.grid.index(order.block)));
    error.add("stage", stage.name);
    return error;
  };
  if (order.block < 0 || order.block >= stage.grid.size()) {
    throw internal_error("stage '" + stage.name + "' has no block " + std::to_string(order.block));
  }
  try {
    return TaskRun(plan, order, account, monitor, pieces).run();
  } catch (const Error& error) {
    throw located(error);
  } catch (const std::bad_alloc&) {
    throw located(
        Error(ErrorKind::over_budget,
              "the operating system refused memory that the task was allowed: something else fills the machine",
              {{"evidence", to_string(Evidence::host)}}));
  } catch (const std::exception& error) {
    throw located(Error(ErrorKind::plugin, std::string("an unexpected exception: ") + error.what()));
  }
}

}  // namespace cuboid
