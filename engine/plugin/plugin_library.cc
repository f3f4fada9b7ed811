#include "engine/plugin/plugin_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>

#include "engine/plugin/calling_process.h"
#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

std::uint32_t flag_bits(const FunctionFlags& flags) {
  std::uint32_t bits = 0;
  const auto add = [&](bool set, std::uint32_t bit) { bits |= set ? bit : 0; };
  add(flags.pure, CUBOID_F_PURE);
  add(flags.reentrant, CUBOID_F_REENTRANT);
  add(flags.state_local, CUBOID_F_STATE_LOCAL);
  add(flags.threads, CUBOID_F_THREADS);
  add(flags.in_place, CUBOID_F_INPLACE);
  add(flags.fork_safe, CUBOID_F_FORK_SAFE);
  return bits;
}

std::string text_of(const char* text) { return text ? in_quotes(text) : "nothing"; }

bool asks_infer(const FunctionManifest& function) {
  for (const ArrayPattern& output : function.signature.outputs)
    for (const ExtentPattern& extent : output.extents)
      if (extent.form == ExtentPattern::Form::inferred) return true;
  for (const BytesManifest* bytes : {&function.call_bytes, &function.state_bytes, &function.outside_bytes})
    if (bytes->source == BytesManifest::Source::callback) return true;
  return false;
}

// What was loaded in this process.
std::vector<const cuboid_plugin*>& loaded_plugins() {
  static auto& plugins = *new std::vector<const cuboid_plugin*>;
  return plugins;
}

void detach_all() {
  std::vector<const cuboid_plugin*>& plugins = loaded_plugins();
  for (; !plugins.empty(); plugins.pop_back())
    if (plugins.back()->detach) plugins.back()->detach();
}

// Its last words, when the process ends normally: before what its library registered by then is destroyed.
void detach_at_exit(const cuboid_plugin& plugin) {
  static std::mutex guard;
  const std::lock_guard lock(guard);
  std::vector<const cuboid_plugin*>& plugins = loaded_plugins();
  if (std::find(plugins.begin(), plugins.end(), &plugin) != plugins.end()) return;
  if (plugins.empty()) std::atexit(detach_all);
  plugins.push_back(&plugin);
}

}  // namespace

void end_process(int code) {
  if (loaded_plugins().empty()) return;
  detach_all();
  std::fflush(nullptr);
  std::_Exit(code);
}

PluginLibrary::PluginLibrary(Manifest manifest) : PluginLibrary(std::move(manifest), nullptr) {}

PluginLibrary::PluginLibrary(Manifest manifest, cuboid_plugin_v1_fn entry)
    : manifest_(std::move(manifest)), linked_(entry) {}

void PluginLibrary::load() const {
  if (table_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(loading_);
  if (table_.load(std::memory_order_relaxed)) return;
  if (manifest_.needs_minor > CUBOID_MINOR)
    fail("needs minor " + std::to_string(manifest_.needs_minor) + " of the plugin ABI, this program has " +
         std::to_string(CUBOID_MINOR) + ": use a newer Cuboid or rebuild the plugin for an older minor");
  const cuboid_plugin* plugin = greet(linked_ ? linked_ : find_entry());
  check_table(*plugin);
  detach_at_exit(*plugin);
  table_.store(plugin, std::memory_order_release);
}

const cuboid_fn& PluginLibrary::function(std::size_t index) const {
  load();
  return *table_.load(std::memory_order_acquire)->fn[index];
}

std::timed_mutex& PluginLibrary::turn() const {
  static std::mutex guard;
  static auto& turns = *new std::map<const cuboid_plugin*, std::timed_mutex>;  // as long as the code
  load();
  const std::lock_guard lock(guard);
  return turns[table_.load(std::memory_order_acquire)];
}

cuboid_plugin_v1_fn PluginLibrary::find_entry() const {
  const std::filesystem::path path = std::filesystem::absolute(manifest_.path);
  if (read_manifest(path).content_hash != manifest_.content_hash)
    fail("has changed since the plan was made: plan again");
  try {
    // RTLD_NODELETE is not among Boost's modes; it passes the bits on. Lazy binding, Boost's default, would find an
    // undefined symbol only in the middle of a run.
    const auto mode = static_cast<boost::dll::load_mode::type>(RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const CallingProcess here;
    const boost::dll::shared_library library(path, mode);  // runs its static initialisers
    here.end_copy();
    auto* entry = library.get<const cuboid_plugin*(const cuboid_hello*, const char**)>(CUBOID_ENTRY);
    Dl_info found{};
    std::error_code ignored;
    if (!dladdr(reinterpret_cast<void*>(entry), &found) || !found.dli_fname ||
        !std::filesystem::equivalent(found.dli_fname, path, ignored))
      fail("does not define " + std::string(CUBOID_ENTRY) + " itself: it was found in " + text_of(found.dli_fname));
    return entry;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail("cannot be loaded: " + std::string(error.what()));
  }
}

const cuboid_plugin* PluginLibrary::greet(cuboid_plugin_v1_fn entry) const {
  const cuboid_hello hello{sizeof(cuboid_hello), CUBOID_MAJOR, 0, CUBOID_MINOR, &host_services()};
  const char* why = nullptr;
  const cuboid_plugin* plugin = nullptr;
  const CallingProcess here;
  try {
    plugin = entry(&hello, &why);
    here.end_copy();
  } catch (...) {
    here.end_copy();
    fail("let an exception escape from " + std::string(CUBOID_ENTRY));
  }
  if (!plugin) fail("declined to be loaded: " + text_of(why));
  return plugin;
}

void PluginLibrary::check_table(const cuboid_plugin& plugin) const {
  if (!CUBOID_HAS(&plugin, cuboid_plugin, detach))
    fail("has a table of " + std::to_string(plugin.size) + " bytes: shorter than that of minor 0");
  if (!plugin.name || manifest_.name != plugin.name)
    fail("calls itself " + text_of(plugin.name) + ", its manifest says " + in_quotes(manifest_.name));
  if (plugin.needs_minor != manifest_.needs_minor)
    fail("needs minor " + std::to_string(plugin.needs_minor) + ", its manifest says " +
         std::to_string(manifest_.needs_minor));
  if (!plugin.fn || plugin.n_fn != manifest_.functions.size())
    fail("has " + std::to_string(plugin.fn ? plugin.n_fn : 0) + " functions, its manifest says " +
         std::to_string(manifest_.functions.size()));
  for (std::size_t k = 0; k < manifest_.functions.size(); ++k) check_function(plugin.fn[k], manifest_.functions[k]);
}

void PluginLibrary::check_function(const cuboid_fn* fn, const FunctionManifest& promised) const {
  if (!fn || !CUBOID_HAS(fn, cuboid_fn, finalize)) fail("has no complete entry for " + promised.id);
  if (!fn->id || promised.id != fn->id)
    fail("has the function " + text_of(fn->id) + " where its manifest says " + promised.id);
  const auto same = [&](const char* what, std::size_t is, std::size_t expected) {
    if (is != expected)
      fail(promised.id + " has " + std::to_string(is) + " " + what + ", its manifest says " + std::to_string(expected));
  };
  same("inputs", fn->n_in, promised.signature.inputs.size());
  same("outputs", fn->n_out, promised.signature.outputs.size());
  same("parameters", fn->n_param, promised.params.size());
  same("as bits of its flags", fn->flags, flag_bits(promised.flags));
  const int combining = !!fn->init + !!fn->accumulate + !!fn->merge + !!fn->finalize;
  if (combining != (promised.partial.empty() ? 0 : 4))
    fail(promised.id + " has " + std::to_string(combining) + " of init, accumulate, merge, finalize; " +
         (promised.partial.empty() ? "its manifest has no combine" : "combine needs all four"));
  if (!fn->run && promised.partial.empty()) fail(promised.id + " has no run");
  if (!fn->infer && asks_infer(promised)) fail(promised.id + " has no infer, which its manifest calls for");
  if (!fn->regions && promised.regions.kind == RegionManifest::Kind::callback)
    fail(promised.id + " has no regions, which its manifest calls for");
}

void PluginLibrary::fail(const std::string& why) const {
  throw Error(ErrorKind::plugin, "plugin " + manifest_.path.string() + " " + why);
}

}  // namespace cuboid
