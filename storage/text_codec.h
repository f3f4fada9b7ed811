// Bytes and UTF-32 strings as the text that JSON carries: base64 and UTF-8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuboid {

std::string base64(std::span<const std::byte> bytes);
std::optional<std::vector<std::byte>> base64_decoded(std::string_view text);  // nullopt: no base64

// Of native-endian code points, without the NULs that pad them; what is no character becomes U+FFFD.
std::string utf8_from_utf32(std::span<const std::byte> bytes);
std::optional<std::vector<std::uint32_t>> utf32_from_utf8(std::string_view text);  // nullopt: no UTF-8

}  // namespace cuboid
