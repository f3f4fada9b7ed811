// The least that a hand-written loop needs of Zarr v3: float64 arrays in two dimensions, whole chunks only, Blosc
// (lz4, level 5, shuffle) called directly, chunks written under a temporary name and renamed.
#pragma once
#include <array>
#include <cstddef>
#include <string>

namespace bench {

using Extents = std::array<std::ptrdiff_t, 2>;

// Memory that is taken once and used again, in huge pages where the system has them.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  double* values() const { return static_cast<double*>(data_); }
  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
};

class ZarrFile {
 public:
  // Opens an array; ends the program with a message where it is not of the kind described above.
  static ZarrFile open(const std::string& path);
  // Makes the folders and the metadata object; `shape` is a multiple of `chunks`.
  static ZarrFile create(const std::string& path, Extents shape, Extents chunks);

  Extents shape() const { return shape_; }
  Extents chunks() const { return chunks_; }
  Extents grid() const { return {shape_[0] / chunks_[0], shape_[1] / chunks_[1]}; }
  std::size_t chunk_bytes() const { return sizeof(double) * static_cast<std::size_t>(chunks_[0] * chunks_[1]); }
  std::size_t encoded_bound() const;  // bytes

  // `encoded` is scratch of encoded_bound() bytes. Thread-safe.
  void read(Extents chunk, double* values, Buffer& encoded) const;
  // Rows [first, first + count) of a chunk only.
  void read_rows(Extents chunk, std::ptrdiff_t first, std::ptrdiff_t count, double* values, Buffer& encoded) const;
  void write(Extents chunk, const double* values, Buffer& encoded) const;

 private:
  std::string chunk_path(Extents chunk) const;
  std::size_t load(Extents chunk, Buffer& encoded) const;

  std::string path_;
  Extents shape_{};
  Extents chunks_{};
};

}  // namespace bench
