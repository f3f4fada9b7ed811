// Where values live: keys to bytes. One interface, so that files, memory, archives and object stores look the same to
// arrays, and so that tests can make any call fail. Implementations: file and memory here; others add a file each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuboid {

// What identifies a stored value without reading it: unequal stamps mean that it may have changed.
struct Stamp {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  std::string etag;  // of stores that have one
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

// Keys are '/'-separated UTF-8 paths without leading or trailing slash, empty, "." or ".." parts, or NUL; anything else
// throws Error{invalid}. All calls are thread-safe. Every fault but "not found" throws Error{io} naming the full path:
// a dangling link, a directory or a special file in a value's place is a fault, never "not found".
class Store {
 public:
  virtual ~Store() = default;

  // A short name for messages: the directory or URL.
  virtual std::string name() const = 0;
  // "<name>/<key>": what a message about this key should say.
  std::string describe(std::string_view key) const;

  // Reads the whole value into the front of `into` and returns its length; nullopt where there is none. Throws
  // Error{corrupt} where the value is longer than `into`: the caller knows the largest length that is right.
  virtual std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const = 0;
  // Reads exactly into.size() bytes from `offset`; Error{corrupt} where the value is shorter. nullopt: not found.
  virtual std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                                std::span<std::byte> into) const = 0;
  // Reads the last into.size() bytes and returns the length of the whole value; Error{corrupt} where that is shorter.
  // nullopt: not found. Here: by stamp() and read_range().
  virtual std::optional<std::uint64_t> read_suffix(std::string_view key, std::span<std::byte> into) const;
  virtual std::optional<Stamp> stamp(std::string_view key) const = 0;

  // Atomic: readers see the old value or the new one, whole, whatever kills the writer. The parts are written one after
  // another. `durable` also survives loss of power. Parent folders are made as needed.
  virtual void put(std::string_view key, std::span<const std::span<const std::byte>> parts, bool durable = false) = 0;
  void put(std::string_view key, std::span<const std::byte> value, bool durable = false) {
    put(key, {&value, 1}, durable);
  }
  virtual void erase(std::string_view key) = 0;            // no fault where there is none
  virtual void erase_prefix(std::string_view prefix) = 0;  // everything at or below a folder ("" is the whole store)
  // Removes what puts whose writer was killed left at or below a folder. Only while nobody else writes there.
  virtual void erase_unfinished(std::string_view /*prefix*/) {}

  // Every key at or below the folder `prefix`, with its stamp, in one pass, in no particular order. Temporary files of
  // unfinished puts are not seen. `foo` never matches `foobar`.
  virtual void list(std::string_view prefix,
                    const std::function<void(std::string_view key, const Stamp&)>& each) const = 0;
  // Names directly below a folder: values, and folders with a trailing '/'. Sorted.
  virtual std::vector<std::string> list_dir(std::string_view prefix) const = 0;
};

// Reads a small value (metadata) as text; nullopt where there is none. Error{corrupt} beyond `limit` bytes.
std::optional<std::string> read_text(const Store& store, std::string_view key, std::size_t limit = 64u << 20);

std::shared_ptr<Store> make_file_store(const std::string& directory);  // need not exist yet
std::shared_ptr<Store> make_memory_store();
// Opens by path or URL; Error{unsupported} names the schemes that there are.
std::shared_ptr<Store> open_store(const std::string& path_or_url);

}  // namespace cuboid
