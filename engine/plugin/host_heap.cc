#include "engine/plugin/host_heap.h"

#include <cstdlib>

namespace cuboid {

namespace {

void* from_process(std::size_t alignment, std::size_t bytes) {
  void* memory = nullptr;
  return ::posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

HostHeap heap{from_process, std::free};

}  // namespace

void set_host_heap(HostHeap chosen) { heap = chosen; }
HostHeap host_heap() { return heap; }

}  // namespace cuboid
