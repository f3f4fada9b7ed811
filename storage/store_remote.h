// What stores over a network have in common: values are read by GET and HEAD, many requests in flight. Private to
// storage/.
#pragma once
#include "storage/http_client.h"
#include "storage/store.h"

namespace cuboid {

class RemoteStore : public Store {
 public:
  bool local() const override { return false; }
  std::size_t parallel() const override { return client_.options().in_flight; }
  std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const override;
  void read_many(std::span<ReadRequest> requests) const override;
  std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                        std::span<std::byte> into) const override;
  std::optional<std::uint64_t> read_suffix(std::string_view key, std::span<std::byte> into) const override;
  void read_parts(std::span<PartRequest> requests) const override;
  std::optional<Stamp> stamp(std::string_view key) const override;

 protected:
  explicit RemoteStore(HttpOptions options) : client_(std::move(options)) {}
  // A request about one value, signed if need be. Throws Error{invalid} for what is no key.
  virtual Transfer request(const char* method, std::string_view key) const = 0;
  HttpClient client_;
};

}  // namespace cuboid
