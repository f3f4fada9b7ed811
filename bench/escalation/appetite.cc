// A function that takes as much memory as its data says, and holds it for a while: for bench/escalation/run.py.
#include <chrono>
#include <cuboid/plugin.hpp>
#include <thread>

using namespace cuboid::sdk;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

// x(0) MiB for x(1) milliseconds, in steps, as data structures grow; every page is touched.
void take(Call& c) {
  const auto x = c.in<double, 1>(0);
  const auto mebibytes = static_cast<std::int64_t>(x(0));
  constexpr std::int64_t kSteps = 4;
  for (std::int64_t k = 0; k < kSteps; ++k) {
    const std::int64_t bytes = mebibytes * kMiB / kSteps;
    auto part = c.scratch<char>(bytes);
    auto* at = static_cast<volatile char*>(static_cast<void*>(part.data()));
    for (std::int64_t i = 0; i < bytes; i += 4096) at[i] = 1;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(x(1) / kSteps));
  }
  auto y = c.out<double, 1>(0);
  for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
}

constexpr decl appetite(const char* id, const char* doc) {
  return decl(id, "x:f8[n] -> y:f8[n]", doc)
      .param(integer("mib").min(1).max(65536).help("MiB that a call is said to take."))
      .outside_bytes("0", exact)
      .flags(pure | reentrant);
}

struct Guessed {
  static constexpr auto meta =
      appetite("appetite.guessed/1", "Twice x; `mib` is a guess.").call_bytes("mib*1048576", guess);
  static void run(Call& c) { take(c); }
};

struct Known {
  static constexpr auto meta =
      appetite("appetite.known/1", "Twice x; `mib` is right.").call_bytes("mib*1048576", exact);
  static void run(Call& c) { take(c); }
};

struct Idle {
  static constexpr auto meta = decl("appetite.idle/1", "x:f8[n] -> y:f8[n]", "x, after x(1) milliseconds.")
                                   .call_bytes("0", exact)
                                   .outside_bytes("0", exact)
                                   .flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(x(1)));
    auto y = c.out<double, 1>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i);
  }
};

}  // namespace

CUBOID_PLUGIN("appetite", "1.0.0", Guessed, Known, Idle)
