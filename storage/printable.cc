#include "storage/printable.h"

#include <algorithm>

namespace cuboid {
namespace {

// Bytes of the UTF-8 sequence at the front; 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k)
    if ((byte(k) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, beyond U+10FFFF.
  const bool wrong = length > 2 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                                    (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f));
  return wrong ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (result.size() + std::max<std::size_t>(length, 1) > max_bytes) break;
    const char lead = text[0];
    if (length > 1 || (length == 1 && lead >= ' ' && lead != '\x7f'))
      result += text.substr(0, length);
    else
      result += lead == '\n' || lead == '\t' || lead == '\r' ? ' ' : '?';
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string in_quotes(std::string_view text) {
  const std::string shown = printable(text, 60);
  return "\"" + shown + (shown.size() < text.size() ? "...\"" : "\"");
}

}  // namespace cuboid
