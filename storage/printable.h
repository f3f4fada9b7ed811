// Words from files and plugins that nobody vouches for, made fit for messages.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace cuboid {

// Text of a stranger, fit for a message or a terminal: valid UTF-8 without control characters (line breaks and
// tabs become blanks, all else "?"), cut to at most max_bytes.
std::string printable(std::string_view text, std::size_t max_bytes = std::string_view::npos);
// The same in quotes, at most 60 bytes of it.
std::string in_quotes(std::string_view text);

}  // namespace cuboid
