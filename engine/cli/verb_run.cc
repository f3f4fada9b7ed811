#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/catalog.h"
#include "engine/cli/command.h"
#include "engine/cli/pipeline.h"
#include "engine/cli/run_display.h"
#include "engine/cli/run_summary.h"
#include "engine/cli/settings.h"
#include "engine/report/plan_table.h"
#include "engine/report/question.h"
#include "storage/printable.h"

namespace cuboid {

RunResult run_with_display(const PlanRequest& request, PluginCatalog& catalog, const CommonFlags& flags,
                           RunOptions options) {
  std::signal(SIGPIPE, SIG_IGN);  // a run outlives whoever looked at its output
  const bool error_is_terminal = ::isatty(STDERR_FILENO) == 1;
  const ProgressMode mode = progress_mode(flags, error_is_terminal);
  Terminal terminal(STDERR_FILENO, mode == ProgressMode::bar && error_is_terminal);
  Progress progress(terminal, {mode, flags.quiet, flags.verbosity});
  TerminalDecider decider(terminal, STDIN_FILENO);
  options.observer = &progress;
  if (person_present()) options.decider = &decider;
  options.plugins = catalog.libraries_of(request);
  return run(request, catalog.resolvers(), options);
}

int report_result(const RunResult& result, const CommonFlags& flags) {
  if (flags.json) {
    print_json(run_report(result));
    return result.exit_code;
  }
  if (result.nothing_to_do) {
    std::cout << "nothing to do\n";
  } else if (result.status == RunStatus::refused) {
    std::cout << plan_table(result.plan, style_for(1));
  } else if (!flags.quiet) {
    std::cout << run_summary(result, style_for(1));
  }
  std::cout.flush();
  if (result.plan.refused && result.status == RunStatus::refused)
    std::cerr << paint(style_for(2), Ink::red, "cuboid:") << " " << refusal_text(result.plan) << "\n";
  if (result.error) print_error(*result.error, false);
  return result.exit_code;
}

namespace {

// As a shell reads it back.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "_./:=,@%+-";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The command as it was given, with `flags` (pairs of a name and a value) in place of its own. It goes on: --fresh
// would not.
std::string command_to_go_on(const std::vector<std::string>& words, const std::string& flags) {
  std::string text = "cuboid";
  for (std::size_t k = 0; k < words.size(); ++k) {
    const std::size_t equals = words[k].find('=');
    const std::string name = words[k].substr(0, equals);
    if (name == "--fresh") continue;
    if (name.starts_with("--") && (flags + " ").find(name + " ") != std::string::npos) {
      if (equals == std::string::npos) ++k;
      continue;
    }
    text += " " + shell_word(words[k]);
  }
  return text + (flags.empty() ? "" : " " + flags);
}

// Where a run stopped that can go on.
void say_how_to_go_on(const RunResult& result, const RunCommand& command) {
  if (!result.error || result.exit_code == kExitInternal || command.common.json) return;
  std::string flags;
  for (const auto& [key, value] : result.error->context())
    if (key == "go_on") flags = value;
  std::cerr << "go on with: " << printable(command_to_go_on(command.words, flags)) << "\n";
}

}  // namespace

int run_command(const RunCommand& command) {
  const CommonFlags& flags = command.common;
  PluginCatalog catalog(flags);
  Pipeline pipeline = load_pipeline(command.file, catalog);
  complete_options(pipeline.request.options, flags, command.file, pipeline.memory);
  pipeline.request.options.keep = command.keep;

  RunOptions options;
  options.on_exceed = exceed_policy(flags, pipeline.on_exceed, person_present());
  options.override_step_policies = !flags.on_exceed.empty();
  options.fresh = command.fresh;
  if (!command.no_history) options.history = history_file();
  try {
    const RunResult result = run_with_display(pipeline.request, catalog, flags, options);
    report_result(result, flags);
    say_how_to_go_on(result, command);
    return result.exit_code;
  } catch (const Error& error) {
    throw with_place(error, pipeline);
  }
}

}  // namespace cuboid
