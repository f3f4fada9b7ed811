// What a run is told beside its pipeline: a flag beats the pipeline file, which beats the environment.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/cli/command.h"
#include "engine/plan/plan.h"
#include "engine/report/progress.h"

namespace cuboid {

// Bytes of the whole run on this machine. Throws Error{invalid} naming the flag or variable at fault.
std::uint64_t memory_budget(const CommonFlags& flags, std::optional<std::uint64_t> of_file = {});
// Tasks at once, at most.
int worker_count(const CommonFlags& flags);
// --run-dir, else `file` without its suffix, with `.run` added.
// Where what calls took in earlier runs is kept: $CUBOID_HISTORY (a file, or "off"), else below the user's data
// directory ($XDG_DATA_HOME, ~/.local/share). "": nowhere.
std::string history_file();
std::string run_directory(const CommonFlags& flags, const std::string& file);
// The run's policy; its action is always set. `on_terminal`: a person can be asked.
ExceedPolicy exceed_policy(const CommonFlags& flags, const ExceedPolicy& of_file, bool on_terminal);
// Standard input and standard error are terminals.
bool person_present();
ProgressMode progress_mode(const CommonFlags& flags, bool error_is_terminal);
// Sets budget, workers and run directory.
void complete_options(PlanOptions& options, const CommonFlags& flags, const std::string& file,
                      std::optional<std::uint64_t> memory_of_file);
// "100,100" as extents, each at least 1.
Shape parse_extents(const std::string& text, const std::string& flag);

}  // namespace cuboid
