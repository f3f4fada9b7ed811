#include "engine/plugin/plugin_kernel.h"

#include <algorithm>
#include <chrono>
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
    const bool in_slabs = call.store && output.delivery == Delivery::push;
    output.capacity = in_slabs ? binding.output_extents(k, call.block.shape)[0] : output.data.shape[0];
    output.origin = Shape(output.data.shape.size(), 0);
    output.whole = output.data.shape;
    output.whole[0] = output.capacity;
    if (output.capacity > output.data.shape[0]) output.store = [&call, k](std::int64_t rows) { call.store(k, rows); };
    output.promised_rows = binding.promised_rows(k, call.block.shape);
    output.promised_slab = binding.promised_slab(k, call.block.shape);
  } else {
    output.origin = binding.output_box(k, call.block).origin;
    output.whole = binding.outputs()[k].spec.max_shape();
  }
  host.add_output(std::move(output));
}

// A partial result as the plugin sees it: without the axes of the domain.
View without_domain(const View& state, std::size_t rank) {
  const auto skip = static_cast<std::ptrdiff_t>(rank);
  return {state.dtype, state.data, Shape(state.shape.begin() + skip, state.shape.end()),
          Shape(state.strides.begin() + skip, state.strides.end())};
}

std::vector<const cuboid_view*> add_partials(const Binding& binding, const std::vector<View>& states,
                                             PluginCall& host) {
  std::vector<const cuboid_view*> partial;
  for (const View& state : states) partial.push_back(host.add_partial(without_domain(state, binding.domain().size())));
  return partial;
}

// Partial results that are only read; the ABI has one kind of view for both.
std::vector<View> readable(const std::vector<ConstView>& states) {
  std::vector<View> views;
  for (const ConstView& state : states)
    views.push_back({state.dtype, const_cast<std::byte*>(state.data), state.shape, state.strides});
  return views;
}

// The plugin's function for a phase, with what it is to see.
void run_phase(const Binding& binding, const cuboid_fn& fn, void* state, const KernelCall& call, PluginCall& host) {
  using Stage = PluginCall::Stage;
  const bool sees_inputs = call.phase == Phase::map || call.phase == Phase::accumulate;
  const bool sees_outputs = call.phase == Phase::map || call.phase == Phase::finalize;
  std::vector<const cuboid_view*> in, out;
  if (!sees_inputs) in = add_partials(binding, readable(call.in), host);
  if (!sees_outputs) out = add_partials(binding, call.out, host);
  host.invoke(Stage::run, sees_inputs, sees_outputs, [&](cuboid_call* c) {
    switch (call.phase) {
      case Phase::map:
        return fn.run(state, c);
      case Phase::init:
        return fn.init(state, c, out.data());
      case Phase::accumulate:
        return fn.accumulate(state, c, out.data());
      case Phase::merge:
        return fn.merge(state, c, out.data(), in.data());
      case Phase::finalize:
        break;
    }
    return fn.finalize(state, c, in.data());
  });
}

using Turn = std::unique_lock<std::timed_mutex>;

// Waiting is not standing still: it counts as progress, and ends when the call is cancelled.
Turn take_turn(std::timed_mutex& mutex, CallMonitor& monitor) {
  Turn turn(mutex, std::defer_lock);
  while (!turn.try_lock_for(std::chrono::milliseconds(50))) {
    monitor.progress(0);
    if (monitor.cancelled()) throw Error(ErrorKind::cancelled, "the call was cancelled before it began");
  }
  return turn;
}

Binding::Ask questions(const Inference& inference, const PluginLibrary& library, std::size_t index) {
  Binding::Ask ask;
  if (inference.infer)
    ask.infer = [infer = inference.infer, plugin = &library, index](const InferAsk& about) {
      return infer(*plugin, index, about);
    };
  if (inference.regions)
    ask.regions = [regions = inference.regions, plugin = &library, index](const InferAsk& about,
                                                                          const RegionsAsk& wanted) {
      return regions(*plugin, index, about, wanted);
    };
  return ask;
}

// The extents that formulas see: those of a block, where the phase has one.
Shape block_extents(const Binding& binding, Phase phase, const Shape& block) {
  if (phase == Phase::map || phase == Phase::accumulate) return block;
  Shape extents = binding.domain();
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (!binding.whole_axes()[axis]) extents[axis] = std::min<std::int64_t>(extents[axis], 1);
  return extents;
}

bool are_inputs(const Binding& binding, const KernelCall& call) {
  bool fits = call.in.size() == binding.inputs().size() && call.in_box.size() == call.in.size();
  for (std::size_t k = 0; fits && k < call.in.size(); ++k)
    fits = call.in_box[k] == binding.input_box(k, call.block) && call.in[k].shape == call.in_box[k].shape &&
           call.in[k].dtype == binding.inputs()[k].dtype;
  return fits;
}

bool are_outputs(const Binding& binding, const KernelCall& call) {
  bool fits = call.out.size() == binding.outputs().size();
  for (std::size_t k = 0; fits && k < call.out.size(); ++k)
    fits = call.out[k].dtype == binding.outputs()[k].spec.dtype &&
           call.out[k].shape.size() == binding.outputs()[k].spec.rank();
  return fits;
}

template <class Views>
bool are_states(const Binding& binding, const Views& views) {
  const ReductionForm& form = *binding.reduction();
  const Shape ones(binding.domain().size(), 1);
  bool fits = views.size() == form.states.size();
  for (std::size_t k = 0; fits && k < views.size(); ++k)
    fits = views[k].dtype == form.states[k] && views[k].shape == form.with_tail(ones, k) && views[k].contiguous();
  return fits;
}

void check_call(const Binding& binding, const KernelCall& call) {
  const bool reduces = call.phase != Phase::map;
  bool fits = call.memory && call.monitor && reduces == binding.reduction().has_value();
  if (fits && (call.phase == Phase::map || call.phase == Phase::accumulate)) fits = are_inputs(binding, call);
  if (fits && (call.phase == Phase::merge || call.phase == Phase::finalize)) fits = are_states(binding, call.in);
  if (fits && (call.phase == Phase::map || call.phase == Phase::finalize)) fits = are_outputs(binding, call);
  if (fits && reduces && call.phase != Phase::finalize) fits = are_states(binding, call.out);
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
      binding_(library_->manifest().functions[index], spec_, questions(inference, *library_, index)) {
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

CallMemory PluginKernel::memory(Phase phase, const Shape& block) const {
  return binding_.memory(block_extents(binding_, phase, block), phase == Phase::map || phase == Phase::accumulate);
}

std::vector<bool> PluginKernel::splittable_axes() const {
  std::vector<bool> result;
  const std::vector<std::string>& names = function().splittable;
  if (!function().signature.inputs.empty())
    for (const ExtentPattern& extent : function().signature.inputs[0].extents)
      result.push_back(!extent.axis.empty() && std::find(names.begin(), names.end(), extent.axis) != names.end());
  return result;
}

// Where a state's bytes are promised and no block's: it may be kept from call to call. A validator sees each open.
std::optional<std::uint64_t> PluginKernel::kept_state_bytes(const KernelCall& call) const {
  if (dynamic_cast<const CallProbe*>(call.monitor)) return std::nullopt;
  const Shape least(domain().size(), 1);
  const auto promised = binding_.promised_bytes(function().state_bytes, domain());
  return promised == binding_.promised_bytes(function().state_bytes, least) ? promised : std::nullopt;
}

std::shared_ptr<PluginState> PluginKernel::borrow_state(const cuboid_fn& fn, std::uint64_t limit, KernelCall& call,
                                                        bool alone) const {
  const bool shared = function().flags.reentrant;
  if (auto state = states_.take(shared)) return state;
  const auto opening = alone ? Turn() : take_turn(library_->turn(), *call.monitor);
  if (auto state = states_.take(shared)) return state;  // another thread was faster
  auto state = std::make_shared<PluginState>(fn, function(), binding_.params().values, limit, *call.monitor);
  if (shared) states_.give(state);
  return state;
}

void PluginKernel::run(KernelCall& call) const {
  check_call(binding_, call);
  // Over an array without elements there is one block, and nothing to add.
  if (call.phase == Phase::accumulate && intersect(call.block, Box::whole(domain())).empty()) return;
  const cuboid_fn& fn = library_->function(index_);
  const FunctionFlags& flags = function().flags;
  const bool alone = !flags.reentrant && !flags.state_local;
  const Turn turn = alone ? take_turn(library_->turn(), *call.monitor) : Turn();

  const Shape block = block_extents(binding_, call.phase, call.block.shape);
  PluginCall host(
      function(), *call.memory, *call.monitor,
      {binding_.promised_bytes(function().call_bytes, block), binding_.promised_bytes(function().state_bytes, block),
       binding_.promised_bytes(function().outside_bytes, block)});
  std::vector<Buffer> padded;
  host.set_params(binding_.params().values);
  host.set_lanes(call.lanes);
  if (call.phase == Phase::map || call.phase == Phase::accumulate)
    for (std::size_t k = 0; k < call.in.size(); ++k) add_input(binding_, k, call, host, padded);
  if (call.phase == Phase::map || call.phase == Phase::finalize)
    for (std::size_t k = 0; k < call.out.size(); ++k) add_output(binding_, k, call, host);

  using Stage = PluginCall::Stage;
  void* state = nullptr;
  const std::optional<std::uint64_t> kept = fn.open ? kept_state_bytes(call) : std::nullopt;
  if (kept) {
    std::shared_ptr<PluginState> own = borrow_state(fn, *kept, call, alone);
    const Charge held = call.memory->charge(own->bytes());
    run_phase(binding_, fn, own->get(), call, host);
    host.judge();  // after a failure the state is not used again, unless others do
    if (!flags.reentrant) states_.give(std::move(own));
  } else if (fn.open) {
    const Turn opening = alone ? Turn() : take_turn(library_->turn(), *call.monitor);
    host.invoke(Stage::open, false, false, [&](cuboid_call* c) { return fn.open(c, &state); });
    if (host.failed()) host.judge();  // there is no state to close
  }
  if (!kept) run_phase(binding_, fn, state, call, host);
  if (!kept && fn.open && fn.close)
    host.invoke(Stage::close, false, false, [&](cuboid_call* c) { return fn.close(c, state), CUBOID_OK; });
  host.judge();
  if (call.phase == Phase::map || call.phase == Phase::finalize) call.produced = host.produced();
}

}  // namespace cuboid
