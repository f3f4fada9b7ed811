#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/catalog.h"
#include "engine/cli/command.h"
#include "engine/report/table.h"
#include "storage/printable.h"

namespace cuboid {

int plugin_list_command(const PluginCommand& command) {
  PluginCatalog catalog(command.common);
  const PluginReport& report = catalog.report();
  if (command.common.json) {
    auto plugins = nlohmann::json::array(), skipped = nlohmann::json::array();
    for (const Manifest& manifest : report.found) {
      auto functions = nlohmann::json::array();
      for (const FunctionManifest& function : manifest.functions) functions.push_back(function.id);
      for (const RecipeManifest& recipe : manifest.recipes) functions.push_back(recipe.id);
      plugins.push_back({{"path", manifest.path.string()},
                         {"name", manifest.name},
                         {"version", manifest.version},
                         {"functions", functions}});
    }
    for (const SkippedLibrary& library : report.skipped)
      skipped.push_back({{"path", library.path.string()}, {"reason", library.reason}});
    print_json({{"plugins", plugins}, {"skipped", skipped}});
    return kExitDone;
  }
  Table table;
  table.columns = {{"plugin"}, {"version"}, {"functions"}, {"path"}};
  for (const Manifest& manifest : report.found) {
    std::string functions;
    for (const FunctionManifest& function : manifest.functions)
      functions += (functions.empty() ? "" : " ") + function.id;
    for (const RecipeManifest& recipe : manifest.recipes) functions += " " + recipe.id;
    table.rows.push_back({{printable(manifest.name), Ink::bold},
                          printable(manifest.version),
                          functions,
                          printable(manifest.path.string())});
  }
  for (const SkippedLibrary& library : report.skipped)
    table.rows.push_back({{"skipped", Ink::yellow}, "", printable(library.reason), printable(library.path.string())});
  if (table.rows.empty()) {
    std::cout << "no plugins; searched:\n";
    for (const auto& folder : plugin_folders()) std::cout << "  " << printable(folder.string()) << "\n";
    return kExitDone;
  }
  std::cout << to_text(table, style_for(1));
  return kExitDone;
}

int plugin_show_command(const PluginCommand& command) {
  const auto path = find_library(command.library, std::filesystem::current_path(), plugin_folders());
  const Manifest manifest = read_manifest(path);
  if (command.common.json) {
    print_json(nlohmann::json::parse(manifest_to_json(manifest)));
    return kExitDone;
  }
  const TextStyle style = style_for(1);
  std::cout << paint(style, Ink::bold, printable(manifest.name)) << " " << printable(manifest.version) << "  "
            << printable(path.string()) << "\n";
  if (!manifest.doc.empty()) std::cout << "  " << printable(manifest.doc) << "\n";
  const PluginResolver resolver({manifest});
  for (const FunctionDoc& doc : resolver.functions()) {
    std::cout << "\n"
              << paint(style, Ink::bold, doc.name) << "\n  " << printable(doc.signature) << "\n  " << printable(doc.doc)
              << "\n";
    if (!doc.memory.empty()) std::cout << "  memory: " << printable(doc.memory) << "\n";
    for (const ParamDoc& param : doc.params)
      std::cout << "  " << param.name << " (" << param.type << (param.default_value ? "" : ", required")
                << "): " << printable(param.doc) << "\n";
  }
  return kExitDone;
}

}  // namespace cuboid
