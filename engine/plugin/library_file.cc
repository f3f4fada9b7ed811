#include "engine/plugin/library_file.h"

#include <cuboid/plugin.h>
#include <elf.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/plugin/manifest.h"
#include "storage/error.h"

namespace cuboid {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "state the ELF machine of this architecture"
#endif
constexpr unsigned char kByteOrder = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
constexpr std::uint64_t kMaxSections = 65536;

// The header, checked as far as this reader relies on it; nullopt where the file is no ELF file at all.
std::optional<Elf64_Ehdr> read_header(const LibraryFile& file) {
  std::array<unsigned char, EI_NIDENT> ident{};
  if (file.size() < SELFMAG) return std::nullopt;
  file.read(0, ident.data(), SELFMAG, "ELF magic");
  if (std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0) return std::nullopt;
  file.read(0, ident.data(), ident.size(), "ELF header");
  if (ident[EI_CLASS] != ELFCLASS64)
    file.fail("is an ELF file of class " + std::to_string(ident[EI_CLASS]) + ", expected a 64-bit library (class 2)");
  if (ident[EI_DATA] != kByteOrder) file.fail("is an ELF file of the other byte order than this machine's");
  if (ident[EI_VERSION] != EV_CURRENT) file.fail("is an ELF file of an unknown version");
  Elf64_Ehdr header{};
  file.read(0, &header, sizeof header, "ELF header");
  if (header.e_machine != kMachine)
    file.fail("was built for ELF machine " + std::to_string(header.e_machine) + ", this one is " +
              std::to_string(kMachine) + ": build the plugin for this architecture");
  // A program too: plugins may be linked into it.
  if (header.e_type != ET_DYN && header.e_type != ET_EXEC)
    file.fail("is an ELF file of type " + std::to_string(header.e_type) + ", expected a shared library (type 3)");
  return header;
}

struct SectionTable {
  std::uint64_t offset = 0, count = 0, names = 0;  // names: index of the section that holds the names
};

Elf64_Shdr read_section(const LibraryFile& file, const SectionTable& table, std::uint64_t index) {
  Elf64_Shdr section{};
  file.read(table.offset + index * sizeof section, &section, sizeof section, "ELF section table");
  return section;
}

// nullopt where the file has no sections (they may be stripped).
std::optional<SectionTable> section_table(const LibraryFile& file, const Elf64_Ehdr& header) {
  if (header.e_shoff == 0) return std::nullopt;
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    file.fail("has ELF sections of " + std::to_string(header.e_shentsize) + " bytes, expected 64");
  if (header.e_shoff > file.size()) file.fail("is truncated: its ELF section table lies behind its end");
  SectionTable table{header.e_shoff, header.e_shnum, header.e_shstrndx};
  if (table.count == 0 || table.names == SHN_XINDEX) {  // numbers too large for the header lie in section 0
    const Elf64_Shdr first = read_section(file, table, 0);
    if (table.count == 0) table.count = first.sh_size;
    if (table.names == SHN_XINDEX) table.names = first.sh_link;
  }
  if (table.count > kMaxSections) file.fail("has more than 65536 ELF sections");
  if (table.count * sizeof(Elf64_Shdr) > file.size() - table.offset)
    file.fail("is truncated: its ELF section table reaches behind its end");
  if (table.names >= table.count) file.fail("has a damaged ELF header: the section of names does not exist");
  return table;
}

bool has_name(const LibraryFile& file, const Elf64_Shdr& names, const Elf64_Shdr& section) {
  constexpr std::size_t kLength = sizeof(CUBOID_SECTION_NAME);  // with NUL
  if (section.sh_name > names.sh_size || names.sh_size - section.sh_name < kLength) return false;
  std::array<char, kLength> name{};
  file.read(names.sh_offset + section.sh_name, name.data(), kLength, "ELF section name");
  return std::memcmp(name.data(), CUBOID_SECTION_NAME, kLength) == 0;
}

ManifestBlob parse_blob(const LibraryFile& file, const std::string& bytes) {
  cuboid_blob_head head{};
  if (bytes.size() < sizeof head)
    file.fail("has a section .cuboid of " + std::to_string(bytes.size()) + " bytes: too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, CUBOID_BLOB_MAGIC, sizeof head.magic) != 0)
    file.fail("has a section .cuboid that does not begin with CUBOIDM1");
  if (head.major != CUBOID_MAJOR)
    file.fail("was built for major " + std::to_string(head.major) + " of the plugin ABI, this program speaks " +
              std::to_string(CUBOID_MAJOR) + ": rebuild the plugin with this program's plugin.h");
  if (head.head_bytes < sizeof head || head.head_bytes > bytes.size() ||
      head.json_bytes > bytes.size() - head.head_bytes)
    file.fail("has a damaged section .cuboid: head of " + std::to_string(head.head_bytes) + " and manifest of " +
              std::to_string(head.json_bytes) + " bytes do not fit its " + std::to_string(bytes.size()));
  const std::string rest = bytes.substr(head.head_bytes + head.json_bytes);
  if (std::any_of(rest.begin(), rest.end(), [](char c) { return c != '\0'; }))
    file.fail("has more than one manifest in its section .cuboid: state CUBOID_PLUGIN or CUBOID_MANIFEST once");
  return {head.major, head.needs_minor, bytes.substr(head.head_bytes, head.json_bytes)};
}

}  // namespace

LibraryFile::LibraryFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (descriptor_ < 0) {
    const int code = errno;
    throw Error(code == ENOENT || code == ENOTDIR ? ErrorKind::not_found : ErrorKind::io,
                path_.string() + ": cannot be opened: " + std::strerror(code));
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    fail("is no regular file, expected a shared library");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

LibraryFile::~LibraryFile() { ::close(descriptor_); }

void LibraryFile::read(std::uint64_t offset, void* to, std::size_t bytes, const char* what) const {
  if (offset > size_ || bytes > size_ - offset) fail(std::string("is truncated: ") + what + " lies behind its end");
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(ErrorKind::io, path_.string() + ": cannot be read: " + std::strerror(errno));
    if (got == 0) fail(std::string("became shorter while its ") + what + " was read");
    out += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

std::string LibraryFile::read_text(std::uint64_t offset, std::size_t bytes, const char* what) const {
  if (offset > size_ || bytes > size_ - offset) fail(std::string("is truncated: ") + what + " lies behind its end");
  std::string text(bytes, '\0');
  read(offset, text.data(), bytes, what);
  return text;
}

void LibraryFile::fail(const std::string& why) const { throw Error(ErrorKind::plugin, path_.string() + " " + why); }

std::optional<ManifestBlob> read_manifest_section(const LibraryFile& file) {
  const std::optional<Elf64_Ehdr> header = read_header(file);
  if (!header) return std::nullopt;
  const std::optional<SectionTable> table = section_table(file, *header);
  if (!table) return std::nullopt;
  const Elf64_Shdr names = read_section(file, *table, table->names);
  std::optional<ManifestBlob> found;
  for (std::uint64_t index = 0; index < table->count; ++index) {
    const Elf64_Shdr section = read_section(file, *table, index);
    if (!has_name(file, names, section)) continue;
    if (found) file.fail("has more than one section .cuboid");
    if (section.sh_type == SHT_NOBITS || (section.sh_flags & SHF_COMPRESSED) != 0)
      file.fail("has a section .cuboid without plain contents");
    if (section.sh_size > kMaxManifestBytes)
      file.fail("has a section .cuboid of " + std::to_string(section.sh_size) + " bytes, at most 1 MiB is allowed");
    found = parse_blob(file, file.read_text(section.sh_offset, section.sh_size, "section .cuboid"));
  }
  return found;
}

std::vector<std::string> exported_symbols(const LibraryFile& file) {
  std::vector<std::string> names;
  const std::optional<Elf64_Ehdr> header = read_header(file);
  const std::optional<SectionTable> table = header ? section_table(file, *header) : std::nullopt;
  if (!table) return names;
  for (std::uint64_t index = 0; index < table->count; ++index) {
    const Elf64_Shdr section = read_section(file, *table, index);
    if (section.sh_type != SHT_DYNSYM) continue;
    if (section.sh_link >= table->count || section.sh_size > file.size()) file.fail("has a damaged table of symbols");
    const Elf64_Shdr strings = read_section(file, *table, section.sh_link);
    const std::string text = file.read_text(strings.sh_offset, strings.sh_size, "names of symbols");
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol{};
      file.read(section.sh_offset + at, &symbol, sizeof symbol, "symbol");
      const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      const bool hidden = ELF64_ST_VISIBILITY(symbol.st_other) != STV_DEFAULT;
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || local || hidden) continue;
      if (symbol.st_name >= text.size()) file.fail("has a damaged table of symbols");
      names.emplace_back(text.c_str() + symbol.st_name);
    }
  }
  return names;
}

std::string hash_files(const std::vector<const LibraryFile*>& files) {
  sha256_ctx context;
  sha256_init(&context);
  std::array<std::uint8_t, 16384> part;
  for (const LibraryFile* file : files) {
    for (std::uint64_t offset = 0; offset < file->size();) {
      const std::size_t bytes = static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), file->size() - offset));
      file->read(offset, part.data(), bytes, "contents");
      sha256_update(&context, bytes, part.data());
      offset += bytes;
    }
  }
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest;
  sha256_digest(&context, digest.size(), digest.data());
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace cuboid
