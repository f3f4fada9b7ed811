// What only a directory tree can do wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "storage/error.h"
#include "storage/store.h"
#include "tests/storage/faulty_store.h"
#include "tests/storage/scratch_folder.h"

namespace cuboid {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <class Call>
std::string io_message(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class FileStoreTest : public testing::Test {
 protected:
  std::optional<std::size_t> read(const std::string& key) {
    std::byte room[100];
    return store_->read(key, room);
  }

  ScratchFolder folder_;
  std::shared_ptr<Store> store_ = make_file_store(folder_.path());
};

TEST_F(FileStoreTest, what_is_no_file_is_a_fault_and_never_not_found) {
  fs::create_directories(folder_ / "dir");
  fs::create_symlink("nowhere", folder_ / "dangling");
  fs::create_symlink("loop", folder_ / "loop");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* key : {"dir", "dangling", "loop", "pipe", "dangling/0"}) {
    std::byte room[10];
    EXPECT_THAT(io_message([&] { read(key); }), HasSubstr(folder_.path())) << key;
    io_message([&] { store_->stamp(key); });
    io_message([&] { store_->read_range(key, 0, room); });
    io_message([&] { read_text(*store_, key); });
  }
  EXPECT_THAT(io_message([&] { read("dir"); }), HasSubstr("is a directory"));
  EXPECT_THAT(io_message([&] { read("dangling"); }), HasSubstr("dangling link"));
  EXPECT_THAT(io_message([&] { store_->put("dir", bytes_of("x")); }), HasSubstr("dir"));
  io_message([&] { store_->erase("dir"); });
  for (const char* entry : {"dangling", "loop", "pipe"}) {
    ScratchFolder other;
    fs::rename(folder_ / entry, other / entry);
    const auto store = make_file_store(other.path());
    io_message([&] { store->list("", [](std::string_view, const Stamp&) {}); });
    io_message([&] { store->list_dir(""); });
  }
}

TEST_F(FileStoreTest, a_file_in_a_folders_place_is_a_fault) {
  store_->put("a", bytes_of("x"));
  io_message([&] { read("a/b"); });
  io_message([&] { store_->put("a/b", bytes_of("y")); });
}

TEST_F(FileStoreTest, links_to_files_and_folders_are_followed) {
  store_->put("real/value", bytes_of("x"));
  fs::create_symlink("real", folder_ / "folder");
  fs::create_symlink("real/value", folder_ / "value");
  EXPECT_EQ(read("value"), 1u);
  EXPECT_EQ(read("folder/value"), 1u);
  EXPECT_THAT(store_->list_dir(""), ElementsAre("folder/", "real/", "value"));
}

TEST_F(FileStoreTest, a_circle_of_links_ends_in_an_error) {
  fs::create_directories(folder_ / "a");
  fs::create_symlink("..", folder_ / "a/up");
  io_message([&] { store_->list("", [](std::string_view, const Stamp&) {}); });
}

TEST_F(FileStoreTest, leftovers_of_unfinished_puts_are_invisible_and_no_obstacle) {
  std::ofstream(folder_ / ".cuboid-put-0123456789abcdef-0") << "half a val";
  EXPECT_THAT(store_->list_dir(""), IsEmpty());
  store_->list("", [](std::string_view key, const Stamp&) { ADD_FAILURE() << key; });
  store_->put("k", bytes_of("x"));
  EXPECT_THAT(store_->list_dir(""), ElementsAre("k"));
  EXPECT_THROW(store_->put(".cuboid-put-x", bytes_of("x")), Error);
  store_->erase_prefix("");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(FileStoreTest, unfinished_puts_are_erased_where_asked_and_nothing_else_is) {
  fs::create_directories(folder_ / "a/b");
  fs::create_directories(folder_ / "c");
  for (const char* name : {"a/.cuboid-put-0-1", "a/b/.cuboid-put-0-2", "c/.cuboid-put-0-3"})
    std::ofstream(folder_ / name) << "half a val";
  store_->put("a/b/k", bytes_of("x"));
  store_->erase_unfinished("a");
  EXPECT_FALSE(fs::exists(folder_ / "a/.cuboid-put-0-1"));
  EXPECT_FALSE(fs::exists(folder_ / "a/b/.cuboid-put-0-2"));
  EXPECT_TRUE(fs::exists(folder_ / "c/.cuboid-put-0-3"));
  EXPECT_THAT(store_->list_dir("a/b"), ElementsAre("k"));
  store_->erase_unfinished("nowhere");
}

TEST_F(FileStoreTest, a_failed_put_leaves_nothing_and_harms_nothing) {
  fs::create_directories(folder_ / "k/full");
  io_message([&] { store_->put("k", bytes_of("x")); });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

// What a shard's index says must be looked up in that shard, and not in the one that has taken its place.
TEST_F(FileStoreTest, a_held_value_is_the_same_one_after_it_was_replaced_or_erased) {
  store_->put("shard", bytes_of("old bytes, index"));
  std::byte index[5], part[3];
  Store::PartRequest first{.key = "shard", .into = index, .suffix = true};
  store_->read_parts({&first, 1});
  ASSERT_EQ(first.found, 16);
  ASSERT_TRUE(first.held);
  const auto part_of = [&](const std::shared_ptr<const void>& held) {
    Store::PartRequest next{.key = "shard", .into = part, .offset = 0, .held = held};
    store_->read_parts({&next, 1});
    return next.found ? std::string(reinterpret_cast<char*>(part), 3) : "not found";
  };
  store_->put("shard", bytes_of("new bytes, and another index"));
  EXPECT_EQ(part_of(first.held), "old");
  EXPECT_EQ(part_of({}), "new");
  store_->erase("shard");
  EXPECT_EQ(part_of(first.held), "old");
  EXPECT_EQ(part_of({}), "not found");
}

TEST_F(FileStoreTest, erasing_the_whole_store_keeps_its_root) {
  fs::create_directories(folder_ / "disk");
  fs::create_directory_symlink("disk", folder_ / "root");
  const auto store = make_file_store(folder_ / "root/");
  store->put("a/b", bytes_of("x"));
  store->erase_prefix("");
  EXPECT_TRUE(fs::is_symlink(folder_ / "root"));
  EXPECT_TRUE(fs::is_empty(folder_ / "disk"));
}

TEST_F(FileStoreTest, erase_prefix_does_not_follow_links) {
  store_->put("keep/value", bytes_of("x"));
  store_->put("gone/value", bytes_of("x"));
  fs::create_directory_symlink("../keep", folder_ / "gone/link");
  store_->erase_prefix("gone");
  EXPECT_EQ(read("keep/value"), 1u);
  EXPECT_THAT(store_->list_dir(""), ElementsAre("keep/"));
}

TEST(OpenStore, by_path_and_url) {
  ScratchFolder folder;
  open_store(folder.path() + "/a b")->put("k", bytes_of("x"));
  std::byte room[1];
  EXPECT_EQ(open_store("file://" + folder.path() + "/a%20b")->read("k", room), 1u);
  EXPECT_EQ(open_store("memory://")->read("k", room), std::nullopt);
  EXPECT_EQ(open_store(folder.path() + "/a b")->describe("k"), folder.path() + "/a b/k");
  EXPECT_THROW(open_store(""), Error);
  EXPECT_THROW(open_store("file://relative"), Error);
  try {
    open_store("gopher://host/x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.message(), HasSubstr("file://"));
  }
}

TEST(FaultyStores, fail_where_told) {
  FaultyStore store(make_memory_store());
  store.put("k", bytes_of("x"));
  std::byte room[1];
  store.fail_at(2, FaultyStore::kRead);
  EXPECT_EQ(store.read("k", room), 1u);
  store.put("k", bytes_of("y"));
  EXPECT_THROW(store.read("k", room), Error);
  EXPECT_EQ(store.read("k", room), 1u);
  store.fail_at(1, FaultyStore::kWrite, ErrorKind::io, true);
  EXPECT_THROW(store.put("k2", bytes_of("z")), Error);
  EXPECT_EQ(store.read("k2", room), 1u);
  store.fail_always(FaultyStore::kList);
  EXPECT_THROW(store.list_dir(""), Error);
  EXPECT_THROW(store.list_dir(""), Error);
  EXPECT_EQ(store.calls(), 9);
}

}  // namespace
}  // namespace cuboid
