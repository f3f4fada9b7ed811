// The functions that a command knows: built-ins and what plugins' manifests describe. No code of a plugin is loaded.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/cli/pipeline.h"
#include "engine/plugin/plugin_host.h"

namespace cuboid {

class PluginCatalog : public FunctionCatalog {
 public:
  // `libraries`: as --plugin names them; they come before what the search path holds.
  explicit PluginCatalog(const std::vector<std::string>& libraries);

  void add_plugin(const std::string& library) override;
  Resolvers resolvers() const override;
  // What was found and what was skipped, in the order of the search.
  const PluginReport& report() const;
  // The libraries whose functions a request calls, each once.
  std::vector<std::string> libraries_of(const PlanRequest& request) const;

 private:
  void search() const;

  std::vector<std::filesystem::path> folders_;
  std::vector<std::filesystem::path> libraries_;
  // The search is made once, when it is first needed, and again after a library was added.
  mutable std::unique_ptr<PluginReport> report_;
  mutable std::unique_ptr<PluginResolver> resolver_;
};

}  // namespace cuboid
