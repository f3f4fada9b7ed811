// The worker's own malloc family: what every library that the worker loads calls, plugins and their threads included.
// Bytes are counted from the first instruction; while a gate is set, use beyond what it allowed waits for its word.
// glibc does the allocating. 12-23 ns a pair of malloc and free. Built with a sanitizer nothing is counted.
//
// Also its mmap, for those who take memory past malloc. Mappings are not counted: RLIMIT_DATA limits them; but a refusal
// is known to be one, and can be turned into a grant.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuboid::counted_malloc {

// All of it may be called on any thread, inside malloc: what it allocates itself is let through.
class Gate {
 public:
  virtual ~Gate() = default;
  // `above`: the bytes in use would be this many more than when the gate was set. Raises allow() and returns true, or
  // returns false, and the allocation fails.
  virtual bool extend(std::int64_t above) noexcept = 0;
  // Use fell far below what is allowed: may lower allow().
  virtual void shrink(std::int64_t above) noexcept = 0;
  // The operating system refused where the gate had not.
  virtual void system_refused(std::int64_t above) noexcept = 0;
  // A mapping that somebody makes by himself was refused, for RLIMIT_DATA or for lack of memory. Raises the limit and
  // returns true (it is tried once more), or returns false, and it fails.
  virtual bool extend_mappings(std::size_t bytes) noexcept = 0;
};

// While one lives, what its thread allocates is let through: for code that the gate itself may be waiting for.
class LetThrough {
 public:
  LetThrough();
  ~LetThrough();
  LetThrough(const LetThrough&) = delete;
  LetThrough& operator=(const LetThrough&) = delete;

 private:
  bool before_;
};

// A heap beside the counted one, for memory that an account is charged with already.
void* uncounted_memalign(std::size_t alignment, std::size_t bytes);
void uncounted_free(void* memory);

bool active();  // false under a sanitizer
void set_gate(Gate& gate, std::int64_t allowed);
void allow(std::int64_t above);
std::int64_t allowed();
std::int64_t above();        // in use now, relative to when the gate was set
std::int64_t remove_gate();  // the largest use, relative to when the gate was set

}  // namespace cuboid::counted_malloc
