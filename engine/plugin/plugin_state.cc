#include "engine/plugin/plugin_state.h"

#include "engine/plugin/binding.h"

namespace cuboid {

PluginState::PluginState(const cuboid_fn& fn, const FunctionManifest& function, const std::vector<ParamValue>& params,
                         std::uint64_t limit, CallMonitor& monitor)
    : fn_(fn),
      account_(static_cast<std::size_t>(with_rounding(limit))),
      call_(function, account_, forward_, {std::nullopt, limit, std::nullopt}) {
  forward_.to = &monitor;
  call_.set_params(params);
  call_.invoke(PluginCall::Stage::open, false, false, [&](cuboid_call* c) { return fn_.open(c, &state_); });
  forward_.to = nullptr;
  call_.judge();
}

PluginState::~PluginState() {
  if (fn_.close)
    call_.invoke(PluginCall::Stage::close, false, false,
                 [&](cuboid_call* c) { return fn_.close(c, state_), CUBOID_OK; });
}

std::shared_ptr<PluginState> PluginStates::take(bool shared) {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  std::shared_ptr<PluginState> state = idle_.back();
  if (!shared) idle_.pop_back();
  return state;
}

void PluginStates::give(std::shared_ptr<PluginState> state) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(state));
}

}  // namespace cuboid
