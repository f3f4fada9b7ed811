// The first process of a run (the one that finds no CUBOID_INJECT_COUNTS in its environment) makes a page of counters
// and names it there for the workers that it starts.
#include "storage/inject.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "storage/error.h"
#include "storage/store.h"

namespace cuboid::inject {
namespace {

constexpr std::array<std::string_view, kFaults> kNames{"buffer", "host",  "malloc", "store",
                                                       "tear",   "delay", "worker", "run"};
constexpr auto kDelay = std::chrono::milliseconds(200);

struct Wanted {
  std::uint64_t first = 0, last = 0;
};
std::array<Wanted, kFaults> wanted;
std::atomic<std::uint64_t>* counts = nullptr;

[[noreturn]] void refuse(const char* text) {
  std::fprintf(
      stderr,
      "cuboid: CUBOID_INJECT=%s: expected FAULT:N or FAULT:N-M, several with commas between, N from 1; faults are "
      "buffer, host, malloc, store, tear, delay, worker, run\n",
      text);
  _exit(2);
}

bool read_number(std::string_view& text, std::uint64_t& number) {
  std::size_t digits = 0;
  for (number = 0; digits < text.size() && digits < 18 && text[digits] >= '0' && text[digits] <= '9'; ++digits)
    number = 10 * number + static_cast<std::uint64_t>(text[digits] - '0');
  text.remove_prefix(digits);
  return digits > 0 && number > 0;
}

void read_wishes(const char* all) {
  for (std::string_view text = all; !text.empty();) {
    std::size_t fault = 0;
    while (fault < kFaults && !(text.starts_with(kNames[fault]) && text.substr(kNames[fault].size()).starts_with(':')))
      ++fault;
    if (fault == kFaults) refuse(all);
    text.remove_prefix(kNames[fault].size() + 1);
    Wanted& range = wanted[fault];
    if (!read_number(text, range.first)) refuse(all);
    range.last = range.first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!read_number(text, range.last) || range.last < range.first) refuse(all);
    }
    if (!text.empty() && (text[0] != ',' || text.size() == 1)) refuse(all);
    if (!text.empty()) text.remove_prefix(1);
  }
}

bool begin() {
  constexpr const char* kCounts = "CUBOID_INJECT_COUNTS";
  const char* wishes = std::getenv("CUBOID_INJECT");
  if (!wishes || !*wishes) return false;
  read_wishes(wishes);
  const char* shared = std::getenv(kCounts);
  constexpr std::size_t kBytes = 4096;
  const int file = shared ? open(shared, O_RDWR | O_CLOEXEC) : memfd_create("cuboid-inject", MFD_CLOEXEC);
  if (file < 0 || (!shared && ftruncate(file, kBytes) != 0)) refuse(wishes);
  void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) refuse(wishes);
  counts = static_cast<std::atomic<std::uint64_t>*>(page);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  if (shared) {
    close(file);
  } else {  // stays open: whoever reads the path below finds it there
    const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
    setenv(kCounts, path.c_str(), 1);
  }
  return true;
}

// Faults of a store, whichever it is.
class FaultyStore final : public Store {
 public:
  explicit FaultyStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  std::string name() const override { return store_->name(); }
  void check_writable() const override { store_->check_writable(); }
  std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const override {
    meet("reading", key);
    return store_->read(key, into);
  }
  std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                        std::span<std::byte> into) const override {
    meet("reading", key);
    return store_->read_range(key, offset, into);
  }
  std::optional<std::uint64_t> read_suffix(std::string_view key, std::span<std::byte> into) const override {
    meet("reading", key);
    return store_->read_suffix(key, into);
  }
  std::optional<Stamp> stamp(std::string_view key) const override {
    meet("looking up", key);
    return store_->stamp(key);
  }
  void put(std::string_view key, std::span<const std::span<const std::byte>> parts, bool durable) override {
    meet("writing", key);
    if (!due(Fault::tear)) return store_->put(key, parts, durable);
    const auto first = parts.empty() ? std::span<const std::byte>() : parts[0];
    const std::span<const std::byte> half = first.first(first.size() / 2);
    store_->put(key, {&half, 1}, durable);
    fail("writing", key);
  }
  void erase(std::string_view key) override {
    meet("removing", key);
    store_->erase(key);
  }
  void erase_prefix(std::string_view prefix) override {
    meet("removing", prefix);
    store_->erase_prefix(prefix);
  }
  void erase_unfinished(std::string_view prefix) override {
    meet("removing unfinished files below", prefix);
    store_->erase_unfinished(prefix);
  }
  void list(std::string_view prefix, const std::function<void(std::string_view, const Stamp&)>& each) const override {
    meet("listing", prefix);
    store_->list(prefix, each);
  }
  std::vector<std::string> list_dir(std::string_view prefix) const override {
    meet("listing", prefix);
    return store_->list_dir(prefix);
  }

 private:
  [[noreturn]] void fail(const char* what, std::string_view key) const {
    throw Error(ErrorKind::io, std::string(what) + " " + store_->describe(key) + ": " + std::strerror(EIO) +
                                   " (injected by CUBOID_INJECT)");
  }
  void meet(const char* what, std::string_view key) const {
    if (due(Fault::delay)) std::this_thread::sleep_for(kDelay);
    if (due(Fault::store)) fail(what, key);
  }

  std::shared_ptr<Store> store_;
};

}  // namespace

const bool active = begin();

bool due_now(Fault fault) noexcept {
  const auto which = static_cast<std::size_t>(fault);
  if (wanted[which].first == 0) return false;
  const std::uint64_t event = counts[which].fetch_add(1, std::memory_order_relaxed) + 1;
  if (event < wanted[which].first || event > wanted[which].last) return false;
  char text[96];
  const int length = std::snprintf(text, sizeof text, "cuboid: CUBOID_INJECT: %s %llu\n", kNames[which].data(),
                                   static_cast<unsigned long long>(event));
  [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  return true;
}

std::shared_ptr<Store> into(std::shared_ptr<Store> store) {
  return active ? std::make_shared<FaultyStore>(std::move(store)) : store;
}

}  // namespace cuboid::inject
