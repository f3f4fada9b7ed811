// The planner's passes, each a pure function over the working plan below, in the order in which make_plan() calls them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "storage/error.h"

namespace cuboid::passes {

// An operand: an output of a step.
struct Value {
  int step = -1;
  std::size_t output = 0;
  friend auto operator<=>(const Value&, const Value&) = default;
};

// A step of the expression with what planning has found out about it. In topological order.
struct PlannedStep {
  const Node* node = nullptr;
  std::string name;
  std::shared_ptr<const Kernel> kernel;  // null for an input array
  std::vector<Value> inputs;
  std::vector<ArraySpec> specs;  // of its outputs, as the plan knows them
  Shape block;                   // of the kernel's domain
  std::vector<Shape> chunks;     // per output: what other steps get it in
  int uses = 0;                  // by other steps and as a result
  bool needed = false;           // some output of the plan needs it
  bool is_output = false;        // is stored for the user
  std::string part_of = {};      // of a step that the planner added: the one that it serves

  // The step that people know it by.
  const std::string& owner() const { return part_of.empty() ? name : part_of; }
  // "smooth"; "unique.values" where there are several outputs.
  std::string value_name(std::size_t output) const;
};

struct Draft {
  const PlanRequest* request = nullptr;
  Resolvers resolvers;
  Facts facts;
  std::vector<PlannedStep> steps;
  std::map<const Node*, int> index;                // of steps
  std::set<int> inlined;                           // steps that are computed inside their consumer
  std::vector<std::shared_ptr<const Node>> added;  // nodes of steps that the planner added
  Plan plan;
  std::map<Value, int> arrays;  // where a value is stored: index into plan.arrays
};

// The steps of the expression in topological order, named. Throws Error{invalid} for two steps of one name.
void gather(Draft& draft);
// Binds kernels to the extents that are known now, and chooses every step's block: its own `chunks`, else what suits
// its inputs. Depends neither on memory nor on a grown bound.
void choose_blocks(Draft& draft);
// Puts a rechunk before a function that takes its input in C order where it would read it many times otherwise.
void order_reads(Draft& draft);
// Which steps are computed inside their only consumer, without recomputing much and never across a foreign function
// that several steps need. `apart`: steps that must stay apart since the fused stage did not fit.
void fuse(Draft& draft, const std::set<std::string>& apart);
// Stages, arrays and task programs: maps, reduction trees, pieces and their compaction, rechunks, outputs.
void lower(Draft& draft);
// Memory, concurrency, bytes moved, confidence and disk of what was lowered; sets plan.refused.
void project_all(Draft& draft);

// --- pieces of the above with worked examples of their own

// Group extents in blocks per axis for one level of a reduction tree: how many blocks along the reduced axes one task
// streams. Depends on the block grid alone.
Shape reduction_group(const Shape& counts, const std::vector<std::size_t>& reduced, bool first_level);

// How a rechunk proceeds: the block of one direct pass, or of two passes through an intermediate.
struct RechunkPlan {
  Shape block;                       // of the (last) pass that writes the target chunks: multiples of them
  std::optional<Shape> first_block;  // two passes: block of the first, and the chunks between
  std::optional<Shape> between;
};
// `item`: bytes of an element; `room`: bytes that one task's block may take.
RechunkPlan plan_rechunk(const Shape& shape, const Shape& source_chunks, const Shape& target_chunks, std::size_t item,
                         std::uint64_t room);
// How many times each source element is read when blocks of these extents are read one by one: whole chunks are.
double read_amplification(const Shape& shape, const Shape& source_chunks, const Shape& block);

// Memory of storage steps for the arrays of a plan. With the program and the extents of its blocks it knows which reads
// begin at chunk borders, so that no chunk is decoded aside; without, it assumes that none does.
class PlanIo final : public IoMemory {
 public:
  explicit PlanIo(const Plan& plan) : plan_(plan) {}
  PlanIo(const Plan& plan, const TaskProgram& program, const Shape& block)
      : plan_(plan), program_(&program), block_(block) {}
  std::uint64_t read(int array, const BufferDecl& buffer) const override;
  std::uint64_t gather(int array, const BufferDecl& buffer) const override;
  std::uint64_t write(int array, const BufferDecl& buffer) const override;
  std::uint64_t write_piece(int array, const BufferDecl& buffer) const override;
  std::uint64_t runs(const Step& step, std::int64_t runs) const override;
  std::uint64_t look_up(int array, const BufferDecl& buffer) const override;

 private:
  bool begins_at_borders(const BufferDecl& buffer, const Shape& shape, const Shape& chunks) const;

  const Plan& plan_;
  const TaskProgram* program_ = nullptr;
  Shape block_;
};

// The kernel of such a program: the identity, known to plans alone.
std::shared_ptr<const Kernel> make_move_kernel(const ArraySpec& spec);
inline constexpr const char* kMoveFunction = "rechunk";

// The task program of a map or reduction stage. Buffers' extents follow `block` (the task's), so that a hint can try
// other blocks: build it again with those.
struct ProgramRequest {
  int root = -1;                         // step
  Shape block;                           // of one task
  Shape loop_block = {};                 // of a reduction's inner blocks
  bool merges = false;                   // root merges partial results ...
  std::vector<int> partial_inputs = {};  // ... from these arrays, one per state
  std::vector<int> targets = {};         // arrays to write: per output of the root; or per state where `partial`
  bool partial = false;                  // the root's states are written instead of its result
};
TaskProgram build_program(const Draft& draft, const ProgramRequest& request);
// Lets the tasks of a map stage, built as `request` says, cover several chunks where its function allows that and halos
// would otherwise be decoded more than 1.25 times. May depend on the budget: bytes and chunks of results do not.
void widen(const Draft& draft, Stage& stage, const ProgramRequest& request);
// Sum over all blocks of the bytes of a box, without enumerating the grid.
double total_bytes(const Grid& grid, DType dtype, const std::function<Box(const Box&)>& box_of);
// Elements that stay what they are: `block` of one array becomes chunks of another.
enum class Move : std::uint8_t {
  gather,     // from a ragged array's pieces
  recode,     // decoded and encoded
  as_stored,  // decoded to be checked, then stored as it was
};
TaskProgram move_program(const ArraySpec& spec, const Shape& block, int from, int to, Move how);
// Runs of ragged arrays, a column each, become one; `notes`: the array that says of each row whose it was, or -1.
TaskProgram merge_program(std::shared_ptr<const Kernel> kernel, std::vector<int> from, std::vector<int> to, int notes);
// The way back: the ranks of the rows of the merged run (-1: their own numbers) become those of the runs' rows.
TaskProgram split_program(std::shared_ptr<const Kernel> kernel, int notes, int from, int to);
// Elements that name rows of their block's run become the ranks of those.
TaskProgram look_up_program(const ArraySpec& spec, const Shape& block, int places, int ranks, int to);

// Runs that one task merges: with one stored object of each in memory, little is held; and 32^3 blocks need three
// levels.
inline constexpr std::int64_t kMergedRuns = 32;
// Rows of an object in which a run is stored.
inline constexpr std::int64_t kRunRows = 32768;

}  // namespace cuboid::passes
