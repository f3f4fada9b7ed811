#include "storage/zarr_json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <set>

#include "storage/error.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

// What stands before the digits of an integer that no 64 bits hold, where it is kept as a string: a character that no
// text may exchange. dump_json() writes the digits again.
constexpr std::string_view kBigInteger = "\xef\xb7\x90";

// The length of the integer at the start of `text` where it is one that no 64 bits hold; else 0.
std::size_t big_integer_length(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::size_t end = std::min(text.find_first_not_of("0123456789", negative), text.size());
  if (end - negative < 19 || text[negative] == '0' || (end < text.size() && std::strchr(".eE", text[end]))) return 0;
  std::int64_t narrow = 0;
  std::uint64_t wide = 0;
  const char* stop = text.data() + end;
  const bool fits = std::from_chars(text.data(), stop, narrow).ec == std::errc() ||
                    (!negative && std::from_chars(text.data(), stop, wide).ec == std::errc());
  return fits ? 0 : end;
}

// Puts bare NaN, Infinity and -Infinity, and integers beyond 64 bits, between quotes; everything else is left for the
// parser to judge.
std::string quote_bare_words(std::string_view text) {
  std::string quoted;
  quoted.reserve(text.size());
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\' && at + 1 < text.size()) quoted += text[at++];
      in_string = c != '"';
      quoted += text[at++];
      continue;
    }
    in_string = c == '"';
    bool replaced = false;
    if (c == 'N' || c == 'I' || c == '-') {
      for (std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
        if (!text.substr(at).starts_with(word)) continue;
        quoted.append("\"").append(word).append("\"");
        at += word.size();
        replaced = true;
        break;
      }
    }
    if (!replaced && (c == '-' || (c >= '1' && c <= '9'))) {
      const std::size_t length = big_integer_length(text.substr(at));
      if (length > 0) quoted.append("\"").append(kBigInteger).append(text.substr(at, length)).append("\"");
      // A number is taken whole, so that no digits within it are looked at again.
      const std::size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
      if (length == 0) quoted += text.substr(at, end - at);
      at = length > 0 ? at + length : end;
      replaced = true;
    }
    if (!replaced) quoted += text[at++];
  }
  return quoted;
}

}  // namespace

json parse_json(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) {
      throw Error(ErrorKind::invalid, std::string(what) + " is nested deeper than 64 levels");
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Error(ErrorKind::invalid, std::string(what) + " has the key " + parsed.dump() + " twice: remove one");
    }
    return true;
  };
  try {
    return json::parse(quote_bare_words(text), check);
  } catch (const json::exception& error) {
    throw Error(ErrorKind::invalid, std::string(what) + " is no valid JSON: " + error.what());
  }
}

std::string dump_json(const json& value, int indent) {
  std::string text = value.dump(indent, ' ', false, json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find(kBigInteger, at)) != text.npos; ++at) {
    const std::size_t digits = at + kBigInteger.size();
    const std::size_t end = std::min(text.find_first_not_of("-0123456789", digits), text.size());
    if (at == 0 || text[at - 1] != '"' || end == digits || end == text.size() || text[end] != '"') continue;
    text.erase(end, 1).erase(at - 1, kBigInteger.size() + 1);
  }
  return text;
}

void throw_bad_key(const char* key, const json& found, std::string_view expected) {
  std::string shown = dump_json(found);
  if (shown.size() > 200) shown = shown.substr(0, 200) + "...";
  throw Error(ErrorKind::invalid, "'" + std::string(key) + "' is " + shown + ": expected " + std::string(expected));
}

const json& required(const json& object, const char* key, std::string_view expected) {
  const auto it = object.find(key);
  if (it == object.end()) {
    throw Error(ErrorKind::invalid, "'" + std::string(key) + "' is missing: expected " + std::string(expected));
  }
  return *it;
}

Shape shape_from_json(const json& found, const char* key) {
  if (!found.is_array()) throw_bad_key(key, found, "a list of integers");
  if (found.size() > kMaxRank) throw_bad_key(key, found, "at most 32 axes");
  Shape shape;
  for (const json& extent : found) {
    if (!extent.is_number_integer() || (extent.is_number_unsigned() && extent.get<std::uint64_t>() > INT64_MAX) ||
        extent.get<std::int64_t>() < 0) {
      throw_bad_key(key, found, "integers of at least 0 and below 2^63");
    }
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

}  // namespace cuboid
