#include "engine/worker/process_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace cuboid::process_memory {
namespace {

// Files of /proc come whole in one read when the buffer is large enough; no allocation, so that measuring takes
// nothing.
template <std::size_t kSize>
std::string_view read_file(const char* path, std::array<char, kSize>& into) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::size_t length = 0;
  for (ssize_t got = 0; length < kSize && (got = read(file, into.data() + length, kSize - length)) > 0;) {
    length += static_cast<std::size_t>(got);
  }
  close(file);
  return {into.data(), length};
}

// "VmRSS:\t    1640 kB"
std::uint64_t field(std::string_view text, std::string_view name) {
  std::size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  at = text.find_first_of("0123456789", at + name.size());
  std::uint64_t value = 0;
  if (at != std::string_view::npos) std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value * 1024;
}

}  // namespace

Status status() {
  std::array<char, 4096> memory;
  const std::string_view text = read_file("/proc/self/status", memory);
  return {field(text, "\nVmHWM:"), field(text, "\nVmRSS:"), field(text, "\nRssFile:"), field(text, "\nVmData:")};
}

void reset_peak() {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const auto written = write(file, "5", 1);
  close(file);
}

std::uint64_t proportional() {
  std::array<char, 4096> memory;
  const std::uint64_t pss = field(read_file("/proc/self/smaps_rollup", memory), "\nPss:");
  return pss > 0 ? pss : status().resident;
}

void limit_data(std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = bytes == 0 ? limit.rlim_max : std::min<rlim_t>(bytes, limit.rlim_max);
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace cuboid::process_memory
