// cuboid-worker with functions that misbehave instead of plugins. The plugin "broken" cannot be loaded, "stuck" ends
// the process.
#include <cstdlib>

#include "engine/worker/worker.h"
#include "storage/error.h"
#include "tests/engine/run/fake_kernels.h"

int main(int argc, char** argv) {
  return cuboid::worker_main(argc, argv, [](const std::vector<std::string>& plugins) -> cuboid::Resolvers {
    for (const std::string& plugin : plugins) {
      if (plugin == "broken") throw cuboid::Error(cuboid::ErrorKind::plugin, "the plugin 'broken' cannot be loaded");
      if (plugin == "stuck") std::exit(7);
    }
    return {&cuboid::testing::fake_kernels()};
  });
}
