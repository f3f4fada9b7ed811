// What the host offers: state that is opened once, threads, memory that is charged, extents and regions by the plugin's own
// code.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cuboid/plugin.hpp>
#include <thread>
#include <utility>
#include <vector>

using namespace cuboid::sdk;

namespace {

// Each opening and closing leaves a line in the file LOG, with the process that did it.
struct Stateful {
  struct State {
    std::pmr::vector<double> table;
    explicit State(Call& c) : table(1000, 2.0, c.memory()) { note("open"); }
    ~State() { note("close"); }
    static void note(const char* what) {
      if (std::FILE* log = std::fopen(LOG, "a")) {
        std::fprintf(log, "%s %d\n", what, int(::getpid()));
        std::fclose(log);
      }
    }
  };
  static constexpr auto meta = decl("services.stateful/1", "x:f8[n] -> y:f8[n]", "Doubles by a table.")
                                   .call_bytes("0", exact)
                                   .state_bytes("8*1000 + 4*64", bound)
                                   .outside_bytes("0", exact)
                                   .flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    auto y = c.out<double, 1>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i) * c.state<State>().table[std::size_t(i % 1000)];
  }
};

// Row 0: lanes that were offered; row 1: threads that worked at once, at most.
struct Lanes {
  static constexpr auto meta = decl("services.lanes/1", "x:f8[n] -> y:i8[2]", "Lanes offered, and used at once.")
                                   .all()
                                   .call_bytes("0", exact)
                                   .outside_bytes("0", exact)
                                   .flags(reentrant);
  static void run(Call& c) {
    std::atomic<int> now{0}, most{0};
    c.spread(16, [&](std::uint64_t, std::uint32_t) {
      const int mine = ++now;
      for (int seen = most; seen < mine && !most.compare_exchange_weak(seen, mine);) {
      }
      if (c.lanes() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      --now;
    });
    auto y = c.out<std::int64_t, 1>(0);
    y(0) = c.lanes(), y(1) = most;
  }
};

// So large that memory admits one call only: how many of its bodies ran at the same time.
struct Tight {
  static constexpr auto meta = decl("services.tight/1", "x:f8[n] -> y:i8[n]", "Bodies that met each other.")
                                   .call_bytes("25165824", exact)
                                   .outside_bytes("0", exact)
                                   .flags(reentrant);
  static void run(Call& c) {
    const auto memory = c.scratch<char>(24 << 20);
    std::atomic<int> inside{0};
    c.spread(c.lanes(), [&](std::uint64_t, std::uint32_t) {
      ++inside;
      const auto begin = std::chrono::steady_clock::now();
      while (inside < int(c.lanes()) && std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)) {
      }
    });
    auto y = c.out<std::int64_t, 1>(0);
    for (std::int64_t i = 0; i < y.extent(0); ++i) y(i) = c.lanes() == 1 ? 1 : inside.load();
  }
};

// Takes 40 MiB by malloc, and says so: 40 MiB in all, not 80.
struct Charged {
  static constexpr auto meta = decl("services.charged/1", "x:f8[n] -> y:f8[n]", "Charges what it takes.")
                                   .call_bytes("0", exact)
                                   .outside_bytes("41943040", bound)
                                   .flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    auto y = c.out<double, 1>(0);
    constexpr std::int64_t bytes = 40 << 20;
    c.charge(bytes);
    {
      std::vector<char> memory(std::size_t(bytes) - 4096, 1);
      for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i) + memory[std::size_t(i)];
    }
    c.charge(-bytes);
  }
};

// infer says how many rows at most.
struct Inferred {
  static constexpr auto meta = decl("services.inferred/1", "x:f8[n] -> y:f8[?]", "Every third element.")
                                   .param(integer("step", 3).min(1))
                                   .output("y", Delivery::trim)
                                   .call_bytes("callback")
                                   .outside_bytes("0", exact)
                                   .flags(pure | reentrant);
  static cuboid_status infer(const cuboid_ask* ask, cuboid_answer* answer) {
    const std::int64_t step = ask->param[0]->u.i;
    if (step == 13) {
      answer->why = "thirteen brings bad luck";
      return CUBOID_E_PARAM;
    }
    if (step == 99) std::abort();
    cuboid_out_fact& out = *answer->out[0];
    out.rank = 1, out.dtype = ask->in[0]->dtype, out.shape_trust = CUBOID_BOUND;
    out.max_shape[0] = ask->in[0]->shape[0] / step + 1;
    answer->call_bytes = 128, answer->call_trust = CUBOID_BOUND;
    answer->outside_trust = answer->state_trust = CUBOID_EXACT;
    return CUBOID_OK;
  }
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    auto y = c.rows<double>(0);
    const auto copy = c.scratch<double>(16);
    for (std::int64_t i = 0; i < x.extent(0); ++i)
      if ((x.origin(0) + i) % c.integer("step") == 0) copy[0] = x(i), y.add(copy[0]);
    y.finish();
  }
};

// A block of the result needs the block at the other end of the array.
struct Reversed {
  static constexpr auto meta = decl("services.reversed/1", "x:f8[n] -> y:f8[n]", "The array backwards.")
                                   .callback_regions()
                                   .call_bytes("0", exact)
                                   .outside_bytes("0", exact)
                                   .flags(pure | reentrant);
  static cuboid_status regions(const cuboid_ask* ask, std::uint32_t, const cuboid_box* want, cuboid_box* const* need) {
    const std::int64_t n = ask->in[0]->whole[0];
    need[0]->lo[0] = n - want->hi[0];
    need[0]->hi[0] = n - want->lo[0];
    return CUBOID_OK;
  }
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    auto y = c.out<double, 1>(0);
    const std::int64_t n = y.extent(0);
    if (x.extent(0) != n || x.origin(0) != x.whole(0) - y.origin(0) - n) throw std::runtime_error("another region");
    for (std::int64_t i = 0; i < n; ++i) y(i) = x(n - 1 - i);
  }
};

// Many rows for each element, in slabs: a result of any size from one call that holds a slab of it.
struct Pours {
  static constexpr std::int64_t kSlab = 5000;
  static constexpr auto meta = decl("services.pours/1", "x:f8[n] -> y:f8[<=n*rows, 2], skipped:i8[<=n]",
                                    "Per element `rows` rows: their number and its multiple of x.")
                                   .param(integer("rows", 100).min(0).max(100'000'000))
                                   .output("y", Delivery::push, "n*rows", "5000")
                                   .output("skipped", Delivery::push, "0", "1")
                                   .call_bytes("16*5000", exact)
                                   .outside_bytes("0", exact)
                                   .flags(pure | reentrant)
                                   .splittable("n");
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    const std::int64_t rows = c.integer("rows");
    auto slab = c.scratch<double>(2 * kSlab);
    std::int64_t held = 0;
    const auto push = [&] { c.push(0, slab.data(), std::exchange(held, 0)); };
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
      const std::int64_t number = x.origin(0) + i;
      if (x(i) < 0) {
        c.push(1, &number, 1);
        continue;
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        slab[std::size_t(2 * held)] = double(number * rows + r), slab[std::size_t(2 * held + 1)] = x(i) * double(r);
        if (++held == kSlab) push();
      }
    }
    push();
    if (c.integer("rows") == 4321) throw std::runtime_error("all of it was for nothing");
  }
};

}  // namespace

CUBOID_PLUGIN("services", "1.0.0", Stateful, Lanes, Tight, Charged, Inferred, Reversed, Pours)
