// Functions that leave trouble behind, each of which doubles its input; and a static destructor that does AT_EXIT.
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <cstdlib>
#include <thread>

#include "twice.h"

using namespace cuboid::sdk;

namespace {

constexpr decl harmless(const char* id, const char* doc) {
  return doubling(id, doc).call_bytes("0", exact).flags(pure);
}

struct Locale {
  static constexpr auto meta = harmless("trouble.locale/1", "Sets a locale with a decimal comma.");
  static void run(Call& c) {
    for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"})
      if (std::setlocale(LC_ALL, name)) break;
    twice(c);
  }
};

struct Rounding {
  static constexpr auto meta = harmless("trouble.rounding/1", "Leaves another rounding mode.");
  static void run(Call& c) {
    twice(c);
    std::fesetround(FE_UPWARD);
  }
};

struct Folder {
  static constexpr auto meta = harmless("trouble.folder/1", "Leaves another working directory.");
  static void run(Call& c) {
    if (::chdir("/") != 0) throw std::runtime_error("chdir");
    twice(c);
  }
};

// The thread outlives the call and the library's last task.
struct Thread {
  static constexpr auto meta = harmless("trouble.thread/1", "Leaves a thread that runs on.").flags(pure | threads);
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
  static constexpr auto meta =
      doubling("trouble.ignores/1", "Goes on after memory was refused.").call_bytes("64", guess).flags(pure);
  static void run(Call& c) {
    void* memory = nullptr;
    c.raw()->host->acquire(c.raw(), std::uint64_t(1) << 40, 0, "a terabyte", &memory);
    twice(c);
  }
};

struct AtExit {
  ~AtExit() { AT_EXIT; }
} at_exit;

}  // namespace

CUBOID_PLUGIN("trouble", "1.0.0", Locale, Rounding, Folder, Thread, Ignores)
