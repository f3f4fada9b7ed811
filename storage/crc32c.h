// CRC-32C (Castagnoli), as the Zarr codec of that name and the journal use it: "123456789" -> 0xe3069283.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace cuboid {

// `before`: of what precedes these bytes, so that crc32c(b, crc32c(a)) is that of a followed by b.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace cuboid
