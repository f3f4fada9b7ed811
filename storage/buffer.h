// Accounted memory: a process-wide pool of mappings in size classes, accounts with limits that draw on it, and buffers.
// Every byte of chunk data in Cuboid is acquired here, so that what a plan projected is what a task may take.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace cuboid {

// The bytes that the pool charges for a request: the size class that holds it. Classes are multiples of 4 KiB, eight to
// a doubling, so that rounding adds at most 12.5 %. Pure: the planner rounds with it, the pool allocates with it. 0 ->
// 0.
std::size_t class_bytes(std::size_t bytes);

class MemoryAccount;

// Owns pooled memory charged to an account until destroyed or released. Contents are NOT initialised. Move only.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() { release(); }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }  // as asked for
  std::span<std::byte> bytes() const { return {data_, size_}; }
  explicit operator bool() const { return data_ != nullptr; }
  void release();  // gives the memory back to the pool and to the account; idempotent
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_), std::swap(size_, other.size_), std::swap(account_, other.account_);
  }

 private:
  friend class MemoryAccount;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  MemoryAccount* account_ = nullptr;
};

// A charge for memory that a library takes by itself (codec scratch): accounted, not allocated. Move only.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept { std::swap(bytes_, other.bytes_), std::swap(account_, other.account_); }
  Charge& operator=(Charge&& other) noexcept {
    std::swap(bytes_, other.bytes_), std::swap(account_, other.account_);
    return *this;
  }
  ~Charge() { release(); }
  void release();

 private:
  friend class MemoryAccount;
  std::size_t bytes_ = 0;
  MemoryAccount* account_ = nullptr;
};

// What one task (or one plugin call) may hold. Going over the limit throws Error{over_budget} with what was needed, in
// every build. Thread-safe; must outlive its buffers and charges. A child account charges its parent too.
class MemoryAccount {
 public:
  static constexpr std::size_t kUnlimited = SIZE_MAX;
  // Asked before an acquisition is refused: may raise the limit (to at least `needed`, the total that this account
  // would hold) and return true. Called on the acquiring thread, never under a lock.
  using OnExceed = std::function<bool(MemoryAccount&, std::size_t needed)>;

  explicit MemoryAccount(std::size_t limit = kUnlimited, MemoryAccount* parent = nullptr)
      : limit_(limit), parent_(parent) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  Buffer acquire(std::size_t bytes);  // charges class_bytes(bytes); aligned to 64 bytes at least; not zeroed
  Charge charge(std::size_t bytes);   // charges exactly `bytes`

  std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }
  std::size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  // The largest total that was ever asked for, refused requests included: what the task would have needed to go on.
  std::size_t needed() const { return needed_.load(std::memory_order_relaxed); }
  void set_limit(std::size_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  void set_on_exceed(OnExceed handler) { on_exceed_ = std::move(handler); }

  // Adds or gives back bytes that are not the pool's; used by Charge and host services. admit() throws
  // Error{over_budget}.
  void admit(std::size_t bytes);
  void release(std::size_t bytes);

 private:
  friend class Buffer;
  void take_in(std::size_t bytes);
  void give_out(std::size_t bytes);

  std::atomic<std::size_t> limit_, in_use_{0}, peak_{0}, needed_{0};
  MemoryAccount* parent_;
  OnExceed on_exceed_;
};

// The process-wide pool. Freed buffers are kept for reuse (first touch costs more than decompression) until trimmed.
namespace pool {
std::size_t free_bytes();  // kept, not in use: counted against the budget
std::size_t held_bytes();  // in use and free
// Of the free ones, what the system has really given: a buffer that was never filled has fewer pages than bytes. Walks
// page tables, about 10 ms a GB.
std::size_t resident_free_bytes();
void trim(std::size_t keep_at_most = 0);  // unmaps free buffers, largest first, until at most this many bytes are kept
void set_keep_limit(std::size_t bytes);   // free bytes beyond this are unmapped at once; default: no limit
// Free buffers are unmapped before held_bytes() and what accounts were charged beside it would exceed this: what a
// process holds then stays within what its accounts allow, whatever classes earlier buffers were of. Default: no limit.
void set_held_limit(std::size_t bytes);
}  // namespace pool

}  // namespace cuboid
