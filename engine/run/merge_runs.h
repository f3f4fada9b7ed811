// The merge step of a task program: sorted runs, stored in objects of a bounded number of rows, become one such run in a
// stream. What is held at once is an object of each run and one of the result.
#pragma once
#include <string>
#include <vector>

#include "engine/run/task.h"

namespace cuboid {

// The name of the `part`th object that a task's attempt writes of one ragged array: used by no other attempt.
std::string piece_key(const TaskOrder& order, std::int64_t part);

struct MergeOrder {
  const Plan& plan;
  const TaskOrder& order;
  const Step& step;      // Step::What::merge
  const Kernel& kernel;  // whose runs they are
  const Box& runs;       // which ones, as blocks of their producer
  const std::map<int, PieceList>& pieces;
};
// Appends what was written. Throws as run_task() does.
void merge_runs(const MergeOrder& order, MemoryAccount& account, const TaskMonitor& monitor,
                std::vector<WrittenChunk>& written);

}  // namespace cuboid
