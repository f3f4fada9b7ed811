#include "engine/plugin/plugin_kernel.h"

#include <algorithm>
#include <mutex>

#include "engine/plugin/boundary.h"
#include "engine/plugin/plugin_call.h"
#include "storage/error.h"

namespace cuboid {
namespace {

constexpr double kMaxRereading = 1.25;
constexpr std::int64_t kMaxBlockBytes = 64 << 20;

// The halo makes a block read more than it answers for: how many times as much, along one axis.
double rereading(std::int64_t block, std::int64_t halo, std::int64_t extent) {
  return static_cast<double>(std::min(block + 2 * halo, extent)) /
         static_cast<double>(std::max<std::int64_t>(block, 1));
}

// Gives the plugin one input: as it was read, or padded where the array ends.
void add_input(const Binding& binding, std::size_t k, KernelCall& call, PluginCall& host, std::vector<Buffer>& padded) {
  const Box wanted = binding.wanted(k, call.block);
  const Shape whole = binding.inputs()[k].max_shape();
  const Box interior = binding.interior(k, call.block);
  if (call.in_box[k] == wanted || wanted.empty()) {
    host.add_input(call.in[k], call.in_box[k].origin, whole, interior);
    return;
  }
  const DType dtype = call.in[k].dtype;
  padded.push_back(call.memory->acquire(byte_count(wanted.shape, dtype)));
  const View view = make_view(padded.back().data(), dtype, wanted.shape);
  pad(call.in[k], call.in_box[k], whole, view, wanted, {binding.params().boundary, binding.params().boundary_value});
  host.add_input(view, wanted.origin, whole, interior);
}

void add_output(const Binding& binding, std::size_t k, KernelCall& call, PluginCall& host) {
  const FunctionManifest& function = binding.function();
  HostOutput output;
  output.data = call.out[k];
  output.delivery = function.outputs[k].delivery;
  if (binding.outputs()[k].ragged_axis) {
    output.origin = Shape(output.data.shape.size(), 0);
    output.whole = output.data.shape;
    output.promised_rows = binding.promised_rows(k, call.block.shape);
    output.promised_slab = binding.promised_slab(k, call.block.shape);
  } else {
    output.origin = binding.output_box(k, call.block).origin;
    output.whole = binding.outputs()[k].spec.max_shape();
  }
  host.add_output(std::move(output));
}

// The four functions of a reduction over one block that is the whole array.
void reduce_whole(const Binding& binding, const cuboid_fn& fn, void* state, KernelCall& call, PluginCall& host) {
  std::vector<Buffer> buffers;
  std::vector<const cuboid_view*> partial;
  for (std::size_t k = 0; k < binding.function().partial.size(); ++k) {
    const DType dtype = binding.dtype(binding.function().partial[k]);
    const Shape shape = binding.partial_shape(k);
    buffers.push_back(call.memory->acquire(byte_count(shape, dtype)));
    partial.push_back(host.add_partial(make_view(buffers.back().data(), dtype, shape)));
  }
  using Stage = PluginCall::Stage;
  host.invoke(Stage::run, false, false, [&](cuboid_call* c) { return fn.init(state, c, partial.data()); });
  if (host.failed()) return;
  host.invoke(Stage::run, true, false, [&](cuboid_call* c) { return fn.accumulate(state, c, partial.data()); });
  if (host.failed()) return;
  host.invoke(Stage::run, false, true, [&](cuboid_call* c) { return fn.finalize(state, c, partial.data()); });
}

void check_call(const Binding& binding, const KernelCall& call) {
  bool fits = call.phase == Phase::map && call.in.size() == binding.inputs().size() &&
              call.in_box.size() == call.in.size() && call.out.size() == binding.outputs().size() && call.memory &&
              call.monitor;
  for (std::size_t k = 0; fits && k < call.in.size(); ++k)
    fits = call.in_box[k] == binding.input_box(k, call.block) && call.in[k].shape == call.in_box[k].shape &&
           call.in[k].dtype == binding.inputs()[k].dtype;
  for (std::size_t k = 0; fits && k < call.out.size(); ++k)
    fits = call.out[k].dtype == binding.outputs()[k].spec.dtype &&
           call.out[k].shape.size() == binding.outputs()[k].spec.rank();
  if (!fits)
    throw Error(ErrorKind::invalid, binding.function().id + " was called with buffers that do not fit its block " +
                                        to_string(call.block.shape));
}

}  // namespace

PluginKernel::PluginKernel(KernelSpec spec, std::shared_ptr<const PluginLibrary> library, std::size_t index,
                           const Inference& inference)
    : Kernel(std::move(spec)),
      library_(std::move(library)),
      index_(index),
      binding_(library_->manifest().functions[index], spec_,
               inference ? Binding::Infer([inference, plugin = library_.get(), index](const InferAsk& ask) {
                 return inference(*plugin, index, ask);
               })
                         : Binding::Infer()) {
  outputs_ = binding_.outputs();
}

std::string PluginKernel::identity() const { return function().id + "#" + library_->manifest().content_hash; }

Shape PluginKernel::preferred_block(const std::vector<Shape>& input_chunks) const {
  const Shape whole = domain();
  if (whole.empty()) return {};
  Shape block = whole, chunk = input_chunks.at(0);
  std::int64_t bytes = binding_.inputs()[0].dtype.size;
  std::vector<std::int64_t> halos(whole.size(), 0);
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const std::string& axis = function().signature.inputs[0].extents[d].axis;
    const std::int64_t extent = std::max<std::int64_t>(whole[d], 1);
    chunk[d] = std::clamp<std::int64_t>(chunk[d], 1, extent);
    block[d] = whole_axes()[d] ? extent : chunk[d];
    halos[d] = axis.empty() ? 0 : binding_.halo(axis);
    bytes = bytes > kMaxBlockBytes / block[d] ? kMaxBlockBytes : bytes * block[d];
  }
  for (;;) {
    double total = 1;
    std::size_t worst = whole.size();
    for (std::size_t d = 0; d < whole.size(); ++d) {
      const double factor = rereading(block[d], halos[d], std::max<std::int64_t>(whole[d], 1));
      total *= factor;
      if (block[d] < whole[d] && factor > 1 &&
          (worst == whole.size() || factor > rereading(block[worst], halos[worst], whole[worst])))
        worst = d;
    }
    if (total <= kMaxRereading || worst == whole.size() || bytes * 2 > kMaxBlockBytes) return block;
    block[worst] = std::min(block[worst] * 2, whole[worst]);
    bytes *= 2;
  }
}

CallMemory PluginKernel::memory(Phase, const Shape& block) const { return binding_.memory(block); }

std::vector<bool> PluginKernel::splittable_axes() const {
  std::vector<bool> result;
  const std::vector<std::string>& names = function().splittable;
  if (!function().signature.inputs.empty())
    for (const ExtentPattern& extent : function().signature.inputs[0].extents)
      result.push_back(!extent.axis.empty() && std::find(names.begin(), names.end(), extent.axis) != names.end());
  return result;
}

void PluginKernel::run(KernelCall& call) const {
  check_call(binding_, call);
  const cuboid_fn& fn = library_->function(index_);
  const FunctionFlags& flags = function().flags;
  std::unique_lock<std::mutex> serial(library_->serial(index_), std::defer_lock);
  if (!flags.reentrant && !flags.state_local) serial.lock();

  const Shape& block = call.block.shape;
  PluginCall host(
      function(), *call.memory, *call.monitor,
      {binding_.promised_bytes(function().call_bytes, block), binding_.promised_bytes(function().state_bytes, block),
       binding_.promised_bytes(function().outside_bytes, block)});
  std::vector<Buffer> padded;
  host.set_params(binding_.params().values);
  for (std::size_t k = 0; k < call.in.size(); ++k) add_input(binding_, k, call, host, padded);
  for (std::size_t k = 0; k < call.out.size(); ++k) add_output(binding_, k, call, host);

  using Stage = PluginCall::Stage;
  void* state = nullptr;
  if (fn.open) {
    std::unique_lock<std::mutex> opening(library_->serial(index_), std::defer_lock);
    if (!serial.owns_lock()) opening.lock();
    host.invoke(Stage::open, false, false, [&](cuboid_call* c) { return fn.open(c, &state); });
    if (host.failed()) host.judge();  // there is no state to close
  }
  if (fn.run)
    host.invoke(Stage::run, true, true, [&](cuboid_call* c) { return fn.run(state, c); });
  else
    reduce_whole(binding_, fn, state, call, host);
  if (fn.open && fn.close)
    host.invoke(Stage::close, false, false, [&](cuboid_call* c) { return fn.close(c, state), CUBOID_OK; });
  host.judge();
  call.produced = host.produced();
}

}  // namespace cuboid
