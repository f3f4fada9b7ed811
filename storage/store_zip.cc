// A ZIP archive, read only: its members are the values. The directory is read once; members are read one at a time, as
// libzip's handles serve one thread.
#include <sys/stat.h>
#include <zip.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "storage/error.h"
#include "storage/library.h"
#include "storage/store.h"
#include "storage/store_key.h"

namespace cuboid {
namespace {

struct ZipApi {
  Library library{"libzip.so.4", "libzip4"};
#define CUBOID_TAKE(name) decltype(&::zip_##name) name = library.take<decltype(::zip_##name)>("zip_" #name)
  CUBOID_TAKE(open);
  CUBOID_TAKE(discard);
  CUBOID_TAKE(get_num_entries);
  CUBOID_TAKE(stat_index);
  CUBOID_TAKE(fopen_index);
  CUBOID_TAKE(fread);
  CUBOID_TAKE(fseek);
  CUBOID_TAKE(fclose);
  CUBOID_TAKE(file_strerror);
  CUBOID_TAKE(strerror);
  CUBOID_TAKE(error_init_with_code);
  CUBOID_TAKE(error_strerror);
  CUBOID_TAKE(error_fini);
#undef CUBOID_TAKE
};
const ZipApi& zip() {
  static const ZipApi& api = *new ZipApi;  // never destroyed: stores may outlive main
  return api;
}

struct Member {
  std::uint64_t index = 0, bytes = 0;
  std::int64_t mtime_ns = 0;
  bool stored = false;  // without compression: can be read from any offset
};

class ZipStore final : public Store {
 public:
  ZipStore(const std::string& file, const std::string& inside)
      : file_(file), name_(inside.empty() ? file : file + "/" + inside), prefix_(inside.empty() ? "" : inside + "/") {
    int code = 0;
    archive_ = zip().open(file.c_str(), ZIP_RDONLY, &code);
    if (archive_ == nullptr) {
      zip_error_t error;
      zip().error_init_with_code(&error, code);
      const std::string why = zip().error_strerror(&error);
      zip().error_fini(&error);
      throw Error(code == ZIP_ER_NOENT ? ErrorKind::not_found : ErrorKind::corrupt,
                  file + ": no ZIP archive that can be read: " + why);
    }
    try {
      read_directory();
    } catch (...) {
      zip().discard(archive_);
      throw;
    }
  }
  ~ZipStore() override { zip().discard(archive_); }
  ZipStore(const ZipStore&) = delete;

  std::string name() const override { return name_; }

  std::optional<std::size_t> read(std::string_view key, std::span<std::byte> into) const override {
    const Member* member = find(key);
    if (!member) return std::nullopt;
    if (member->bytes > into.size()) {
      throw Error(ErrorKind::corrupt, describe(key) + " has " + std::to_string(member->bytes) +
                                          " bytes: expected at most " + std::to_string(into.size()));
    }
    extract(key, *member, 0, into.first(static_cast<std::size_t>(member->bytes)), true);
    return static_cast<std::size_t>(member->bytes);
  }

  std::optional<std::size_t> read_range(std::string_view key, std::uint64_t offset,
                                        std::span<std::byte> into) const override {
    const Member* member = find(key);
    if (!member) return std::nullopt;
    if (offset > member->bytes || into.size() > member->bytes - offset) {
      throw Error(ErrorKind::corrupt, describe(key) + " has " + std::to_string(member->bytes) + " bytes: expected " +
                                          std::to_string(into.size()) + " at offset " + std::to_string(offset));
    }
    extract(key, *member, offset, into, offset == 0 && into.size() == member->bytes);
    return into.size();
  }

  std::optional<Stamp> stamp(std::string_view key) const override {
    const Member* member = find(key);
    return member ? std::optional(Stamp{member->bytes, member->mtime_ns, 0, {}}) : std::nullopt;
  }

  void check_writable() const override {
    throw Error(ErrorKind::unsupported, name_ + ": ZIP archives are read only. Write to a directory, and pack that");
  }
  void put(std::string_view, std::span<const std::span<const std::byte>>, bool) override { check_writable(); }
  void erase(std::string_view) override { check_writable(); }
  void erase_prefix(std::string_view) override { check_writable(); }

  void list(std::string_view prefix, const std::function<void(std::string_view, const Stamp&)>& each) const override {
    check_prefix(prefix);
    for (auto it = members_.lower_bound(prefix); it != members_.end() && it->first.starts_with(prefix); ++it)
      if (is_at_or_below(it->first, prefix)) each(it->first, {it->second.bytes, it->second.mtime_ns, 0, {}});
  }

  std::vector<std::string> list_dir(std::string_view prefix) const override {
    std::set<std::string> names;
    list(prefix, [&](std::string_view key, const Stamp&) {
      if (key.size() == prefix.size()) return;
      const std::string_view rest = prefix.empty() ? key : key.substr(prefix.size() + 1);
      const std::size_t slash = rest.find('/');
      names.emplace(rest.substr(0, slash == rest.npos ? rest.npos : slash + 1));
    });
    return {names.begin(), names.end()};
  }

 private:
  // Of members of one name the last one counts, as in Python's zipfile. Names that are no keys can never be asked for.
  void read_directory() {
    const zip_int64_t count = zip().get_num_entries(archive_, 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      zip_stat_t info;
      const auto index = static_cast<zip_uint64_t>(i);
      if (zip().stat_index(archive_, index, 0, &info) != 0 || (info.valid & ZIP_STAT_NAME) == 0 ||
          (info.valid & ZIP_STAT_SIZE) == 0)
        throw Error(ErrorKind::corrupt, file_ + ": entry " + std::to_string(i) +
                                            " of its directory cannot be read: " + zip().strerror(archive_));
      std::string_view name = info.name;
      if (!name.starts_with(prefix_) || name.ends_with('/')) continue;
      name.remove_prefix(prefix_.size());
      try {
        check_key(name);
      } catch (const Error&) {
        continue;
      }
      members_[std::string(name)] = {index, info.size,
                                     (info.valid & ZIP_STAT_MTIME) != 0 ? std::int64_t{info.mtime} * 1'000'000'000 : 0,
                                     (info.valid & ZIP_STAT_COMP_METHOD) != 0 && info.comp_method == ZIP_CM_STORE};
    }
  }

  const Member* find(std::string_view key) const {
    check_key(key);
    const auto found = members_.find(key);
    return found == members_.end() ? nullptr : &found->second;
  }

  // `whole`: read to the end, where libzip compares the checksum.
  void extract(std::string_view key, const Member& member, std::uint64_t offset, std::span<std::byte> into,
               bool whole) const {
    const std::lock_guard lock(mutex_);
    zip_file_t* file = zip().fopen_index(archive_, member.index, 0);
    const auto fail = [&](const std::string& why) {
      if (file != nullptr) zip().fclose(file);
      throw Error(ErrorKind::corrupt, describe(key) + " cannot be read from its archive: " + why);
    };
    if (file == nullptr) fail(zip().strerror(archive_));
    const bool seeks =
        member.stored && offset > 0 && zip().fseek(file, static_cast<zip_int64_t>(offset), SEEK_SET) == 0;
    std::byte skipped[16384];
    for (std::uint64_t left = seeks ? 0 : offset; left > 0;) {
      const zip_int64_t got = zip().fread(file, skipped, std::min<std::uint64_t>(left, sizeof skipped));
      if (got <= 0) fail(got < 0 ? zip().file_strerror(file) : "it ends early");
      left -= static_cast<std::uint64_t>(got);
    }
    for (std::size_t done = 0; done < into.size();) {
      const zip_int64_t got = zip().fread(file, into.data() + done, into.size() - done);
      if (got <= 0) fail(got < 0 ? zip().file_strerror(file) : "it ends early");
      done += static_cast<std::size_t>(got);
    }
    if (whole) {
      const zip_int64_t more = zip().fread(file, skipped, 1);
      if (more != 0) fail(more < 0 ? zip().file_strerror(file) : "it is longer than the directory says");
    }
    zip().fclose(file);
  }

  std::string file_, name_, prefix_;
  zip_t* archive_ = nullptr;
  mutable std::mutex mutex_;  // guards archive_ after construction
  std::map<std::string, Member, std::less<>> members_;
};

}  // namespace

std::shared_ptr<Store> make_zip_store(const std::string& file, const std::string& inside) {
  if (!inside.empty()) check_key(inside);
  return std::make_shared<ZipStore>(file, inside);
}

std::optional<std::pair<std::string, std::string>> split_at_zip(const std::string& path) {
  for (std::size_t at = 0; (at = path.find(".zip", at)) != path.npos;) {
    at += 4;
    if (at < path.size() && path[at] != '/') continue;
    struct stat info;
    if (::stat(path.substr(0, at).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    std::string inside = at < path.size() ? path.substr(at + 1) : "";
    while (inside.ends_with('/')) inside.pop_back();
    return std::pair{path.substr(0, at), inside};
  }
  return std::nullopt;
}

}  // namespace cuboid
