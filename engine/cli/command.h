// What the command line says, as plain data, and the verbs that act on it. main.cc fills these in; each verb lives in a
// file of its own, throws Error for what goes wrong, and returns the exit code otherwise.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "storage/error.h"

namespace cuboid {

// The exit codes of INTERFACE.md.
enum ExitCode : int {
  kExitDone = 0,
  kExitInternal = 1,
  kExitUsage = 2,
  kExitRefused = 3,
  kExitExceeded = 4,
  kExitPlugin = 5,
  kExitStorage = 6,
  kExitInterrupted = 130
};
// The code for an error that no run is to blame for.
int exit_code(const Error& error);
// {"kind", "message", "context"}
nlohmann::json error_json(const Error& error);
// One JSON object on standard output, and a line break. Text that is not UTF-8 is replaced.
void print_json(const nlohmann::json& json);
// "cuboid: <message> (array out/x.zarr, chunk 3.1)" on standard error, or {"error": ...} on standard output.
void print_error(const Error& error, bool json);

struct CommonFlags {
  std::string memory, run_dir, on_exceed, max_task_memory, progress = "auto";
  int workers = 0;       // 0: not stated
  int max_attempts = 0;  // 0: not stated
  std::vector<std::string> plugins;
  std::string allow_plugins;  // a file of content hashes; "": any
  bool json = false, quiet = false;
  int verbosity = 0;
};

struct PlanCommand {
  CommonFlags common;
  std::string file, what_if;
  bool dot = false, no_history = false;
};
int plan_command(const PlanCommand& command);

struct RunCommand {
  CommonFlags common;
  std::string file;
  bool fresh = false, keep = false, no_history = false;
  std::vector<std::string> words;  // as it was given, "run" first
};
int run_command(const RunCommand& command);

struct ReportCommand {
  CommonFlags common;
  std::string run_dir, output;
};
int report_command(const ReportCommand& command);

struct FunctionsCommand {
  CommonFlags common;
  std::string name;
};
int functions_command(const FunctionsCommand& command);

struct PluginCommand {
  CommonFlags common;
  std::string library;
  std::string function, data;       // check, measure
  std::uint64_t seed = 1;           // check, measure
  std::vector<std::string> params;  // measure: "name=value"
  std::string directory;            // new
};
int plugin_list_command(const PluginCommand& command);
int plugin_show_command(const PluginCommand& command);
int plugin_check_command(const PluginCommand& command);
int plugin_measure_command(const PluginCommand& command);
int plugin_new_command(const PluginCommand& command);

struct ArrayCommand {
  CommonFlags common;
  std::string path, destination;
  std::string box, npy;                // cat
  std::string chunks, shards, codecs;  // copy
  int format = 0;                      // copy; 0: as the source
  bool overwrite = false;
};
int array_info_command(const ArrayCommand& command);
int array_ls_command(const ArrayCommand& command);
int array_cat_command(const ArrayCommand& command);
int array_copy_command(const ArrayCommand& command);
int array_codecs_command(const ArrayCommand& command);

// Replaces this process by cuboid-worker; returns only by throwing.
int worker_command(const std::vector<std::string>& arguments);

}  // namespace cuboid
