// CRC-32C (Castagnoli), as the Zarr codec of that name and the journal use it: "123456789" -> 0xe3069283.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace cuboid {

std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace cuboid
