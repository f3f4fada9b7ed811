// HTTP requests, many in flight at once on the calling thread, with the one place where transient faults are retried.
// For the stores that go over a network.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/error.h"
#include "storage/store.h"

namespace cuboid {

// One request and its reply. What it asks of the body decides where the body goes; nothing is allocated for it but
// `text`, which is limited.
struct Transfer {
  enum class Want : std::uint8_t {
    nothing,  // the head alone, or a body that says nothing
    whole,    // all of it into the front of `into`, which is long enough for any right one
    range,    // into.size() bytes from `offset`
    suffix,   // the last into.size() bytes
    text      // into `text`, at most kMaxText bytes
  };
  static constexpr std::size_t kMaxText = 64u << 20;

  std::string method = "GET";  // or HEAD, PUT, POST, DELETE
  std::string url;             // percent-encoded
  std::vector<std::string> headers = {};
  std::vector<std::span<const std::byte>> body = {};  // of PUT and POST
  Want want = Want::nothing;
  std::uint64_t offset = 0;
  std::span<std::byte> into = {};

  // The reply, after perform():
  long status = 0;          // 2xx, or 404 and 410 alike as 404; other statuses are errors
  std::size_t length = 0;   // bytes that were put into `into`
  std::uint64_t total = 0;  // of the whole value, where the reply says it (range, suffix, head)
  std::string text = {};    // of Want::text; else the first part of an error's body
  std::string etag = {};
  std::int64_t mtime_ns = 0;      // Last-Modified
  std::exception_ptr fault = {};  // Error{io | corrupt} naming the URL
};

struct HttpOptions {
  int attempts = 6;                                // of one request, at most
  std::chrono::milliseconds first_delay{200};      // doubled after each attempt, times a random factor of 0.5 to 1
  std::chrono::milliseconds longest_delay{10000};  // Retry-After is heeded up to this
  std::chrono::seconds stalled{30};                // without a byte for so long a transfer has failed
  std::size_t in_flight = 16;                      // requests of one perform() at once
  // Signing, for S3: "KEY:SECRET" and "aws:amz:REGION:s3"; empty: none.
  std::string credentials = {}, signature = {};
};

// Called with a line for people when a request had to be tried again more than once, from any thread. Process-wide.
void set_transfer_notice(std::function<void(const std::string&)> notice);

// Thread-safe; connections are kept for the next call.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  // Performs all of them; each one's outcome or fault is in it. Transient faults (broken connections, time-outs, 408,
  // 429, 500, 502, 503, 504) are tried again after a delay; other requests go on meanwhile.
  void perform(std::span<Transfer> transfers) const;
  // One of them; throws its fault.
  void perform(Transfer& transfer) const;
  const HttpOptions& options() const { return options_; }

 private:
  struct Connections;
  std::unique_ptr<Connections> take() const;
  HttpOptions options_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Connections>> idle_;
};

// All but unreserved characters (and '/', where a path is meant) as %XX.
std::string percent_encoded(std::string_view text, bool path);

}  // namespace cuboid
