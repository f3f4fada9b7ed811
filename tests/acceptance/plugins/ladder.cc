// Functions whose estimates are too low where the data says so, each in its own way.
#include <sys/mman.h>

#include <stdexcept>

#include "twice.h"

using namespace cuboid::sdk;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

// Touches `bytes`, so that they are really taken.
void touch(void* memory, std::int64_t bytes) {
  auto* at = static_cast<volatile char*>(memory);
  for (std::int64_t i = 0; i < bytes; i += 4096) at[i] = 1;
}

// 32 KiB of scratch an element where the block's elements are crowded (greater than 9), 1 KiB elsewhere: what it says.
template <class View>
void work(Call& c, const View& x) {
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < x.extent(0); ++i) bytes += x(i) > 9 ? 32 << 10 : 1 << 10;
  auto memory = c.scratch<char>(bytes);
  touch(memory.data(), bytes);
}

struct Halves {
  static constexpr auto meta =
      doubling("ladder.halves/1", "Twice x.").call_bytes("1024*n", guess).flags(pure | reentrant).splittable("n");
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    work(c, x);
    twice(c);
  }
};

struct Positive {
  static constexpr auto meta = decl("ladder.rows/1", "x:f8[n] -> y:f8[<=n]", "The elements above 0, in order.")
                                   .call_bytes("1024*n", guess)
                                   .outside_bytes("0", exact)
                                   .flags(pure | reentrant)
                                   .splittable("n");
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    work(c, x);
    auto rows = c.rows<double>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i)
      if (x(i) > 0) rows.add(x(i));
    rows.finish();
  }
};

struct Whole {
  static constexpr auto meta =
      doubling("ladder.whole/1", "Twice x; may not be cut.").call_bytes("1024*n", guess).flags(pure | reentrant);
  static void run(Call& c) { Halves::run(c); }
};

// Two results of guessed lengths.
struct Both {
  static constexpr auto meta =
      decl("ladder.both/1", "x:f8[n] -> low:f8[~<=10], high:f8[~<=20]", "The elements below -1, and those above 1.")
          .call_bytes("65536", bound)
          .outside_bytes("0", exact)
          .output("low", Delivery::trim, "5")
          .output("high", Delivery::trim, "5")
          .flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    auto low = c.rows<double>(0), high = c.rows<double>(1);
    for (std::int64_t i = 0; i < x.extent(0); ++i)
      if (x(i) < -1)
        low.add(x(i));
      else if (x(i) > 1)
        high.add(x(i));
    low.finish();
    high.finish();
  }
};

// 256 MiB by a mapping of its own where crowded.
struct Map {
  static constexpr auto meta = decl("ladder.map/1", "x:f8[n] -> y:f8[n]", "Twice x.")
                                   .call_bytes("0", exact)
                                   .outside_bytes("1048576", guess)
                                   .flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    const std::size_t bytes = static_cast<std::size_t>(x(0) > 9 ? 256 * kMiB : kMiB / 2);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no mapping for the table");
    touch(memory, static_cast<std::int64_t>(bytes));
    munmap(memory, bytes);
    twice(c);
  }
};

// Takes 8 MiB and says that it needs 12, whatever it may have.
struct Stubborn {
  static constexpr auto meta =
      doubling("ladder.stubborn/1", "Twice x.").call_bytes("9*1048576", guess).flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    auto memory = c.scratch<char>(8 * kMiB);
    touch(memory.data(), 8 * kMiB);
    if (x(0) > 9) throw Failure(CUBOID_E_BUDGET, "the table does not fit", 12 * kMiB);
    twice(c);
  }
};

}  // namespace

CUBOID_PLUGIN("ladder", "1.0.0", Halves, Positive, Whole, Both, Map, Stubborn)
