// A plan: stages with known memory, as immutable plain data. make_plan() is a pure function of the request, of metadata
// and of facts (extents that were measured); it reads no chunk and writes nothing.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/expr/array.h"
#include "engine/plan/memory_model.h"
#include "engine/plan/task_program.h"

namespace cuboid {

enum class Confidence : std::uint8_t { exact, bounded, unsafe, learned };
std::string to_string(Confidence confidence);
std::string to_string(ExceedAction action);

// An array that a plan reads or writes.
struct PlanArray {
  enum class Role : std::uint8_t {
    source,        // an input of the user's
    intermediate,  // in the run directory, deleted when its last consumer is done
    pieces,        // results of data-dependent extent, one object a block, in the run directory
    output         // what the user asked for
  };
  std::string name;  // "smooth", "sources.pieces", "unique.values"
  Role role = Role::intermediate;
  ArraySpec spec;
  Shape chunks;                   // what is written as a whole; of pieces: the bound of one stored object
  int producer = -1;              // stage, or -1 for a source
  std::optional<ZarrArray> zarr;  // all roles but pieces
  std::string location;           // folder or URL of the array; of pieces: their folder
  std::size_t ragged_axis = 0;    // of pieces
  bool overwrite = false;         // of an output
};

struct StageNumbers {
  std::int64_t tasks = 0;                           // an upper bound until facts arrive
  std::uint64_t projected = 0;                      // bytes of one task
  int concurrency = 1;                              // tasks at once within the budget
  std::uint64_t bytes_read = 0, bytes_written = 0;  // decoded, of the requested boxes
};

struct Stage {
  std::string name;                // of its last step, or "STEP.rechunk", "STEP.partial", "STEP.compact"
  std::string function;            // of its last step: "mean", "sky.sources/1"
  std::vector<std::string> steps;  // fused steps, first to last
  Confidence confidence = Confidence::exact;
  bool approximate = false;  // rests on an extent that was guessed upstream: shown with "~"
  Grid grid;                 // over the root's domain: one task a block
  TaskProgram program;
  std::vector<int> inputs, outputs;  // arrays
  Projection projection;
  StageNumbers numbers;
  bool isolated = false;  // tasks run in worker processes
  StepOptions options;    // of the step that may exceed its estimate
  bool compacts = false;  // gathers pieces: its extents are known once its input is complete
};

struct Refusal {
  std::string resource;  // "memory" | "disk"
  std::optional<std::string> stage;
  std::uint64_t projected = 0, budget = 0;  // bytes
  std::string hint;                         // what would fit
};

// The stage with the largest task: it decides in how small a budget the plan still runs.
struct Deciding {
  std::string stage;
  std::uint64_t smallest_budget = 0;  // bytes
  // A block shape of its step that lowers it (`chunks:`), and what the plan needs then at least as far as this stage goes.
  std::optional<Shape> chunks = {};
  std::string step = {};
  std::uint64_t budget_then = 0;
};

struct PlanOptions {
  std::uint64_t budget = 0;  // bytes this run may use on this machine
  int workers = 1;           // tasks at once, at most
  std::string run_dir;       // where intermediates and pieces live
  bool keep = false;         // keep intermediates
  bool durable = false;
  std::vector<std::string> own_outputs;  // paths of outputs that this run directory made: may exist
};

struct Plan {
  PlanOptions options;
  Baselines baselines;
  std::vector<PlanArray> arrays;
  std::vector<Stage> stages;  // in an order in which they may run
  std::uint64_t bytes_read = 0, bytes_written = 0, disk_peak = 0;
  std::int64_t tasks = 0;
  std::optional<Refusal> refused;
  std::optional<Deciding> deciding;       // where there are tasks at all
  std::vector<std::string> checked_only;  // steps that no output needs

  int stage_index(const std::string& name) const;  // -1 where there is none
};

struct OutputRequest {
  Array array;
  std::string path;             // folder or URL of the Zarr array to write
  std::optional<Shape> chunks;  // default: those of the step's blocks
  std::optional<Shape> shards;
  int zarr_format = 3;
  std::string codecs = "blosc-lz4";  // a name or a JSON list
  bool overwrite = false;
  std::string attributes;  // a JSON object, or "" for none; engine provenance is added
  // array copy: what has no field above is taken from here; chunks too where none are stated.
  std::optional<ArrayMetadata> like;
};
struct PlanRequest {
  std::vector<OutputRequest> outputs;
  std::vector<Array> unused;  // checked, not run
  PlanOptions options;
  // The plan that fixed this run directory's shape (fusion, blocks of rechunk stages): followed where it fits.
  std::shared_ptr<const Plan> earlier;
};
// What running taught, all of it journaled: replaces what was bounded or guessed.
struct Facts {
  std::map<std::string, Shape> shapes;         // of arrays of data-dependent extent once complete, by name ("sources")
  std::map<std::string, std::int64_t> bounds;  // grown bounds of a guessed ragged extent of one block, likewise by name
};
using Resolvers = std::vector<const KernelResolver*>;

// Throws Error{invalid} for a request that is wrong (an output that exists, an output in an input's place); a plan that
// does not fit is returned with `refused` set.
Plan make_plan(const PlanRequest& request, const Resolvers& resolvers, const Facts& facts = {});

// What a worker needs, and what fixes the shape of a run: without loss.
nlohmann::json plan_to_json(const Plan& plan);
Plan plan_from_json(const nlohmann::json& json, const Resolvers& resolvers);
// The public form (`cuboid plan --json`).
nlohmann::json plan_report(const Plan& plan);

// --- where the numbers come from
// "x 8 MiB + y 1 MiB + encoding y 1.1 MiB": what one task of the stage holds at its peak.
std::string memory_formula(const Plan& plan, const Stage& stage);
// "max_shape (5000, 6), extra_memory 64 MiB": what the user stated of the stage's calls; empty where nothing.
std::string user_numbers(const Stage& stage);

// --- questions about one task, answered from the plan alone
// What a task reads of each array that its program names, and what it writes: boxes of elements.
struct TaskBox {
  int array;
  Box box;
  bool of_runs = false;  // the box counts the runs of a ragged array
};
std::vector<TaskBox> task_reads(const Plan& plan, const Stage& stage, std::int64_t block);
std::vector<TaskBox> task_writes(const Plan& plan, const Stage& stage, std::int64_t block);  // not pieces
// The blocks of `array`'s producer whose results a box of the array needs, as linear indices into the producer's grid,
// in ascending order; for a compact stage's input: all blocks.
std::vector<std::int64_t> producing_blocks(const Plan& plan, int array, const Box& box);
// The block that made a run of a ragged array: its own number, except where a split makes many.
std::int64_t producing_block_of_run(const Plan& plan, int array, std::int64_t run);

}  // namespace cuboid
