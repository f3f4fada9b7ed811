// Values behind a web server, read only: GET with ranges. A server lists nothing, so hierarchies are read from their
// consolidated metadata.
#include "storage/error.h"
#include "storage/store_key.h"
#include "storage/store_remote.h"

namespace cuboid {
namespace {

class HttpStore final : public RemoteStore {
 public:
  explicit HttpStore(std::string url) : RemoteStore(HttpOptions{}) {
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
  void check_writable() const override {
    throw Error(ErrorKind::unsupported, base_ + ": web servers are read only. Write to a path or to s3://");
  }
  void put(std::string_view, std::span<const std::span<const std::byte>>, bool) override { check_writable(); }
  void erase(std::string_view) override { check_writable(); }
  void erase_prefix(std::string_view) override { check_writable(); }
  void list(std::string_view, const std::function<void(std::string_view, const Stamp&)>&) const override {
    cannot_list();
  }
  std::vector<std::string> list_dir(std::string_view) const override { cannot_list(); }

 private:
  Transfer request(const char* method, std::string_view key) const override {
    check_key(key);
    Transfer transfer;
    transfer.method = method;
    transfer.url = base_ + "/" + percent_encoded(key, true) + query_;
    return transfer;
  }
  [[noreturn]] void cannot_list() const {
    throw Error(
        ErrorKind::unsupported,
        base_ + ": a web server does not list what it holds. Name an array, or consolidate the hierarchy's metadata");
  }

  std::string base_, query_;
};

}  // namespace

std::shared_ptr<Store> make_http_store(const std::string& url) { return std::make_shared<HttpStore>(url); }

}  // namespace cuboid
