#include "engine/plan/memory_model.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

namespace cuboid {

int tasks_at_once(std::uint64_t budget, const Baselines& baselines, std::uint64_t projected, bool isolated,
                  int workers) {
  const std::uint64_t each = projected + (isolated ? baselines.worker : 0);
  if (budget < baselines.coordinator || each > budget - baselines.coordinator) return 0;
  const std::uint64_t fit = each == 0 ? std::numeric_limits<int>::max() : (budget - baselines.coordinator) / each;
  return static_cast<int>(std::min<std::uint64_t>(fit, static_cast<std::uint64_t>(std::max(workers, 1))));
}

std::uint64_t smallest_budget(const Baselines& baselines, std::uint64_t projected, bool isolated) {
  return baselines.coordinator + projected + (isolated ? baselines.worker : 0);
}

namespace {

std::uint64_t mem_available() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kib = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kib) return kib << 10;
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

// What a control group leaves: the smallest over this process's group and its ancestors; max where there is no limit.
std::uint64_t cgroup_headroom() {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::ifstream own("/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3); !path.empty(); path.resize(path.rfind('/'))) {
      const std::string folder = "/sys/fs/cgroup" + path;
      std::uint64_t limit = 0, used = 0;
      std::ifstream max(folder + "/memory.max"), current(folder + "/memory.current");
      if ((max >> limit) && (current >> used)) least = std::min(least, limit > used ? limit - used : 0);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace

std::uint64_t default_budget() { return std::min(mem_available(), cgroup_headroom()) / 5 * 4; }

}  // namespace cuboid
