#include "engine/plan/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace cuboid {
namespace {

// The number behind a word of a file, as in "MemAvailable: 123" or "inactive_file 456".
std::optional<std::uint64_t> number_behind(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  for (std::string word; file >> word;)
    if (word == name && file >> number) return number;
  return std::nullopt;
}

std::uint64_t mem_available(const std::string& root) {
  if (const auto kib = number_behind(root + "/proc/meminfo", "MemAvailable:")) return *kib << 10;
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

// Names of files and fields: what version 1 and 2 call the same.
struct Hierarchy {
  const char *mount, *limit, *used, *reclaimable;
};
constexpr Hierarchy kVersion1{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                              "total_inactive_file"};
constexpr Hierarchy kVersion2{"/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"};

// What a group leaves: files that were read and are in no use any more count as used, and give way. No limit: max.
std::uint64_t headroom(const std::string& folder, const Hierarchy& names) {
  std::uint64_t limit = 0, used = 0;
  std::ifstream limit_file(folder + names.limit), used_file(folder + names.used);
  if (!(limit_file >> limit) || !(used_file >> used)) return std::numeric_limits<std::uint64_t>::max();
  used -= std::min(used, number_behind(folder + "/memory.stat", names.reclaimable).value_or(0));
  return limit - std::min(limit, used);
}

// The smallest over this process's group and those above it. The mount's own folder is one of them: in a container it is
// the container's group, and what the process is said to be in may not be there at all.
std::uint64_t cgroup_headroom(const std::string& root) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::ifstream own(root + "/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {  // number:controllers:path
    std::string number, controllers, path;
    std::istringstream fields(line);
    std::getline(std::getline(std::getline(fields, number, ':'), controllers, ':'), path);
    const bool version1 = ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (!version1 && number != "0") continue;
    const Hierarchy& names = version1 ? kVersion1 : kVersion2;
    for (;; path.resize(path.rfind('/'))) {
      while (path.ends_with('/')) path.pop_back();
      least = std::min(least, headroom(root + names.mount + path, names));
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace

std::uint64_t available_memory(const std::string& root) { return std::min(mem_available(root), cgroup_headroom(root)); }

}  // namespace cuboid
