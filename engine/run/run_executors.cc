// run(): with threads of this process and worker processes.
#include <filesystem>

#include "engine/run/coordinator.h"
#include "storage/error.h"

namespace cuboid {

namespace fs = std::filesystem;

std::string worker_program(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* named = std::getenv("CUBOID_WORKER"); named && *named) return named;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const std::vector<fs::path> candidates{here / "cuboid-worker", here.parent_path() / "libexec/cuboid/cuboid-worker"};
  for (const fs::path& candidate : candidates)
    if (fs::exists(candidate, error)) return candidate.string();
  throw Error(ErrorKind::plugin, "the program cuboid-worker, in which plugins run, is neither at " +
                                     candidates[0].string() + " nor at " + candidates[1].string() +
                                     "; name it in the environment as CUBOID_WORKER");
}

RunResult run(const PlanRequest& request, const Resolvers& resolvers, const RunOptions& options) {
  ExecutorFactory factory;
  factory.threads = make_thread_executor;
  factory.workers = [&](std::shared_ptr<const Plan> plan, int count, int stop) {
    WorkerOptions worker{worker_program(options.worker), request.options.run_dir, options.plugins, count, stop};
    return make_worker_executor(std::move(plan), worker);
  };
  return run_with(request, resolvers, options, factory);
}

}  // namespace cuboid
