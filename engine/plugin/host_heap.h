// The heap behind small requests of plugins to the host. They are charged to the call's account, so a process that
// counts its malloc as well (a worker) sets a heap that is not counted: no byte is charged twice.
#pragma once
#include <cstddef>

namespace cuboid {

struct HostHeap {
  void* (*allocate)(std::size_t alignment, std::size_t bytes);  // nullptr where there is no memory
  void (*release)(void* memory);                                // of allocate()
};

// Default: the process's own heap. Set once, before the first call.
void set_host_heap(HostHeap heap);
HostHeap host_heap();

}  // namespace cuboid
