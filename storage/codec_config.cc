#include <algorithm>

#include "storage/codec_stage.h"

namespace cuboid {

CodecConfig::CodecConfig(std::string codec, nlohmann::json configuration)
    : codec_(std::move(codec)), json_(std::move(configuration)) {
  if (json_.is_null()) json_ = nlohmann::json::object();
  if (!json_.is_object()) fail("'configuration' is " + json_.dump() + ": expected an object");
}

void CodecConfig::fail(const std::string& what, ErrorKind kind) const {
  throw Error(kind, "codec '" + codec_ + "': " + what);
}

const nlohmann::json* CodecConfig::value(const char* key) {
  used_.emplace_back(key);
  const auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

std::int64_t CodecConfig::integer(const char* key, std::int64_t low, std::int64_t high) {
  const nlohmann::json* found = value(key);
  const std::string expected = ": expected an integer from " + std::to_string(low) + " to " + std::to_string(high);
  if (!found) fail(std::string("'") + key + "' is missing" + expected);
  if (!found->is_number_integer()) fail(std::string("'") + key + "' is " + found->dump() + expected);
  const bool too_large = found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX;
  const std::int64_t number = too_large ? INT64_MAX : found->get<std::int64_t>();
  if (too_large || number < low || number > high) fail(std::string("'") + key + "' is " + found->dump() + expected);
  return number;
}

std::int64_t CodecConfig::integer(const char* key, std::int64_t low, std::int64_t high, std::int64_t fallback) {
  return value(key) ? integer(key, low, high) : fallback;
}

bool CodecConfig::boolean(const char* key, bool fallback) {
  const nlohmann::json* found = value(key);
  if (!found) return fallback;
  if (!found->is_boolean()) fail(std::string("'") + key + "' is " + found->dump() + ": expected true or false");
  return found->get<bool>();
}

std::string CodecConfig::text(const char* key) {
  const nlohmann::json* found = value(key);
  if (!found) fail(std::string("'") + key + "' is missing: expected a string");
  if (!found->is_string()) fail(std::string("'") + key + "' is " + found->dump() + ": expected a string");
  return found->get<std::string>();
}

std::string CodecConfig::text(const char* key, const std::string& fallback) {
  return value(key) ? text(key) : fallback;
}

void CodecConfig::check_all_used() const {
  for (const auto& [key, unused] : json_.items()) {
    if (std::find(used_.begin(), used_.end(), key) == used_.end()) {
      fail("key '" + key + "' of its configuration is not known", ErrorKind::unsupported);
    }
  }
}

void throw_corrupt(std::string_view codec, const std::string& what) {
  throw Error(ErrorKind::corrupt, std::string(codec) + " data " + what);
}

}  // namespace cuboid
