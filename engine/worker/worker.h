// The life of a worker process: loads plugins, says hello, runs one task after another, and ends with its coordinator.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace cuboid {

// Loads the given plugin libraries and returns all resolvers that plans need. Throws Error{plugin}. Called once.
using LoadPlugins = std::function<Resolvers(const std::vector<std::string>& paths)>;

// Answers a question that is no task; `say` tells what it is at meanwhile. What it throws ends the process.
using AnswerQuestion =
    std::function<std::string(const std::string& question, const std::function<void(const std::string&)>& say)>;

// The worker's main(): `--socket FD --parent PID`, as the executor starts it. Returns the exit code.
int worker_main(int argc, char** argv, const LoadPlugins& load_plugins, const AnswerQuestion& answer);

}  // namespace cuboid
