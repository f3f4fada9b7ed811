#include "storage/store.h"

#include <algorithm>
#include <cctype>

#include "storage/error.h"
#include "storage/store_key.h"

namespace cuboid {

void check_key(std::string_view key) {
  const auto refuse = [&](const char* why) {
    throw Error(ErrorKind::invalid, "key '" + std::string(key) + "' " + why +
                                        ": expected parts separated by '/', none of them empty, '.' or '..'");
  };
  if (key.empty()) refuse("is empty");
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= key.size(); ++at) {
    if (at < key.size() && key[at] != '/') {
      if (key[at] == '\0') refuse("contains NUL");
      continue;
    }
    const std::size_t length = at - begin;
    if (length == 0) refuse("has an empty part");
    if (key[begin] == '.' && (length == 1 || (length == 2 && key[begin + 1] == '.'))) refuse("has a part '.' or '..'");
    begin = at + 1;
  }
}

void check_prefix(std::string_view prefix) {
  if (!prefix.empty()) check_key(prefix);
}

std::string Store::describe(std::string_view key) const {
  std::string text = name();
  if (!text.empty() && text.back() != '/') text += '/';
  return text.append(key);
}

void Store::read_many(std::span<ReadRequest> requests) const {
  for (ReadRequest& request : requests) {
    try {
      request.length = read(request.key, request.into);
    } catch (...) {
      request.fault = std::current_exception();
    }
  }
}

void Store::read_parts(std::span<PartRequest> requests) const {
  for (PartRequest& request : requests) {
    try {
      if (request.suffix)
        request.found = read_suffix(request.key, request.into);
      else
        request.found = read_range(request.key, request.offset, request.into);
    } catch (...) {
      request.fault = std::current_exception();
    }
  }
}

std::optional<std::uint64_t> Store::read_suffix(std::string_view key, std::span<std::byte> into) const {
  const std::optional<Stamp> found = stamp(key);
  if (!found) return std::nullopt;
  if (found->bytes < into.size()) {
    throw Error(ErrorKind::corrupt, describe(key) + " has " + std::to_string(found->bytes) +
                                        " bytes: expected at least " + std::to_string(into.size()));
  }
  if (!read_range(key, found->bytes - into.size(), into)) return std::nullopt;
  return found->bytes;
}

std::optional<std::string> read_text(const Store& store, std::string_view key, std::size_t limit) {
  // A value may be replaced between the two calls by a longer one: once more, then it is somebody's fault.
  for (int attempt = 0;; ++attempt) {
    const std::optional<Stamp> stamp = store.stamp(key);
    if (!stamp) return std::nullopt;
    if (stamp->bytes > limit) {
      throw Error(ErrorKind::corrupt, store.describe(key) + " has " + std::to_string(stamp->bytes) +
                                          " bytes: expected at most " + std::to_string(limit) + " of metadata");
    }
    std::string text(stamp->bytes, '\0');
    try {
      const auto length = store.read(key, std::as_writable_bytes(std::span(text)));
      if (!length) return std::nullopt;
      text.resize(*length);
      return text;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt || attempt > 0) throw;
    }
  }
}

namespace {

std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : std::isxdigit(static_cast<unsigned char>(c)) ? (c | 0x20) - 'a' + 10 : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

struct Scheme {
  std::string_view name;
  std::shared_ptr<Store> (*open)(const std::string& url, std::string_view after_scheme);
};

std::shared_ptr<Store> open_file_url(const std::string& url, std::string_view rest) {
  if (rest.starts_with("localhost/")) rest.remove_prefix(std::string_view("localhost").size());
  if (!rest.starts_with('/')) {
    throw Error(ErrorKind::invalid, "URL '" + url + "': expected file:///absolute/path");
  }
  return make_file_store(percent_decoded(rest));
}

std::shared_ptr<Store> open_memory_url(const std::string&, std::string_view) { return make_memory_store(); }

std::shared_ptr<Store> open_http_url(const std::string& url, std::string_view) { return make_http_store(url); }
std::shared_ptr<Store> open_s3_url(const std::string& url, std::string_view) { return make_s3_store(url); }

constexpr Scheme kSchemes[] = {{"file", open_file_url},
                               {"memory", open_memory_url},
                               {"http", open_http_url},
                               {"https", open_http_url},
                               {"s3", open_s3_url}};

}  // namespace

std::shared_ptr<Store> open_store(const std::string& path_or_url) {
  if (path_or_url.empty()) throw Error(ErrorKind::invalid, "an empty path: expected a directory or URL");
  const std::size_t colon = path_or_url.find("://");
  const bool has_scheme = colon != std::string::npos && colon > 0 &&
                          std::all_of(path_or_url.begin(), path_or_url.begin() + colon, [](char c) {
                            return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
                          });
  if (!has_scheme) {
    if (const auto zip = split_at_zip(path_or_url)) return make_zip_store(zip->first, zip->second);
    return make_file_store(path_or_url);
  }
  std::string known;
  for (const Scheme& scheme : kSchemes) {
    if (path_or_url.compare(0, colon, scheme.name) == 0) {
      return scheme.open(path_or_url, std::string_view(path_or_url).substr(colon + 3));
    }
    known += (known.empty() ? "" : ", ") + std::string(scheme.name) + "://";
  }
  throw Error(ErrorKind::unsupported, "'" + path_or_url + "': no store for " + path_or_url.substr(0, colon) +
                                          "://, expected a path or one of " + known);
}

}  // namespace cuboid
