// The pool. A buffer is a mapping of its own, in one of eight size classes per doubling; freed mappings wait in a list
// per class, last in first out, so that the next buffer of that class is warm. First touch of fresh memory costs
// 0.55-1.1 s/GB in 4 KiB pages and 0.1 in huge ones, reused memory next to nothing.
#include "storage/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>

#include "storage/error.h"
#include "storage/inject.h"
#include "storage/types.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cuboid {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Up to here a class per page; above, eight classes per doubling.
constexpr std::size_t kLinearLimit = 8 * kPage;
constexpr std::size_t kMaxRequest = std::size_t{1} << 62;
constexpr std::size_t kClasses = 8 + 8 * (62 - 15);

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The distance between classes around `bytes` (> kLinearLimit): an eighth of the power of two below it.
constexpr std::size_t class_step(std::size_t bytes) { return std::bit_floor(bytes - 1) / 8; }

std::size_t class_index(std::size_t class_size) {
  if (class_size <= kLinearLimit) return class_size / kPage - 1;
  const std::size_t floor = std::bit_floor(class_size - 1);
  const auto doubling = static_cast<std::size_t>(std::countr_zero(floor) - std::countr_zero(kLinearLimit));
  return 8 + 8 * doubling + (class_size - floor) / (floor / 8) - 1;
}

std::size_t index_class(std::size_t index) {
  if (index < 8) return (index + 1) * kPage;
  const std::size_t floor = kLinearLimit << ((index - 8) / 8);
  return floor + floor / 8 * ((index - 8) % 8 + 1);
}

// Under AddressSanitizer memory that waits in the pool, and the rest of a class beyond what was asked for, is off
// limits.
void forbid([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}
void permit([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

// Huge pages only where a whole one lies inside the mapping: one byte touched in a huge page takes all of it, and what
// a buffer takes must not exceed its class. nullptr: the system refuses.
std::byte* map(std::size_t bytes) {
  const std::size_t slack = bytes >= kHugePage ? kHugePage - kPage : 0;
  void* mapping = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* data = static_cast<std::byte*>(mapping);
  if (slack == 0) {
    madvise(data, bytes, MADV_NOHUGEPAGE);
    return data;
  }
  const std::size_t head =
      round_up(reinterpret_cast<std::uintptr_t>(data), kHugePage) - reinterpret_cast<std::uintptr_t>(data);
  if (head > 0) munmap(data, head);
  if (head < slack) munmap(data + head + bytes, slack - head);
  data += head;
  const std::size_t huge = bytes / kHugePage * kHugePage;
  madvise(data, huge, MADV_HUGEPAGE);
  if (huge < bytes) madvise(data + huge, bytes - huge, MADV_NOHUGEPAGE);
  return data;
}

class Pool {
 public:
  // Memory of one class; nullptr where the system refuses it even after everything free was given back.
  std::byte* take(std::size_t class_size) {
    FreeList& list = lists_[class_index(class_size)];
    {
      std::lock_guard lock(list.mutex);
      if (std::byte* data = list.pop()) {
        free_bytes_.fetch_sub(class_size, std::memory_order_relaxed);
        return data;
      }
    }
    held_bytes_.fetch_add(class_size, std::memory_order_relaxed);
    make_room();
    std::byte* data = map(class_size);
    if (!data) {
      trim(0);
      data = map(class_size);
    }
    if (!data) held_bytes_.fetch_sub(class_size, std::memory_order_relaxed);
    return data;
  }

  void give(std::byte* data, std::size_t class_size) noexcept {
    const std::size_t keep = keep_limit_.load(std::memory_order_relaxed);
    const std::size_t before = free_bytes_.fetch_add(class_size, std::memory_order_relaxed);
    if (before <= keep && class_size <= keep - before) return keep_free(data, class_size);
    free_bytes_.fetch_sub(class_size, std::memory_order_relaxed);
    unmap(data, class_size);
  }

  // Memory beside the pool that accounts answer for: free buffers make room for it.
  void charge(std::size_t bytes) {
    charged_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    make_room();
  }
  void discharge(std::size_t bytes) { charged_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  void trim(std::size_t keep_at_most) {
    for (std::size_t index = kClasses; index-- > 0;) {
      FreeList& list = lists_[index];
      const std::size_t class_size = index_class(index);
      while (free_bytes() > keep_at_most) {
        std::byte* data = nullptr;
        {
          std::lock_guard lock(list.mutex);
          data = list.pop();
        }
        if (!data) break;
        free_bytes_.fetch_sub(class_size, std::memory_order_relaxed);
        unmap(data, class_size);
      }
    }
  }

  void set_keep_limit(std::size_t bytes) {
    keep_limit_.store(bytes, std::memory_order_relaxed);
    trim(bytes);
  }

  void set_held_limit(std::size_t bytes) {
    held_limit_.store(bytes, std::memory_order_relaxed);
    make_room();
  }

  std::size_t resident_free_bytes() {
    std::size_t pages = 0;
    std::array<unsigned char, 4096> present;
    for (std::size_t index = 0; index < kClasses; ++index) {
      FreeList& list = lists_[index];
      std::lock_guard lock(list.mutex);
      for (std::byte* free = list.first; free; free = FreeList::next(free)) {
        std::byte* data = free;
        for (std::size_t left = index_class(index); left > 0;) {
          const std::size_t bytes = std::min(left, present.size() * kPage);
          if (mincore(data, bytes, present.data()) == 0)
            pages += static_cast<std::size_t>(
                std::count_if(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(bytes / kPage),
                              [](unsigned char page) { return (page & 1) != 0; }));
          data += bytes, left -= bytes;
        }
      }
    }
    return pages * kPage;
  }

  std::size_t free_bytes() const { return free_bytes_.load(std::memory_order_relaxed); }
  std::size_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }

 private:
  // Last in, first out. Each free buffer holds the address of the next, so that nothing is allocated under the lock: an
  // allocation may itself be charged, and make room.
  struct alignas(64) FreeList {
    std::mutex mutex;
    std::byte* first = nullptr;

    static std::byte* next(std::byte* data) {
      permit(data, sizeof(std::byte*));
      std::byte* next = nullptr;
      std::memcpy(&next, data, sizeof next);
      forbid(data, sizeof(std::byte*));
      return next;
    }
    std::byte* pop() {
      std::byte* data = first;
      if (data) first = next(data);
      return data;
    }
  };

  void keep_free(std::byte* data, std::size_t class_size) noexcept {
    FreeList& list = lists_[class_index(class_size)];
    std::lock_guard lock(list.mutex);
    std::memcpy(data, &list.first, sizeof list.first);
    list.first = data;
    forbid(data, class_size);
  }

  void make_room() {
    const std::size_t taken = held_bytes() + charged_bytes_.load(std::memory_order_relaxed);
    const std::size_t limit = held_limit_.load(std::memory_order_relaxed);
    if (taken <= limit) return;
    const std::size_t free = free_bytes();
    trim(free - std::min(free, taken - limit));
  }

  void unmap(std::byte* data, std::size_t class_size) noexcept {
    permit(data, class_size);
    munmap(data, class_size);
    held_bytes_.fetch_sub(class_size, std::memory_order_relaxed);
  }

  std::array<FreeList, kClasses> lists_;
  std::atomic<std::size_t> free_bytes_{0}, held_bytes_{0}, charged_bytes_{0}, keep_limit_{SIZE_MAX},
      held_limit_{SIZE_MAX};
};

// Never destroyed: buffers in static objects may outlive any order of destruction.
Pool& the_pool() {
  static Pool& pool = *new Pool;
  return pool;
}

void raise(std::atomic<std::size_t>& maximum, std::size_t value) {
  std::size_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::size_t class_bytes(std::size_t bytes) {
  if (bytes <= kLinearLimit) return round_up(bytes, kPage);
  if (bytes > kMaxRequest) {
    throw Error(ErrorKind::over_budget, "a buffer of " + format_size(bytes) + " was asked for: no machine has that");
  }
  return round_up(bytes, class_step(bytes));
}

void Buffer::release() {
  if (!account_) return;
  const std::size_t charged = class_bytes(size_);
  if (data_) {
    permit(data_, charged);
    the_pool().give(data_, charged);
  }
  account_->give_out(charged);
  data_ = nullptr, size_ = 0, account_ = nullptr;
}

void Charge::release() {
  if (account_) account_->release(bytes_);
  bytes_ = 0, account_ = nullptr;
}

Buffer MemoryAccount::acquire(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const std::size_t charged = class_bytes(bytes);
  take_in(charged);
  if (!inject::due(inject::Fault::buffer)) buffer.data_ = the_pool().take(charged);
  if (!buffer.data_) {
    give_out(charged);
    throw Error(ErrorKind::over_budget,
                "the operating system refused a buffer of " + format_size(charged) +
                    " that the budget allows: give a smaller memory budget, or raise the "
                    "process's limits (ulimit -v, -d; vm.max_map_count)",
                {{"evidence", "host"}});
  }
  permit(buffer.data_, bytes);
  forbid(buffer.data_ + bytes, charged - bytes);
  buffer.size_ = bytes;
  buffer.account_ = this;
  return buffer;
}

Charge MemoryAccount::charge(std::size_t bytes) {
  Charge charge;
  if (bytes == 0) return charge;
  admit(bytes);
  charge.bytes_ = bytes;
  charge.account_ = this;
  return charge;
}

void MemoryAccount::admit(std::size_t bytes) {
  take_in(bytes);
  the_pool().charge(bytes);
}

void MemoryAccount::release(std::size_t bytes) {
  the_pool().discharge(bytes);
  give_out(bytes);
}

void MemoryAccount::take_in(std::size_t bytes) {
  std::size_t used = in_use_.load(std::memory_order_relaxed);
  std::size_t total = 0;
  for (;;) {
    if (__builtin_add_overflow(used, bytes, &total)) total = SIZE_MAX;
    raise(needed_, total);
    if (total > limit()) {
      if (on_exceed_ && on_exceed_(*this, total) && total <= limit()) {
        used = in_use_.load(std::memory_order_relaxed);
        continue;
      }
      throw Error(ErrorKind::over_budget, "needs " + format_size(total) + " (" + std::to_string(total) +
                                              " bytes: " + format_size(bytes) + " more than the " + format_size(used) +
                                              " in use) where " + format_size(limit()) + " are allowed");
    }
    if (in_use_.compare_exchange_weak(used, total, std::memory_order_relaxed)) break;
  }
  if (parent_) {
    try {
      parent_->take_in(bytes);
    } catch (...) {
      in_use_.fetch_sub(bytes, std::memory_order_relaxed);
      throw;
    }
  }
  raise(peak_, total);
}

void MemoryAccount::give_out(std::size_t bytes) {
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_) parent_->give_out(bytes);
}

namespace pool {
std::size_t free_bytes() { return the_pool().free_bytes(); }
std::size_t resident_free_bytes() { return the_pool().resident_free_bytes(); }
std::size_t held_bytes() { return the_pool().held_bytes(); }
void trim(std::size_t keep_at_most) { the_pool().trim(keep_at_most); }
void set_keep_limit(std::size_t bytes) { the_pool().set_keep_limit(bytes); }
void set_held_limit(std::size_t bytes) { the_pool().set_held_limit(bytes); }
}  // namespace pool

}  // namespace cuboid
