// A directory tree of files. A value appears by renaming a temporary file of its own folder, so that a reader sees the
// old value or the new one, whole, whatever becomes of the writer.
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <unordered_set>

#include "storage/error.h"
#include "storage/inject.h"
#include "storage/store.h"
#include "storage/store_key.h"

namespace cuboid {
namespace {

// Names that begin so are unfinished puts: never listed, no obstacle, refused as keys.
constexpr std::string_view kTemporaryPrefix = ".cuboid-put-";
constexpr int kDeepestFolder = 64;

[[noreturn]] void throw_io(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::io, path + ": " + what);
}
[[noreturn]] void throw_errno(const std::string& path, const char* doing, int error) {
  const char* advice = error == ENOSPC || error == EDQUOT   ? ": free some space and run again"
                       : error == EACCES || error == EPERM  ? ": check owner and permissions"
                       : error == EMFILE || error == ENFILE ? ": raise the limit of open files (ulimit -n)"
                                                            : "";
  throw_io(path, std::string(doing) + " failed: " + std::strerror(error) + advice);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // Some file systems report a failed write only here.
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

Stamp stamp_of(const struct stat& info) {
  const auto ns = [](const timespec& time) { return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec; };
  return {static_cast<std::uint64_t>(info.st_size), ns(info.st_mtim), ns(info.st_ctim), {}};
}

const char* kind_of(const struct stat& info) {
  if (S_ISDIR(info.st_mode)) return "a directory";
  if (S_ISLNK(info.st_mode)) return "a dangling link";
  return "a special file";
}

[[noreturn]] void throw_not_a_file(const std::string& path, const struct stat& info) {
  throw_io(path, std::string("is ") + kind_of(info) + ": expected a file. Remove it, or restore what belongs there");
}

// Called where a path was not found: throws where that is no honest "not found" but a dangling link on the way to it.
void check_really_missing(std::string path) {
  for (;;) {
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0) {
      if (!S_ISLNK(info.st_mode)) return;  // a folder, or a value that has just been put
      if (::stat(path.c_str(), &info) == 0) return;
      throw_io(path, "is a dangling link: expected a file or a directory. Restore its target (is a disk mounted?)");
    }
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos || slash == 0) return;
    path.resize(slash);
  }
}

// The process id keeps apart what a fork shares.
std::string temporary_name() {
  static const std::uint64_t token = [] {
    std::uint64_t value = 0;
    if (::getrandom(&value, sizeof value, 0) != sizeof value) value = static_cast<std::uint64_t>(::getpid());
    return value;
  }();
  static std::atomic<std::uint64_t> counter{0};
  char text[80];
  std::snprintf(text, sizeof text, "%s%016llx-%lx-%llx", kTemporaryPrefix.data(),
                static_cast<unsigned long long>(token), static_cast<unsigned long>(::getpid()),
                static_cast<unsigned long long>(counter.fetch_add(1, std::memory_order_relaxed)));
  return text;
}

// Removes the temporary file unless it was renamed to its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

void write_all(int fd, std::span<const std::span<const std::byte>> parts, const std::string& path) {
  for (const auto part : parts) {
    for (std::size_t done = 0; done < part.size();) {
      const ssize_t wrote = ::write(fd, part.data() + done, part.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) throw_errno(path, "writing", wrote == 0 ? ENOSPC : errno);
      done += static_cast<std::size_t>(wrote);
    }
  }
}

std::size_t read_at(int fd, std::uint64_t offset, std::span<std::byte> into, const std::string& path) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(path, "reading", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void sync_directory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) throw_errno(path, "opening the directory", errno);
  // Some file systems cannot sync a directory (EINVAL): then there is nothing that could be asked of them.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) throw_errno(path, "fsync", errno);
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// An open file: the same value, whatever takes its place.
struct Value {
  std::string path;
  Descriptor file;
  std::uint64_t bytes;

  void read_range(std::uint64_t offset, std::span<std::byte> into) const {
    if (offset > bytes || into.size() > bytes - offset || read_at(file.get(), offset, into, path) != into.size()) {
      throw Error(ErrorKind::corrupt, path + " has " + std::to_string(bytes) + " bytes: expected " +
                                          std::to_string(into.size()) + " at offset " + std::to_string(offset));
    }
  }
  void read_suffix(std::span<std::byte> into) const {
    if (bytes < into.size() || read_at(file.get(), bytes - into.size(), into, path) != into.size()) {
      throw Error(ErrorKind::corrupt,
                  path + " has " + std::to_string(bytes) + " bytes: expected at least " + std::to_string(into.size()));
    }
  }
};

class FileStore final : public Store {
 public:
  explicit FileStore(std::string root) : root_(std::move(root)) {
    while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
  }

  std::string name() const override { return root_; }

  std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const override {
    const std::optional<Value> value = open_value(path_of(key));
    if (!value) return std::nullopt;
    if (value->bytes > into.size()) {
      throw Error(ErrorKind::corrupt, value->path + " has " + std::to_string(value->bytes) +
                                          " bytes: expected at most " + std::to_string(into.size()));
    }
    return read_at(value->file.get(), 0, into.first(value->bytes), value->path);
  }

  std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                        std::span<std::byte> into) const override {
    const std::optional<Value> value = open_value(path_of(key));
    if (!value) return std::nullopt;
    value->read_range(offset, into);
    return into.size();
  }

  std::optional<std::uint64_t> read_suffix(std::string_view key, std::span<std::byte> into) const override {
    const std::optional<Value> value = open_value(path_of(key));
    if (!value) return std::nullopt;
    value->read_suffix(into);
    return value->bytes;
  }

  void read_parts(std::span<PartRequest> requests) const override {
    for (PartRequest& request : requests) {
      try {
        auto value = std::static_pointer_cast<const Value>(request.held);
        if (!value) {
          std::optional<Value> opened = open_value(path_of(request.key));
          if (!opened) continue;
          request.held = value = std::make_shared<Value>(std::move(*opened));
        }
        if (request.suffix)
          value->read_suffix(request.into);
        else
          value->read_range(request.offset, request.into);
        request.found = request.suffix ? value->bytes : request.into.size();
      } catch (...) {
        request.fault = std::current_exception();
      }
    }
  }

  std::optional<Stamp> stamp(std::string_view key) const override {
    const std::string path = path_of(key);
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) {
      if (errno != ENOENT) throw_errno(path, "looking it up", errno);
      check_really_missing(path);
      return std::nullopt;
    }
    if (!S_ISREG(info.st_mode)) throw_not_a_file(path, info);
    return stamp_of(info);
  }

  void put(std::string_view key, std::span<const std::span<const std::byte>> parts, bool durable) override {
    const std::string path = path_of(key);
    const std::string folder = parent_of(path);
    if (key.find(kTemporaryPrefix) != key.npos) {
      throw Error(ErrorKind::invalid,
                  path + ": names that contain '" + std::string(kTemporaryPrefix) + "' are kept for unfinished files");
    }
    TemporaryFile temporary(folder + '/' + temporary_name());
    Descriptor file = create(temporary.path(), folder);
    write_all(file.get(), parts, path);
    if (durable && ::fsync(file.get()) != 0) throw_errno(path, "fsync", errno);
    if (file.close() != 0) throw_errno(path, "closing", errno);
    if (::rename(temporary.path().c_str(), path.c_str()) != 0) throw_errno(path, "putting it in place", errno);
    temporary.keep();
    if (durable) make_entry_durable(folder);
  }

  void erase(std::string_view key) override {
    const std::string path = path_of(key);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno(path, "removing it", errno);
  }

  void erase_prefix(std::string_view prefix) override {
    check_prefix(prefix);
    {
      std::lock_guard lock(mutex_);
      durable_folders_.clear();
    }
    std::error_code error;
    const std::string path = folder_of(prefix);
    if (!prefix.empty()) {
      std::filesystem::remove_all(path, error);
    } else {
      // The root itself stays: it may be a link to another disk, or somebody's mount point.
      std::filesystem::directory_iterator it(path, error), end;
      while (!error && it != end) {
        const std::filesystem::path entry = it->path();
        it.increment(error);
        std::error_code removal;
        std::filesystem::remove_all(entry, removal);
        if (removal) throw_errno(entry.string(), "removing it", removal.value());
      }
    }
    if (error && error.value() != ENOENT) throw_errno(path, "removing it", error.value());
  }

  void erase_unfinished(std::string_view prefix) override {
    check_prefix(prefix);
    std::error_code error;
    const std::string path = folder_of(prefix);
    std::filesystem::recursive_directory_iterator it(path, error), end;
    while (!error && it != end) {
      const std::filesystem::path entry = it->path();
      const bool unfinished = entry.filename().native().starts_with(kTemporaryPrefix) && it->is_regular_file(error);
      if (!error) it.increment(error);
      std::error_code removal;
      if (unfinished) std::filesystem::remove(entry, removal);
      if (removal) throw_errno(entry.string(), "removing it", removal.value());
    }
    if (error && error.value() != ENOENT) throw_errno(path, "looking for unfinished files", error.value());
  }

  void list(std::string_view prefix, const std::function<void(std::string_view, const Stamp&)>& each) const override {
    check_prefix(prefix);
    std::string key(prefix);
    if (!prefix.empty()) {
      struct stat info;
      const std::string path = folder_of(prefix);
      if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return each(prefix, stamp_of(info));
    }
    list_below(folder_of(prefix), key, each, 0);
  }

  std::vector<std::string> list_dir(std::string_view prefix) const override {
    check_prefix(prefix);
    std::vector<std::string> names;
    for_each_entry(folder_of(prefix), [&](const std::string& name, const struct stat& info) {
      names.push_back(S_ISDIR(info.st_mode) ? name + '/' : name);
    });
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_of(std::string_view key) const {
    check_key(key);
    return folder_of(key);
  }

  std::string folder_of(std::string_view prefix) const {
    std::string path;
    path.reserve(root_.size() + 1 + prefix.size());
    path = root_;
    if (!prefix.empty()) {
      if (path.back() != '/') path += '/';
      path += prefix;
    }
    return path;
  }

  // O_NONBLOCK: opening a named pipe would wait for its writer otherwise.
  static std::optional<Value> open_value(std::string path) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
      if (errno != ENOENT) throw_errno(path, "opening", errno);
      check_really_missing(path);
      return std::nullopt;
    }
    struct stat info;
    if (::fstat(file.get(), &info) != 0) throw_errno(path, "looking it up", errno);
    if (!S_ISREG(info.st_mode)) throw_not_a_file(path, info);
    return Value{std::move(path), std::move(file), static_cast<std::uint64_t>(info.st_size)};
  }

  // Folders are made only where opening failed: nearly every put finds its folder there.
  static Descriptor create(const std::string& path, const std::string& folder) {
    for (int attempt = 0;; ++attempt) {
      Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (file.get() >= 0) return file;
      // Again, because somebody may remove a folder that has just been made.
      if (errno != ENOENT || attempt == 3) throw_errno(path, "creating", errno);
      std::error_code error;
      std::filesystem::create_directories(folder, error);
      if (error) throw_errno(folder, "making the folder", error.value());
    }
  }

  // The entry of the value in its folder, and once per folder the entries of the folders above: each may be new.
  void make_entry_durable(const std::string& folder) {
    sync_directory(folder);
    for (std::string path = folder; path != "/" && path != "."; path = parent_of(path)) {
      {
        std::lock_guard lock(mutex_);
        if (durable_folders_.contains(path)) return;
      }
      const std::string parent = parent_of(path);
      if (::access(parent.c_str(), R_OK) != 0) return;  // not ours to read, so not of our making
      sync_directory(parent);
      std::lock_guard lock(mutex_);
      durable_folders_.insert(path);
    }
  }

  // Calls `each(name, stat of what it is or links to)` for folders and files; anything else is a fault.
  template <class Each>
  static void for_each_entry(const std::string& folder, Each each) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
    if (!directory) {
      struct stat info;
      if (errno == ENOTDIR && ::stat(folder.c_str(), &info) == 0) return;  // a value: nothing is below it
      if (errno != ENOENT) throw_errno(folder, "listing", errno);
      return check_really_missing(folder);
    }
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (!entry) {
        if (errno != 0) throw_errno(folder, "listing", errno);
        return;
      }
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || name.starts_with(kTemporaryPrefix)) continue;
      struct stat info;
      if (::fstatat(::dirfd(directory.get()), name.c_str(), &info, 0) != 0) {
        if (errno != ENOENT) throw_errno(folder + '/' + name, "looking it up", errno);
        if (::fstatat(::dirfd(directory.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // just gone
      }
      if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) throw_not_a_file(folder + '/' + name, info);
      each(name, info);
    }
  }

  static void list_below(const std::string& folder, std::string& key,
                         const std::function<void(std::string_view, const Stamp&)>& each, int depth) {
    if (depth > kDeepestFolder)
      throw_io(folder, "is nested more than 64 deep: does a link lead back to a folder above it?");
    for_each_entry(folder, [&](const std::string& name, const struct stat& info) {
      const std::size_t length = key.size();
      if (!key.empty()) key += '/';
      key += name;
      if (S_ISDIR(info.st_mode)) {
        list_below(folder + '/' + name, key, each, depth + 1);
      } else {
        each(key, stamp_of(info));
      }
      key.resize(length);
    });
  }

  std::string root_;
  std::mutex mutex_;
  std::unordered_set<std::string> durable_folders_;  // whose entries in their parents are on the disk
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& directory) {
  if (directory.empty()) throw Error(ErrorKind::invalid, "an empty path: expected a directory");
  return inject::into(std::make_shared<FileStore>(directory));
}

}  // namespace cuboid
