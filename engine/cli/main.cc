// The program `cuboid`: reads the command line into plain structs and hands them to one verb.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

#include "engine/cli/command.h"
#include "engine/expr/kernel.h"
#include "engine/plugin/plugin_library.h"
#include "storage/http_client.h"

namespace {

using namespace cuboid;

// Everything a command line can say, and what then happens.
struct CommandLine {
  PlanCommand plan;
  RunCommand run;
  ReportCommand report;
  FunctionsCommand functions;
  PluginCommand plugin_list, plugin_show, plugin_check, plugin_measure, plugin_new;
  ArrayCommand info, ls, cat, copy, codecs;
  std::vector<std::string> worker_arguments;
};

void add_json(CLI::App* verb, CommonFlags& flags) {
  verb->add_flag("--json", flags.json, "One JSON object on standard output, and nothing else there");
}

void add_plugins(CLI::App* verb, CommonFlags& flags) {
  verb->add_option("--plugin", flags.plugins, "A plugin library, by path or name; may be given several times")
      ->type_name("LIB")
      ->expected(1)
      ->take_all();
  verb->add_option("--allow-plugins", flags.allow_plugins,
                   "Only plugins whose SHA-256 stands in this file (as sha256sum prints it)")
      ->type_name("FILE");
}

void add_resources(CLI::App* verb, CommonFlags& flags) {
  verb->add_option("--memory", flags.memory, "Memory of the whole run on this machine, such as 512MiB")
      ->type_name("SIZE");
  verb->add_option("--workers", flags.workers, "Tasks at once, at most (default: the number of cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--run-dir", flags.run_dir, "Where the run keeps its journal and intermediates")->type_name("DIR");
}

void add_display(CLI::App* verb, CommonFlags& flags) {
  verb->add_option("--progress", flags.progress, "How progress is shown: auto, bar, plain or none")
      ->type_name("HOW")
      ->check(CLI::IsMember({"auto", "bar", "plain", "none"}));
  verb->add_flag("-q,--quiet", flags.quiet, "Errors only");
  verb->add_flag("-v,--verbose", flags.verbosity, "More: logs of functions; twice: every task");
}

void add_policy(CLI::App* verb, CommonFlags& flags) {
  verb->add_option("--on-exceed", flags.on_exceed,
                   "When an estimate was too low: ask, grow, park or fail; overrides steps too")
      ->type_name("ACTION")
      ->check(CLI::IsMember({"ask", "grow", "park", "fail"}));
  verb->add_option("--max-task-memory", flags.max_task_memory, "What one task may get at most when it grows")
      ->type_name("SIZE");
  verb->add_option("--max-attempts", flags.max_attempts, "Attempts at one block, at most")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
}

void add_plan(CLI::App& app, PlanCommand& command, int& exit) {
  auto* verb = app.add_subcommand("plan", "Project memory, tasks and bytes of a pipeline without running it");
  verb->add_option("FILE", command.file, "The pipeline file")->required()->type_name("");
  verb->add_flag("--dot", command.dot, "The plan as a Graphviz graph");
  verb->add_flag("--no-history", command.no_history, "Do not ask the history of what calls took in earlier runs");
  verb->add_option("--what-if", command.what_if, "Plan with other numbers: memory=SIZE,chunks=N,N")
      ->type_name("CHANGES");
  add_resources(verb, command.common);
  add_policy(verb, command.common);
  add_plugins(verb, command.common);
  add_display(verb, command.common);
  add_json(verb, command.common);
  verb->footer("Example:\n  cuboid plan examples/hubble.yaml --memory 64MiB --what-if chunks=100,100");
  verb->callback([&] { exit = plan_command(command); });
}

void add_run(CLI::App& app, RunCommand& command, int& exit) {
  auto* verb = app.add_subcommand("run", "Plan and run a pipeline, or go on from where it stopped");
  verb->add_option("FILE", command.file, "The pipeline file")->required()->type_name("");
  verb->add_flag("--fresh", command.fresh, "Start anew: remove what this run directory made");
  verb->add_flag("--keep", command.keep, "Keep intermediates");
  verb->add_flag("--no-history", command.no_history,
                 "Neither ask nor tell the history of what calls took in earlier runs");
  add_resources(verb, command.common);
  add_policy(verb, command.common);
  add_plugins(verb, command.common);
  add_display(verb, command.common);
  add_json(verb, command.common);
  verb->footer("Example:\n  cuboid run examples/hubble.yaml --memory 256MiB --workers 2");
  verb->callback([&] { exit = run_command(command); });
}

void add_report(CLI::App& app, ReportCommand& command, int& exit) {
  auto* verb = app.add_subcommand("report", "Write a self-contained HTML report of a running, failed or finished run");
  verb->add_option("RUN_DIR", command.run_dir, "The run directory")->required()->type_name("");
  verb->add_option("-o,--output", command.output, "Where to write (default: report.html in the run directory)")
      ->type_name("FILE");
  add_json(verb, command.common);
  verb->footer("Example:\n  cuboid report examples/hubble.run");
  verb->callback([&] { exit = report_command(command); });
}

void add_functions(CLI::App& app, FunctionsCommand& command, int& exit) {
  auto* verb = app.add_subcommand("functions", "List what `call:` accepts, or document one function");
  verb->add_option("NAME", command.name, "A function")->type_name("");
  add_plugins(verb, command.common);
  add_json(verb, command.common);
  verb->footer("Example:\n  cuboid functions filter.gaussian");
  verb->callback([&] { exit = functions_command(command); });
}

void add_trials(CLI::App* verb, PluginCommand& command) {
  verb->add_option("--data", command.data, "A Zarr array whose middle is used as first argument where it suits")
      ->type_name("ARRAY");
  verb->add_option("--seed", command.seed, "Of the sample data: the same seed, the same calls")->type_name("N");
  add_json(verb, command.common);
}

void add_plugin(CLI::App& app, CommandLine& line, int& exit) {
  auto* group = app.add_subcommand("plugin", "What plugins there are and what they promise");
  group->require_subcommand(1);
  auto* list = group->add_subcommand("list", "What is found and where, what was skipped and why");
  add_plugins(list, line.plugin_list.common);
  add_json(list, line.plugin_list.common);
  list->footer("Example:\n  CUBOID_PLUGIN_PATH_ADD=build cuboid plugin list");
  list->callback([&] { exit = plugin_list_command(line.plugin_list); });
  auto* show = group->add_subcommand("show", "The manifest of a plugin, read without loading its code");
  show->add_option("LIB", line.plugin_show.library, "A library, by path or name")->required()->type_name("");
  add_json(show, line.plugin_show.common);
  show->footer("Example:\n  cuboid plugin show sky");
  show->callback([&] { exit = plugin_show_command(line.plugin_show); });
  auto* check = group->add_subcommand("check", "Prove what a plugin promises, each promise in a process of its own");
  check->add_option("LIB", line.plugin_check.library, "A library, by path or name")->required()->type_name("");
  add_trials(check, line.plugin_check);
  check->footer("Example:\n  cuboid plugin check build/libdemo.so --seed 7");
  check->callback([&] { exit = plugin_check_command(line.plugin_check); });
  auto* measure = group->add_subcommand("measure", "Measure what calls take, and the formula that covers it");
  measure->add_option("LIB", line.plugin_measure.library, "A library, by path or name")->required()->type_name("");
  measure->add_option("--function", line.plugin_measure.function, "The function (default: all of the library)")
      ->type_name("NAME");
  measure->add_option("--param", line.plugin_measure.params, "A parameter to hold fixed; may be given several times")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
  add_trials(measure, line.plugin_measure);
  measure->footer("Example:\n  cuboid plugin measure build/libdemo.so --function demo.above");
  measure->callback([&] { exit = plugin_measure_command(line.plugin_measure); });
  auto* fresh =
      group->add_subcommand("new", "A fresh plugin project: function, build, test, README and a copy of the SDK");
  fresh->add_option("DIR", line.plugin_new.directory, "Where; its last part becomes the plugin's name")
      ->required()
      ->type_name("");
  add_json(fresh, line.plugin_new.common);
  fresh->footer("Example:\n  cuboid plugin new demo && cmake -S demo -B demo/build && cmake --build demo/build");
  fresh->callback([&] { exit = plugin_new_command(line.plugin_new); });
  group->footer("Example:\n  cuboid plugin list");
}

void add_array(CLI::App& app, CommandLine& line, int& exit) {
  auto* group = app.add_subcommand("array", "Look at Zarr arrays and copy them");
  group->require_subcommand(1);
  group->footer("Example:\n  cuboid array info examples/data/hubble_deep_field.zarr");
  const auto verb_on_path = [group](const char* name, const char* what, ArrayCommand& command) {
    auto* verb = group->add_subcommand(name, what);
    verb->add_option("PATH", command.path, "A Zarr array or group: path or URL")->required()->type_name("");
    add_json(verb, command.common);
    return verb;
  };
  auto* info = verb_on_path("info", "Metadata of an array", line.info);
  info->footer("Example:\n  cuboid array info out/smooth.zarr --json");
  info->callback([&] { exit = array_info_command(line.info); });
  auto* ls = verb_on_path("ls", "Arrays and groups below a path", line.ls);
  ls->footer("Example:\n  cuboid array ls out");
  ls->callback([&] { exit = array_ls_command(line.ls); });

  auto* cat = verb_on_path("cat", "Elements of an array, read in bounded memory", line.cat);
  cat->add_option("--box", line.cat.box, "Which: integers and slices, such as 0:10,:,5 (an integer drops its axis)")
      ->type_name("BOX");
  cat->add_option("--npy", line.cat.npy, "Write NumPy's file format there instead of printing")->type_name("FILE");
  cat->add_option("--memory", line.cat.common.memory, "Memory for elements on their way")->type_name("SIZE");
  cat->footer("Example:\n  cuboid array cat out/sources.zarr --box 0:10,:");
  cat->callback([&] { exit = array_cat_command(line.cat); });

  auto* copy = group->add_subcommand("copy", "Copy an array with other chunks, codecs or format, in bounded memory");
  copy->add_option("SRC", line.copy.path, "The array")->required()->type_name("");
  copy->add_option("DST", line.copy.destination, "Where to write")->required()->type_name("");
  copy->add_option("--chunks", line.copy.chunks, "Chunk extents, such as 100,100 (default: the source's)")
      ->type_name("N,N");
  copy->add_option("--shards", line.copy.shards, "Shard extents (format 3; default: the source's), or none")
      ->type_name("N,N");
  copy->add_option("--codecs", line.copy.codecs, "A name of `cuboid array codecs`, or a Zarr v3 codec list as JSON")
      ->type_name("NAME");
  copy->add_option("--format", line.copy.format, "Zarr format, 2 or 3")->type_name("2|3")->check(CLI::IsMember({2, 3}));
  copy->add_flag("--overwrite", line.copy.overwrite, "Replace an array that is there");
  add_resources(copy, line.copy.common);
  add_display(copy, line.copy.common);
  add_json(copy, line.copy.common);
  copy->footer("Example:\n  cuboid array copy in.zarr out.zarr --chunks 512,512 --codecs blosc-zstd --memory 256MiB");
  copy->callback([&] { exit = array_copy_command(line.copy); });

  auto* codecs = group->add_subcommand("codecs", "Names of codecs, one a line");
  add_json(codecs, line.codecs.common);
  codecs->footer("Example:\n  cuboid array codecs");
  codecs->callback([&] { exit = array_codecs_command(line.codecs); });
}

// The words that may follow a command: its subcommands and long flags.
std::string words_after(const CLI::App& app) {
  std::string words;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!verb->get_group().empty()) words += verb->get_name() + " ";
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  if (!words.empty()) words.pop_back();
  return words;
}

// A script for bash; zsh runs it after `autoload bashcompinit && bashcompinit`. Made from the commands themselves, so
// that it cannot lag behind them.
std::string completion_script(const CLI::App& app) {
  std::string cases = "    'cuboid ') words='" + words_after(app) + "' ;;\n";
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    cases += "    'cuboid " + verb->get_name() + " ') words='" + words_after(*verb) + "' ;;\n";
    for (const CLI::App* below : verb->get_subcommands([](const CLI::App*) { return true; }))
      cases +=
          "    'cuboid " + verb->get_name() + " " + below->get_name() + " ') words='" + words_after(*below) + "' ;;\n";
  }
  return "# Completion of cuboid for bash: source <(cuboid completion)\n"
         "_cuboid() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} command='cuboid ' words='' word\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case $word in -* | */* | *.*) break ;; *) command+=\"$word \" ;; esac\n"
         "  done\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  [[ $current == -* ]] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F _cuboid cuboid\n";
}

bool asked_for_json(int argc, char** argv) {
  for (int k = 1; k < argc; ++k)
    if (std::string_view(argv[k]) == "--json") return true;
  return false;
}

// CLI11 would only say that a command is required.
void check_verb(const CLI::App& app, int argc, char** argv) {
  const CLI::App* level = &app;
  for (int k = 1; k < argc && argv[k][0] != '-'; ++k) {
    const CLI::App* found = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* verb : level->get_subcommands([](const CLI::App*) { return true; })) {
      if (verb->get_name() == argv[k]) found = verb;
      names.push_back(verb->get_name());
    }
    if (!found && level->get_require_subcommand_min() == 0) return;
    if (!found) {
      const auto near = nearest_name(argv[k], names);
      throw Error(ErrorKind::invalid,
                  "unknown command '" + std::string(argv[k]) + "'" +
                      (near ? ", did you mean '" + *near + "'?" : "; `cuboid --help` lists what there is"));
    }
    level = found;
  }
}

int parse_and_act(int argc, char** argv) {
  CLI::App app("Computes on Zarr arrays larger than memory, within the memory it was given.", "cuboid");
  app.set_version_flag("--version", "cuboid " CUBOID_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Example:\n  cuboid plan examples/hubble.yaml && cuboid run examples/hubble.yaml\n\n"
      "Exit codes: 0 done, 2 usage or input, 3 refused, 4 an estimate exceeded, 5 a plugin failed, 6 storage,\n"
      "130 interrupted; 1 is a fault of this program.");
  CommandLine line;
  line.run.words.assign(argv + 1, argv + argc);
  int exit = kExitDone;
  add_plan(app, line.plan, exit);
  add_run(app, line.run, exit);
  add_report(app, line.report, exit);
  add_functions(app, line.functions, exit);
  add_plugin(app, line, exit);
  add_array(app, line, exit);
  for (const char* name : {"worker", "task"}) {
    auto* verb = app.add_subcommand(name, "Internal: run tasks for a coordinator")->group("");
    verb->prefix_command();
    verb->callback([verb, &exit] { exit = worker_command(verb->remaining()); });
  }
  auto* completion = app.add_subcommand("completion", "Print a completion script for bash (and zsh with bashcompinit)");
  completion->footer("Example:\n  source <(cuboid completion)");
  completion->callback([&app] { std::cout << completion_script(app); });
  check_verb(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& request) {
    return app.exit(request);
  } catch (const CLI::CallForAllHelp& request) {
    return app.exit(request);
  } catch (const CLI::CallForVersion& request) {
    return app.exit(request);
  } catch (const CLI::ParseError& fault) {
    throw Error(ErrorKind::invalid,
                std::string(fault.what()) + "; `cuboid --help` and `cuboid COMMAND --help` say more");
  }
  return exit;
}

int act(int argc, char** argv) {
  const bool json = asked_for_json(argc, argv);
  cuboid::set_transfer_notice([](const std::string& line) { std::cerr << line + "\n"; });
  try {
    return parse_and_act(argc, argv);
  } catch (const cuboid::Error& error) {
    cuboid::print_error(error, json);
    return cuboid::exit_code(error);
  } catch (const std::exception& error) {
    cuboid::print_error(cuboid::Error(cuboid::ErrorKind::invalid, std::string("internal error: ") + error.what()),
                        json);
    return cuboid::kExitInternal;
  }
}

// Whether somebody who still listens on standard output did not get all of it.
bool output_is_lost() {
  std::cout.flush();
  if (std::cout) return false;
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) < 1 || (output.revents & (POLLERR | POLLHUP)) == 0;  // else nobody reads the pipe
}

}  // namespace

int main(int argc, char** argv) {
  int code = act(argc, argv);
  if (output_is_lost()) {
    cuboid::print_error(cuboid::Error(cuboid::ErrorKind::io,
                                      "standard output cannot be written, and what was told there is not complete: "
                                      "see that its disk has space"),
                        false);
    if (code == cuboid::kExitDone) code = cuboid::exit_code(cuboid::Error(cuboid::ErrorKind::io, ""));
  }
  cuboid::end_process(code);
  return code;
}
