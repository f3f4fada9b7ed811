#include "bench/zarr_file.h"

#include <blosc.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace bench {
namespace {

[[noreturn]] void die(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

// The two numbers after `"key": [`, wherever it stands: these files are the benchmark's own.
Extents numbers_after(const std::string& text, const std::string& key) {
  Extents found{};
  const auto at = text.find("\"" + key + "\"");
  if (at == std::string::npos) die("no " + key + " in zarr.json");
  if (std::sscanf(text.c_str() + text.find('[', at), "[ %td , %td ]", &found[0], &found[1]) != 2) die("bad " + key);
  return found;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_((bytes + (2u << 20) - 1) & ~std::size_t{(2u << 20) - 1}) {
  data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) die("mmap");
  madvise(data_, bytes_, MADV_HUGEPAGE);
}

Buffer::~Buffer() { munmap(data_, bytes_); }

ZarrFile ZarrFile::open(const std::string& path) {
  std::ifstream in(path + "/zarr.json");
  if (!in) die(path);
  std::stringstream text;
  text << in.rdbuf();
  ZarrFile file;
  file.path_ = path;
  file.shape_ = numbers_after(text.str(), "shape");
  file.chunks_ = numbers_after(text.str(), "chunk_shape");
  return file;
}

ZarrFile ZarrFile::create(const std::string& path, Extents shape, Extents chunks) {
  ZarrFile file;
  file.path_ = path;
  file.shape_ = shape;
  file.chunks_ = chunks;
  for (std::ptrdiff_t row = 0; row < file.grid()[0]; ++row) {
    std::filesystem::create_directories(path + "/c/" + std::to_string(row));
  }
  std::ofstream out(path + "/zarr.json");
  out << R"({"zarr_format": 3, "node_type": "array", "data_type": "float64", "fill_value": 0.0, "shape": [)" << shape[0]
      << ", " << shape[1] << R"(], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [)" << chunks[0]
      << ", " << chunks[1] << R"(]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, )"
      << R"("codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "blosc", "configuration": )"
      << R"({"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 8, "blocksize": 0}}], "attributes": {}})";
  if (!out.flush()) die(path);
  return file;
}

std::size_t ZarrFile::encoded_bound() const { return chunk_bytes() + BLOSC_MAX_OVERHEAD; }

std::string ZarrFile::chunk_path(Extents chunk) const {
  return path_ + "/c/" + std::to_string(chunk[0]) + "/" + std::to_string(chunk[1]);
}

std::size_t ZarrFile::load(Extents chunk, Buffer& encoded) const {
  const std::string path = chunk_path(chunk);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) die(path);
  struct stat status {};
  if (fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) > encoded.size()) die(path);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = pread(file, static_cast<char*>(encoded.data()) + done, bytes - done, static_cast<off_t>(done));
    if (got <= 0) die(path);
    done += static_cast<std::size_t>(got);
  }
  close(file);
  return bytes;
}

void ZarrFile::read(Extents chunk, double* values, Buffer& encoded) const {
  load(chunk, encoded);
  const int bytes = blosc_decompress_ctx(encoded.data(), values, chunk_bytes(), 1);
  if (bytes < 0 || static_cast<std::size_t>(bytes) != chunk_bytes()) die(chunk_path(chunk) + ": decode");
}

void ZarrFile::read_rows(Extents chunk, std::ptrdiff_t first, std::ptrdiff_t count, double* values,
                         Buffer& encoded) const {
  load(chunk, encoded);
  const auto items = static_cast<int>(count * chunks_[1]);
  if (blosc_getitem(encoded.data(), static_cast<int>(first * chunks_[1]), items, values) !=
      items * static_cast<int>(sizeof(double))) {
    die(chunk_path(chunk) + ": decode rows");
  }
}

void ZarrFile::write(Extents chunk, const double* values, Buffer& encoded) const {
  const int bytes = blosc_compress_ctx(5, BLOSC_SHUFFLE, sizeof(double), chunk_bytes(), values, encoded.data(),
                                       encoded_bound(), "lz4", 0, 1);
  if (bytes <= 0) die(chunk_path(chunk) + ": encode");
  const std::string path = chunk_path(chunk);
  const std::string temporary = path + ".writing";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) die(temporary);
  for (int done = 0; done < bytes;) {
    const ssize_t put =
        ::write(file, static_cast<const char*>(encoded.data()) + done, static_cast<size_t>(bytes - done));
    if (put <= 0) die(temporary);
    done += static_cast<int>(put);
  }
  close(file);
  if (rename(temporary.c_str(), path.c_str()) != 0) die(path);
}

}  // namespace bench
