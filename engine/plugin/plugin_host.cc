#include "engine/plugin/plugin_host.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "engine/plugin/parameters.h"
#include "engine/plugin/plugin_kernel.h"
#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_of(const char* variable) {
  std::vector<fs::path> folders;
  const char* text = std::getenv(variable);
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  return folders;
}

std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::vector<fs::path> libraries;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().extension() == ".so") libraries.push_back(entry->path());
  std::sort(libraries.begin(), libraries.end());
  return libraries;
}

std::vector<std::string> ids_of(const Manifest& manifest) {
  std::vector<std::string> ids;
  for (const FunctionManifest& function : manifest.functions) ids.push_back(function.id);
  for (const RecipeManifest& recipe : manifest.recipes) ids.push_back(recipe.id);
  return ids;
}

// Collects libraries, the first with a function id wins.
class Collector {
 public:
  explicit Collector(const std::optional<AllowList>& allowed) : allowed_(allowed) {}

  void add(const fs::path& path, bool required) {
    std::error_code failed;
    const fs::path canonical = fs::canonical(path, failed);
    if (!failed && !seen_.insert(canonical).second) return;
    try {
      Manifest manifest = read_manifest(path);
      check(manifest);
      for (const std::string& id : ids_of(manifest)) owners_.emplace(id, path);
      report.found.push_back(std::move(manifest));
    } catch (const Error& error) {
      if (required) throw;
      report.skipped.push_back({path, error.message()});
    }
  }

  PluginReport report;

 private:
  void check(const Manifest& manifest) const {
    if (allowed_ && allowed_->hashes.count(manifest.content_hash) == 0)
      throw Error(ErrorKind::plugin, manifest.path.string() + " is not on the list " + allowed_->file.string() +
                                         " of allowed plugins: its SHA-256 is " + manifest.content_hash);
    if (manifest.needs_minor > CUBOID_MINOR)
      throw Error(ErrorKind::plugin, manifest.path.string() + " needs minor " + std::to_string(manifest.needs_minor) +
                                         " of the plugin ABI, this program has " + std::to_string(CUBOID_MINOR));
    for (const std::string& id : ids_of(manifest)) {
      const auto owner = owners_.find(id);
      if (owner != owners_.end())
        throw Error(ErrorKind::plugin, manifest.path.string() + " has " + id + ", which " + owner->second.string() +
                                           " has too and was found first");
    }
  }

  const std::optional<AllowList>& allowed_;
  std::set<fs::path> seen_;
  std::map<std::string, fs::path> owners_;
};

std::string described(const BytesManifest& bytes) {
  switch (bytes.source) {
    case BytesManifest::Source::unknown:
      return "unknown";
    case BytesManifest::Source::callback:
      return "callback";
    case BytesManifest::Source::formula:
      break;
  }
  static constexpr const char* kTrustNames[] = {"exact", "bound", "guess", "unknown"};
  return bytes.formula.text() + " (" + kTrustNames[static_cast<std::size_t>(bytes.trust)] + ")";
}

FunctionDoc document(const RecipeManifest& recipe) {
  FunctionDoc doc{recipe.id, "plugin", recipe.signature.text, recipe.doc, "that of its steps: ", {}};
  for (const Recipe::Part& part : recipe.recipe.parts)
    doc.memory += (&part == &recipe.recipe.parts.front() ? "" : ", ") + part.function;
  for (const ParamManifest& param : recipe.params)
    doc.params.push_back({param.name, std::string(to_string(param.type)), param.doc, param.default_value});
  return doc;
}

FunctionDoc document(const FunctionManifest& function) {
  FunctionDoc doc{function.id, "plugin", function.signature.text, function.doc, "", {}};
  doc.memory = "call_bytes: " + described(function.call_bytes) + ", state_bytes: " + described(function.state_bytes) +
               ", outside_bytes: " + described(function.outside_bytes);
  for (const ParamManifest& param : user_params(function))
    doc.params.push_back({param.name, std::string(to_string(param.type)), param.doc, param.default_value});
  return doc;
}

}  // namespace

std::vector<fs::path> plugin_folders() {
  const bool elevated = ::getauxval(AT_SECURE) != 0;
  std::vector<fs::path> folders;
  if (!elevated) folders = folders_of("CUBOID_PLUGIN_PATH_ADD");
  if (!elevated && std::getenv("CUBOID_PLUGIN_PATH")) {
    for (fs::path& folder : folders_of("CUBOID_PLUGIN_PATH")) folders.push_back(std::move(folder));
    return folders;
  }
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return folders;
  const fs::path beside = program.parent_path() / "plugins";
  const fs::path installed = (program.parent_path() / CUBOID_PLUGINS_FROM_PROGRAM).lexically_normal();
  folders.insert(folders.end(), {beside, installed});
  if (!fs::exists(beside, failed) && !fs::exists(installed, failed)) folders.emplace_back(CUBOID_PLUGINS_INSTALLED);
  return folders;
}

fs::path find_library(const std::string& name, const fs::path& base, const std::vector<fs::path>& folders) {
  std::error_code failed;
  const fs::path direct = base / name;
  if (fs::exists(direct, failed)) return direct;
  std::string looked = direct.string();
  if (name.find('/') == std::string::npos) {
    for (const fs::path& folder : folders) {
      for (const std::string& file : {name, "lib" + name + ".so"})
        if (fs::exists(folder / file, failed)) return folder / file;
      looked += ", " + folder.string();
    }
  }
  throw Error(ErrorKind::not_found, "plugin " + in_quotes(name) + " was not found; looked for it in " + looked);
}

AllowList read_allow_list(const fs::path& file) {
  std::ifstream stream(file);
  if (!stream)
    throw Error(ErrorKind::not_found, file.string() + ": cannot be read; expected a list of allowed plugins");
  AllowList list{file, {}};
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    std::string hash = line.substr(0, line.find_first_of(" \t\r"));
    std::transform(hash.begin(), hash.end(), hash.begin(), [](unsigned char c) { return std::tolower(c); });
    if (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw Error(ErrorKind::invalid, file.string() + ", line " + std::to_string(number) + ": is " + in_quotes(hash) +
                                          ", expected a SHA-256 of 64 hex digits, as sha256sum prints it");
    list.hashes.insert(hash);
  }
  return list;
}

PluginReport find_plugins(const std::vector<fs::path>& libraries, const std::vector<fs::path>& folders,
                          const std::optional<AllowList>& allowed) {
  Collector collector(allowed);
  for (const fs::path& library : libraries) collector.add(library, true);
  for (const fs::path& folder : folders)
    for (const fs::path& library : libraries_in(folder)) collector.add(library, false);
  return std::move(collector.report);
}

PluginResolver::PluginResolver(std::vector<Manifest> plugins, Inference inference) : inference_(std::move(inference)) {
  for (Manifest& manifest : plugins) libraries_.push_back(std::make_shared<PluginLibrary>(std::move(manifest)));
}

PluginResolver::PluginResolver(std::vector<std::shared_ptr<const PluginLibrary>> libraries, Inference inference)
    : libraries_(std::move(libraries)), inference_(std::move(inference)) {}

PluginResolver::Found PluginResolver::find(const std::string& name) const {
  const std::size_t slash = name.find('/');
  const std::string base = name.substr(0, slash);
  Found best;
  std::string revisions;
  for (const auto& library : libraries_) {
    const std::vector<FunctionManifest>& functions = library->manifest().functions;
    for (std::size_t k = 0; k < functions.size(); ++k) {
      if (functions[k].id == name) return {library, k};
      if (functions[k].name != base) continue;
      revisions += (revisions.empty() ? "" : ", ") + functions[k].id;
      if (!best.library || functions[k].revision > best.function().revision) best = {library, k};
    }
  }
  if (slash != std::string::npos && best.library)
    throw Error(ErrorKind::invalid, "there is no " + name + "; known are " + revisions);
  return best;
}

std::shared_ptr<const Kernel> PluginResolver::resolve(const KernelSpec& spec) const {
  const Found found = find(spec.function);
  if (!found.library) return nullptr;
  KernelSpec full = spec;
  full.function = found.function().id;
  return std::make_shared<PluginKernel>(std::move(full), found.library, found.index, inference_);
}

std::vector<FunctionDoc> PluginResolver::functions() const {
  std::vector<FunctionDoc> docs;
  for (const auto& library : libraries_)
    for (const FunctionManifest& function : library->manifest().functions) docs.push_back(document(function));
  for (const auto& library : libraries_)
    for (const RecipeManifest& recipe : library->manifest().recipes) docs.push_back(document(recipe));
  return docs;
}

const Recipe* PluginResolver::recipe(const std::string& function) const {
  const RecipeManifest* best = nullptr;
  for (const auto& library : libraries_)
    for (const RecipeManifest& recipe : library->manifest().recipes)
      if (recipe.id == function || (recipe.name == function && (!best || recipe.revision > best->revision)))
        best = &recipe;
  return best ? &best->recipe : nullptr;
}

void PluginResolver::load() const {
  for (const auto& library : libraries_) library->load();
}

}  // namespace cuboid
