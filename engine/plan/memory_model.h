// Pure arithmetic on bytes: what of a budget tasks may use, and how many of them at once.
#pragma once
#include <cstdint>

namespace cuboid {

// What the processes of a run take beside tasks. Planned as constants, replaced by measured ones while running.
struct Baselines {
  std::uint64_t coordinator = 14u << 20;  // bytes
  std::uint64_t worker = 6u << 20;        // bytes of each live worker, its plugins included
};

// The largest number of tasks at once, at most `workers`; 0 where not even one fits.
int tasks_at_once(std::uint64_t budget, const Baselines& baselines, std::uint64_t projected, bool isolated,
                  int workers);
// The smallest budget in which one such task runs.
std::uint64_t smallest_budget(const Baselines& baselines, std::uint64_t projected, bool isolated);
// 80 % of what this machine (and this process's cgroup) has available: the default budget.
std::uint64_t default_budget();

}  // namespace cuboid
