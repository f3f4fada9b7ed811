// A state that a plugin's `open` made, kept from call to call until the kernel goes: what is dear to prepare is prepared
// once in a worker. Its memory belongs to an account of its own; each call that uses it is charged with it meanwhile.
#pragma once
#include <cuboid/plugin.h>

#include <memory>
#include <mutex>
#include <vector>

#include "engine/plugin/plugin_call.h"

namespace cuboid {

class PluginState {
 public:
  // Opens. `limit`: bytes that it may keep, as the manifest promises; `params` must outlive it. Throws what
  // PluginCall::judge() does.
  PluginState(const cuboid_fn& fn, const FunctionManifest& function, const std::vector<ParamValue>& params,
              std::uint64_t limit, CallMonitor& monitor);
  ~PluginState();  // closes
  PluginState(const PluginState&) = delete;
  PluginState& operator=(const PluginState&) = delete;

  void* get() const { return state_; }
  std::size_t bytes() const { return account_.in_use(); }

 private:
  // Passes on while `open` runs; later there is nobody to tell.
  class Forward final : public CallMonitor {
   public:
    CallMonitor* to = nullptr;
    bool cancelled() const override { return to && to->cancelled(); }
    void progress(double fraction) override {
      if (to) to->progress(fraction);
    }
    void log(int level, const std::string& text) override {
      if (to) to->log(level, text);
    }
  };

  const cuboid_fn& fn_;
  Forward forward_;
  MemoryAccount account_;
  PluginCall call_;
  void* state_ = nullptr;
};

// The states of one kernel that no call uses now. Thread-safe.
class PluginStates {
 public:
  // One that is there, or nullptr. `shared`: it stays there for others as well.
  std::shared_ptr<PluginState> take(bool shared);
  void give(std::shared_ptr<PluginState> state);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<PluginState>> idle_;
};

}  // namespace cuboid
