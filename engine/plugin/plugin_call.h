// The host's side of one call into a plugin: the views and parameters it is handed, the services it may use, and the
// record of what it did with them, from which the outcome is judged.
//
// A plugin only passes statuses on; the host itself remembers what was refused, so that no plugin can hide it.
#pragma once
#include <cuboid/plugin.h>

#include <array>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/expr/kernel.h"
#include "engine/plugin/abi_values.h"
#include "engine/plugin/call_probe.h"
#include "engine/plugin/manifest.h"
#include "engine/plugin/plugin_library.h"

namespace cuboid {

// What the manifest promises for this very call; empty: no promise, the account's limit alone holds.
struct CallPromises {
  std::optional<std::uint64_t> call_bytes, state_bytes, outside_bytes;
  std::uint64_t sure = 0;  // bytes of the account that are no estimate (CallMemory::sure)
};

struct HostOutput {
  View data;                  // of Delivery::push where `store` is set: room for a part, else for all
  std::int64_t capacity = 0;  // of one that depends on data, along axis 0
  Shape origin, whole;
  Delivery delivery = Delivery::fill;
  std::optional<std::int64_t> promised_rows;     // of a data-dependent output
  std::optional<std::int64_t> promised_slab;     // of Delivery::push
  std::function<void(std::int64_t rows)> store;  // of Delivery::push: takes the leading rows of `data`
};

class PluginCall {
 public:
  // open, close and run are the plugin's functions; the four of `combine` are judged as run.
  enum class Stage : std::uint8_t { open, run, close };

  PluginCall(const FunctionManifest& function, MemoryAccount& account, CallMonitor& monitor, CallPromises promises);
  ~PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

  // Threads that `run` may use.
  void set_lanes(int lanes) { lanes_ = std::max(lanes, 1); }
  // `values` must outlive the call.
  void set_params(const std::vector<ParamValue>& values) { params_ = AbiParams(values); }
  // `interior`: in the coordinates of the whole array, as the view's origin is.
  void add_input(const ConstView& view, const Shape& origin, const Shape& whole, const Box& interior);
  void add_output(HostOutput output);
  // A C-contiguous partial result of `combine`; the pointer stays valid.
  const cuboid_view* add_partial(const View& view);

  // Calls one function of the plugin, with inputs and outputs where it is to see them, and frees what it left behind
  // but may keep only until it returns. Exceptions that escape are caught and kept.
  void invoke(Stage stage, bool sees_inputs, bool sees_outputs, const std::function<cuboid_status(cuboid_call*)>& body);
  bool failed() const { return status_ != CUBOID_OK; }
  // Throws what the calls so far amount to (see PluginKernel); nothing where all is well.
  void judge() const;
  // The extents of each output after a successful run, of what was stored only what is left. Throws Error{plugin} where
  // one was not handed over.
  std::vector<Shape> produced() const;

  // --- services; each is what the ABI says of it
  cuboid_status acquire(std::uint64_t bytes, std::uint64_t align, bool scratch, const char* tag, void** out);
  void release(void* memory);
  cuboid_status charge(std::int64_t delta);
  void headroom(std::uint64_t* limit, std::uint64_t* in_use) const;
  cuboid_status emit(std::uint32_t k, const std::int64_t* shape, const cuboid_view** view);
  cuboid_status trim(std::uint32_t k, const std::int64_t* actual);
  cuboid_status grow(std::uint32_t k, const std::int64_t* wanted, const cuboid_view** view);
  cuboid_status push(std::uint32_t k, const cuboid_view* slab);
  using SpreadBody = void (*)(void* arg, std::uint64_t i, std::uint32_t lane);
  cuboid_status spread(std::uint64_t n, void* arg, SpreadBody body) const;
  cuboid_status fail(cuboid_status status, std::uint64_t needed, const char* message);
  bool cancelled() const { return monitor_.cancelled(); }
  void progress(double fraction) const;
  void log(int level, const char* message) const;

 private:
  using Extents = std::array<std::int64_t, CUBOID_MAX_RANK>;
  struct HostView {
    cuboid_view view{};
    Extents shape{}, strides{}, origin{}, whole{}, inner_origin{}, inner_shape{};
  };
  struct Allocation {
    Buffer buffer;              // of large ones
    void* heap = nullptr;       // of small ones
    std::size_t admitted = 0;   // of small ones: bytes charged to the account
    std::uint64_t counted = 0;  // as the manifest counts
    bool scratch = false;
    Stage stage = Stage::run;
  };
  struct OutputState {
    HostOutput given;
    std::int64_t rows = 0;    // handed over; of Delivery::push those that are in `data`
    std::int64_t wanted = 0;  // of Delivery::push: in all, what was refused included
    bool settled = false;
  };
  struct BoundExceeded {
    std::uint32_t output = 0;
    std::int64_t needed = 0;
  };

  HostView& fill_view(HostView& host, const ConstView& view, const Shape& origin, const Shape& whole,
                      const Box& interior, std::uint16_t flags);
  Allocation allocate(std::uint64_t bytes, std::uint64_t align);
  void free_allocation(Allocation& allocation);
  void free_leftovers(Stage stage);
  cuboid_status refuse(const std::string& what, std::uint64_t bytes);
  // CUBOID_OK where the call goes on all the same.
  cuboid_status break_promise(CallProbe::Promise promise, cuboid_status status, const std::string& what);
  cuboid_status misuse(const std::string& what);
  OutputState* output(std::uint32_t k, const char* service, std::initializer_list<Delivery> allowed);
  cuboid_status check_extents(OutputState& state, std::uint32_t k, const std::int64_t* extents, const char* service);
  cuboid_status check_rows(OutputState& state, std::uint32_t k, std::int64_t rows);
  void show(std::uint32_t k, std::int64_t rows);
  void append(OutputState& state, const ConstView& slab);
  [[noreturn]] void throw_over_budget() const;
  [[noreturn]] void throw_bound() const;
  [[noreturn]] void throw_plugin(const std::string& why, bool promise = false) const;

  const FunctionManifest& function_;
  MemoryAccount& account_;
  CallMonitor& monitor_;
  CallProbe* const probe_;  // the monitor, where it is one
  const CallPromises promises_;
  cuboid_call call_{};
  int lanes_ = 1;
  Stage stage_ = Stage::run;

  std::deque<HostView> views_;  // of inputs and outputs; addresses are stable
  std::vector<const cuboid_view*> in_, out_;
  std::vector<HostView*> out_views_;
  std::vector<OutputState> outputs_;
  AbiParams params_;

  mutable std::mutex lock_;  // services belong to the call's thread; a plugin that forgets it must not harm the host
  std::unordered_map<void*, Allocation> live_;
  std::uint64_t call_bytes_ = 0, state_bytes_ = 0, outside_bytes_ = 0;

  cuboid_status status_ = CUBOID_OK;  // the first that was not OK
  std::string message_;               // of fail
  std::uint64_t stated_needed_ = 0;   // of fail
  std::string refusal_, promise_, misuse_, escaped_;
  bool machine_full_ = false;    // the refusal was the system's, not the account's
  bool memory_escaped_ = false;  // std::bad_alloc
  std::optional<BoundExceeded> bound_;
  std::exception_ptr pending_;  // of the engine's own, thrown inside a service
};

}  // namespace cuboid
