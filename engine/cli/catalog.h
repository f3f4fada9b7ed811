// The functions that a command knows: built-ins and what plugins' manifests describe. No code of a plugin is loaded.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/command.h"
#include "engine/cli/pipeline.h"
#include "engine/plugin/plugin_host.h"
#include "engine/run/worker_questions.h"

namespace cuboid {

class PluginCatalog : public FunctionCatalog {
 public:
  // Libraries that --plugin names come before what the search path holds. What a plugin's own code has to say while a plan
  // is made is asked in a worker process.
  explicit PluginCatalog(const CommonFlags& flags);

  void add_plugin(const std::string& library) override;
  Resolvers resolvers() const override;
  // What was found and what was skipped, in the order of the search.
  const PluginReport& report() const;
  // The libraries whose functions a request calls, each once.
  std::vector<std::string> libraries_of(const PlanRequest& request) const;

 private:
  void search() const;

  std::string ask(const std::string& question) const;

  std::optional<AllowList> allowed_;
  mutable std::mutex asking_;
  mutable std::unique_ptr<WorkerQuestions> worker_;  // started with the first question
  std::vector<std::filesystem::path> folders_;
  std::vector<std::filesystem::path> libraries_;
  // The search is made once, when it is first needed, and again after a library was added.
  mutable std::unique_ptr<PluginReport> report_;
  mutable std::unique_ptr<PluginResolver> resolver_;
};

}  // namespace cuboid
