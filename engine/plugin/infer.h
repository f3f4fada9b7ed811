// Shapes and bytes that no formula can say: the plugin's own `infer` is asked, the only plugin code that may run before
// a plan is accepted. Question and answer are plain data, so that they can be asked in another process.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/expr/kernel.h"
#include "engine/plugin/plugin_library.h"

namespace cuboid {

// One block, as the planner knows it before any byte is read; per input.
struct InferAsk {
  std::vector<DType> dtypes;
  std::vector<Shape> interior, halo, whole;  // extents of the block, halo on either side, extents of the array
  std::vector<ParamValue> params;            // as the plugin sees them
  std::vector<std::size_t> output_ranks;
};

struct InferAnswer {
  struct Output {
    DType dtype;
    Trust trust = Trust::guess;  // of max_shape; never unknown
    Shape max_shape;
    Shape likely_shape;  // 0 along axis 0: no opinion
  };
  struct Bytes {
    std::uint64_t bytes = 0;
    Trust trust = Trust::unknown;
  };
  std::vector<Output> outputs;
  Bytes call, state, outside;
};

// What blocks are about, by block and output: the box of the output that a block yields; of one that depends on data the
// block itself. And what they need, by block and input: within the input, or not, as the plugin says.
using RegionsAsk = std::vector<std::vector<Box>>;
using RegionsAnswer = std::vector<std::vector<Box>>;

// How the planner asks: in a worker process, or here. Thread-safe.
struct Inference {
  using Infer = std::function<InferAnswer(const PluginLibrary& library, std::size_t function, const InferAsk& ask)>;
  // `ask`: about the whole arrays.
  using Regions = std::function<RegionsAnswer(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                                              const RegionsAsk& wanted)>;
  Infer infer;
  Regions regions;

  Inference() = default;
  Inference(std::nullptr_t) {}
  Inference(Infer one) : infer(std::move(one)) {}
  Inference(InferAnswer (*one)(const PluginLibrary&, std::size_t, const InferAsk&)) : infer(one) {}
  Inference(Infer one, Regions other) : infer(std::move(one)), regions(std::move(other)) {}
};

// Loads the library and asks it in this process. Throws Error{invalid} where the plugin refuses the ask, Error{plugin}
// where it cannot be loaded or its answer makes no sense.
InferAnswer call_infer(const PluginLibrary& library, std::size_t function, const InferAsk& ask);
// The same for `regions`: for each block the hull, over the outputs, of what each input is needed for.
RegionsAnswer call_regions(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                           const RegionsAsk& wanted);
// call_infer for those who watch the plugin's code: `around` runs it.
using AroundInfer = std::function<void(const std::function<void()>& infer)>;
InferAnswer call_infer_watched(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                               const AroundInfer& around);

}  // namespace cuboid
