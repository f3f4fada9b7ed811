// The pipeline file: from YAML to a request that can be planned. INTERFACE.md's section of that name is the contract.
// Reads the file and the metadata of the arrays that it names; no chunk, and it writes nothing.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "storage/error.h"

namespace cuboid {

// The functions that `call` may name: grows as the file lists plugins.
class FunctionCatalog {
 public:
  virtual ~FunctionCatalog() = default;
  // A library by path, or by a name that is searched on the plugin path. Reads its manifest, never its code. Throws
  // Error.
  virtual void add_plugin(const std::string& library) = 0;
  virtual Resolvers resolvers() const = 0;
};

// What a command line may lay over a file before it is planned.
struct PipelineOverrides {
  std::optional<Shape> chunks;  // block shape of every step whose domain has that rank
};

struct Pipeline {
  PlanRequest request;                  // outputs, unused steps; of options only `durable`
  std::optional<std::uint64_t> memory;  // bytes
  ExceedPolicy on_exceed;
  // Where things stand in the file ("pipeline.yaml:12:9"), for faults that the planner finds: by step, by output path.
  std::map<std::string, std::string> step_places, output_places;
};

// Throws Error{invalid} whose message begins "FILE:LINE:COLUMN: " and names the step, the word at fault, what was
// expected and the nearest valid name.
Pipeline load_pipeline(const std::string& file, FunctionCatalog& catalog, const PipelineOverrides& overrides = {});

// The same error with its place in the file, where the step or the output it speaks of is known.
Error with_place(const Error& error, const Pipeline& pipeline);

}  // namespace cuboid
