#include "engine/plugin/plugin_call.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/plugin/calling_process.h"
#include "engine/plugin/host_heap.h"
#include "engine/plugin/kept_surroundings.h"
#include "engine/plugin/lanes.h"
#include "storage/error.h"
#include "storage/inject.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

constexpr std::uint64_t kSmall = 32 << 10;  // below it the heap serves a request, above it the pool
constexpr std::uint64_t kMaxAlign = 4096;

// As the manifest counts a request: in multiples of 64, plus the alignment where more than 64 was asked for.
std::uint64_t counted_bytes(std::uint64_t bytes, std::uint64_t align) {
  return (bytes + 63) / 64 * 64 + (bytes > 0 && align > 64 ? align : 0);
}

// Text of a plugin, for messages.
std::string clean(const char* text) {
  return text ? printable(std::string_view(text, ::strnlen(text, 2000)), 2000) : "";
}

std::string status_name(cuboid_status status) {
  static constexpr const char* kNames[] = {"OK",         "E_DTYPE", "E_SHAPE",     "E_PARAM",   "E_UNSUPPORTED",
                                           "E_BUDGET",   "E_BOUND", "E_CANCELLED", "E_NUMERIC", "E_STATE",
                                           "E_INTERNAL", "E_THROWN"};
  if (status <= 0 && status > -12) return kNames[-status];
  return "status " + std::to_string(status);
}

}  // namespace

PluginCall::PluginCall(const FunctionManifest& function, MemoryAccount& account, CallMonitor& monitor,
                       CallPromises promises)
    : function_(function),
      account_(account),
      monitor_(monitor),
      probe_(dynamic_cast<CallProbe*>(&monitor)),
      promises_(promises) {}

PluginCall::~PluginCall() {
  for (auto& [memory, allocation] : live_) free_allocation(allocation);
  if (outside_bytes_ > 0) account_.release(outside_bytes_);
}

// --- what the plugin is handed

PluginCall::HostView& PluginCall::fill_view(HostView& host, const ConstView& view, const Shape& origin,
                                            const Shape& whole, const Box& interior, std::uint16_t flags) {
  std::copy(view.shape.begin(), view.shape.end(), host.shape.begin());
  std::copy(view.strides.begin(), view.strides.end(), host.strides.begin());
  std::copy(origin.begin(), origin.end(), host.origin.begin());
  std::copy(whole.begin(), whole.end(), host.whole.begin());
  for (std::size_t a = 0; a < origin.size(); ++a) host.inner_origin[a] = interior.origin[a] - origin[a];
  std::copy(interior.shape.begin(), interior.shape.end(), host.inner_shape.begin());
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  const bool empty = element_count(view.shape) == 0;
  host.view.size = sizeof host.view;
  host.view.rank = static_cast<std::uint16_t>(view.shape.size());
  host.view.flags = static_cast<std::uint16_t>(flags | (view.contiguous() ? CUBOID_V_ROWMAJOR : 0));
  host.view.dtype = abi_dtype(view.dtype);
  host.view.alignment = static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & (~address + 1), kMaxAlign));
  if (empty || host.view.alignment == 0) host.view.alignment = 1;
  host.view.data = empty ? nullptr : const_cast<std::byte*>(view.data);
  host.view.shape = host.shape.data();
  host.view.stride_bytes = host.strides.data();
  host.view.origin = host.origin.data();
  host.view.whole = host.whole.data();
  host.view.inner_origin = host.inner_origin.data();
  host.view.inner_shape = host.inner_shape.data();
  return host;
}

void PluginCall::add_input(const ConstView& view, const Shape& origin, const Shape& whole, const Box& interior) {
  in_.push_back(&fill_view(views_.emplace_back(), view, origin, whole, interior, CUBOID_V_READONLY).view);
}

void PluginCall::add_output(HostOutput output) {
  View shown = output.data;
  if (output.delivery == Delivery::push) shown.shape[0] = output.capacity;  // its data is not shown
  HostView& host =
      fill_view(views_.emplace_back(), shown, output.origin, output.whole, Box{output.origin, shown.shape}, 0);
  if (output.delivery == Delivery::emit || output.delivery == Delivery::push) host.view.data = nullptr;
  out_.push_back(&host.view);
  out_views_.push_back(&host);
  outputs_.emplace_back().given = std::move(output);
}

const cuboid_view* PluginCall::add_partial(const View& view) {
  const Shape origin(view.shape.size(), 0);
  return &fill_view(views_.emplace_back(), view, origin, view.shape, Box{origin, view.shape}, 0).view;
}

void PluginCall::invoke(Stage stage, bool sees_inputs, bool sees_outputs,
                        const std::function<cuboid_status(cuboid_call*)>& body) {
  stage_ = stage;
  call_ = cuboid_call{};
  call_.size = sizeof call_;
  call_.lanes = stage == Stage::run ? static_cast<std::uint32_t>(lanes_) : 1;
  call_.host = &host_services();
  call_.host_data = this;
  call_.n_in = sees_inputs ? static_cast<std::uint32_t>(in_.size()) : 0;
  call_.n_out = sees_outputs ? static_cast<std::uint32_t>(out_.size()) : 0;
  call_.n_param = params_.size();
  call_.in = in_.data();
  call_.out = out_.data();
  call_.param = params_.data();
  cuboid_status status = CUBOID_OK;
  const KeptSurroundings kept;
  const CallingProcess here;
  try {
    status = body(&call_);
  } catch (const std::bad_alloc&) {
    memory_escaped_ = true;
    status = CUBOID_E_THROWN;
  } catch (const std::exception& error) {
    escaped_ = clean(error.what()) + " ";
    status = CUBOID_E_THROWN;
  } catch (...) {
    escaped_ = "of an unknown type ";
    status = CUBOID_E_THROWN;
  }
  here.end_copy();
  if (const std::string changes = probe_ ? kept.changes() : ""; !changes.empty())
    probe_->broke(CallProbe::Promise::surroundings, changes);
  if (probe_) probe_->returned(status);
  if (status_ == CUBOID_OK) status_ = status;
  free_leftovers(stage);
}

std::vector<Shape> PluginCall::produced() const {
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    const OutputState& state = outputs_[k];
    Shape shape = state.given.data.shape;
    if (state.given.delivery != Delivery::fill) {
      if (!state.settled && state.given.delivery != Delivery::push)
        throw_plugin("returned OK without " + std::string(state.given.delivery == Delivery::emit ? "emit" : "trim") +
                     " of its output " + function_.signature.outputs[k].name);
      shape[0] = state.rows;
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// --- memory

cuboid_status PluginCall::acquire(std::uint64_t bytes, std::uint64_t align, bool scratch, const char* tag, void** out) {
  const std::lock_guard lock(lock_);
  if (!out) return misuse("acquire or scratch without a place for the pointer");
  *out = nullptr;
  if (align == 0) align = 64;
  if (align > kMaxAlign || (align & (align - 1)) != 0)
    return misuse("acquire or scratch with alignment " + std::to_string(align) + ", no power of two up to 4096");
  const std::string what = tag ? in_quotes(tag) : scratch ? "scratch" : "memory";
  if (bytes > (std::uint64_t{1} << 62)) return refuse(what, bytes);
  const bool of_state = stage_ != Stage::run;
  const std::uint64_t counted = counted_bytes(bytes, align);
  std::uint64_t& held = of_state ? state_bytes_ : call_bytes_;
  const auto& promised = of_state ? promises_.state_bytes : promises_.call_bytes;
  if (probe_ && !probe_->admits(counted)) return refuse(what, bytes);
  if (promised && held + counted > *promised) {
    const auto status = break_promise(
        of_state ? CallProbe::Promise::state_bytes : CallProbe::Promise::call_bytes, CUBOID_E_BUDGET,
        "took " + format_size(held + counted) + " through the host (for " + what + "), its manifest promises at most " +
            format_size(*promised) + (of_state ? " of state_bytes" : " of call_bytes"));
    if (status != CUBOID_OK) return status;
  }
  if (inject::due(inject::Fault::host)) return refuse(what, bytes);
  try {
    Allocation allocation = allocate(bytes, align);
    allocation.counted = counted;
    allocation.scratch = scratch;
    allocation.stage = stage_;
    void* memory = allocation.heap;
    if (!memory) {
      const auto address = reinterpret_cast<std::uintptr_t>(allocation.buffer.data());
      memory = reinterpret_cast<void*>((address + align - 1) / align * align);
    }
    live_.emplace(memory, std::move(allocation));
    held += counted;
    if (probe_) probe_->holds(call_bytes_, state_bytes_, outside_bytes_);
    *out = memory;
    return CUBOID_OK;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::over_budget) {
      const auto host = std::pair<std::string, std::string>("evidence", "host");
      machine_full_ |= std::count(error.context().begin(), error.context().end(), host) > 0;
      return refuse(what, bytes);
    }
    pending_ = std::current_exception();
    return CUBOID_E_CANCELLED;
  } catch (const std::bad_alloc&) {
    return refuse(what, bytes);
  }
}

PluginCall::Allocation PluginCall::allocate(std::uint64_t bytes, std::uint64_t align) {
  Allocation allocation;
  const std::uint64_t counted = counted_bytes(bytes, align);
  if (counted >= kSmall) {
    allocation.buffer = account_.acquire(static_cast<std::size_t>(bytes + (align > 64 ? align : 0)));
    return allocation;
  }
  if (counted > 0) account_.admit(static_cast<std::size_t>(counted));
  allocation.admitted = static_cast<std::size_t>(counted);
  allocation.heap = host_heap().allocate(static_cast<std::size_t>(std::max<std::uint64_t>(align, sizeof(void*))),
                                         static_cast<std::size_t>(std::max<std::uint64_t>(bytes, 1)));
  if (!allocation.heap) {
    if (counted > 0) account_.release(allocation.admitted);
    throw std::bad_alloc();
  }
  return allocation;
}

void PluginCall::free_allocation(Allocation& allocation) {
  allocation.buffer.release();
  if (allocation.heap) host_heap().release(allocation.heap);
  if (allocation.admitted > 0) account_.release(allocation.admitted);
  (allocation.stage == Stage::run ? call_bytes_ : state_bytes_) -= allocation.counted;
}

void PluginCall::release(void* memory) {
  if (!memory) return;
  const std::lock_guard lock(lock_);
  const auto found = live_.find(memory);
  if (found == live_.end() || found->second.scratch || (found->second.stage == Stage::open && stage_ == Stage::run)) {
    misuse("release of memory that is not the call's own");
    return;
  }
  free_allocation(found->second);
  live_.erase(found);
}

// After run: all it took. After open: its scratch. After close: all that is left.
void PluginCall::free_leftovers(Stage stage) {
  const std::lock_guard lock(lock_);
  std::uint64_t leaked = 0, pieces = 0;
  for (auto entry = live_.begin(); entry != live_.end();) {
    Allocation& allocation = entry->second;
    const bool kept = allocation.stage == Stage::open && !allocation.scratch && stage != Stage::close;
    if (kept) {
      ++entry;
      continue;
    }
    if (!allocation.scratch) leaked += allocation.counted, ++pieces;
    free_allocation(allocation);
    entry = live_.erase(entry);
  }
  if (pieces == 0) return;
  const std::string what = "did not release " + std::to_string(pieces) + " piece(s) of memory, " + format_size(leaked);
  monitor_.log(2, function_.id + " " + what + "; the host freed them");
  if (probe_) probe_->broke(CallProbe::Promise::release, what);
}

cuboid_status PluginCall::charge(std::int64_t delta) {
  const std::lock_guard lock(lock_);
  if (delta < 0) {
    const std::uint64_t back = std::min(outside_bytes_, std::uint64_t{0} - static_cast<std::uint64_t>(delta));
    if (back > 0) account_.release(static_cast<std::size_t>(back));
    outside_bytes_ -= back;
    monitor_.holds_outside(outside_bytes_);
    return CUBOID_OK;
  }
  const auto more = static_cast<std::uint64_t>(delta);
  if (promises_.outside_bytes && outside_bytes_ + more > *promises_.outside_bytes) {
    const auto status = break_promise(CallProbe::Promise::outside_bytes, CUBOID_E_BUDGET,
                                      "declared " + format_size(outside_bytes_ + more) +
                                          " outside the host, its manifest promises at most " +
                                          format_size(*promises_.outside_bytes) + " of outside_bytes");
    if (status != CUBOID_OK) return status;
  }
  try {
    if (more > 0) account_.admit(static_cast<std::size_t>(more));
    outside_bytes_ += more;
    monitor_.holds_outside(outside_bytes_);
    if (probe_) probe_->holds(call_bytes_, state_bytes_, outside_bytes_);
    return CUBOID_OK;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::over_budget) return refuse("memory outside the host", more);
    pending_ = std::current_exception();
    return CUBOID_E_CANCELLED;
  }
}

// A body that lets an exception escape stops the others; the first such exception goes on through the plugin's own frame.
cuboid_status PluginCall::spread(std::uint64_t n, void* arg, SpreadBody body) const {
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::exception_ptr escaped;
  const auto work = [&](std::uint32_t lane) {
    try {
      for (std::uint64_t i = 0; !stopped && (i = next.fetch_add(1)) < n;) {
        if (monitor_.cancelled())
          stopped = true;
        else
          body(arg, i, lane);
      }
    } catch (...) {
      stopped = true;
      const std::lock_guard lock(mutex);
      if (!escaped) escaped = std::current_exception();
    }
  };
  run_on_lanes(static_cast<std::uint32_t>(std::min<std::uint64_t>(call_.lanes, n)), work);
  if (escaped) std::rethrow_exception(escaped);
  return stopped ? CUBOID_E_CANCELLED : CUBOID_OK;
}

void PluginCall::headroom(std::uint64_t* limit, std::uint64_t* in_use) const {
  if (limit) *limit = account_.limit();
  if (in_use) *in_use = account_.in_use();
}

cuboid_status PluginCall::refuse(const std::string& what, std::uint64_t bytes) {
  if (refusal_.empty()) refusal_ = format_size(bytes) + " for " + what;
  return CUBOID_E_BUDGET;
}

cuboid_status PluginCall::break_promise(CallProbe::Promise promise, cuboid_status status, const std::string& what) {
  if (probe_) return probe_->broke(promise, what), CUBOID_OK;
  if (promise_.empty()) promise_ = what;
  return status;
}

cuboid_status PluginCall::misuse(const std::string& what) {
  if (misuse_.empty()) misuse_ = what;
  return CUBOID_E_STATE;
}

// --- outputs that depend on data

PluginCall::OutputState* PluginCall::output(std::uint32_t k, const char* service,
                                            std::initializer_list<Delivery> allowed) {
  static constexpr const char* kDeliveries[] = {"fill", "trim", "emit", "grow", "push"};
  if (k >= call_.n_out) {
    misuse(std::string(service) + " of output " + std::to_string(k) + ", there are " + std::to_string(call_.n_out));
    return nullptr;
  }
  OutputState& state = outputs_[k];
  if (std::find(allowed.begin(), allowed.end(), state.given.delivery) == allowed.end()) {
    misuse(std::string(service) + " of output " + function_.signature.outputs[k].name + ", whose delivery is " +
           kDeliveries[static_cast<std::size_t>(state.given.delivery)]);
    return nullptr;
  }
  if (state.settled) {
    misuse(std::string(service) + " of output " + function_.signature.outputs[k].name + ", which was closed before");
    return nullptr;
  }
  return &state;
}

cuboid_status PluginCall::check_extents(OutputState& state, std::uint32_t k, const std::int64_t* extents,
                                        const char* service) {
  const Shape& capacity = state.given.data.shape;
  const std::string& name = function_.signature.outputs[k].name;
  if (!extents || extents[0] < 0) return misuse(std::string(service) + " of output " + name + " without valid extents");
  for (std::size_t a = 1; a < capacity.size(); ++a)
    if (extents[a] != capacity[a])
      return misuse(std::string(service) + " of output " + name + " with extent " + std::to_string(extents[a]) +
                    " along axis " + std::to_string(a) + ", expected " + std::to_string(capacity[a]));
  return check_rows(state, k, extents[0]);
}

cuboid_status PluginCall::check_rows(OutputState& state, std::uint32_t k, std::int64_t rows) {
  const bool fits = rows <= state.given.capacity;
  if (!fits && (!bound_ || bound_->output != k || bound_->needed < rows)) bound_ = BoundExceeded{k, rows};
  if (state.given.promised_rows && rows > *state.given.promised_rows) {
    const auto status = break_promise(CallProbe::Promise::rows, CUBOID_E_BOUND,
                                      "gave " + std::to_string(rows) + " along axis 0 of output " +
                                          function_.signature.outputs[k].name + ", its manifest promises at most " +
                                          std::to_string(*state.given.promised_rows));
    if (status != CUBOID_OK) return status;
  }
  return fits ? CUBOID_OK : CUBOID_E_BOUND;
}

// Lets the plugin see the leading rows of an output's buffer.
void PluginCall::show(std::uint32_t k, std::int64_t rows) {
  HostView& host = *out_views_[k];
  const View& data = outputs_[k].given.data;
  host.shape[0] = rows;
  host.inner_shape[0] = rows;
  host.view.data = element_count(data.shape) == 0 ? nullptr : data.data;
}

cuboid_status PluginCall::emit(std::uint32_t k, const std::int64_t* shape, const cuboid_view** view) {
  const std::lock_guard lock(lock_);
  OutputState* state = output(k, "emit", {Delivery::emit});
  if (!state) return CUBOID_E_STATE;
  if (const cuboid_status status = check_extents(*state, k, shape, "emit"); status != CUBOID_OK) return status;
  state->rows = shape[0];
  state->settled = true;
  show(k, shape[0]);
  if (view) *view = out_[k];
  return CUBOID_OK;
}

cuboid_status PluginCall::trim(std::uint32_t k, const std::int64_t* actual) {
  const std::lock_guard lock(lock_);
  OutputState* state = output(k, "trim", {Delivery::trim, Delivery::grow});
  if (!state) return CUBOID_E_STATE;
  if (const cuboid_status status = check_extents(*state, k, actual, "trim"); status != CUBOID_OK) return status;
  state->rows = actual[0];
  state->settled = true;
  return CUBOID_OK;
}

cuboid_status PluginCall::grow(std::uint32_t k, const std::int64_t* wanted, const cuboid_view** view) {
  const std::lock_guard lock(lock_);
  OutputState* state = output(k, "grow", {Delivery::grow});
  if (!state) return CUBOID_E_STATE;
  if (const cuboid_status status = check_extents(*state, k, wanted, "grow"); status != CUBOID_OK) return status;
  show(k, state->given.data.shape[0]);
  if (view) *view = out_[k];
  return CUBOID_OK;
}

cuboid_status PluginCall::push(std::uint32_t k, const cuboid_view* slab) {
  const std::lock_guard lock(lock_);
  OutputState* state = output(k, "push", {Delivery::push});
  if (!state) return CUBOID_E_STATE;
  const View& data = state->given.data;
  const cuboid_dtype expected = abi_dtype(data.dtype);
  if (!slab || slab->rank != data.shape.size() || slab->dtype.kind != expected.kind ||
      slab->dtype.bytes != expected.bytes || !slab->shape || !slab->stride_bytes)
    return misuse("push to output " + function_.signature.outputs[k].name + " of a slab with another rank or type");
  const Shape shape(slab->shape, slab->shape + slab->rank);
  if (shape[0] > static_cast<std::int64_t>(Expression::kMaxValue)) return misuse("push of a slab beyond 2^53");
  if (state->given.promised_slab && shape[0] > *state->given.promised_slab) {
    const auto status = break_promise(CallProbe::Promise::slab, CUBOID_E_BOUND,
                                      "pushed a slab of " + std::to_string(shape[0]) + " to output " +
                                          function_.signature.outputs[k].name + ", its manifest promises at most " +
                                          std::to_string(*state->given.promised_slab));
    if (status != CUBOID_OK) return status;
  }
  Shape all = shape;
  all[0] = shape[0] < 0 ? -1 : state->wanted + shape[0];
  if (shape[0] >= 0) state->wanted += shape[0];
  if (const cuboid_status status = check_extents(*state, k, all.data(), "push"); status != CUBOID_OK) return status;
  if (element_count(shape) > 0 && !slab->data) return misuse("push of a slab without data");
  try {
    append(*state, {data.dtype, static_cast<const std::byte*>(slab->data), shape,
                    Shape(slab->stride_bytes, slab->stride_bytes + slab->rank)});
    return CUBOID_OK;
  } catch (...) {
    pending_ = std::current_exception();
    return CUBOID_E_CANCELLED;
  }
}

// Rows of a slab into what is in memory of the output, which is stored whenever it is full.
void PluginCall::append(OutputState& state, const ConstView& slab) {
  const View& data = state.given.data;
  Shape from(slab.shape.size(), 0), to = from, part = slab.shape;
  while (from[0] < slab.shape[0]) {
    to[0] = state.rows;
    part[0] = std::min(slab.shape[0] - from[0], data.shape[0] - state.rows);
    if (element_count(part) > 0) copy_elements(slab.sub(from, part), data.sub(to, part));
    from[0] += part[0];
    state.rows += part[0];
    if (state.given.store && state.rows == data.shape[0]) state.given.store(std::exchange(state.rows, 0));
  }
}

// --- telling

cuboid_status PluginCall::fail(cuboid_status status, std::uint64_t needed, const char* message) {
  const std::lock_guard lock(lock_);
  if (status >= 0) status = CUBOID_E_INTERNAL;
  if (status_ == CUBOID_OK) {
    status_ = status;
    message_ = clean(message);
  }
  if (status == CUBOID_E_BUDGET) stated_needed_ = std::max(stated_needed_, needed);
  return status;
}

void PluginCall::progress(double fraction) const {
  if (std::isnan(fraction)) return;
  monitor_.progress(std::clamp(fraction, 0.0, 1.0));
}

void PluginCall::log(int level, const char* message) const {
  monitor_.log(std::clamp(level, 0, 2), function_.id + ": " + clean(message));
}

// --- the outcome

void PluginCall::judge() const {
  if (pending_) std::rethrow_exception(pending_);
  if (status_ != CUBOID_OK && monitor_.cancelled())
    throw Error(ErrorKind::cancelled, function_.id + " was cancelled", {{"function", function_.id}});
  if (!promise_.empty()) throw_plugin(promise_, true);
  if (!escaped_.empty()) throw_plugin("let an exception escape: " + escaped_);
  if (!refusal_.empty() || memory_escaped_ || status_ == CUBOID_E_BUDGET) throw_over_budget();
  if (bound_) throw_bound();
  if (!misuse_.empty()) throw_plugin("misused the host: " + misuse_);
  if (status_ == CUBOID_OK) return;
  throw_plugin("failed with " + status_name(status_) + (message_.empty() ? "" : ": " + message_));
}

void PluginCall::throw_over_budget() const {
  const bool own = !refusal_.empty() || stated_needed_ > 0;
  // What the plugin states are bytes as it asks for them; the account holds them in size classes.
  const std::uint64_t stated = stated_needed_ + (stated_needed_ + 7) / 8;
  const std::uint64_t total = std::max<std::uint64_t>(account_.needed(), stated);
  const auto uncertain = [&](std::uint64_t bytes) { return bytes - std::min(bytes, promises_.sure); };
  const std::uint64_t needed = !own ? 0 : std::max(uncertain(account_.needed()), stated);
  std::string why = refusal_.empty() ? "ran out of memory" : "was refused " + refusal_;
  if (!refusal_.empty() && status_ == CUBOID_OK) why += " and went on as if nothing had happened";
  if (!message_.empty()) why += ": " + message_;
  throw Error(ErrorKind::over_budget,
              function_.id + " " + why + "; this call may hold " + format_size(account_.limit()) +
                  (own ? ", it needs at least " + format_size(total) : "") + ": allow it more memory",
              {{"function", function_.id},
               {"needed", std::to_string(needed)},
               {"allowed", std::to_string(uncertain(account_.limit()))},
               {"evidence", machine_full_ ? "host"
                            : own         ? "own-account"
                                          : "unknown"}});
}

void PluginCall::throw_bound() const {
  const std::string name = function_.signature.outputs[bound_->output].name;
  const std::int64_t allowed = outputs_[bound_->output].given.capacity;
  throw Error(ErrorKind::over_budget,
              function_.id + " needs at least " + std::to_string(bound_->needed) + " along axis 0 of its output " +
                  name + ", expected at most " + std::to_string(allowed) + ": allow it a larger max_shape",
              {{"function", function_.id},
               {"bound_output", std::to_string(bound_->output)},
               {"bound_needed", std::to_string(bound_->needed)},
               {"bound_allowed", std::to_string(allowed)},
               {"evidence", "own-bound"}});
}

void PluginCall::throw_plugin(const std::string& why, bool promise) const {
  Error::Context context{{"function", function_.id}};
  if (promise) context.emplace_back("promise", "broken");
  throw Error(ErrorKind::plugin, function_.id + (promise ? " broke a promise: it " : " ") + why, std::move(context));
}

}  // namespace cuboid
