// JSON of untrusted metadata, and fill values.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "storage/types.h"

namespace cuboid {

// Parses strictly, except that bare NaN, Infinity and -Infinity (which Python writes) are read as those words in
// strings, and integers beyond 64 bits as strings of their own kind, which dump_json() writes as integers again. Throws
// Error{invalid} naming `what` for malformed text, duplicate keys, nesting beyond 64 levels.
nlohmann::json parse_json(std::string_view text, std::string_view what);

// The JSON of one element, as Zarr formats 2 and 3 write it, to its native bytes and back. Parsing is lenient where
// writers differ ("0", 0.0 for an integer), but a value outside the dtype's range is Error{invalid}. No integer passes
// through a double.
std::vector<std::byte> fill_from_json(const nlohmann::json& json, DType dtype);
nlohmann::json fill_to_json(const std::vector<std::byte>& fill, DType dtype, int zarr_format);

// Strict JSON of what parse_json() made; text that is no UTF-8 is replaced. No line breaks where `indent` is -1.
std::string dump_json(const nlohmann::json& value, int indent = -1);

// Members of an object with their checks; errors name the key, what was found, and what was expected.
const nlohmann::json& required(const nlohmann::json& object, const char* key, std::string_view expected);
Shape shape_from_json(const nlohmann::json& json, const char* key);
[[noreturn]] void throw_bad_key(const char* key, const nlohmann::json& found, std::string_view expected);

}  // namespace cuboid
