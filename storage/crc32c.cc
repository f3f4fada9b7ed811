#include "storage/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace cuboid {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::size_t kMost = 1u << 30;  // the library takes the length as an int
  std::uint32_t crc = ~before;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    // The library's interface lacks a const; it only reads.
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data())),
                      static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

}  // namespace cuboid
