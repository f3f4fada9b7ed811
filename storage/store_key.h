// What every store does with keys, prefixes and paths. For implementations of stores only.
#pragma once
#include <string>
#include <string_view>

namespace cuboid {

// Throws Error{invalid} where `key` is no key of a store (storage/store.h says what is).
void check_key(std::string_view key);
// As check_key, but the empty prefix stands for the whole store.
void check_prefix(std::string_view prefix);

// True where `key` is `prefix` itself or below that folder: "foo" never holds "foobar".
inline bool is_at_or_below(std::string_view key, std::string_view prefix) {
  return prefix.empty() || (key.starts_with(prefix) && (key.size() == prefix.size() || key[prefix.size()] == '/'));
}

}  // namespace cuboid
