// One plugin's shared library: its manifest at once, its code only when asked for.
#pragma once
#include <cuboid/plugin.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "engine/plugin/manifest.h"

namespace cuboid {

// Once loaded, code stays in the process until it ends: plugins leave threads, thread-locals and atexit handlers behind
// that unloading would pull the ground from. Thread-safe.
class PluginLibrary {
 public:
  explicit PluginLibrary(Manifest manifest);
  // Code that is linked into the program itself: no file is loaded.
  PluginLibrary(Manifest manifest, cuboid_plugin_v1_fn entry);

  const Manifest& manifest() const { return manifest_; }
  bool linked() const { return linked_ != nullptr; }  // into the program itself

  // Loads the code (once; later calls are free) and checks it against the manifest: the file is the one whose manifest
  // was read, the entry point is its own, the ABI's minor is served, the table of functions is the one promised. Runs
  // the library's static initialisers and its entry point. Throws Error{plugin} with the loader's text.
  void load() const;

  // The function of the manifest's entry `index`; loads.
  const cuboid_fn& function(std::size_t index) const;
  // Held while a function runs that may not overlap, and while any opens a state: one for all functions, which share
  // what is static in their library, and for whoever else in this process has loaded it. Loads.
  std::timed_mutex& turn() const;

 private:
  cuboid_plugin_v1_fn find_entry() const;
  const cuboid_plugin* greet(cuboid_plugin_v1_fn entry) const;
  void check_table(const cuboid_plugin& plugin) const;
  void check_function(const cuboid_fn* fn, const FunctionManifest& promised) const;
  [[noreturn]] void fail(const std::string& why) const;

  Manifest manifest_;
  cuboid_plugin_v1_fn linked_ = nullptr;
  mutable std::mutex loading_;
  mutable std::atomic<const cuboid_plugin*> table_{nullptr};
};

// The end of a program: where plugins were loaded in its process they say their last words, and it ends with this code,
// whatever their destructors have in mind. Returns where there are none.
void end_process(int code);

// The services handed to every plugin; static.
const cuboid_host& host_services();

}  // namespace cuboid
