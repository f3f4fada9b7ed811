// What the operating system says of this process's memory. Bytes.
#pragma once
#include <cstdint>

namespace cuboid::process_memory {

struct Status {
  std::uint64_t peak_resident =
      0;                       // VmHWM: since start, or since reset_peak(). ru_maxrss inherits the parent's and lies
  std::uint64_t resident = 0;  // VmRSS
  std::uint64_t mapped = 0;    // RssFile: pages of files in it, mostly code
  std::uint64_t data = 0;      // VmData: what RLIMIT_DATA limits
};
Status status();
void reset_peak();
// This process's share of what it shares with others, and all that it does not (Pss); resident where the system does
// not tell.
std::uint64_t proportional();
// Limits private writable memory to `bytes` (the soft limit; beyond the hard one: to that). 0: no limit.
void limit_data(std::uint64_t bytes);

}  // namespace cuboid::process_memory
