// One task: the task program of a stage, read on bytes. Runs on a thread of the coordinator or in a worker alike.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace cuboid {

// What a ragged array consists of, once its producer is complete: known to the coordinator.
struct PieceList {
  struct Piece {
    std::string key;  // below the pieces' folder
    Shape extents;
    std::int64_t block = 0;  // of the producer; of runs: which run
  };
  std::vector<Piece> pieces;          // in block order; a block's may be several objects
  std::vector<std::int64_t> offsets;  // along the ragged axis; pieces.size() + 1 entries
};
using Pieces = std::map<int, std::shared_ptr<const PieceList>>;  // by array; never null

struct TaskOrder {
  int stage = 0;
  std::int64_t block = 0;
  int attempt = 1;              // counts all attempts at this block over all runs: names of pieces are unique
  std::uint64_t limit = 0;      // bytes the task's account may hold
  std::uint64_t allowance = 0;  // uncertain bytes of the call within it
  std::int64_t splits = 1;      // pieces that the estimated call is cut into

  bool same_task(const TaskOrder& other) const { return stage == other.stage && block == other.block; }
};

struct WrittenChunk {
  int array = 0;           // index into Plan::arrays
  std::int64_t chunk = 0;  // linear index in the array's grid of write-chunks; of pieces: the block, of runs which one
  Written written;
  std::string piece;  // of pieces: the key
  Shape extents;      // of pieces
};

// A stored chunk of a source as the task saw it.
struct ReadChunk {
  int array = 0;           // index into Plan::arrays
  std::int64_t chunk = 0;  // linear index in the array's grid of write-chunks
  Written stored;          // its length and crc32c
};

struct TaskResult {
  std::vector<WrittenChunk> written;
  std::vector<ReadChunk> read;     // of sources; not of shards, which are read in parts
  std::uint64_t account_peak = 0;  // bytes, as the account saw them
  std::uint64_t call_peak = 0;     // bytes that the uncertain call took beside its sure ones
};

// What surrounds a running task: is told of calls, and may give them more memory.
class TaskMonitor : public CallMonitor {
 public:
  struct Call {
    const Kernel& kernel;
    MemoryAccount& memory;  // the call's own, limited to declared.sure + allowance; may be given an OnExceed here
    CallMemory declared;
    std::uint64_t allowance;  // uncertain bytes; 0 where nothing is estimated
    bool estimated;           // a number of this call is somebody's estimate (or the code is not ours)
  };
  // Work of the engine's own in the middle of a call: what that takes by malloc is not the call's.
  virtual void aside(const std::function<void()>& work) { work(); }
  // Before and after each kernel call, on the task's thread. call_ends() returns the bytes that the call took beside
  // its account at most.
  virtual void call_begins(const Call&) {}
  virtual std::uint64_t call_ends() { return 0; }
};

// Acquires everything from `account`. Throws Error with context "stage" and "block"; the chunks written before a failure
// are whole and will be written again with the same bytes. Where an estimated call was refused memory the context says
// "evidence" (a name of Evidence) and "needed_uncertain" (bytes; 0: not known). `pieces`: by array index, for gather steps; offsets
// need not begin at 0 where the list is a part.
TaskResult run_task(const Plan& plan, const TaskOrder& order, MemoryAccount& account, TaskMonitor& monitor,
                    const Pieces& pieces = {});

}  // namespace cuboid
