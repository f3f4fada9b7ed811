#include "storage/store_remote.h"

namespace cuboid {

std::optional<std::size_t> RemoteStore::read(std::string_view key, std::span<std::byte> into) const {
  ReadRequest one{std::string(key), into};
  read_many({&one, 1});
  if (one.fault) std::rethrow_exception(one.fault);
  return one.length;
}

void RemoteStore::read_many(std::span<ReadRequest> requests) const {
  std::vector<Transfer> transfers;
  for (const ReadRequest& wanted : requests) {
    transfers.push_back(request("GET", wanted.key));
    transfers.back().want = Transfer::Want::whole;
    transfers.back().into = wanted.into;
  }
  client_.perform(transfers);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].fault = transfers[i].fault;
    requests[i].length = transfers[i].status == 404 ? std::nullopt : std::optional(transfers[i].length);
  }
}

std::optional<std::size_t> RemoteStore::read_range(std::string_view key, std::uint64_t offset,
                                                   std::span<std::byte> into) const {
  PartRequest one{.key = key, .into = into, .offset = offset};
  read_parts({&one, 1});
  if (one.fault) std::rethrow_exception(one.fault);
  return one.found ? std::optional(into.size()) : std::nullopt;
}

std::optional<std::uint64_t> RemoteStore::read_suffix(std::string_view key, std::span<std::byte> into) const {
  PartRequest one{.key = key, .into = into, .suffix = true};
  read_parts({&one, 1});
  if (one.fault) std::rethrow_exception(one.fault);
  return one.found;
}

void RemoteStore::read_parts(std::span<PartRequest> requests) const {
  std::vector<Transfer> transfers;
  std::vector<PartRequest*> asked;
  for (PartRequest& wanted : requests) {
    if (wanted.into.empty()) {  // which no range can say
      try {
        const std::optional<Stamp> there = stamp(wanted.key);
        if (there) wanted.found = wanted.suffix ? there->bytes : 0;
      } catch (...) {
        wanted.fault = std::current_exception();
      }
      continue;
    }
    transfers.push_back(request("GET", wanted.key));
    transfers.back().want = wanted.suffix ? Transfer::Want::suffix : Transfer::Want::range;
    transfers.back().into = wanted.into;
    transfers.back().offset = wanted.offset;
    asked.push_back(&wanted);
  }
  client_.perform(transfers);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    PartRequest& wanted = *asked[i];
    wanted.fault = transfers[i].fault;
    wanted.found.reset();
    if (transfers[i].status != 404) wanted.found = wanted.suffix ? transfers[i].total : transfers[i].length;
  }
}

std::optional<Stamp> RemoteStore::stamp(std::string_view key) const {
  Transfer transfer = request("HEAD", key);
  client_.perform(transfer);
  if (transfer.status == 404) return std::nullopt;
  return Stamp{transfer.total, transfer.mtime_ns, 0, transfer.etag};
}

}  // namespace cuboid
