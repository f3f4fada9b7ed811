// Plugins as the engine sees them: found on disk, turned into kernels from their manifests alone, loaded when they run.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/expr/kernel.h"
#include "engine/plugin/infer.h"
#include "engine/plugin/manifest.h"
#include "engine/plugin/plugin_library.h"

namespace cuboid {

struct SkippedLibrary {
  std::filesystem::path path;
  std::string reason;
};

// What a search found. No code was loaded.
struct PluginReport {
  std::vector<Manifest> found;
  std::vector<SkippedLibrary> skipped;  // no plugin, damaged, too new, or its functions were found before
};

// The folders that are searched, first to last: CUBOID_PLUGIN_PATH_ADD, then CUBOID_PLUGIN_PATH or, where that is not
// set, `plugins` beside the running program and the installed lib/cuboid/plugins as seen from it (where neither exists,
// as for a program that embeds the engine: the folder that Cuboid was installed to). Both variables are ':'-separated
// and ignored where the process runs with more rights than its user (AT_SECURE).
std::vector<std::filesystem::path> plugin_folders();

// The library that a user names: a path (relative to `base`), else a name ("sky", "libsky.so") found in the folders.
// Throws Error{not_found} that says where was looked.
std::filesystem::path find_library(const std::string& name, const std::filesystem::path& base,
                                   const std::vector<std::filesystem::path>& folders);

// Reads the manifests of `libraries` (each must be a plugin: throws Error as read_manifest does), then of all *.so in
// `folders`, in order of their names. Of two libraries with one function id the first one counts; a library that was
// found before is left out in silence. A folder that does not exist is no error.
// `allowed`: content hashes; where given, a library that has none of them is skipped, or refused where it was named.
struct AllowList {
  std::filesystem::path file;  // for messages
  std::set<std::string> hashes;
};
PluginReport find_plugins(const std::vector<std::filesystem::path>& libraries,
                          const std::vector<std::filesystem::path>& folders,
                          const std::optional<AllowList>& allowed = std::nullopt);
// Reads a list of SHA-256 hashes: a line each, as sha256sum prints them; what follows a hash, empty lines and lines that
// begin with # are passed over. Throws Error{not_found, io, invalid} with file and line.
AllowList read_allow_list(const std::filesystem::path& file);

// From names to kernels, by manifests alone. Immutable; thread-safe.
class PluginResolver : public KernelResolver {
 public:
  // `inference`: how a plugin's own `infer` is asked where its manifest leaves numbers to it; without one such a
  // function is refused. A worker asks here (call_infer); a coordinator runs no foreign code and asks a worker.
  explicit PluginResolver(std::vector<Manifest> plugins, Inference inference = {});
  explicit PluginResolver(std::vector<std::shared_ptr<const PluginLibrary>> libraries, Inference inference = {});

  // "sky.sources" (the newest revision) or "sky.sources/1". The kernel's spec().function is the full id.
  std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const override;
  std::vector<FunctionDoc> functions() const override;
  const Recipe* recipe(const std::string& function) const override;

  // Loads the code of every plugin; a worker does so before the first task. Throws Error{plugin}.
  void load() const;

  // The library and the index of a function in it; {nullptr, 0} where none has it. Throws Error{invalid} where only
  // other revisions are known.
  struct Found {
    std::shared_ptr<const PluginLibrary> library;
    std::size_t index = 0;
    const FunctionManifest& function() const { return library->manifest().functions[index]; }
  };
  Found find(const std::string& name) const;

  const std::vector<std::shared_ptr<const PluginLibrary>>& libraries() const { return libraries_; }

 private:
  std::vector<std::shared_ptr<const PluginLibrary>> libraries_;
  Inference inference_;
};

}  // namespace cuboid
