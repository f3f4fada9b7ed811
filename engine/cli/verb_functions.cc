#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/catalog.h"
#include "engine/cli/command.h"
#include "engine/report/table.h"

namespace cuboid {
namespace {

nlohmann::json value_json(const ParamValue& value) {
  return std::visit(
      [](const auto& content) -> nlohmann::json {
        if constexpr (std::is_same_v<std::decay_t<decltype(content)>, std::monostate>) {
          return nullptr;
        } else {
          return content;
        }
      },
      value);
}

nlohmann::json function_json(const FunctionDoc& doc) {
  auto params = nlohmann::json::array();
  for (const ParamDoc& param : doc.params) {
    nlohmann::json entry = {
        {"name", param.name}, {"type", param.type}, {"doc", param.doc}, {"required", !param.default_value}};
    if (param.default_value) entry["default"] = value_json(*param.default_value);
    params.push_back(std::move(entry));
  }
  return {{"name", doc.name}, {"kind", doc.kind},     {"signature", doc.signature},
          {"doc", doc.doc},   {"memory", doc.memory}, {"params", std::move(params)}};
}

void print_function(const FunctionDoc& doc, const TextStyle& style) {
  std::cout << paint(style, Ink::bold, doc.name) << "  " << doc.kind << "\n  " << doc.signature << "\n\n  " << doc.doc
            << "\n";
  if (!doc.params.empty()) {
    Table table;
    table.columns = {{"  parameter"}, {"type"}, {"default"}, {""}};
    for (const ParamDoc& param : doc.params)
      table.rows.push_back({"  " + param.name, param.type,
                            param.default_value ? value_json(*param.default_value).dump() : "(required)", param.doc});
    std::cout << "\n" << to_text(table, style);
  }
  if (!doc.memory.empty()) std::cout << "\n  memory: " << doc.memory << "\n";
}

bool named(const FunctionDoc& doc, const std::string& name) {
  return doc.name == name || doc.name.substr(0, doc.name.find('/')) == name;
}

}  // namespace

int functions_command(const FunctionsCommand& command) {
  PluginCatalog catalog(command.common);
  std::vector<FunctionDoc> functions;
  for (const KernelResolver* resolver : catalog.resolvers())
    for (FunctionDoc& doc : resolver->functions()) functions.push_back(std::move(doc));
  if (!command.name.empty()) {
    std::vector<std::string> names;
    for (const FunctionDoc& doc : functions) names.push_back(doc.name.substr(0, doc.name.find('/')));
    std::erase_if(functions, [&](const FunctionDoc& doc) { return !named(doc, command.name); });
    if (functions.empty()) {
      const auto near = nearest_name(command.name, names);
      throw Error(ErrorKind::invalid,
                  "unknown function '" + command.name + "'" +
                      (near ? ", did you mean '" + *near + "'?" : "; `cuboid functions` lists what there is"));
    }
  }
  if (command.common.json) {
    auto list = nlohmann::json::array();
    for (const FunctionDoc& doc : functions) list.push_back(function_json(doc));
    print_json({{"functions", std::move(list)}});
    return kExitDone;
  }
  const TextStyle style = style_for(1);
  if (!command.name.empty()) {
    for (const FunctionDoc& doc : functions) print_function(doc, style);
    return kExitDone;
  }
  Table table;
  table.columns = {{"function"}, {"kind"}, {"what it does"}};
  for (const FunctionDoc& doc : functions)
    table.rows.push_back({{doc.name, Ink::bold}, doc.kind, doc.doc.substr(0, doc.doc.find('\n'))});
  std::cout << to_text(table, style);
  return kExitDone;
}

}  // namespace cuboid
