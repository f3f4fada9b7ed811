// Bytes of a plugin's file, read without loading it: its manifest section and its hash. Everything is bounds-checked
// against the size of the file; only regular files are opened for reading, and opening never waits.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cuboid {

// A regular file, open for reading. Throws Error{not_found, io}, or Error{plugin} where it is no regular file.
class LibraryFile {
 public:
  explicit LibraryFile(std::filesystem::path path);
  ~LibraryFile();
  LibraryFile(const LibraryFile&) = delete;
  LibraryFile& operator=(const LibraryFile&) = delete;

  std::uint64_t size() const { return size_; }
  // Exactly `bytes` at `offset`. Throws Error{plugin} ("truncated: ...") where the file has no such part.
  void read(std::uint64_t offset, void* to, std::size_t bytes, const char* what) const;
  std::string read_text(std::uint64_t offset, std::size_t bytes, const char* what) const;
  [[noreturn]] void fail(const std::string& why) const;  // Error{plugin} with the path

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

struct ManifestBlob {
  std::uint32_t major = 0, needs_minor = 0;
  std::string json;
};

// The section `.cuboid` of an ELF64 library for this machine; nullopt where the file is no ELF file or has no such
// section. Throws Error{plugin} for another class, byte order or machine, and for a damaged file or section.
std::optional<ManifestBlob> read_manifest_section(const LibraryFile& file);

// The names that an ELF64 library offers to others: defined, global or weak, of default visibility; empty where it is no
// ELF file. Throws Error{plugin} for a damaged file.
std::vector<std::string> exported_symbols(const LibraryFile& file);

// SHA-256 over the files' contents, in order; 64 hex digits.
std::string hash_files(const std::vector<const LibraryFile*>& files);

}  // namespace cuboid
