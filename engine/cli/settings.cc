#include "engine/cli/settings.h"

#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "engine/plan/memory_model.h"

namespace cuboid {
namespace {

std::uint64_t size_of(const std::string& text, const std::string& source) {
  std::uint64_t bytes = 0;
  try {
    bytes = parse_size(text);
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid, source + ": " + error.message());
  }
  if (bytes == 0)
    throw Error(ErrorKind::invalid, source + ": expected a size of at least one byte, got '" + text + "'");
  return bytes;
}

template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

}  // namespace

std::uint64_t memory_budget(const CommonFlags& flags, std::optional<std::uint64_t> of_file) {
  if (!flags.memory.empty()) return size_of(flags.memory, "--memory");
  if (of_file) return *of_file;
  if (const char* value = environment("CUBOID_MEMORY")) return size_of(value, "CUBOID_MEMORY");
  return default_budget();
}

int worker_count(const CommonFlags& flags) {
  if (flags.workers > 0) return flags.workers;
  if (const char* value = environment("CUBOID_WORKERS")) {
    const auto count = number_of<int>(value);
    if (!count || *count < 1 || *count > 4096)
      throw Error(ErrorKind::invalid,
                  "CUBOID_WORKERS: expected an integer from 1 to 4096, got '" + std::string(value) + "'");
    return *count;
  }
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string history_file() {
  if (const char* file = environment("CUBOID_HISTORY")) return std::string_view(file) == "off" ? "" : file;
  if (const char* data = environment("XDG_DATA_HOME")) return std::string(data) + "/cuboid/history.sqlite";
  if (const char* home = environment("HOME")) return std::string(home) + "/.local/share/cuboid/history.sqlite";
  return {};
}

std::string run_directory(const CommonFlags& flags, const std::string& file) {
  if (!flags.run_dir.empty()) return flags.run_dir;
  std::filesystem::path path(file);
  path.replace_extension();
  return path.string() + ".run";
}

ExceedPolicy exceed_policy(const CommonFlags& flags, const ExceedPolicy& of_file, bool on_terminal) {
  ExceedPolicy policy = of_file;
  if (flags.on_exceed == "ask") policy.action = ExceedAction::ask;
  if (flags.on_exceed == "grow") policy.action = ExceedAction::grow;
  if (flags.on_exceed == "park") policy.action = ExceedAction::park;
  if (flags.on_exceed == "fail") policy.action = ExceedAction::fail;
  if (!policy.action) policy.action = on_terminal ? ExceedAction::ask : ExceedAction::grow;
  if (!flags.max_task_memory.empty()) policy.max_task_memory = size_of(flags.max_task_memory, "--max-task-memory");
  if (flags.max_attempts > 0) policy.max_attempts = flags.max_attempts;
  return policy;
}

bool person_present() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

ProgressMode progress_mode(const CommonFlags& flags, bool error_is_terminal) {
  if (flags.progress == "none" || (flags.quiet && flags.progress == "auto")) return ProgressMode::none;
  if (flags.progress == "plain") return ProgressMode::plain;
  if (flags.progress == "bar") return ProgressMode::bar;
  return error_is_terminal ? ProgressMode::bar : ProgressMode::plain;
}

void complete_options(PlanOptions& options, const CommonFlags& flags, const std::string& file,
                      std::optional<std::uint64_t> memory_of_file) {
  options.budget = memory_budget(flags, memory_of_file);
  options.workers = worker_count(flags);
  options.run_dir = run_directory(flags, file);
}

Shape parse_extents(const std::string& text, const std::string& flag) {
  Shape shape;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(",x", start), text.size());
    const auto extent = number_of<std::int64_t>(text.substr(start, end - start));
    if (!extent || *extent < 1)
      throw Error(ErrorKind::invalid, flag + ": expected extents of at least 1 such as 100,100, got '" + text + "'");
    shape.push_back(*extent);
    start = end + 1;
  }
  if (shape.size() > kMaxRank)
    throw Error(ErrorKind::invalid, flag + ": more than " + std::to_string(kMaxRank) + " axes");
  return shape;
}

}  // namespace cuboid
