// Pure arithmetic on bytes: what of a budget tasks may use, and how many of them at once.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cuboid {

// What the processes of a run take beside tasks. Planned as constants, replaced by measured ones while running.
struct Baselines {
  std::uint64_t coordinator = 14u << 20;  // bytes
  std::uint64_t worker = 6u << 20;        // bytes of each live worker, its plugins included
};
// Of a run whose arrays lie at these paths and URLs. What speaks with networks and opens archives is loaded where it is
// needed, and takes memory of every process that does.
Baselines baselines_of(const std::vector<std::string>& locations);

// The largest number of tasks at once, at most `workers`; 0 where not even one fits.
int tasks_at_once(std::uint64_t budget, const Baselines& baselines, std::uint64_t projected, bool isolated,
                  int workers);
// The smallest budget in which one such task runs.
std::uint64_t smallest_budget(const Baselines& baselines, std::uint64_t projected, bool isolated);
// Up to this size malloc may keep what was freed for the next call, on each of so many threads, where `spare` bytes of
// the budget are nobody's. What codecs take for themselves and give back with every chunk is of such a size: kept, a
// chunk of 1 MiB takes half the time; but its holes take several times as much as was ever in use.
std::uint64_t malloc_threshold(std::uint64_t spare, int threads);
// 80 % of what this machine (and this process's cgroup) has available: the default budget.
std::uint64_t default_budget();

}  // namespace cuboid
