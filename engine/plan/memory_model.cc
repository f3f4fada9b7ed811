#include "engine/plan/memory_model.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/plan/machine_memory.h"

namespace cuboid {

Baselines baselines_of(const std::vector<std::string>& locations) {
  // Measured: libcurl and what it brings 9 MiB, certificates beside; libzip and its cryptography 4 MiB.
  constexpr std::uint64_t kNetwork = 12u << 20, kArchive = 5u << 20;
  const auto any = [&](const auto& predicate) { return std::any_of(locations.begin(), locations.end(), predicate); };
  std::uint64_t loaded = 0;
  if (any([](const std::string& place) {
        return place.find("://") != std::string::npos && !place.starts_with("file:") && !place.starts_with("memory:");
      }))
    loaded += kNetwork;
  if (any([](const std::string& place) { return place.find(".zip") != std::string::npos; })) loaded += kArchive;
  Baselines baselines;
  baselines.coordinator += loaded;
  baselines.worker += loaded;
  return baselines;
}

std::uint64_t malloc_threshold(std::uint64_t spare, int threads) {
  // Beyond the least, glibc's own, mappings cost little beside the work on them. The holes that allocations of up to n
  // bytes leave behind in an arena were up to 4 n: half of what is spare is kept free of them.
  constexpr std::uint64_t kLeast = 128u << 10, kMost = 4u << 20;
  return std::clamp(spare / (8 * static_cast<std::uint64_t>(std::max(threads, 1))), kLeast, kMost);
}

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

std::uint64_t default_budget() { return available_memory() / 5 * 4; }

}  // namespace cuboid
