// cuboid-worker: runs the tasks of stages that call foreign code, apart from the coordinator.
#include <filesystem>
#include <memory>

#include "engine/plugin/host_heap.h"
#include "engine/plugin/plugin_host.h"
#include "engine/worker/counted_malloc.h"
#include "engine/worker/worker.h"

namespace {

cuboid::Resolvers load_plugins(const std::vector<std::string>& paths) {
  const std::vector<std::filesystem::path> libraries(paths.begin(), paths.end());
  static std::unique_ptr<const cuboid::PluginResolver> plugins;
  plugins = std::make_unique<const cuboid::PluginResolver>(cuboid::find_plugins(libraries, {}).found);
  plugins->load();
  return {&cuboid::builtin_kernels(), plugins.get()};
}

}  // namespace

int main(int argc, char** argv) {
  cuboid::set_host_heap({cuboid::counted_malloc::uncounted_memalign, cuboid::counted_malloc::uncounted_free});
  return cuboid::worker_main(argc, argv, load_plugins);
}
