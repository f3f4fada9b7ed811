// Functions that leave trouble behind, each of which doubles its input; and a static destructor that ends the process.
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <cstdlib>
#include <cuboid/plugin.hpp>
#include <thread>

using namespace cuboid::sdk;

namespace {

constexpr decl doubling(const char* id, const char* doc) {
  return decl(id, "x:f8[n] -> y:f8[n]", doc).call_bytes("64", bound).outside_bytes("0", exact).flags(pure);
}

void twice(Call& c) {
  const auto x = c.in<double, 1>(0);
  auto y = c.out<double, 1>(0);
  for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
}

struct Locale {
  static constexpr auto meta = doubling("trouble.locale/1", "Sets a locale with a decimal comma.");
  static void run(Call& c) {
    for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"})
      if (std::setlocale(LC_ALL, name)) break;
    twice(c);
  }
};

struct Rounding {
  static constexpr auto meta = doubling("trouble.rounding/1", "Leaves another rounding mode.");
  static void run(Call& c) {
    twice(c);
    std::fesetround(FE_UPWARD);
  }
};

struct Folder {
  static constexpr auto meta = doubling("trouble.folder/1", "Leaves another working directory.");
  static void run(Call& c) {
    if (::chdir("/") != 0) throw std::runtime_error("chdir");
    twice(c);
  }
};

// The thread outlives the call and the library's last task.
struct Thread {
  static constexpr auto meta = doubling("trouble.thread/1", "Leaves a thread that runs on.").flags(pure | threads);
  static void run(Call& c) {
    static std::atomic<std::uint64_t> counter{0};
    std::thread([] {
      for (;;) {
        ++counter;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }).detach();
    twice(c);
  }
};

// Past the C++ layer, which would not let it.
struct Ignores {
  static constexpr auto meta = decl("trouble.ignores/1", "x:f8[n] -> y:f8[n]", "Goes on after memory was refused.")
                                   .call_bytes("64", guess)
                                   .outside_bytes("0", exact)
                                   .flags(pure);
  static void run(Call& c) {
    void* memory = nullptr;
    c.raw()->host->acquire(c.raw(), std::uint64_t(1) << 40, 0, "a terabyte", &memory);
    twice(c);
  }
};

struct AtExit {
  ~AtExit() { ::_exit(3); }
} at_exit;

}  // namespace

CUBOID_PLUGIN("trouble", "1.0.0", Locale, Rounding, Folder, Thread, Ignores)
