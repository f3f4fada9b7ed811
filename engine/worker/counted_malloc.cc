#include "engine/worker/counted_malloc.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "storage/inject.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CUBOID_COUNTED_MALLOC 0
#else
#define CUBOID_COUNTED_MALLOC 1
#endif

namespace cuboid::counted_malloc {
namespace {

constexpr std::int64_t kShrinkAt = 2 << 20;  // allowed and unused bytes that are worth giving back

std::atomic<std::int64_t> in_use{0}, base{0}, peak{0}, allowance{0};
std::atomic<Gate*> the_gate{nullptr};
thread_local bool inside = false;  // this thread is let through

}  // namespace

LetThrough::LetThrough() : before_(inside) { inside = true; }
LetThrough::~LetThrough() { inside = before_; }

bool active() { return CUBOID_COUNTED_MALLOC; }

void set_gate(Gate& gate, std::int64_t allowed_above) {
  base = in_use.load();
  peak = in_use.load();
  allowance = allowed_above;
  the_gate.store(&gate, std::memory_order_release);
}
void allow(std::int64_t above_base) { allowance = above_base; }
std::int64_t allowed() { return allowance; }
std::int64_t above() { return in_use - base; }
std::int64_t remove_gate() {
  the_gate.store(nullptr, std::memory_order_release);
  return peak - base;
}

#if CUBOID_COUNTED_MALLOC
namespace {

void raise_peak(std::int64_t now) {
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

bool admit(std::size_t wanted) {
  const auto bytes = static_cast<std::int64_t>(wanted);
  if (bytes < 0) return errno = ENOMEM, false;
  const std::int64_t now = in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  Gate* gate = the_gate.load(std::memory_order_acquire);
  if (!gate || inside) return true;
  if (inject::due(inject::Fault::malloc)) {
    const LetThrough guard;
    gate->system_refused(now - base);
    in_use.fetch_sub(bytes, std::memory_order_relaxed);
    errno = ENOMEM;
    return false;
  }
  if (now - base > allowance.load(std::memory_order_relaxed)) {
    const LetThrough guard;
    if (!gate->extend(now - base)) {
      in_use.fetch_sub(bytes, std::memory_order_relaxed);
      errno = ENOMEM;
      return false;
    }
  }
  raise_peak(now);
  return true;
}

void give_back(std::int64_t bytes) {
  const std::int64_t now = in_use.fetch_sub(bytes, std::memory_order_relaxed) - bytes;
  Gate* gate = the_gate.load(std::memory_order_acquire);
  if (!gate || inside || allowance.load(std::memory_order_relaxed) - (now - base) < kShrinkAt) return;
  const LetThrough guard;
  gate->shrink(now - base);
}

// Charges what libc really gave for what was admitted; nullptr: it gave nothing.
void* settle(void* memory, std::size_t admitted, std::size_t replaced = 0) {
  if (memory) {
    in_use.fetch_add(static_cast<std::int64_t>(malloc_usable_size(memory)) - static_cast<std::int64_t>(admitted) -
                         static_cast<std::int64_t>(replaced),
                     std::memory_order_relaxed);
    return memory;
  }
  const std::int64_t now = in_use.fetch_sub(static_cast<std::int64_t>(admitted), std::memory_order_relaxed);
  Gate* gate = the_gate.load(std::memory_order_acquire);
  if (gate && !inside) {
    const LetThrough guard;
    gate->system_refused(now - base);
  }
  errno = ENOMEM;
  return nullptr;
}

}  // namespace
#endif

}  // namespace cuboid::counted_malloc

#if CUBOID_COUNTED_MALLOC
// The executable's definitions are found before libc's by every library that it loads.
extern "C" {
void* __libc_malloc(std::size_t);
void __libc_free(void*);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  using namespace cuboid::counted_malloc;
  return admit(bytes) ? settle(__libc_malloc(bytes), bytes) : nullptr;
}

void* calloc(std::size_t count, std::size_t size) {
  using namespace cuboid::counted_malloc;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, nullptr;
  return admit(bytes) ? settle(__libc_calloc(count, size), bytes) : nullptr;
}

void* realloc(void* old, std::size_t bytes) {
  using namespace cuboid::counted_malloc;
  if (old && bytes == 0) {
    free(old);
    return nullptr;
  }
  // A block with a mapping of its own is moved by the kernel, never copied: only its growth is new.
  constexpr std::size_t kOwnMapping = 256u << 10;
  const std::size_t had = old ? malloc_usable_size(old) : 0;
  const std::size_t fresh = had < kOwnMapping ? bytes : bytes > had ? bytes - had : 0;
  return admit(fresh) ? settle(__libc_realloc(old, bytes), fresh, had) : nullptr;
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  using namespace cuboid::counted_malloc;
  return admit(bytes) ? settle(__libc_memalign(alignment, bytes), bytes) : nullptr;
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
void* valloc(std::size_t bytes) { return memalign(4096, bytes); }
void* pvalloc(std::size_t bytes) { return memalign(4096, (bytes + 4095) / 4096 * 4096); }

void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  using namespace cuboid::counted_malloc;
  const auto map = [&] {
    return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
  };
  void* memory = map();
  if (memory != MAP_FAILED || errno != ENOMEM) return memory;
  Gate* gate = the_gate.load(std::memory_order_acquire);
  if (!gate || inside) return memory;
  {
    const LetThrough guard;
    if (!gate->extend_mappings(bytes)) return errno = ENOMEM, MAP_FAILED;
  }
  return map();
}

void* mmap64(void* at, std::size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  return mmap(at, bytes, protection, flags, file, offset);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int saved = errno;
  void* got = memalign(alignment, bytes);
  errno = saved;
  if (!got) return ENOMEM;
  *memory = got;
  return 0;
}

void free(void* memory) {
  using namespace cuboid::counted_malloc;
  if (!memory) return;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  const int saved = errno;
  __libc_free(memory);
  give_back(bytes);
  errno = saved;
}
}

namespace cuboid::counted_malloc {
void* uncounted_memalign(std::size_t alignment, std::size_t bytes) { return __libc_memalign(alignment, bytes); }
void uncounted_free(void* memory) { __libc_free(memory); }
}  // namespace cuboid::counted_malloc
#else
namespace cuboid::counted_malloc {
void* uncounted_memalign(std::size_t alignment, std::size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}
void uncounted_free(void* memory) { free(memory); }
}  // namespace cuboid::counted_malloc
#endif
