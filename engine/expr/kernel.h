// A function of arrays, described so that it can be planned before anything runs and computed block by block.
//
// A kernel is bound to its arguments' types and shapes and is immutable. The planner asks it for numbers (which part of
// each input a block needs, how large the results are at most, what memory a call takes); the executor calls run() on
// bytes. User functions arrive as kernels too, so nothing above this line knows plugins.
#pragma once
#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "storage/buffer.h"
#include "storage/types.h"

namespace cuboid {

// How far a number may be trusted. exact: follows from shapes and dtypes. bound: never exceeded, and enforced.
// guess: an estimate that may be exceeded. unknown: nobody knows.
enum class Trust : std::uint8_t { exact, bound, guess, unknown };

// One extent of an array: a number, or an upper bound of it where it depends on data.
struct Extent {
  std::int64_t value = 0;
  Trust trust = Trust::exact;  // never `unknown`
  friend bool operator==(const Extent&, const Extent&) = default;
};

// What is known of an array before it is computed.
struct ArraySpec {
  DType dtype;
  std::vector<Extent> extents;

  ArraySpec() = default;
  ArraySpec(DType type, const Shape& shape);  // all extents exact
  Shape max_shape() const;
  bool exact() const;  // every extent is
  std::size_t rank() const { return extents.size(); }
  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

// A number in a pipeline file: takes part in type promotion as a Python scalar does (array API 2024.12).
using Scalar = std::variant<bool, std::int64_t, double, std::complex<double>>;
// Keyword arguments. monostate is null.
using ParamValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                std::vector<double>, std::vector<std::string>>;
using Params = std::map<std::string, ParamValue>;

// All that is needed to make a kernel again, here or in a worker: plain data.
struct KernelSpec {
  std::string function;                               // "add", "sky.sources/1"
  std::vector<std::variant<ArraySpec, Scalar>> args;  // positional; array inputs are numbered skipping scalars
  Params params;
  // The user's own numbers for one call; they make the stage unsafe.
  std::map<std::size_t, Shape> max_shape;     // by output
  std::optional<std::uint64_t> extra_memory;  // bytes

  std::vector<ArraySpec> inputs() const;  // the array arguments alone
};

// Extra memory of one call, beside inputs and outputs, in bytes.
struct CallMemory {
  std::uint64_t sure = 0;       // exact or bounded
  std::uint64_t uncertain = 0;  // estimated: what escalation may raise
  bool unknown = false;         // nobody knows: the first calls run alone with the whole cap
  std::uint64_t outside = 0;    // the part of both that bypasses host services
};

struct OutputSpec {
  std::string name;  // "values", "hist", else "0", "1", ...
  ArraySpec spec;    // of the whole result
  // Where set, each block yields a piece whose extent along this axis depends on data; the result is the pieces put
  // together along it in the C order of blocks. Otherwise a block yields output_box(block) of the result.
  std::optional<std::size_t> ragged_axis;
};

// A reduction's partial results ("states") have the axes of the domain, with extent 1 along the reduced ones, and behind
// them the axes of their tail.
struct ReductionForm {
  std::vector<std::size_t> axes;  // sorted, unique
  bool keepdims = false;
  std::vector<DType> states;
  std::vector<Shape> tails = {};  // by state; empty: none has one

  Shape with_tail(Shape extents, std::size_t state) const {
    if (!tails.empty()) extents.insert(extents.end(), tails[state].begin(), tails[state].end());
    return extents;
  }
};

// A function that is made of others: what it becomes where it is applied to arrays of known extents.
struct Expansion {
  struct Ref {
    std::size_t node = 0;  // an array input of the function, or (numbered after those) an earlier call
    std::size_t output = 0;
  };
  struct Call {
    std::string function;  // a built-in one
    std::vector<std::variant<Ref, Scalar>> args;
    Params params = {};
  };
  std::vector<Call> calls;
  std::vector<Ref> outputs;  // one for each of the function's
};

// A function that sorts yields runs: the rows of a block in ascending order, one ragged output a column. Runs are merged,
// several into one, until one is left: in a stream, so that no run need fit memory.
struct RunsForm {
  std::vector<std::size_t> columns;  // outputs; rows are ordered by the first
  // An output (int64, of the block's extents): for each element of input 0 the row of its block's run that is its equal.
  // Of the whole result it is the row of the merged run, which is found by going back through the merges.
  std::optional<std::size_t> ranks;
};
// One turn of a merge: rows at hand of the runs, in block order, and room for results. Columns are contiguous.
struct MergeTurn {
  struct Run {
    std::vector<const std::byte*> columns;
    std::int64_t rows = 0;   // at hand, at least 1
    std::int64_t taken = 0;  // of those, by the kernel
  };
  std::vector<Run> runs;
  std::vector<std::byte*> out;  // per column
  std::int64_t room = 0;        // rows
  std::int64_t produced = 0;
  // Where set: for each row taken, in turn, the index of its run in `runs`, and kNewRow where it began a row of the
  // result and is not merely equal to the one before. There is room for `note_room` of them, at least one for each run.
  std::uint8_t* notes = nullptr;
  std::int64_t note_room = 0;
  std::int64_t noted = 0;
  static constexpr std::uint8_t kNewRow = 0x80;  // so at most 128 runs

  bool has_room() const {
    return produced < room && (!notes || noted + static_cast<std::int64_t>(runs.size()) <= note_room);
  }
  void note(std::size_t run, bool new_row) {
    if (notes) notes[noted++] = static_cast<std::uint8_t>(run | (new_row ? kNewRow : 0));
  }
};

// map: in -> out. A reduction goes through init: -> out (states); accumulate: in[0] into out (states); merge: in
// (states) into out (states); finalize: in (states) -> out (results). All deterministic.
enum class Phase : std::uint8_t { map, init, accumulate, merge, finalize };

// What a running call may tell or ask; every function may be called from any thread of the call.
class CallMonitor {
 public:
  virtual ~CallMonitor() = default;
  virtual bool cancelled() const { return false; }
  virtual void progress(double) {}
  virtual void log(int /*level*/, const std::string&) {}
  // The call holds this many bytes past its account's reach, with which it charged the account (a plugin's `charge`).
  virtual void holds_outside(std::uint64_t /*bytes*/) {}
};

struct KernelCall {
  Phase phase = Phase::map;
  Box block;                    // the part of the kernel's domain that is being computed
  std::vector<ConstView> in;    // per array input, exactly input_box(k, block); see inputs_one_by_one()
  std::vector<Box> in_box;      // where it lies in the whole input
  std::vector<View> out;        // per output; for a ragged one the capacity
  std::vector<Shape> produced;  // per output: extents really produced; preset to out[k].shape, lowered by the kernel
  // Of ragged outputs whose room is less than their result may be (Kernel::room): stores the leading `rows` of out[k],
  // which is empty again then; what is left at the end is `produced`. Not set: out[k] has room for all.
  std::function<void(std::size_t k, std::int64_t rows)> store;
  MemoryAccount* memory = nullptr;  // limited to the call's allowance
  CallMonitor* monitor = nullptr;   // never null while running
  int lanes = 1;                    // threads that the call may use, its own included; results do not depend on it
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  const KernelSpec& spec() const { return spec_; }
  const std::vector<OutputSpec>& outputs() const { return outputs_; }
  // What computes it, for fingerprints: a changed identity means other results ("add#1", plugin id and content hash).
  virtual std::string identity() const = 0;
  // True where every call must run in a worker process unless the user says otherwise (code that is not ours).
  virtual bool foreign() const { return false; }

  // Throws Error{invalid} where inputs of extents known when the call is stated can have no result (max of nothing). Of
  // extents that only a run finds out, run() throws the same.
  virtual void check_extents() const {}

  // --- the domain: the index space that blocks are cut from. Default: that of output 0. A reduction's: its input's.
  virtual Shape domain() const { return outputs_[0].spec.max_shape(); }
  // Axes of the domain that a block may not cut. Default: none.
  virtual std::vector<bool> whole_axes() const { return std::vector<bool>(domain().size(), false); }
  // Axes of the domain along which one call may be cut so that the pieces' results, joined, are the uncut call's, bit for
  // bit. Default: none.
  virtual std::vector<bool> splittable_axes() const { return {}; }
  // The block that suits inputs of these chunks (one Shape per array input; rank as the input's). Extents are at least
  // 1 and at most the domain's (or 1 where that is 0); whole axes are whole.
  virtual Shape preferred_block(const std::vector<Shape>& input_chunks) const = 0;
  // The part of input k that a block needs. Always within the input.
  virtual Box input_box(std::size_t k, const Box& block) const = 0;
  // A bound on input_box(k, b).shape for every block b of at most these extents.
  virtual Shape input_extents(std::size_t k, const Shape& block) const = 0;
  // True where input_box(k, b) == b for every b: what fusion may inline freely.
  virtual bool input_is_block(std::size_t) const { return false; }
  // True where run() may be given one memory as input k and as output 0: they have one type and, where their extents are
  // equal, each element of the result is written after the last look at that element of the input.
  virtual bool works_in_place(std::size_t) const { return false; }
  // The part of output k that a block yields (not for ragged outputs). Default: the block itself.
  virtual Box output_box(std::size_t, const Box& block) const { return block; }
  // Extents of output_box for blocks of at most these extents; for a ragged output the largest piece.
  virtual Shape output_extents(std::size_t, const Shape& block) const { return block; }
  // What of them is in memory at once. Less where a ragged output is handed over in slabs, along its ragged axis.
  virtual Shape room(std::size_t k, const Shape& block) const { return output_extents(k, block); }
  // True where output 0 has the very elements of input 0 in their places (rechunk): no call is needed.
  virtual bool identity_map() const { return false; }
  virtual const ReductionForm* reduction() const { return nullptr; }
  // True where every input fills its own part of the output: run() is called once for each input, and those that are not
  // there have no data. So a task holds one input at a time.
  virtual bool inputs_one_by_one() const { return false; }
  // True where the pieces of ragged outputs must follow each other in the C order of the domain's indices: blocks are
  // then runs of that order.
  virtual bool in_c_order() const { return false; }
  // True where blocks that cut chunks of the inputs many times are worth a rechunk before.
  virtual bool reads_in_order() const { return in_c_order(); }
  // False where blocks must be those of a grid: it is not computed inside a consumer, whose blocks may be any.
  virtual bool inlinable() const { return true; }
  // Where set, this kernel is never run: the calls take its place.
  virtual const Expansion* expansion() const { return nullptr; }
  // Where set, the pieces of ragged outputs are runs.
  virtual const RunsForm* runs() const { return nullptr; }

  // Memory that one call takes beside inputs and outputs, for any block of at most these extents.
  virtual CallMemory memory(Phase phase, const Shape& block) const = 0;
  // Thread-safe. Throws Error; over_budget where the account refused, with account.needed() telling how much.
  virtual void run(KernelCall& call) const = 0;
  // Of runs: moves rows until the room is full or a run has none at hand any more. Rows that are equal become one.
  virtual void merge(MergeTurn&) const {}

 protected:
  explicit Kernel(KernelSpec spec) : spec_(std::move(spec)) {}
  KernelSpec spec_;
  std::vector<OutputSpec> outputs_;
};

// A parameter as functions document it.
struct ParamDoc {
  std::string name, type, doc;
  std::optional<ParamValue> default_value;  // none: required
};
struct FunctionDoc {
  std::string name;                    // "mean", "sky.sources/1"
  std::string kind;                    // "builtin" | "plugin"
  std::string signature, doc, memory;  // memory: the formula in words or as the manifest states it
  std::vector<ParamDoc> params;
};

// A function that is made of others: its steps take its place, so that each is planned and bounded by itself.
struct Recipe {
  struct Part {
    std::string name, function;       // of the step; what it calls
    std::vector<std::string> args;    // inputs of the recipe, or earlier parts: "blocks", "blocks.border"
    std::vector<std::string> params;  // parameters of the recipe that it takes, under the same names
  };
  std::vector<std::string> inputs;  // names
  std::vector<Part> parts;          // the last one's outputs are the result
};

// From a name to a kernel: built-ins and plugins look alike. Thread-safe.
class KernelResolver {
 public:
  virtual ~KernelResolver() = default;
  // nullptr where the name is not of this resolver. Throws Error{invalid} for wrong arguments or parameters: what was
  // given, what was expected, the nearest valid name.
  virtual std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const = 0;
  virtual std::vector<FunctionDoc> functions() const = 0;
  // Where the name is that of a recipe; resolve() knows none. Lives as long as the resolver.
  virtual const Recipe* recipe(const std::string& /*function*/) const { return nullptr; }
};

// The built-in functions (array API standard names and engine extras).
const KernelResolver& builtin_kernels();
// Asks the given resolvers in order; throws Error{invalid} with the nearest name where none knows the function.
std::shared_ptr<const Kernel> resolve_kernel(const std::vector<const KernelResolver*>& resolvers,
                                             const KernelSpec& spec);
// The candidate nearest to `word` by edit distance, if near enough to be meant.
std::optional<std::string> nearest_name(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace cuboid
