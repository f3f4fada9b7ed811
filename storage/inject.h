// Faults on purpose: CUBOID_INJECT=FAULT:N[,FAULT:N...] lets the N-th event of its kind in a whole run, counted over
// all of its processes from 1, go wrong; N may be `a-b` for several in a row. docs/fault-injection.md lists the faults.
// Each one that comes about is said on standard error. Costs a load and a branch where the variable is not set.
//
// Counting and deciding take no memory and no lock, so that they may stand inside malloc. All of it is thread-safe.
#pragma once
#include <cstdint>
#include <memory>

namespace cuboid {
class Store;
}

namespace cuboid::inject {

enum class Fault : std::uint8_t {
  buffer,  // a buffer is refused as if the machine were full
  host,    // a request of a plugin's call to its host is refused as if it were beyond what the call may have
  malloc,  // the same for malloc in a plugin's call, in a worker
  store,   // a call of a store fails
  tear,    // a value is put in half: the call fails, as if its writer had died
  delay,   // a call of a store takes 200 ms
  worker,  // a worker process dies: odd events are beginnings of its tasks, even ones their ends
  run      // the run itself dies, once the journal holds its N-th finished block
};
inline constexpr int kFaults = 8;

// True where something is to be injected into this process at all.
extern const bool active;
// Counts one event; true where this is the one that goes wrong.
bool due_now(Fault fault) noexcept;
inline bool due(Fault fault) noexcept { return active && due_now(fault); }

// The same store, with faults where any are asked for.
std::shared_ptr<Store> into(std::shared_ptr<Store> store);

}  // namespace cuboid::inject
