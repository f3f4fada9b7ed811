#include "engine/run/process_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace cuboid {
namespace {

std::string read_small(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[4096];
  const ssize_t length = read(fd, text, sizeof text);
  close(fd);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
}

std::uint64_t pss(const std::string& process) {
  const std::string text = read_small(process + "/smaps_rollup");
  if (const auto at = text.find("\nPss:"); at != std::string::npos)
    return std::strtoull(text.c_str() + at + 5, nullptr, 10) << 10;
  // A kernel without it: resident pages, shared ones counted in full.
  const std::string statm = read_small(process + "/statm");
  const auto second = statm.find(' ');
  if (second == std::string::npos) return 0;
  return std::strtoull(statm.c_str() + second, nullptr, 10) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

std::uint64_t pss_of_children(const std::string& task) {
  const std::string list = read_small(task + "/children");
  std::uint64_t total = 0;
  for (const char* at = list.c_str(); *at;) {
    char* end = nullptr;
    const long pid = std::strtol(at, &end, 10);
    if (end == at) break;
    at = *end ? end + 1 : end;
    const std::string process = "/proc/" + std::to_string(pid);
    total += pss(process) + pss_of_children(process + "/task/" + std::to_string(pid));
  }
  return total;
}

}  // namespace

TreeMemory sample_tree_memory() {
  TreeMemory memory;
  memory.self = pss("/proc/self");
  memory.total = memory.self + pss_of_children("/proc/self/task/" + std::to_string(syscall(SYS_gettid)));
  return memory;
}

void set_malloc_threshold(std::uint64_t bytes) {
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(bytes));
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(2 * bytes));
}

void trim_malloc() { malloc_trim(0); }

}  // namespace cuboid
