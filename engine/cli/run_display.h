// Runs a request with a person looking on: progress, questions, the summary, the exit code.
#pragma once
#include "engine/cli/catalog.h"
#include "engine/cli/command.h"
#include "engine/run/run.h"

namespace cuboid {

RunResult run_with_display(const PlanRequest& request, PluginCatalog& catalog, const CommonFlags& flags,
                           RunOptions options);
// Prints what became of it, as --json asks or as text, and returns the exit code.
int report_result(const RunResult& result, const CommonFlags& flags);

}  // namespace cuboid
