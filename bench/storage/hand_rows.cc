// The rows of bench/storage/run.py as a hand-written loop: open, pread, zstd and write, called directly, with buffers that
// are taken once. It knows the benchmark's three layouts and nothing else of Zarr.
//   hand_rows THREADS read_all|by_chunk|by_inner_chunk|round_trip raw|zstd|shards SIDE ARRAY [COPY]
// Prints the sum of all elements (0 for round_trip).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/zarr_file.h"

namespace {

using bench::Buffer;
using Index = std::array<std::size_t, 3>;

[[noreturn]] void die(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

// A cube of uint16 somewhere in memory.
struct Cube {
  std::byte* data;
  std::size_t side, row, plane;  // elements; bytes between rows and between planes
  bool contiguous() const { return row == 2 * side && plane == side * row; }
  Cube part(Index index, std::size_t part_side) const {
    return {data + index[0] * part_side * plane + index[1] * part_side * row + index[2] * part_side * 2, part_side, row,
            plane};
  }
};

Cube cube_in(const Buffer& buffer, std::size_t side) {
  return {static_cast<std::byte*>(buffer.data()), side, 2 * side, 2 * side * side};
}

void copy(const Cube& from, const Cube& to) {
  for (std::size_t x = 0; x < from.side; ++x)
    for (std::size_t y = 0; y < from.side; ++y)
      std::memcpy(to.data + x * to.plane + y * to.row, from.data + x * from.plane + y * from.row, 2 * from.side);
}

std::uint64_t sum_of(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes; at += 2) {
    std::uint16_t value;
    std::memcpy(&value, data + at, 2);
    sum += value;
  }
  return sum;
}

Index index_of(std::size_t i, std::size_t n) { return {i / n / n, i / n % n, i % n}; }

struct Array {
  std::string path, layout;
  std::size_t side, chunk = side < 256 ? side : 256, inner = layout == "shards" ? chunk / 4 : chunk;

  std::size_t chunks() const { return side / chunk; }
  std::size_t parts() const { return chunk / inner; }  // along each axis
  std::size_t chunk_bytes() const { return 2 * chunk * chunk * chunk; }
  std::size_t part_bytes() const { return 2 * inner * inner * inner; }
  std::size_t index_bytes() const { return layout == "shards" ? 16 * parts() * parts() * parts() + 4 : 0; }
  std::size_t encoded_bound() const {
    return parts() * parts() * parts() * ZSTD_compressBound(part_bytes()) + index_bytes();
  }
  std::string file(Index i) const {
    return path + "/c/" + std::to_string(i[0]) + "/" + std::to_string(i[1]) + "/" + std::to_string(i[2]);
  }
};

class File {
 public:
  explicit File(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status;
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) die(path);
    size_ = static_cast<std::size_t>(status.st_size);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::size_t size() const { return size_; }
  void read(std::size_t offset, std::size_t bytes, std::byte* to) const {
    if (::pread(fd_, to, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes)) die(path_);
  }

 private:
  std::string path_;
  int fd_;
  std::size_t size_;
};

struct Entry {
  std::uint64_t offset, bytes;
};

// What one thread works with.
class Worker {
 public:
  explicit Worker(const Array& array)
      : array_(array),
        chunk_(array.chunk_bytes()),
        part_(array.part_bytes()),
        encoded_(array.encoded_bound()),
        entries_(array.parts() * array.parts() * array.parts()),
        decoder_(ZSTD_createDCtx()),
        encoder_(ZSTD_createCCtx()) {}
  ~Worker() { ZSTD_freeDCtx(decoder_), ZSTD_freeCCtx(encoder_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Cube chunk() const { return cube_in(chunk_, array_.chunk); }

  // A whole chunk, or shard, into its place.
  void read(Index index, const Cube& to) {
    const File file(array_.file(index));
    std::byte* const encoded = static_cast<std::byte*>(encoded_.data());
    if (array_.layout == "raw") {
      file.read(0, array_.chunk_bytes(), to.contiguous() ? to.data : static_cast<std::byte*>(chunk_.data()));
      if (!to.contiguous()) copy(chunk(), to);
      return;
    }
    file.read(0, file.size(), encoded);
    if (array_.layout == "zstd") return decode(encoded, file.size(), to);
    std::memcpy(entries_.data(), encoded + file.size() - array_.index_bytes(), array_.index_bytes() - 4);
    for (std::size_t k = 0; k < entries_.size(); ++k)
      decode(encoded + entries_[k].offset, entries_[k].bytes, to.part(index_of(k, array_.parts()), array_.inner));
  }

  // One inner chunk of a shard; `index` counts inner chunks.
  std::uint64_t sum_of_inner(Index index) {
    const std::size_t n = array_.parts();
    const File file(array_.file({index[0] / n, index[1] / n, index[2] / n}));
    file.read(file.size() - array_.index_bytes(), array_.index_bytes() - 4,
              reinterpret_cast<std::byte*>(entries_.data()));
    const Entry entry = entries_[(index[0] % n * n + index[1] % n) * n + index[2] % n];
    file.read(entry.offset, entry.bytes, static_cast<std::byte*>(encoded_.data()));
    const Cube cube = cube_in(part_, array_.inner);
    decode(static_cast<std::byte*>(encoded_.data()), entry.bytes, cube);
    return sum_of(cube.data, array_.part_bytes());
  }

  void write(const std::string& path, const Cube& from) {
    std::byte* const encoded = static_cast<std::byte*>(encoded_.data());
    if (array_.layout == "raw") return put(path, from.data, array_.chunk_bytes());
    std::size_t size = 0;
    for (std::size_t k = 0; k < entries_.size(); ++k) {
      Cube part = from.part(index_of(k, array_.parts()), array_.inner);
      if (!part.contiguous()) {
        copy(part, cube_in(part_, array_.inner));
        part = cube_in(part_, array_.inner);
      }
      const std::size_t bytes =
          ZSTD_compressCCtx(encoder_, encoded + size, encoded_.size() - size, part.data, array_.part_bytes(), 0);
      if (ZSTD_isError(bytes)) die("zstd");
      entries_[k] = {size, bytes};
      size += bytes;
    }
    if (array_.layout == "shards") {
      std::memcpy(encoded + size, entries_.data(), array_.index_bytes() - 4);
      const std::uint32_t crc = crc32c(encoded + size, array_.index_bytes() - 4);
      size += array_.index_bytes();
      std::memcpy(encoded + size - 4, &crc, 4);
    }
    put(path, encoded, size);
  }

 private:
  void decode(const std::byte* encoded, std::size_t bytes, const Cube& to) {
    const Cube part = to.contiguous() ? to : cube_in(to.side == array_.chunk ? chunk_ : part_, to.side);
    if (ZSTD_decompressDCtx(decoder_, part.data, array_.part_bytes(), encoded, bytes) != array_.part_bytes())
      die("zstd");
    if (!to.contiguous()) copy(part, to);
  }

  static void put(const std::string& path, const std::byte* data, std::size_t bytes) {
    const std::string temporary = path + ".part";
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0 || ::write(file, data, bytes) != static_cast<ssize_t>(bytes) || ::close(file) != 0 ||
        ::rename(temporary.c_str(), path.c_str()) != 0)
      die(path);
  }

  static std::uint32_t crc32c(const std::byte* data, std::size_t bytes) {
    std::uint32_t crc = ~0u;
    for (std::size_t k = 0; k < bytes; ++k) {
      crc ^= static_cast<std::uint32_t>(data[k]);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    }
    return ~crc;
  }

  const Array& array_;
  Buffer chunk_, part_, encoded_;
  std::vector<Entry> entries_;
  ZSTD_DCtx* decoder_;
  ZSTD_CCtx* encoder_;
};

// Sums what work(worker, i) says of all i below n.
std::uint64_t in_turns(int threads, std::size_t n, const Array& array,
                       const std::function<std::uint64_t(Worker&, std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&] {
      Worker worker(array);
      for (std::size_t i; (i = next++) < n;) sum += work(worker, i);
    });
  for (std::thread& member : team) member.join();
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const int threads = std::atoi(argv[1]);
  const std::string row = argv[2];
  const Array array{argv[5], argv[3], static_cast<std::size_t>(std::atoll(argv[4]))};
  const std::size_t n = array.chunks(), all = n * n * n;
  std::uint64_t sum = 0;
  if (row == "read_all") {
    const Buffer whole(2 * array.side * array.side * array.side);
    const Cube cube = cube_in(whole, array.side);
    in_turns(threads, all, array, [&](Worker& worker, std::size_t i) {
      worker.read(index_of(i, n), cube.part(index_of(i, n), array.chunk));
      return std::uint64_t{0};
    });
    sum = sum_of(cube.data, 2 * array.side * array.side * array.side);
  } else if (row == "by_chunk") {
    sum = in_turns(threads, all, array, [&](Worker& worker, std::size_t i) {
      worker.read(index_of(i, n), worker.chunk());
      return sum_of(worker.chunk().data, array.chunk_bytes());
    });
  } else if (row == "by_inner_chunk") {
    const std::size_t inner = n * array.parts();
    sum = in_turns(threads, inner * inner * inner, array,
                   [&](Worker& worker, std::size_t i) { return worker.sum_of_inner(index_of(i, inner)); });
  } else {
    const Array target{argv[6], array.layout, array.side};
    for (std::size_t i = 0; i < n * n; ++i)
      std::filesystem::create_directories(target.path + "/c/" + std::to_string(i / n) + "/" + std::to_string(i % n));
    in_turns(threads, all, array, [&](Worker& worker, std::size_t i) {
      worker.read(index_of(i, n), worker.chunk());
      worker.write(target.file(index_of(i, n)), worker.chunk());
      return std::uint64_t{0};
    });
    std::filesystem::copy_file(array.path + "/zarr.json", target.path + "/zarr.json");
  }
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
  return 0;
}
