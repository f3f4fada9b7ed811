#include "storage/text_codec.h"

#include <algorithm>
#include <cstring>

namespace cuboid {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint32_t code_point(std::span<const std::byte> bytes, std::size_t i) {
  std::uint32_t point;
  std::memcpy(&point, bytes.data() + 4 * i, sizeof point);
  return point;
}

}  // namespace

std::optional<std::vector<std::byte>> base64_decoded(std::string_view text) {
  std::vector<std::byte> bytes;
  if (text.size() % 4 != 0) return std::nullopt;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::uint32_t group = 0;
    const bool last = at + 4 == text.size();
    if (last && text[at + 2] == '=' && text[at + 3] != '=') return std::nullopt;
    const int pads = !last ? 0 : text[at + 2] == '=' ? 2 : text[at + 3] == '=' ? 1 : 0;
    for (int k = 0; k < 4; ++k) {
      const std::size_t digit = kDigits.find(text[at + static_cast<std::size_t>(k)]);
      if (digit == kDigits.npos && (k < 4 - pads || text[at + static_cast<std::size_t>(k)] != '=')) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(digit == kDigits.npos ? 0 : digit);
    }
    for (int k = 0; k < 3 - pads; ++k) bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * k)));
  }
  return bytes;
}

std::string base64(std::span<const std::byte> bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? std::to_integer<std::uint32_t>(bytes[at + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string utf8_from_utf32(std::span<const std::byte> bytes) {
  std::string text;
  std::size_t length = bytes.size() / 4;
  while (length > 0 && code_point(bytes, length - 1) == 0) --length;
  for (std::size_t i = 0; i < length; ++i) {
    auto point = code_point(bytes, i);
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) point = 0xfffd;  // what is no character
    if (point < 0x80) {
      text += static_cast<char>(point);
      continue;
    }
    const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
    text += static_cast<char>(kLead[more] | point >> (6 * more));
    for (int k = more; k-- > 0;) text += static_cast<char>(0x80 | (point >> (6 * k) & 0x3f));
  }
  return text;
}

std::optional<std::vector<std::uint32_t>> utf32_from_utf8(std::string_view text) {
  std::vector<std::uint32_t> points;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at++]);
    const int more = lead < 0x80 ? 0 : lead < 0xc2 ? -1 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : -1;
    if (more < 0 || text.size() - at < static_cast<std::size_t>(more)) return std::nullopt;
    std::uint32_t point = more == 0 ? lead : lead & (0x3fu >> more);
    for (int k = 0; k < more; ++k) {
      const auto byte = static_cast<unsigned char>(text[at++]);
      if ((byte & 0xc0) != 0x80) return std::nullopt;
      point = point << 6 | (byte & 0x3fu);
    }
    points.push_back(point);
  }
  return points;
}

}  // namespace cuboid
