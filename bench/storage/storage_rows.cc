// One row of bench/storage/run.py, by the storage library alone.
//   storage_rows THREADS read_all|by_chunk|by_inner_chunk|round_trip ARRAY [COPY]
//   storage_rows THREADS warm ARRAY        touches as much memory: a virtual machine's first touch after idling costs seconds
// Prints a checksum: the sum of all elements, so that nothing that was read can be left out.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "storage/error.h"
#include "storage/zarr.h"

using namespace cuboid;

namespace {

// Calls work(i, thread) for all i below n.
template <class Work>
void parallel(int threads, std::int64_t n, Work work) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      for (std::int64_t i; (i = next++) < n;) work(i, t);
    });
  for (std::thread& member : team) member.join();
}

std::uint64_t sum_of(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + 2 <= bytes; at += 2) {
    std::uint16_t value;
    std::memcpy(&value, data + at, 2);
    sum += value;
  }
  return sum;
}

// Every box of `extents` into memory of its thread's own.
std::uint64_t by_box(const ZarrArray& array, const Shape& extents, int threads) {
  const Grid grid(array.shape(), extents);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads));
  MemoryAccount account;
  parallel(threads, grid.size(), [&](std::int64_t i, int t) {
    const Box box = grid.box(i);
    const Buffer buffer = account.acquire(byte_count(box.shape, array.dtype()));
    array.read(box, make_view(buffer.data(), array.dtype(), box.shape), account);
    sums[static_cast<std::size_t>(t)] += sum_of(buffer.data(), buffer.size());
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

Buffer read_all(const ZarrArray& array, MemoryAccount& account, int threads) {
  Buffer whole = account.acquire(byte_count(array.shape(), array.dtype()));
  const View all = make_view(whole.data(), array.dtype(), array.shape());
  const Grid grid(array.shape(), array.metadata().write_chunks());
  parallel(threads, grid.size(), [&](std::int64_t i, int) {
    const Box box = grid.box(i);
    array.read(box, all.sub(box.origin, box.shape), account);
  });
  return whole;
}

std::uint64_t round_trip(const ZarrArray& array, const std::string& copy, int threads) {
  const ZarrArray target = ZarrArray::prepare(open_store(copy), "", array.metadata());
  const Grid grid(array.shape(), array.metadata().write_chunks());
  MemoryAccount account;
  parallel(threads, grid.size(), [&](std::int64_t i, int) {
    const Box box = grid.box(i);
    const Buffer buffer = account.acquire(byte_count(box.shape, array.dtype()));
    const View view = make_view(buffer.data(), array.dtype(), box.shape);
    array.read(box, view, account);
    target.write_chunk(grid.index(i), view, account);
  });
  target.publish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const int threads = std::atoi(argv[1]);
    const std::string row = argv[2];
    const ZarrArray array = ZarrArray::open(argv[3]);
    std::uint64_t sum = 0;
    MemoryAccount account;
    if (row == "read_all") {
      const Buffer whole = read_all(array, account, threads);
      sum = sum_of(whole.data(), whole.size());
    } else if (row == "warm") {
      const Buffer whole = account.acquire(byte_count(array.shape(), array.dtype()) / 8 * 9);
      std::memset(whole.data(), 1, whole.size());
    } else if (row == "round_trip") {
      sum = round_trip(array, argv[4], threads);
    } else {
      sum = by_box(array, row == "by_chunk" ? array.metadata().write_chunks() : array.metadata().chunks, threads);
    }
    std::printf("%llu\n", static_cast<unsigned long long>(sum));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
}
