// A trial: a function called over arrays in memory, block by block, through the host that the engine itself uses, while
// everything that it does is watched.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/check/memory.h"
#include "engine/check/sample.h"
#include "engine/plugin/call_probe.h"
#include "engine/plugin/plugin_kernel.h"
#include "storage/error.h"

namespace cuboid::check {

// Counts what goes past the host by malloc; supplied by the program whose malloc it is.
struct HeapMeter {
  std::function<void()> begin;
  std::function<std::int64_t()> end;  // the largest rise since begin; empty functions: nothing is counted
  explicit operator bool() const { return static_cast<bool>(begin); }
};

struct TrialOptions {
  Shape block;  // extents of a block in the function's domain; empty: uncut
  Layout in = Layout::contiguous, out = Layout::contiguous;
  Fence in_fence = Fence::none, out_fence = Fence::none;
  bool protect_inputs = false;
  std::byte filler{0xA5};                // of outputs before the call
  std::optional<std::int64_t> capacity;  // rows of outputs that depend on data; default: more than promised
  std::int64_t refuse = -1;              // this request for memory is refused, from 0
  std::int64_t cancel_at = -1;           // `cancelled` says yes from this question on
  HeapMeter heap;
};

struct TrialReport {
  std::optional<Error> error;  // what the engine makes of the outcome
  std::int32_t status = 0;     // the first status that was not OK
  std::vector<Shape> shapes;   // of the outputs, joined
  std::vector<std::vector<std::byte>> out;
  std::map<CallProbe::Promise, std::string> broken;
  std::int64_t requests = 0, questions = 0;                          // in all: for memory, and whether it is cancelled
  std::uint64_t call_bytes = 0, state_bytes = 0, outside_bytes = 0;  // largest of any call, as the manifest counts
  std::int64_t heap_bytes = 0;                                       // largest rise by malloc in any call
  bool outputs_intact = true;                                        // nothing was written beside them

  bool ok() const { return !error; }
};

// Where reductions are concerned, blocks are accumulated in C order into one partial result each, and merged as a tree.
TrialReport run_trial(const PluginKernel& kernel, const Sample& sample, const TrialOptions& options = {});

}  // namespace cuboid::check
