// Functions that keep their promises except in the block that begins at element `where`.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cuboid/plugin.hpp>
#include <thread>
#include <vector>

using namespace cuboid::sdk;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

constexpr decl same_shape(const char* id, const char* doc) {
  return decl(id, "x:f8[n] -> y:f8[n]", doc).param(integer("where", -1)).flags(pure | reentrant);
}

bool here(const Call& c) { return c.in<double, 1>(0).origin(0) == c.integer("where"); }

void copy(Call& c) {
  const auto x = c.in<double, 1>(0);
  auto y = c.out<double, 1>(0);
  for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i);
}

// Touches `bytes`, so that they are really taken; the sum keeps the compiler from leaving them out.
double touch(void* memory, std::int64_t bytes) {
  auto* at = static_cast<volatile char*>(memory);
  double sum = 0;
  for (std::int64_t i = 0; i < bytes; i += 4096) at[i] = 1, sum += at[i];
  return sum;
}

struct Abort {
  static constexpr auto meta = same_shape("bad.abort/1", "Aborts.").call_bytes("0", exact).outside_bytes("0", exact);
  static void run(Call& c) {
    if (here(c)) std::abort();
    copy(c);
  }
};

struct Crash {
  static constexpr auto meta =
      same_shape("bad.crash/1", "Reads nowhere.").call_bytes("0", exact).outside_bytes("0", exact);
  static void run(Call& c) {
    if (here(c)) std::raise(SIGSEGV);
    copy(c);
  }
};

// The copy comes back with another result, and the original only after it has ended.
struct Fork {
  static constexpr auto meta =
      same_shape("bad.fork/1", "Comes back twice.").call_bytes("0", exact).outside_bytes("0", exact);
  static void run(Call& c) {
    copy(c);
    if (!here(c)) return;
    const pid_t child = ::fork();
    if (child == 0) c.out<double, 1>(0)(0) = -1;
    if (child > 0) ::waitpid(child, nullptr, 0);
  }
};

struct Leave {
  static constexpr auto meta =
      same_shape("bad.leave/1", "Ends the process.").call_bytes("0", exact).outside_bytes("0", exact);
  static void run(Call& c) {
    if (here(c)) std::_Exit(0);
    copy(c);
  }
};

struct Quit {
  static constexpr auto meta =
      same_shape("bad.quit/1", "Ends the program.").call_bytes("0", exact).outside_bytes("0", exact);
  static void run(Call& c) {
    if (here(c)) std::exit(0);
    copy(c);
  }
};

struct Throw {
  static constexpr auto meta = same_shape("bad.throw/1", "Throws.").call_bytes("0", exact).outside_bytes("0", exact);
  static void run(Call& c) {
    if (here(c)) throw std::runtime_error("the sky is falling");
    copy(c);
  }
};

struct Loop {
  static constexpr auto meta = same_shape("bad.loop/1", "Never ends.").call_bytes("0", exact).outside_bytes("0", exact);
  static void run(Call& c) {
    while (here(c)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    copy(c);
  }
};

template <bool promised>
struct Acquire {
  static constexpr auto meta =
      same_shape(promised ? "bad.acquire_bound/1" : "bad.acquire_guess/1", "Takes 96 MiB from the host, says 1.")
          .call_bytes("1048576", promised ? bound : guess)
          .outside_bytes("0", exact);
  static void run(Call& c) {
    auto memory = c.scratch<char>(here(c) ? 96 * kMiB : kMiB / 2);
    touch(memory.data(), static_cast<std::int64_t>(memory.size()));
    copy(c);
  }
};

struct Malloc {
  static constexpr auto meta = same_shape("bad.malloc/1", "Takes 96 MiB by malloc, says 1.")
                                   .call_bytes("0", exact)
                                   .outside_bytes("1048576", guess);
  static void run(Call& c) {
    const std::int64_t bytes = here(c) ? 96 * kMiB : kMiB / 2;
    std::vector<char> memory(static_cast<std::size_t>(bytes));
    touch(memory.data(), bytes);
    copy(c);
  }
};

// Through the C interface, because the C++ layer would refuse: one row more than the capacity.
struct TooMany {
  static constexpr auto meta = decl("bad.rows/1", "x:f8[n] -> y:f8[<=n]", "Says more rows than its bound.")
                                   .param(integer("where", -1))
                                   .call_bytes("0", exact)
                                   .outside_bytes("0", exact)
                                   .flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    if (here(c)) {
      const std::int64_t many = x.extent(0) + 1;
      c.check(c.raw()->host->trim(c.raw(), 0, &many), "one row too many");
    }
    auto rows = c.rows<double>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i) rows.add(x(i));
    rows.finish();
  }
};

// One element too many, at either end. The process that did it should see no further block.
template <int where>
struct Beside {
  static constexpr auto meta = same_shape(where < 0 ? "bad.before/1" : "bad.behind/1", "Writes beside its output.")
                                   .call_bytes("0", exact)
                                   .outside_bytes("0", exact);
  static void run(Call& c) {
    static std::atomic<bool> spoilt{false};
    if (spoilt) throw std::runtime_error("this process was used again");
    copy(c);
    if (!here(c)) return;
    spoilt = true;
    auto* y = static_cast<double*>(c.raw()->out[0]->data);
    *const_cast<volatile double*>(where < 0 ? y - 1 : y + c.raw()->out[0]->shape[0]) = 1;
  }
};

}  // namespace

CUBOID_PLUGIN("bad", "1.0.0", Abort, Crash, Fork, Leave, Quit, Throw, Loop, Acquire<true>, Acquire<false>, Malloc,
              TooMany, Beside<-1>, Beside<1>)
