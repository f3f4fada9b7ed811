#include <filesystem>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/check/check.h"
#include "engine/cli/command.h"
#include "engine/plugin/plugin_host.h"
#include "engine/report/table.h"
#include "engine/run/run.h"
#include "engine/run/worker_questions.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr std::chrono::minutes kCheckPatience{2};  // for one check

// One check in a process of its own.
check::CheckResult ask(const std::string& worker, const check::CheckDoc& doc, const std::string& library,
                       const PluginCommand& command) {
  json question = {{"ask", "check"}, {"check", doc.name}, {"library", library}, {"seed", command.seed}};
  if (!command.data.empty()) question["data"] = command.data;
  std::string at;
  try {
    const json told = json::parse(
        WorkerQuestions(worker).ask(question.dump(), kCheckPatience, [&](const std::string& note) { at = note; }));
    if (told.contains("error")) return {false, told.at("error").at("message").get<std::string>()};
    return {told.at("passed").get<bool>(), told.at("detail").get<std::string>()};
  } catch (const Error& error) {
    std::string why = at.empty() ? "" : at + ": ";
    if (*doc.on_crash) why += std::string(doc.on_crash) + ": ";
    return {false, why + "the process " + error.message(), true};
  }
}

}  // namespace

int plugin_check_command(const PluginCommand& command) {
  const std::string library =
      std::filesystem::absolute(find_library(command.library, std::filesystem::current_path(), plugin_folders()))
          .string();
  const std::string worker = worker_program("");
  const TextStyle style = style_for(1);
  json checks = json::array();
  int failures = 0;
  for (const check::CheckDoc& doc : check::check_list()) {
    const check::CheckResult result = ask(worker, doc, library, command);
    checks.push_back({{"name", doc.name}, {"passed", result.passed}, {"detail", result.detail}});
    failures += result.passed ? 0 : 1;
    if (!command.common.json) {
      std::cout << paint(style, result.passed ? Ink::plain : Ink::red, result.passed ? "ok    " : "FAIL  ") << std::left
                << std::setw(14) << doc.name << " " << printable(result.passed ? doc.promise : result.detail) << "\n"
                << std::flush;
    }
    if (doc.stops(result)) break;
  }
  if (command.common.json) {
    print_json({{"checks", checks}, {"passed", failures == 0}, {"seed", command.seed}, {"library", library}});
  } else {
    std::cout << "\n"
              << (failures == 0 ? "all " + std::to_string(checks.size()) + " checks passed"
                                : std::to_string(failures) + " of " + std::to_string(checks.size()) + " checks failed")
              << " (seed " << command.seed << ")\n";
  }
  return failures == 0 ? kExitDone : kExitPlugin;
}

}  // namespace cuboid
