// What a run did, as a table and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/report/table.h"
#include "engine/run/run.h"

namespace cuboid {

// Projected, allowed and measured memory a stage, then totals and where the results are.
std::string run_summary(const RunResult& result, const TextStyle& style);

// `cuboid run --json`: the plan's object with what was done added, as INTERFACE.md lists it.
nlohmann::json run_report(const RunResult& result);

}  // namespace cuboid
