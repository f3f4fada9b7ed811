// START HERE. A lazy, immutable array: where its elements come from, not the elements. Expressions are built from these;
// nothing is read or computed before a plan of them runs.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/expr/kernel.h"
#include "storage/zarr.h"

namespace cuboid {

enum class ExceedAction : std::uint8_t { ask, grow, park, fail };
// What to do when an estimate was too low. Empty: as the run says.
struct ExceedPolicy {
  std::optional<ExceedAction> action;
  std::optional<double> factor;                  // > 1
  std::optional<std::uint64_t> max_task_memory;  // bytes
  std::optional<int> max_attempts;               // >= 1
};
enum class Isolation : std::uint8_t { automatic, process, thread };

// What a user may say of one step beside its arguments.
struct StepOptions {
  std::optional<Shape> chunks;  // block shape of the step's domain; for rechunk the chunks of the result
  std::optional<std::chrono::milliseconds> timeout;
  Isolation isolation = Isolation::automatic;
  ExceedPolicy on_exceed;
};

class Array;

// A step: one kernel on arrays. Several outputs share a node.
struct Node {
  std::string name;                      // the step's name; unique within a plan; "" until named by the planner
  std::optional<ZarrArray> source;       // an input array ...
  std::shared_ptr<const Kernel> kernel;  // ... or a computation
  std::vector<Array> inputs;             // the kernel's array inputs, in order
  StepOptions options;
  std::string part_of;  // of a call that another step was expanded to: that step's name
};

class Array {
 public:
  Array(std::shared_ptr<const Node> node, std::size_t output) : node_(std::move(node)), output_(output) {}
  const Node& node() const { return *node_; }
  const std::shared_ptr<const Node>& node_ptr() const { return node_; }
  std::size_t output() const { return output_; }
  ArraySpec spec() const;

 private:
  std::shared_ptr<const Node> node_;
  std::size_t output_;
};

// An input array; `name` is used in messages and plans.
Array source(ZarrArray zarr, std::string name);
// Applies a kernel: one Array per output. Of a kernel that is expanded the calls are applied, with names and options that
// follow from the step's: "unstacked.0", "rolled.concat".
std::vector<Array> apply(std::shared_ptr<const Kernel> kernel, std::vector<Array> inputs, std::string name = "",
                         StepOptions options = {});
// The same by name, recipes too: their parts become steps `NAME.PART`, the last one bears the name itself. `options`
// hold for every part, block extents for those whose domain has as many axes. Throws Error{invalid} as resolve_kernel does.
std::vector<Array> apply_function(const std::vector<const KernelResolver*>& resolvers, const KernelSpec& spec,
                                  std::vector<Array> inputs, const std::string& name, const StepOptions& options);

}  // namespace cuboid
