#include "storage/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <random>

#include "storage/library.h"

namespace cuboid {
namespace {

using Clock = std::chrono::steady_clock;

struct CurlApi {
  Library library{"libcurl.so.4", "libcurl4"};
#define CUBOID_TAKE(name) decltype(&::curl_##name) name = library.take<decltype(::curl_##name)>("curl_" #name)
  CUBOID_TAKE(global_init);
  CUBOID_TAKE(easy_init);
  CUBOID_TAKE(easy_reset);
  CUBOID_TAKE(easy_cleanup);
  CUBOID_TAKE(easy_strerror);
  CUBOID_TAKE(multi_init);
  CUBOID_TAKE(multi_add_handle);
  CUBOID_TAKE(multi_remove_handle);
  CUBOID_TAKE(multi_perform);
  CUBOID_TAKE(multi_poll);
  CUBOID_TAKE(multi_info_read);
  CUBOID_TAKE(multi_cleanup);
  CUBOID_TAKE(slist_append);
  CUBOID_TAKE(slist_free_all);
  CUBOID_TAKE(getdate);
#undef CUBOID_TAKE
  // Macros check the types of these; the functions behind them take any.
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = library.take<CURLcode(CURL*, CURLoption, ...)>("curl_easy_setopt");
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...) = library.take<CURLcode(CURL*, CURLINFO, ...)>("curl_easy_getinfo");
  CurlApi() { global_init(CURL_GLOBAL_DEFAULT); }
};
const CurlApi& curl() {
  static const CurlApi& api = *new CurlApi;
  return api;
}

std::mutex notice_mutex;
std::function<void(const std::string&)>& notice_slot() {
  static auto& slot = *new std::function<void(const std::string&)>;
  return slot;
}
void notify(const std::string& line) {
  const std::lock_guard lock(notice_mutex);
  if (notice_slot()) notice_slot()(line);
}

bool is_transient(long status) {
  constexpr long kTransient[] = {408, 429, 500, 502, 503, 504};
  return std::find(std::begin(kTransient), std::end(kTransient), status) != std::end(kTransient);
}
bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_AGAIN:
      return true;
    default:
      return false;
  }
}

std::uint64_t number_at(std::string_view text, std::size_t at) {
  std::uint64_t value = 0;
  if (at < text.size()) std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

// A request on its way. The callbacks of libcurl are given a pointer to it; none of them throws.
struct Flight {
  Transfer* transfer = nullptr;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  int attempt = 0;
  Clock::time_point not_before{};
  bool running = false, finished = false;

  // Of the current attempt's reply:
  long status = 0;
  std::uint64_t at = 0;  // position in the body
  std::uint64_t content_length = 0, retry_after = 0, range_begin = 0, range_end = 0;
  bool has_range = false, encoded = false;
  bool complete = false;  // all that is wanted has come: the rest is cut off
  std::string refused;    // why the reply cannot be right
  std::size_t sent_part = 0, sent_bytes = 0;

  void begin() {
    status = 0;
    at = content_length = retry_after = range_begin = range_end = 0;
    has_range = encoded = complete = false;
    refused.clear();
    sent_part = sent_bytes = 0;
    transfer->length = 0;
    transfer->text.clear();
  }

  std::size_t take(const char* data, std::size_t n) {
    Transfer& t = *transfer;
    if (status >= 300 || t.want == Transfer::Want::nothing) {
      t.text.append(data, std::min(n, std::size_t{2048} - std::min<std::size_t>(t.text.size(), 2048)));
      return n;
    }
    if (encoded) return refuse("is sent with a Content-Encoding that was not asked for");
    if (t.want == Transfer::Want::text) {
      if (n > Transfer::kMaxText - t.text.size()) return refuse("is a reply of more than 64 MiB");
      t.text.append(data, n);
      return n;
    }
    std::uint64_t first = at;  // where this piece begins, counted from the start of what goes into `into`
    at += n;
    if (t.want == Transfer::Want::suffix && status == 200) {
      // The whole value though its end was asked for: what came last is kept, turned around at the end.
      for (std::size_t i = 0; i < n && !t.into.empty(); ++i)
        t.into[(first + i) % t.into.size()] = static_cast<std::byte>(data[i]);
      return n;
    }
    std::size_t skip = 0;
    if (t.want == Transfer::Want::range && status == 200) {
      // Likewise: what stands before the range is passed over, what follows is not waited for.
      const std::uint64_t before = t.offset > first ? t.offset - first : 0;
      if (before >= n) return n;
      skip = static_cast<std::size_t>(before);
      first = first + skip - t.offset;
    }
    const std::size_t room = first < t.into.size() ? t.into.size() - static_cast<std::size_t>(first) : 0;
    const std::size_t count = std::min(n - skip, room);
    if (count > 0) std::memcpy(t.into.data() + first, data + skip, count);
    t.length = std::min<std::uint64_t>(first + count, t.into.size());
    if (count == n - skip) return n;
    if (t.want == Transfer::Want::range && status == 200) {
      complete = true;
      return 0;
    }
    return refuse("has more than " + std::to_string(t.into.size()) + " bytes: expected at most so many");
  }
  std::size_t refuse(std::string why) {
    refused = std::move(why);
    return 0;
  }

  void take_header(std::string_view line) {
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // of each reply in a row: redirections, 100 Continue
      const std::size_t space = line.find(' ');
      begin_reply(space == line.npos ? 0 : static_cast<long>(number_at(line, space + 1)));
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (name == "content-length") content_length = number_at(value, 0);
    if (name == "retry-after") retry_after = number_at(value, 0);
    if (name == "etag") transfer->etag = value;
    if (name == "last-modified") {
      const time_t seconds = curl().getdate(std::string(value).c_str(), nullptr);
      transfer->mtime_ns = seconds < 0 ? 0 : std::int64_t{seconds} * 1'000'000'000;
    }
    if (name == "content-encoding") encoded = value != "identity";
    if (name == "content-range" && value.starts_with("bytes ")) {
      const std::size_t dash = value.find('-'), slash = value.find('/');
      if (dash == value.npos || slash == value.npos) return;
      has_range = true;
      range_begin = number_at(value, 6);
      range_end = number_at(value, dash + 1) + 1;
      transfer->total = number_at(value, slash + 1);
    }
  }
  void begin_reply(long code) {
    status = code;
    content_length = 0;
    has_range = encoded = false;
  }

  std::size_t give(char* to, std::size_t room) {
    const auto& body = transfer->body;
    while (sent_part < body.size() && sent_bytes == body[sent_part].size()) ++sent_part, sent_bytes = 0;
    if (sent_part == body.size()) return 0;
    const std::size_t n = std::min(room, body[sent_part].size() - sent_bytes);
    std::memcpy(to, body[sent_part].data() + sent_bytes, n);
    sent_bytes += n;
    return n;
  }
};

std::size_t on_body(char* data, std::size_t size, std::size_t n, void* flight) {
  return static_cast<Flight*>(flight)->take(data, size * n);
}
std::size_t on_header(char* data, std::size_t size, std::size_t n, void* flight) {
  static_cast<Flight*>(flight)->take_header({data, size * n});
  return size * n;
}
std::size_t on_send(char* to, std::size_t size, std::size_t n, void* flight) {
  return static_cast<Flight*>(flight)->give(to, size * n);
}
int on_seek(void* flight, curl_off_t offset, int) {
  Flight& it = *static_cast<Flight*>(flight);
  if (offset != 0) return CURL_SEEKFUNC_CANTSEEK;
  it.sent_part = it.sent_bytes = 0;
  return CURL_SEEKFUNC_OK;
}

void prepare(Flight& flight, const HttpOptions& options) {
  const CurlApi& api = curl();
  const Transfer& transfer = *flight.transfer;
  CURL* easy = flight.easy;
  const auto set = [&](CURLoption option, auto value) { api.easy_setopt(easy, option, value); };
  api.easy_reset(easy);
  flight.begin();
  set(CURLOPT_URL, transfer.url.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_CONNECTTIMEOUT, 20L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stalled.count()));
  set(CURLOPT_USERAGENT, "cuboid");
  set(CURLOPT_PRIVATE, static_cast<void*>(&flight));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&flight));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&flight));
  if (transfer.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (transfer.method == "PUT" || transfer.method == "POST") {
    std::size_t bytes = 0;
    for (const auto part : transfer.body) bytes += part.size();
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_CUSTOMREQUEST, transfer.method.c_str());
    set(CURLOPT_READFUNCTION, &on_send);
    set(CURLOPT_READDATA, static_cast<void*>(&flight));
    set(CURLOPT_SEEKFUNCTION, &on_seek);
    set(CURLOPT_SEEKDATA, static_cast<void*>(&flight));
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
  } else if (transfer.method != "GET") {
    set(CURLOPT_CUSTOMREQUEST, transfer.method.c_str());
  }
  if (transfer.want == Transfer::Want::range) {
    const std::string range =
        std::to_string(transfer.offset) + "-" + std::to_string(transfer.offset + transfer.into.size() - 1);
    set(CURLOPT_RANGE, range.c_str());
  } else if (transfer.want == Transfer::Want::suffix) {
    set(CURLOPT_RANGE, ("-" + std::to_string(transfer.into.size())).c_str());
  }
  if (!options.signature.empty()) {
    set(CURLOPT_AWS_SIGV4, options.signature.c_str());
    set(CURLOPT_USERPWD, options.credentials.c_str());
  }
  api.slist_free_all(flight.headers);
  flight.headers = nullptr;
  for (const std::string& header : transfer.headers) flight.headers = api.slist_append(flight.headers, header.c_str());
  set(CURLOPT_HTTPHEADER, flight.headers);
}

std::exception_ptr fault(ErrorKind kind, const Transfer& transfer, const std::string& what) {
  return std::make_exception_ptr(Error(kind, transfer.url.substr(0, transfer.url.find('?')) + " " + what));
}

std::string excerpt(const std::string& text) {
  std::string line;
  for (const char c : text.substr(0, 300)) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return line.empty() ? "" : ": " + line;
}

// What a reply that came as a whole means. Sets the outcome or the fault.
void conclude(Flight& flight) {
  Transfer& t = *flight.transfer;
  t.status = flight.status;
  if (t.status == 404 || t.status == 410) {
    t.status = 404;
    return;
  }
  if (t.status < 200 || t.status >= 300) {
    const bool range = t.status == 416;
    const std::string hint = t.status == 401 || t.status == 403 ? ": check the credentials and what they may do" : "";
    t.fault = fault(range ? ErrorKind::corrupt : ErrorKind::io, t,
                    range ? "is shorter than the range that was asked for"
                          : "is answered with status " + std::to_string(t.status) + hint + excerpt(t.text));
    return;
  }
  if (t.method == "HEAD") t.total = flight.content_length;
  if (t.want == Transfer::Want::range) {
    if (flight.status == 206 && (!flight.has_range || flight.range_begin != t.offset)) {
      t.fault = fault(ErrorKind::io, t, "is answered with another range than was asked for");
    } else if (t.length != t.into.size()) {
      t.fault = fault(
          ErrorKind::corrupt, t,
          "is shorter: expected " + std::to_string(t.into.size()) + " bytes at offset " + std::to_string(t.offset));
    }
  } else if (t.want == Transfer::Want::suffix) {
    if (flight.status == 200) {
      t.total = flight.at;
      t.length = static_cast<std::size_t>(std::min<std::uint64_t>(flight.at, t.into.size()));
      if (flight.at > t.into.size() && !t.into.empty())
        std::rotate(t.into.begin(), t.into.begin() + static_cast<std::ptrdiff_t>(flight.at % t.into.size()),
                    t.into.end());
    } else if (!flight.has_range || flight.range_end != t.total || flight.range_end - flight.range_begin != t.length) {
      t.fault = fault(ErrorKind::io, t, "is answered with another range than was asked for");
      return;
    }
    if (t.length != t.into.size())
      t.fault = fault(ErrorKind::corrupt, t,
                      "has " + std::to_string(t.total) + " bytes: expected at least " + std::to_string(t.into.size()));
  }
}

}  // namespace

void set_transfer_notice(std::function<void(const std::string&)> notice) {
  const std::lock_guard lock(notice_mutex);
  notice_slot() = std::move(notice);
}

// A multi handle with its easy handles: one thread's at a time. Connections live in the multi handle.
struct HttpClient::Connections {
  CURLM* multi = curl().multi_init();
  std::vector<CURL*> easies;
  ~Connections() {
    for (CURL* easy : easies) curl().easy_cleanup(easy);
    curl().multi_cleanup(multi);
  }
  CURL* easy() {
    if (easies.empty()) return curl().easy_init();
    CURL* last = easies.back();
    easies.pop_back();
    return last;
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {}
HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Connections> HttpClient::take() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Connections>();
  auto last = std::move(idle_.back());
  idle_.pop_back();
  return last;
}

void HttpClient::perform(Transfer& transfer) const {
  perform({&transfer, 1});
  if (transfer.fault) std::rethrow_exception(transfer.fault);
}

void HttpClient::perform(std::span<Transfer> transfers) const {
  const CurlApi& api = curl();
  auto connections = take();
  std::vector<Flight> flights(transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i) flights[i].transfer = &transfers[i];
  thread_local std::minstd_rand random{std::random_device{}()};
  std::size_t running = 0, left = flights.size();

  const auto again = [&](Flight& flight, const std::string& why) {
    if (++flight.attempt >= options_.attempts) {
      flight.transfer->fault = fault(ErrorKind::io, *flight.transfer,
                                     why + ", " + std::to_string(flight.attempt) +
                                         " times in a row: check the network and the server, and run again");
      return false;
    }
    double delay =
        static_cast<double>(options_.first_delay.count()) * static_cast<double>(1u << std::min(flight.attempt - 1, 20));
    delay = std::min(delay, static_cast<double>(options_.longest_delay.count()));
    delay *= 0.5 + 0.5 * static_cast<double>(random()) / static_cast<double>(random.max());
    delay = std::max(delay, std::min(1000.0 * static_cast<double>(flight.retry_after),
                                     static_cast<double>(options_.longest_delay.count())));
    flight.not_before = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(delay));
    if (flight.attempt >= 2) {
      notify(flight.transfer->url.substr(0, flight.transfer->url.find('?')) + " " + why + ": attempt " +
             std::to_string(flight.attempt + 1) + " of " + std::to_string(options_.attempts) + " in " +
             std::to_string(static_cast<int>(delay)) + " ms");
    }
    return true;
  };

  const auto finish = [&](Flight& flight, CURLcode code) {
    api.multi_remove_handle(connections->multi, flight.easy);
    connections->easies.push_back(std::exchange(flight.easy, nullptr));
    flight.running = false;
    --running;
    if (!flight.refused.empty()) {
      flight.transfer->fault = fault(ErrorKind::corrupt, *flight.transfer, flight.refused);
    } else if (flight.complete || (code == CURLE_OK && !is_transient(flight.status))) {
      conclude(flight);
    } else if (code == CURLE_OK || is_transient(code)) {
      const std::string why =
          code == CURLE_OK ? "is answered with status " + std::to_string(flight.status) + excerpt(flight.transfer->text)
                           : std::string("cannot be reached: ") + api.easy_strerror(code);
      if (again(flight, why)) return;
    } else {
      flight.transfer->fault =
          fault(ErrorKind::io, *flight.transfer, std::string("cannot be transferred: ") + api.easy_strerror(code));
    }
    api.slist_free_all(std::exchange(flight.headers, nullptr));
    flight.finished = true;
    --left;
  };

  std::size_t first = 0;  // all before are finished
  while (left > 0) {
    const auto now = Clock::now();
    auto wake = now + std::chrono::seconds(1);
    while (first < flights.size() && flights[first].finished) ++first;
    for (std::size_t i = first; i < flights.size() && running < options_.in_flight; ++i) {
      Flight& flight = flights[i];
      if (flight.running || flight.finished) continue;
      if (flight.not_before > now) {
        wake = std::min(wake, flight.not_before);
        continue;
      }
      flight.easy = connections->easy();
      prepare(flight, options_);
      flight.running = true;
      ++running;
      api.multi_add_handle(connections->multi, flight.easy);
    }
    int active = 0;
    api.multi_perform(connections->multi, &active);
    int more = 0;
    bool any = false;
    while (CURLMsg* message = api.multi_info_read(connections->multi, &more)) {
      if (message->msg != CURLMSG_DONE) continue;
      void* flight = nullptr;
      const CURLcode code = message->data.result;
      api.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &flight);
      finish(*static_cast<Flight*>(flight), code);
      any = true;
    }
    if (any || left == 0) continue;
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(wake - Clock::now()).count();
    api.multi_poll(connections->multi, nullptr, 0, static_cast<int>(std::clamp<std::int64_t>(wait, 1, 1000)), nullptr);
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connections));
}

std::string percent_encoded(std::string_view text, bool path) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~' || (path && c == '/')) {
      encoded += c;
    } else {
      constexpr char kDigits[] = "0123456789ABCDEF";
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace cuboid
