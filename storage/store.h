// Where values live: keys to bytes. One interface, so that files, memory, archives and object stores look the same to
// arrays, and so that tests can make any call fail. Implementations: file and memory here; others add a file each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  virtual std::string describe(std::string_view key) const;

  // False where every call goes over a network: then metadata is asked for in few requests, where there is a choice.
  virtual bool local() const { return true; }
  // Throws Error{unsupported}, saying what to do instead, where values can only be read: what puts and erasures would do.
  virtual void check_writable() const {}

  // Reads the whole value into the front of `into` and returns its length; nullopt where there is none. Throws
  // Error{corrupt} where the value is longer than `into`: the caller knows the largest length that is right.
  virtual std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const = 0;
  // Several values at once, each as read() does; what went wrong with one is in it. Stores over a network keep
  // parallel() requests in flight, so that latencies do not add up; others read one after another.
  struct ReadRequest {
    std::string key;
    std::span<std::byte> into;
    std::optional<std::size_t> length = {};  // the result
    std::exception_ptr fault = {};
  };
  virtual void read_many(std::span<ReadRequest> requests) const;
  virtual std::size_t parallel() const { return 1; }
  // Reads exactly into.size() bytes from `offset`; Error{corrupt} where the value is shorter. nullopt: not found.
  virtual std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                                std::span<std::byte> into) const = 0;
  // Reads the last into.size() bytes and returns the length of the whole value; Error{corrupt} where that is shorter.
  // nullopt: not found. Here: by stamp() and read_range().
  virtual std::optional<std::uint64_t> read_suffix(std::string_view key, std::span<std::byte> into) const;
  // Parts of several values at once, each as read_range() or read_suffix() does; what went wrong with one is in it.
  // parallel() requests are in flight.
  struct PartRequest {
    std::string_view key;
    std::span<std::byte> into;
    std::uint64_t offset = 0;
    bool suffix = false;                      // the last into.size() bytes rather than those from `offset`
    std::optional<std::uint64_t> found = {};  // the result: a suffix' whole length; nullopt: not found
    std::exception_ptr fault = {};
    // Left by stores that can, for a later request to the same key: it sees the same value, replaced or not.
    std::shared_ptr<const void> held = {};
  };
  virtual void read_parts(std::span<PartRequest> requests) const;
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
// Read only. `inside`: the folder in the archive that is the store's root. Not found or no archive: Error.
std::shared_ptr<Store> make_zip_store(const std::string& file, const std::string& inside = "");
// "a/b.zip/c" -> {"a/b.zip", "c"} where a/b.zip is a file; nullopt where no part of the path is an archive.
std::optional<std::pair<std::string, std::string>> split_at_zip(const std::string& path);
// Read only, lists nothing. Faults that pass are retried (storage/http_client.h), here and in S3.
std::shared_ptr<Store> make_http_store(const std::string& url);
// "s3://bucket/path". Who asks and where: storage/aws_settings.h.
std::shared_ptr<Store> make_s3_store(const std::string& url);
// Opens by path or URL; a path that leads into a .zip file opens the archive; Error{unsupported} names the schemes that
// there are.
std::shared_ptr<Store> open_store(const std::string& path_or_url);

}  // namespace cuboid
