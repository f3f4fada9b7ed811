// A program that embeds Cuboid: the bright parts of an image, within 256 MiB whatever its size.
//
//   embed IMAGE.zarr BRIGHT.zarr
//
// It also brings a function of its own, linked into the program: no library, no worker process.
#include <cuboid/cuboid.h>

#include <cstdio>
#include <cuboid/plugin.hpp>

struct Contrast {
  static constexpr auto meta = cuboid::sdk::decl("embed.contrast/1", "v:T[y,x] -> z:T[y,x]", "Distance from a level.")
                                   .types("T=f4|f8")
                                   .param(cuboid::sdk::real("level"))
                                   .call_bytes("0", cuboid::sdk::exact)
                                   .outside_bytes("0", cuboid::sdk::exact)
                                   .flags(cuboid::sdk::pure | cuboid::sdk::reentrant);
  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto v = call.in<T, 2>(0);
    auto z = call.out<T, 2>(0);
    const double level = call.real("level");
    for (std::int64_t i = 0; i < v.extent(0); ++i)
      for (std::int64_t j = 0; j < v.extent(1); ++j)
        z(i, j) = static_cast<T>(v(i, j) < level ? level - v(i, j) : v(i, j) - level);
  }
};
CUBOID_PLUGIN("embed", "1.0.0", Contrast)

using namespace cuboid;

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: embed IMAGE.zarr BRIGHT.zarr\n");
    return 2;
  }
  try {
    register_plugin(cuboid_plugin_v1);
    const Array image = open_array(words[1]);
    const Array smooth = call("filter.gaussian", {mean(image, {2})}, {{"sigma", 1.5}});
    const Array contrast = call("embed.contrast", {smooth}, {{"level", 20.0}});
    const Plan plan = make_plan({{contrast > 100.0, words[2]}}, {.memory = 256_MiB, .workers = 2});
    std::fputs(plan.table().c_str(), stdout);

    int finished = 0;
    const RunResult result = run(plan, {.on_exceed = grow_to(64_MiB), .observer = [&](const Event& event) {
                                          if (event.what == "task_done") ++finished;
                                        }});
    if (result.error) throw *result.error;
    if (result.nothing_to_do) std::puts("nothing to do");
    std::printf("%s: %d tasks run now, at most %s of memory\n", result.status.c_str(), finished,
                result.peak_rss_bytes <= 256_MiB ? "256 MiB" : "more than the budget");
    return result.exit_code;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", std::string(to_string(error.kind())).c_str(), error.what());
    return 1;
  }
}
