#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/catalog.h"
#include "engine/cli/command.h"
#include "engine/cli/settings.h"
#include "engine/report/table.h"
#include "engine/run/history.h"

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

// What earlier runs measured, the last one's library first; nothing where there is no history, or none that can be
// read.
std::vector<CallRecord> measured(const FunctionDoc& doc) {
  const std::string file = history_file();
  std::error_code error;
  if (doc.kind != "plugin" || file.empty() || !std::filesystem::exists(file, error)) return {};
  try {
    std::vector<CallRecord> records = History(file).of_function(doc.name);
    std::stable_partition(records.begin(), records.end(),
                          [&](const CallRecord& record) { return record.kind.plugin == records[0].kind.plugin; });
    return records;
  } catch (const Error& problem) {
    print_error(problem, false);
    return {};
  }
}

// The numbers of its manifest that are somebody's estimate: "call_bytes" and its formula, "" where that is unknown.
using Formulas = std::vector<std::pair<std::string, std::string>>;
Formulas guesses_of(const FunctionManifest& function) {
  Formulas result;
  const auto note = [&](const char* name, const BytesManifest& bytes) {
    const bool unknown = bytes.source == BytesManifest::Source::unknown;
    const bool guess = bytes.source == BytesManifest::Source::formula && bytes.trust == Trust::guess;
    if (unknown || guess) result.emplace_back(name, unknown ? "" : std::string(bytes.formula.text()));
  };
  note("call_bytes", function.call_bytes);
  note("state_bytes", function.state_bytes);
  note("outside_bytes", function.outside_bytes);
  return result;
}

Formulas guesses_of(const PluginCatalog& catalog, const std::string& id) {
  for (const Manifest& library : catalog.report().found)
    for (const FunctionManifest& function : library.functions)
      if (function.id == id) return guesses_of(function);
  return {};
}

// The guesses so enlarged that they would have held, a tenth more than the worst call of the last library; empty where
// they did hold.
Formulas corrected(const Formulas& guesses, const std::vector<CallRecord>& records) {
  double worst = 0;
  std::uint64_t largest = 0;
  for (const CallRecord& record : records) {
    if (record.kind.plugin != records[0].kind.plugin) break;
    if (record.declared > 0)
      worst = std::max(worst, static_cast<double>(record.peak) / static_cast<double>(record.declared));
    largest = std::max(largest, record.peak);
  }
  Formulas result;
  for (const auto& [name, formula] : guesses) {
    char factor[32];
    std::snprintf(factor, sizeof factor, "%.4g", std::ceil(1.1 * worst * 20) / 20);
    if (formula.empty() && largest > 0)
      result.emplace_back(name, std::to_string(largest + largest / 10));
    else if (!formula.empty() && formula != "0" && worst > 1)
      result.emplace_back(name, std::string(factor) + "*(" + formula + ")");
  }
  return result;
}

nlohmann::json measured_json(const Formulas& guesses, const std::vector<CallRecord>& records) {
  auto calls = nlohmann::json::array();
  for (const CallRecord& record : records)
    calls.push_back({{"plugin", record.kind.plugin},
                     {"params", nlohmann::json::parse(record.kind.params, nullptr, false)},
                     {"block", record.kind.block},
                     {"calls", record.stats.finished},
                     {"declared_bytes", record.declared},
                     {"peak_bytes", record.peak},
                     {"breaches", record.breaches}});
  auto formulas = nlohmann::json::object();
  for (const auto& [name, formula] : corrected(guesses, records)) formulas[name] = formula;
  return {{"calls", std::move(calls)}, {"corrected", std::move(formulas)}};
}

void print_measured(const Formulas& guesses, const std::vector<CallRecord>& records, const TextStyle& style) {
  if (records.empty()) return;
  Table table;
  table.columns = {{"  block"},        {"parameters"},    {"library"},       {"calls", true},
                   {"declared", true}, {"largest", true}, {"breaches", true}};
  for (const CallRecord& record : records)
    table.rows.push_back({"  " + record.kind.block,
                          record.kind.params,
                          record.kind.plugin.substr(0, 8),
                          std::to_string(record.stats.finished),
                          format_size(record.declared),
                          format_size(record.peak),
                          {std::to_string(record.breaches), record.breaches > 0 ? Ink::yellow : Ink::plain}});
  std::cout << "\n  measured in earlier runs, beside what is exact:\n" << to_text(table, style);
  for (const auto& [name, formula] : corrected(guesses, records))
    std::cout << "  would have held: " << name << ": " << formula << "\n";
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
    for (const FunctionDoc& doc : functions) {
      list.push_back(function_json(doc));
      if (!command.name.empty() && doc.kind == "plugin")
        list.back()["measured"] = measured_json(guesses_of(catalog, doc.name), measured(doc));
    }
    print_json({{"functions", std::move(list)}});
    return kExitDone;
  }
  const TextStyle style = style_for(1);
  if (!command.name.empty()) {
    for (const FunctionDoc& doc : functions) {
      print_function(doc, style);
      print_measured(guesses_of(catalog, doc.name), measured(doc), style);
    }
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
