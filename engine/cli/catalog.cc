#include "engine/cli/catalog.h"

#include <algorithm>
#include <set>

#include "engine/plugin/plugin_questions.h"
#include "engine/run/run.h"

namespace cuboid {

PluginCatalog::PluginCatalog(const CommonFlags& flags) : folders_(plugin_folders()) {
  if (!flags.allow_plugins.empty()) allowed_ = read_allow_list(flags.allow_plugins);
  for (const std::string& library : flags.plugins) {
    try {
      add_plugin(library);
    } catch (const Error& error) {
      throw Error(ErrorKind::invalid, "--plugin " + library + ": " + error.message(), error.context());
    }
  }
}

void PluginCatalog::add_plugin(const std::string& library) {
  const std::filesystem::path path = find_library(library, std::filesystem::current_path(), folders_);
  read_manifest(path);  // refused here, where the message can say who named it
  if (std::find(libraries_.begin(), libraries_.end(), path) == libraries_.end()) libraries_.push_back(path);
  report_.reset();
}

void PluginCatalog::search() const {
  if (report_) return;
  report_ = std::make_unique<PluginReport>(find_plugins(libraries_, folders_, allowed_));
  resolver_ = std::make_unique<PluginResolver>(
      report_->found, remote_inference([this](const std::string& question) { return ask(question); }));
}

std::string PluginCatalog::ask(const std::string& question) const {
  constexpr std::chrono::minutes kPatience{1};
  const std::lock_guard lock(asking_);
  if (!worker_) worker_ = std::make_unique<WorkerQuestions>(worker_program(""));
  try {
    return worker_->ask(question, kPatience);
  } catch (const Error& error) {
    throw Error(ErrorKind::plugin, "the process that asks a plugin's own code for a plan " + error.message());
  }
}

Resolvers PluginCatalog::resolvers() const {
  search();
  return {&builtin_kernels(), resolver_.get()};
}

const PluginReport& PluginCatalog::report() const {
  search();
  return *report_;
}

std::vector<std::string> PluginCatalog::libraries_of(const PlanRequest& request) const {
  search();
  std::vector<std::string> libraries;
  std::set<const Node*> seen;
  std::vector<const Node*> open;
  for (const OutputRequest& output : request.outputs) open.push_back(&output.array.node());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    for (const Array& input : node->inputs) open.push_back(&input.node());
    if (!node->kernel || !node->kernel->foreign()) continue;
    const PluginResolver::Found found = resolver_->find(node->kernel->spec().function);
    if (!found.library) continue;
    const std::string path = found.library->manifest().path.string();
    if (std::find(libraries.begin(), libraries.end(), path) == libraries.end()) libraries.push_back(path);
  }
  std::sort(libraries.begin(), libraries.end());
  return libraries;
}

}  // namespace cuboid
