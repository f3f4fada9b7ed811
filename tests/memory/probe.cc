// One task in a fresh process, watched from outside the account: by the operating system, and by an interposed malloc.
//
//   memory_probe WARM_DIR RUN_DIR
//
// Each folder holds plan.json and tasks.bin (protocol frames). All tasks of WARM_DIR run first, on small arrays, so
// that what libraries keep once for all is in the baseline; then the pool is emptied and the one task of RUN_DIR runs.
// Prints
//   rise ACCOUNT_PEAK SECONDS HEAP_VIOLATIONS
// in bytes: the rise of VmHWM above the baseline; heap allocations of 64 KiB or more that no charge covered.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/run/protocol.h"
#include "engine/worker/process_memory.h"
#include "storage/error.h"
#include "tests/engine/run/fake_kernels.h"

extern "C" {
void* __libc_malloc(std::size_t);
void __libc_free(void*);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

constexpr std::size_t kLarge = 64u << 10;
constexpr std::int64_t kTolerated = 64 << 10;  // what malloc rounds up

std::atomic<cuboid::MemoryAccount*> watched{nullptr};
std::atomic<std::int64_t> large_in_use{0}, violations{0}, worst{0};

// Bytes that the watched account was charged for libraries: what it holds beyond buffers of the pool.
std::int64_t charged() {
  const auto buffers = static_cast<std::int64_t>(cuboid::pool::held_bytes() - cuboid::pool::free_bytes());
  return static_cast<std::int64_t>(watched.load()->in_use()) - buffers;
}

void* took(void* memory) {
  if (!watched || !memory) return memory;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  if (bytes < static_cast<std::int64_t>(kLarge)) return memory;
  const std::int64_t now = large_in_use += bytes;
  if (now > charged() + kTolerated) {
    ++violations;
    if (now - charged() > worst) worst = now - charged();
  }
  return memory;
}

void gives(void* memory) {
  if (!watched || !memory) return;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  if (bytes >= static_cast<std::int64_t>(kLarge)) large_in_use -= bytes;
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Work {
  cuboid::Plan plan;
  std::vector<cuboid::protocol::Task> tasks;
};

Work load(const std::string& folder) {
  Work work;
  work.plan = cuboid::plan_from_json(nlohmann::json::parse(read_whole(folder + "/plan.json")),
                                     {&cuboid::testing::fake_kernels(), &cuboid::builtin_kernels()});
  cuboid::protocol::FrameReader frames;
  const std::string bytes = read_whole(folder + "/tasks.bin");
  frames.append({bytes.data(), bytes.size()});
  while (const auto frame = frames.next()) work.tasks.push_back(cuboid::protocol::decode_task(frame->payload));
  return work;
}

std::uint64_t run(const Work& work, const cuboid::protocol::Task& task, bool watch) {
  cuboid::MemoryAccount account(task.order.limit);
  cuboid::TaskMonitor monitor;
  if (watch) watched = &account;
  cuboid::run_task(work.plan, task.order, account, monitor, task.pieces);
  watched = nullptr;
  return account.peak();
}

int probe(const std::string& warm_dir, const std::string& run_dir) {
  namespace memory = cuboid::process_memory;
  const Work work = load(run_dir);
  {
    const Work warm = load(warm_dir);
    for (const auto& task : warm.tasks) run(warm, task, false);
  }
  cuboid::pool::trim();
  cuboid::pool::set_held_limit(work.tasks.at(0).order.limit);
  memory::reset_peak();
  const std::uint64_t baseline = memory::status().resident;
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t account_peak = run(work, work.tasks.at(0), true);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::uint64_t peak = memory::status().peak_resident;
  std::printf("%llu %llu %.3f %lld\n", static_cast<unsigned long long>(peak - std::min(peak, baseline)),
              static_cast<unsigned long long>(account_peak), seconds, static_cast<long long>(violations.load()));
  if (violations > 0) std::fprintf(stderr, "heap beyond what was charged: %lld bytes\n", static_cast<long long>(worst));
  return 0;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* malloc(std::size_t bytes) { return took(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t size) { return took(__libc_calloc(count, size)); }
void* realloc(void* old, std::size_t bytes) {
  gives(old);
  return took(__libc_realloc(old, bytes));
}
void* memalign(std::size_t alignment, std::size_t bytes) { return took(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory ? 0 : 12;
}
void free(void* memory) {
  gives(memory);
  __libc_free(memory);
}
}
#endif

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  try {
    return probe(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "memory_probe: %s\n", error.what());
    return 1;
  }
}
