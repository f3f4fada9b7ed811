// Values behind a web server, read only: GET with ranges. A server lists nothing, so hierarchies are read from their
// consolidated metadata.
#include "storage/error.h"
#include "storage/http_client.h"
#include "storage/store.h"
#include "storage/store_key.h"

namespace cuboid {
namespace {

class HttpStore final : public Store {
 public:
  explicit HttpStore(std::string url) : client_(HttpOptions{}) {
    const std::size_t query = std::min(url.find_first_of("?#"), url.size());
    query_ = url.substr(query, url.find('#') - query);
    base_ = url.substr(0, query);
    while (base_.ends_with('/')) base_.pop_back();
    // What people type: spaces and letters of any alphabet. What is encoded already stays as it is.
    std::string typed;
    typed.swap(base_);
    for (const char c : typed) {
      const bool plain = c > ' ' && c < '\x7f' && std::string_view("\"<>\\^`{|}").find(c) == std::string_view::npos;
      base_ += plain ? std::string(1, c) : percent_encoded({&c, 1}, true);
    }
  }

  std::string name() const override { return base_ + query_; }
  std::string describe(std::string_view key) const override {
    return base_ + "/" + std::string(key);
  }  // no secrets of the query
  bool local() const override { return false; }
  std::size_t parallel() const override { return client_.options().in_flight; }

  std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const override {
    Transfer transfer = transfer_of(key, Transfer::Want::whole, into);
    client_.perform(transfer);
    return transfer.status == 404 ? std::nullopt : std::optional(transfer.length);
  }

  void read_many(std::span<ReadRequest> requests) const override {
    std::vector<Transfer> transfers;
    for (const ReadRequest& request : requests)
      transfers.push_back(transfer_of(request.key, Transfer::Want::whole, request.into));
    client_.perform(transfers);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].fault = transfers[i].fault;
      requests[i].length = transfers[i].status == 404 ? std::nullopt : std::optional(transfers[i].length);
    }
  }

  std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                        std::span<std::byte> into) const override {
    if (into.empty()) return stamp(key) ? std::optional(std::size_t{0}) : std::nullopt;
    Transfer transfer = transfer_of(key, Transfer::Want::range, into);
    transfer.offset = offset;
    client_.perform(transfer);
    return transfer.status == 404 ? std::nullopt : std::optional(transfer.length);
  }

  bool read_ranges(std::string_view key, std::span<const Range> ranges) const override {
    std::vector<Transfer> transfers;
    for (const Range& range : ranges) {
      if (range.into.empty()) continue;
      transfers.push_back(transfer_of(key, Transfer::Want::range, range.into));
      transfers.back().offset = range.offset;
    }
    client_.perform(transfers);
    for (const Transfer& transfer : transfers) {
      if (transfer.fault) std::rethrow_exception(transfer.fault);
      if (transfer.status == 404) return false;
    }
    return true;
  }

  std::optional<std::uint64_t> read_suffix(std::string_view key, std::span<std::byte> into) const override {
    Transfer transfer = transfer_of(key, Transfer::Want::suffix, into);
    client_.perform(transfer);
    return transfer.status == 404 ? std::nullopt : std::optional(transfer.total);
  }

  std::optional<Stamp> stamp(std::string_view key) const override {
    Transfer transfer = transfer_of(key, Transfer::Want::nothing, {});
    transfer.method = "HEAD";
    client_.perform(transfer);
    if (transfer.status == 404) return std::nullopt;
    return Stamp{transfer.total, transfer.mtime_ns, 0, transfer.etag};
  }

  void put(std::string_view, std::span<const std::span<const std::byte>>, bool) override { refuse(); }
  void erase(std::string_view) override { refuse(); }
  void erase_prefix(std::string_view) override { refuse(); }
  void list(std::string_view, const std::function<void(std::string_view, const Stamp&)>&) const override {
    cannot_list();
  }
  std::vector<std::string> list_dir(std::string_view) const override { cannot_list(); }

 private:
  Transfer transfer_of(std::string_view key, Transfer::Want want, std::span<std::byte> into) const {
    check_key(key);
    Transfer transfer;
    transfer.url = base_ + "/" + percent_encoded(key, true) + query_;
    transfer.want = want;
    transfer.into = into;
    return transfer;
  }
  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::unsupported, base_ + ": web servers are read only. Write to a path or to s3://");
  }
  [[noreturn]] void cannot_list() const {
    throw Error(
        ErrorKind::unsupported,
        base_ + ": a web server does not list what it holds. Name an array, or consolidate the hierarchy's metadata");
  }

  std::string base_, query_;
  HttpClient client_;
};

}  // namespace

std::shared_ptr<Store> make_http_store(const std::string& url) { return std::make_shared<HttpStore>(url); }

}  // namespace cuboid
