// What this process and its children take, as the system counts it.
#pragma once
#include <cstdint>

namespace cuboid {

struct TreeMemory {
  std::uint64_t self = 0;   // bytes (Pss) of this process
  std::uint64_t total = 0;  // with the children that the calling thread started, and theirs
};
// Reads /proc; costs microseconds for small processes and about a millisecond per GiB of 4 KiB pages. Processes that
// end meanwhile count as nothing.
TreeMemory sample_tree_memory();

// From this size on malloc maps memory and gives it back at once when it is freed, instead of growing its heaps. Of the
// whole process, and for good.
void set_malloc_threshold(std::uint64_t bytes);
// Gives back what malloc keeps.
void trim_malloc();

}  // namespace cuboid
