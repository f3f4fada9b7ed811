// A bucket of S3 or of a server that speaks its protocol. A PUT is atomic; what is larger than one part is uploaded in
// parts, and appears when they are put together.
#include <algorithm>
#include <charconv>

#include "storage/aws_settings.h"
#include "storage/error.h"
#include "storage/store_key.h"
#include "storage/store_remote.h"

namespace cuboid {
namespace {

constexpr std::size_t kPartBytes = 64u << 20;  // of an upload in parts; S3 takes 10,000 of 5 MiB to 5 GiB

// The text between <tag> and </tag> from `at` on, which is moved behind it; nullopt where there is none.
std::optional<std::string_view> element(std::string_view xml, std::string_view tag, std::size_t& at) {
  const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
  const std::size_t begin = xml.find(open, at);
  if (begin == xml.npos) return std::nullopt;
  const std::size_t end = xml.find(close, begin);
  if (end == xml.npos) return std::nullopt;
  at = end + close.size();
  return xml.substr(begin + open.size(), end - begin - open.size());
}
std::string first_element(std::string_view xml, std::string_view tag) {
  std::size_t at = 0;
  return std::string(element(xml, tag, at).value_or(""));
}

// XML entities and (keys are asked for so) percent-encoding.
std::string decoded(std::string_view text, bool percent) {
  static constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&#34;", '"'}, {"&#39;", '\''}};
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const auto entity = std::find_if(std::begin(kEntities), std::end(kEntities),
                                     [&](const auto& e) { return text.substr(at).starts_with(e.first); });
    if (text[at] == '&' && entity != std::end(kEntities)) {
      plain += entity->second;
      at += entity->first.size();
      continue;
    }
    unsigned byte = 0;
    if (percent && text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(text.data() + at + 1, text.data() + at + 3, byte, 16).ptr == text.data() + at + 3) {
      plain += static_cast<char>(byte);
      at += 3;
      continue;
    }
    plain += percent && text[at] == '+' ? ' ' : text[at];
    ++at;
  }
  return plain;
}

HttpOptions options_of(const AwsSettings& settings) {
  HttpOptions options;
  if (!settings.key_id.empty()) {
    options.credentials = settings.key_id + ":" + settings.secret;
    options.signature = "aws:amz:" + settings.region + ":s3";
  }
  return options;
}

class S3Store final : public RemoteStore {
 public:
  S3Store(std::string bucket, std::string prefix, AwsSettings settings)
      : RemoteStore(options_of(settings)),
        bucket_(std::move(bucket)),
        prefix_(prefix.empty() ? "" : prefix + "/"),
        settings_(std::move(settings)) {
    base_ = settings_.endpoint.empty() ? "https://" + bucket_ + ".s3." + settings_.region + ".amazonaws.com"
                                       : settings_.endpoint + "/" + bucket_;
  }

  std::string name() const override {
    std::string name = "s3://" + bucket_ + "/" + prefix_;
    name.pop_back();
    return name;
  }
  void put(std::string_view key, std::span<const std::span<const std::byte>> parts, bool) override {
    check_key(key);
    std::size_t bytes = 0;
    for (const auto part : parts) bytes += part.size();
    if (bytes > kPartBytes) return put_in_parts(key, parts, bytes);
    Transfer transfer = object("PUT", key);
    transfer.body.assign(parts.begin(), parts.end());
    client_.perform(transfer);
    expect_found(transfer);
  }

  void erase(std::string_view key) override {
    Transfer transfer = object("DELETE", key);
    client_.perform(transfer);
  }

  void erase_prefix(std::string_view prefix) override {
    std::vector<Transfer> transfers;
    list(prefix, [&](std::string_view key, const Stamp&) { transfers.push_back(object("DELETE", key)); });
    client_.perform(transfers);
    for (const Transfer& transfer : transfers)
      if (transfer.fault) std::rethrow_exception(transfer.fault);
  }

  void list(std::string_view prefix, const std::function<void(std::string_view, const Stamp&)>& each) const override {
    check_prefix(prefix);
    const std::string start = prefix_ + std::string(prefix);
    pages(start, false, [&](std::string_view page) {
      std::size_t at = 0;
      while (const auto contents = element(page, "Contents", at)) {
        const std::string key = decoded(first_element(*contents, "Key"), true);
        if (!key.starts_with(prefix_) || !is_key(std::string_view(key).substr(prefix_.size()))) continue;
        const std::string_view below = std::string_view(key).substr(prefix_.size());
        if (!is_at_or_below(below, prefix)) continue;
        const std::string size = first_element(*contents, "Size");
        Stamp stamp;
        std::from_chars(size.data(), size.data() + size.size(), stamp.bytes);
        stamp.etag = decoded(first_element(*contents, "ETag"), false);
        each(below, stamp);
      }
    });
  }

  std::vector<std::string> list_dir(std::string_view prefix) const override {
    check_prefix(prefix);
    const std::string start = prefix_ + (prefix.empty() ? "" : std::string(prefix) + "/");
    std::vector<std::string> names;
    pages(start, true, [&](std::string_view page) {
      const auto add = [&](std::string_view text) {
        const std::string key = decoded(text, true);
        if (key.size() > start.size() && key.starts_with(start)) names.push_back(key.substr(start.size()));
      };
      std::size_t at = 0;
      while (const auto contents = element(page, "Contents", at)) add(first_element(*contents, "Key"));
      at = 0;
      while (const auto folder = element(page, "CommonPrefixes", at)) add(first_element(*folder, "Prefix"));
    });
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  static bool is_key(std::string_view key) {
    try {
      check_key(key);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  Transfer request(const char* method, std::string_view key) const override { return object(method, key); }

  std::vector<std::string> headers() const {
    // Bodies are not hashed for the signature: TLS and the checksums of codecs protect them.
    std::vector<std::string> headers;
    if (!settings_.key_id.empty()) headers.emplace_back("x-amz-content-sha256: UNSIGNED-PAYLOAD");
    if (!settings_.token.empty()) headers.push_back("x-amz-security-token: " + settings_.token);
    return headers;
  }

  // `query`: parameters in alphabetic order, encoded, each with '=': as they are signed.
  Transfer object(const char* method, std::string_view key, const std::string& query = "") const {
    check_key(key);
    Transfer transfer;
    transfer.method = method;
    transfer.url = base_ + "/" + percent_encoded(prefix_ + std::string(key), true) + (query.empty() ? "" : "?" + query);
    transfer.headers = headers();
    return transfer;
  }

  void expect_found(const Transfer& transfer) const {
    if (transfer.status == 404)
      throw Error(ErrorKind::io, transfer.url.substr(0, transfer.url.find('?')) +
                                     " cannot be written: there is no bucket '" + bucket_ + "'");
  }

  void pages(const std::string& start, bool folders, const std::function<void(std::string_view)>& take) const {
    for (std::string token;;) {
      Transfer transfer;
      transfer.url = base_ + (settings_.endpoint.empty() ? "/" : "") + "?" +
                     (token.empty() ? "" : "continuation-token=" + percent_encoded(token, false) + "&") +
                     (folders ? "delimiter=%2F&" : "") +
                     "encoding-type=url&list-type=2&prefix=" + percent_encoded(start, false);
      transfer.headers = headers();
      transfer.want = Transfer::Want::text;
      client_.perform(transfer);
      if (transfer.status == 404) throw Error(ErrorKind::not_found, name() + ": there is no bucket '" + bucket_ + "'");
      take(transfer.text);
      token = decoded(first_element(transfer.text, "NextContinuationToken"), false);
      if (first_element(transfer.text, "IsTruncated") != "true" || token.empty()) return;
    }
  }

  void put_in_parts(std::string_view key, std::span<const std::span<const std::byte>> pieces, std::size_t bytes) {
    Transfer begin = object("POST", key, "uploads=");
    begin.want = Transfer::Want::text;
    client_.perform(begin);
    expect_found(begin);
    const std::string id = percent_encoded(decoded(first_element(begin.text, "UploadId"), false), false);
    if (id.empty()) throw Error(ErrorKind::io, describe(key) + ": the server began no upload in parts");
    try {
      const std::size_t part_bytes = std::max(kPartBytes, (bytes + 9999) / 10000);
      std::vector<Transfer> parts;
      std::size_t left = 0;
      for (std::span<const std::byte> piece : pieces) {
        while (!piece.empty()) {
          if (left == 0) {
            parts.push_back(object("PUT", key, "partNumber=" + std::to_string(parts.size() + 1) + "&uploadId=" + id));
            left = part_bytes;
          }
          const std::size_t taken = std::min(left, piece.size());
          parts.back().body.push_back(piece.first(taken));
          piece = piece.subspan(taken);
          left -= taken;
        }
      }
      client_.perform(parts);
      std::string list = "<CompleteMultipartUpload>";
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].fault) std::rethrow_exception(parts[i].fault);
        list += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + parts[i].etag + "</ETag></Part>";
      }
      list += "</CompleteMultipartUpload>";
      Transfer end = object("POST", key, "uploadId=" + id);
      end.body = {std::as_bytes(std::span(list))};
      end.want = Transfer::Want::text;
      client_.perform(end);
      // The status may be 200 before the parts are put together, and the body tell of a fault.
      if (end.status == 404 || end.text.find("<Error>") != std::string::npos)
        throw Error(ErrorKind::io,
                    describe(key) + ": its parts were not put together: " + first_element(end.text, "Message"));
    } catch (...) {
      Transfer abort = object("DELETE", key, "uploadId=" + id);
      client_.perform({&abort, 1});  // what fails here, the bucket's rules clean up
      throw;
    }
  }

  std::string bucket_, prefix_, base_;
  AwsSettings settings_;
};

}  // namespace

std::shared_ptr<Store> make_s3_store(const std::string& url) {
  std::string rest = url.substr(url.find("://") + 3);
  while (rest.ends_with('/')) rest.pop_back();
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string bucket = rest.substr(0, slash);
  const std::string prefix = slash < rest.size() ? rest.substr(slash + 1) : "";
  if (bucket.empty() ||
      bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != bucket.npos)
    throw Error(ErrorKind::invalid, "URL '" + url + "': expected s3://bucket/path");
  if (!prefix.empty()) check_key(prefix);
  return std::make_shared<S3Store>(bucket, prefix, aws_settings());
}

}  // namespace cuboid
