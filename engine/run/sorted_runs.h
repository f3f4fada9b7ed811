// The steps of a task program that stream sorted runs, which are stored in objects of a bounded number of rows. What is
// held at once is an object of each run and one of all else that is read or written.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/run/task.h"

namespace cuboid {

// The name of the `part`th object that a task's attempt writes of one ragged array: used by no other attempt.
std::string piece_key(const TaskOrder& order, std::int64_t part);

struct RunsOrder {
  const Plan& plan;
  const TaskOrder& order;
  const Step& step;
  const TaskProgram& program;
  const Box& block;  // of a merge: the runs to be merged; of a split: those that were
  const Pieces& pieces;
};
// All throw as run_task() does. What was written is appended.

// Step::What::merge: several runs become one.
void merge_runs(const RunsOrder& order, MemoryAccount& account, const TaskMonitor& monitor,
                std::vector<WrittenChunk>& written);
// Step::What::split: the ranks of a merged run's rows become those of the rows that were merged, run by run.
void split_ranks(const RunsOrder& order, MemoryAccount& account, const TaskMonitor& monitor,
                 std::vector<WrittenChunk>& written);
// Step::What::look_up: places (int64, contiguous), rows of the run of the task's block, become the ranks of those.
void look_up_ranks(const RunsOrder& order, const View& places, MemoryAccount& account);

}  // namespace cuboid
