// One task: the task program of a stage, read on bytes. Runs on a thread of the coordinator or in a worker alike.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace cuboid {

// What a ragged array consists of, once its producer is complete: known to the coordinator.
struct PieceList {
  struct Piece {
    std::string key;       // below the pieces' folder
    Shape extents;
    std::uint64_t bytes = 0;
    std::uint32_t crc32c = 0;
  };
  std::vector<Piece> pieces;           // in block order
  std::vector<std::int64_t> offsets;   // along the ragged axis; pieces.size() + 1 entries
};

struct TaskOrder {
  int stage = 0;
  std::int64_t block = 0;
  int attempt = 1;                     // counts all attempts at this block over all runs: names of pieces are unique
  std::uint64_t limit = 0;             // bytes the task's account may hold
  std::uint64_t allowance = 0;         // uncertain bytes of the call within it
};

struct WrittenChunk {
  int array = 0;                       // index into Plan::arrays
  std::int64_t chunk = 0;              // linear index in the array's grid of write-chunks; of pieces: the block
  Written written;
  std::string piece;                   // of pieces: the key
  Shape extents;                       // of pieces
};

struct TaskResult {
  std::vector<WrittenChunk> written;
  std::uint64_t account_peak = 0;      // bytes, as the account saw them
  std::uint64_t call_peak = 0;         // bytes that the uncertain call took through host services
};

// Acquires everything from `account`. Throws Error with context "stage" and "block"; the chunks written before a failure
// are whole and will be written again with the same bytes. `pieces`: by array index, for gather steps.
TaskResult run_task(const Plan& plan, const TaskOrder& order, MemoryAccount& account, CallMonitor& monitor,
                    const std::map<int, PieceList>& pieces = {});

}  // namespace cuboid
