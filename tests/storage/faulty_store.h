// A store whose n-th call fails, for tests of what becomes of a fault: nothing may be lost, nothing half written.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "storage/error.h"
#include "storage/store.h"

namespace cuboid {

// Passes every call on to `inner`, except those that are told to fail. Thread-safe.
class FaultyStore final : public Store {
 public:
  enum Op : unsigned { kRead = 1, kWrite = 2, kErase = 4, kList = 8, kAny = 15 };

  explicit FaultyStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}

  // The n-th call from now (1: the next) of the kinds in `ops` throws Error{kind}; with `after` true only once the call
  // has taken effect, as when an answer is lost. 0: none fails.
  void fail_at(int n, unsigned ops = kAny, ErrorKind kind = ErrorKind::io, bool after = false) {
    ops_ = ops, kind_ = kind, after_ = after;
    left_ = n;
  }
  // Every call of these kinds fails from now on.
  void fail_always(unsigned ops = kAny, ErrorKind kind = ErrorKind::io) {
    ops_ = ops, kind_ = kind, after_ = false;
    left_ = -1;
  }
  // As a store over a network, which is asked for so many values at once.
  void set_parallel(std::size_t requests) { parallel_ = requests; }
  std::size_t parallel() const override { return parallel_; }
  // Calls so far, failed ones included: run once without faults to learn how many places there are to fail.
  int calls(Op op) const { return counts_[op].load(); }
  int calls() const { return calls(kRead) + calls(kWrite) + calls(kErase) + calls(kList); }

  std::string name() const override { return inner_->name(); }
  std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const override {
    return attempt(kRead, key, [&] { return inner_->read(key, into); });
  }
  std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                        std::span<std::byte> into) const override {
    return attempt(kRead, key, [&] { return inner_->read_range(key, offset, into); });
  }
  std::optional<std::uint64_t> read_suffix(std::string_view key, std::span<std::byte> into) const override {
    return attempt(kRead, key, [&] { return inner_->read_suffix(key, into); });
  }
  std::optional<Stamp> stamp(std::string_view key) const override {
    return attempt(kRead, key, [&] { return inner_->stamp(key); });
  }
  using Store::put;
  void put(std::string_view key, std::span<const std::span<const std::byte>> parts, bool durable) override {
    attempt(kWrite, key, [&] { inner_->put(key, parts, durable); });
  }
  void erase(std::string_view key) override {
    attempt(kErase, key, [&] { inner_->erase(key); });
  }
  void erase_prefix(std::string_view prefix) override {
    attempt(kErase, prefix, [&] { inner_->erase_prefix(prefix); });
  }
  void list(std::string_view prefix, const std::function<void(std::string_view, const Stamp&)>& each) const override {
    attempt(kList, prefix, [&] { inner_->list(prefix, each); });
  }
  std::vector<std::string> list_dir(std::string_view prefix) const override {
    return attempt(kList, prefix, [&] { return inner_->list_dir(prefix); });
  }

 private:
  template <class Call>
  std::invoke_result_t<Call> attempt(Op op, std::string_view key, Call call) const {
    ++counts_[op];
    const bool fails = (ops_ & op) != 0 && (left_ < 0 || (left_ > 0 && left_.fetch_sub(1) == 1));
    if (fails && !after_) fail(key);
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
      call();
      if (fails) fail(key);
    } else {
      auto result = call();
      if (fails) fail(key);
      return result;
    }
  }
  [[noreturn]] void fail(std::string_view key) const {
    throw Error(kind_, describe(key) + ": fault injected by a test");
  }

  std::shared_ptr<Store> inner_;
  std::size_t parallel_ = 1;
  mutable std::atomic<int> left_{0};
  std::atomic<unsigned> ops_{kAny};
  std::atomic<ErrorKind> kind_{ErrorKind::io};
  std::atomic<bool> after_{false};
  mutable std::atomic<int> counts_[9] = {};
};

}  // namespace cuboid
