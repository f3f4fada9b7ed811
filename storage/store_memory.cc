#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "storage/error.h"
#include "storage/store.h"
#include "storage/store_key.h"

namespace cuboid {
namespace {

// Values are immutable once stored, so that readers need the lock only to find them.
class MemoryStore final : public Store {
 public:
  std::string name() const override { return "memory:"; }

  std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const override {
    const auto value = find(key);
    if (!value) return std::nullopt;
    if (value->bytes.size() > into.size()) {
      throw Error(ErrorKind::corrupt, describe(key) + " has " + std::to_string(value->bytes.size()) +
                                          " bytes: expected at most " + std::to_string(into.size()));
    }
    std::copy(value->bytes.begin(), value->bytes.end(), into.begin());
    return value->bytes.size();
  }

  std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                        std::span<std::byte> into) const override {
    const auto value = find(key);
    if (!value) return std::nullopt;
    const std::size_t bytes = value->bytes.size();
    if (offset > bytes || into.size() > bytes - offset) {
      throw Error(ErrorKind::corrupt, describe(key) + " has " + std::to_string(bytes) + " bytes: expected " +
                                          std::to_string(into.size()) + " at offset " + std::to_string(offset));
    }
    std::copy_n(value->bytes.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
    return into.size();
  }

  std::optional<Stamp> stamp(std::string_view key) const override {
    const auto value = find(key);
    return value ? std::optional(value->stamp()) : std::nullopt;
  }

  void put(std::string_view key, std::span<const std::span<const std::byte>> parts, bool) override {
    check_key(key);
    auto value = std::make_shared<Value>();
    for (const auto part : parts) value->bytes.insert(value->bytes.end(), part.begin(), part.end());
    std::unique_lock lock(mutex_);
    value->version = ++versions_;
    values_.insert_or_assign(std::string(key), std::move(value));
  }

  void erase(std::string_view key) override {
    check_key(key);
    std::unique_lock lock(mutex_);
    if (const auto it = values_.find(key); it != values_.end()) values_.erase(it);
  }

  void erase_prefix(std::string_view prefix) override {
    check_prefix(prefix);
    std::unique_lock lock(mutex_);
    std::erase_if(values_, [&](const auto& entry) { return is_at_or_below(entry.first, prefix); });
  }

  void list(std::string_view prefix, const std::function<void(std::string_view, const Stamp&)>& each) const override {
    check_prefix(prefix);
    Values found;
    {
      std::shared_lock lock(mutex_);
      for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
        if (is_at_or_below(it->first, prefix)) found.insert(found.end(), *it);
      }
    }
    for (const auto& [key, value] : found) each(key, value->stamp());
  }

  std::vector<std::string> list_dir(std::string_view prefix) const override {
    std::set<std::string> names;
    list(prefix, [&](std::string_view key, const Stamp&) {
      if (key.size() == prefix.size()) return;  // the prefix itself is a value
      const std::string_view rest = prefix.empty() ? key : key.substr(prefix.size() + 1);
      names.emplace(rest.substr(0, rest.find('/') == rest.npos ? rest.npos : rest.find('/') + 1));
    });
    return {names.begin(), names.end()};
  }

 private:
  struct Value {
    std::vector<std::byte> bytes;
    std::uint64_t version = 0;

    Stamp stamp() const { return {bytes.size(), 0, 0, std::to_string(version)}; }
  };
  using Values = std::map<std::string, std::shared_ptr<const Value>, std::less<>>;

  std::shared_ptr<const Value> find(std::string_view key) const {
    check_key(key);
    std::shared_lock lock(mutex_);
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : it->second;
  }

  mutable std::shared_mutex mutex_;
  Values values_;
  std::uint64_t versions_ = 0;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace cuboid
