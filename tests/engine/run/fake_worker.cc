// cuboid-worker with functions that misbehave instead of plugins. The plugin "broken" cannot be loaded, "stuck" ends
// the process, "asleep" does so after a minute.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "engine/worker/worker.h"
#include "storage/error.h"
#include "tests/engine/run/fake_kernels.h"

int main(int argc, char** argv) {
  const auto load = [](const std::vector<std::string>& plugins) -> cuboid::Resolvers {
    for (const std::string& plugin : plugins) {
      if (plugin == "broken") throw cuboid::Error(cuboid::ErrorKind::plugin, "the plugin 'broken' cannot be loaded");
      if (plugin == "stuck") std::exit(7);
      if (plugin == "asleep") std::this_thread::sleep_for(std::chrono::minutes(1)), std::exit(7);
    }
    return {&cuboid::testing::fake_kernels()};
  };
  // Echoes, unless it is told to say something first or to end.
  const auto answer = [](const std::string& question, const std::function<void(const std::string&)>& say) {
    if (question == "die") std::abort();
    if (question == "sleep") std::this_thread::sleep_for(std::chrono::minutes(1));
    say("thinking of " + question);
    return question;
  };
  return cuboid::worker_main(argc, argv, load, answer);
}
