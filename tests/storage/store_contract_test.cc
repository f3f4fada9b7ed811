#include "tests/storage/store_contract.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "storage/error.h"
#include "tests/storage/scratch_folder.h"

namespace cuboid {

void StoreContract::SetUp() {
  std::string name = (std::filesystem::temp_directory_path() / "cuboid-store-XXXXXX").string();
  ASSERT_TRUE(::mkdtemp(name.data()));
  folder_ = name;
  store_ = GetParam().make(folder_);
}

void StoreContract::TearDown() {
  store_.reset();
  std::filesystem::remove_all(folder_);
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::optional<std::string> get(const Store& store, std::string_view key, std::size_t room = 1000) {
  std::string text(room, '?');
  const auto length = store.read(key, std::as_writable_bytes(std::span(text)));
  if (!length) return std::nullopt;
  text.resize(*length);
  return text;
}

std::map<std::string, std::uint64_t> listed(const Store& store, std::string_view prefix) {
  std::map<std::string, std::uint64_t> found;
  store.list(prefix, [&](std::string_view key, const Stamp& stamp) {
    EXPECT_TRUE(found.emplace(key, stamp.bytes).second) << "listed twice: " << key;
  });
  return found;
}

template <class Call>
ErrorKind kind_thrown(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::cancelled;
}

TEST_P(StoreContract, reads_back_what_was_put) {
  store_->put("a/b/c", bytes_of("hello"));
  store_->put("empty", bytes_of(""));
  EXPECT_EQ(get(*store_, "a/b/c"), "hello");
  EXPECT_EQ(get(*store_, "a/b/c", 5), "hello");
  EXPECT_EQ(get(*store_, "empty", 0), "");
  EXPECT_EQ(get(*store_, "a/b/d"), std::nullopt);
  EXPECT_EQ(get(*store_, "x/y/z"), std::nullopt);
  EXPECT_EQ(read_text(*store_, "a/b/c"), "hello");
  EXPECT_EQ(read_text(*store_, "nowhere"), std::nullopt);
  EXPECT_EQ(kind_thrown([&] { read_text(*store_, "a/b/c", 4); }), ErrorKind::corrupt);
}

TEST_P(StoreContract, puts_parts_one_after_another) {
  const std::span<const std::byte> parts[] = {bytes_of("one,"), bytes_of(""), bytes_of("two")};
  store_->put("k", parts, true);
  EXPECT_EQ(get(*store_, "k"), "one,two");
  store_->put("k", bytes_of("3"));
  EXPECT_EQ(get(*store_, "k"), "3");
}

TEST_P(StoreContract, refuses_values_longer_than_the_room) {
  store_->put("k", bytes_of("hello"));
  EXPECT_EQ(kind_thrown([&] { get(*store_, "k", 4); }), ErrorKind::corrupt);
}

TEST_P(StoreContract, reads_ranges) {
  store_->put("k", bytes_of("0123456789"));
  char text[4] = {};
  const auto into = std::as_writable_bytes(std::span(text));
  EXPECT_EQ(store_->read_range("k", 6, into), 4u);
  EXPECT_EQ(std::string(text, 4), "6789");
  EXPECT_EQ(store_->read_range("missing", 0, into), std::nullopt);
  EXPECT_EQ(kind_thrown([&] { store_->read_range("k", 7, into); }), ErrorKind::corrupt);
  EXPECT_EQ(kind_thrown([&] { store_->read_range("k", UINT64_MAX, into); }), ErrorKind::corrupt);
  EXPECT_EQ(store_->read_range("k", 10, into.first(0)), 0u);
}

TEST_P(StoreContract, reads_suffixes) {
  store_->put("k", bytes_of("0123456789"));
  char text[4] = {};
  const auto into = std::as_writable_bytes(std::span(text));
  EXPECT_EQ(store_->read_suffix("k", into), 10u);
  EXPECT_EQ(std::string(text, 4), "6789");
  EXPECT_EQ(store_->read_suffix("missing", into), std::nullopt);
  store_->put("k", bytes_of("abc"));
  EXPECT_EQ(kind_thrown([&] { store_->read_suffix("k", into); }), ErrorKind::corrupt);
}

TEST_P(StoreContract, reads_parts_of_several_values) {
  store_->put("a", bytes_of("0123456789"));
  store_->put("b/c", bytes_of("xyz"));
  char text[5][3] = {};
  std::vector<Store::PartRequest> requests(5);
  for (std::size_t k = 0; k < 5; ++k) requests[k].into = std::as_writable_bytes(std::span(text[k]));
  requests[0].key = "a", requests[0].offset = 4;
  requests[1].key = "b/c", requests[1].suffix = true;
  requests[2].key = "missing";
  requests[3].key = "a", requests[3].offset = 8;  // beyond the end
  requests[4].key = "a", requests[4].offset = 2, requests[4].into = {};
  store_->read_parts(requests);
  EXPECT_EQ(std::string(text[0], 3), "456");
  EXPECT_EQ(std::string(text[1], 3), "xyz");
  EXPECT_TRUE(requests[0].found && !requests[0].fault);
  EXPECT_EQ(requests[1].found, 3u);
  EXPECT_TRUE(!requests[2].found && !requests[2].fault);
  EXPECT_TRUE(requests[3].fault);
  EXPECT_TRUE(requests[4].found && !requests[4].fault);
}

TEST_P(StoreContract, stamps_tell_a_changed_value) {
  EXPECT_EQ(store_->stamp("k"), std::nullopt);
  store_->put("k", bytes_of("12345"));
  const auto first = store_->stamp("k");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bytes, 5u);
  EXPECT_EQ(store_->stamp("k"), first);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  store_->put("k", bytes_of("54321"));
  EXPECT_NE(store_->stamp("k"), first);
}

TEST_P(StoreContract, erases) {
  store_->put("a/x", bytes_of("1"));
  store_->put("a/y", bytes_of("2"));
  store_->erase("a/x");
  store_->erase("a/x");
  store_->erase("never/was");
  EXPECT_EQ(get(*store_, "a/x"), std::nullopt);
  EXPECT_EQ(get(*store_, "a/y"), "2");
}

TEST_P(StoreContract, prefixes_are_folders) {
  for (const char* key : {"foo/1", "foo/bar/2", "foobar/3", "foo.x", "z"}) store_->put(key, bytes_of(key));
  EXPECT_THAT(listed(*store_, "foo"), UnorderedElementsAre(Pair("foo/1", 5), Pair("foo/bar/2", 9)));
  EXPECT_THAT(listed(*store_, "z"), UnorderedElementsAre(Pair("z", 1)));
  EXPECT_EQ(listed(*store_, "").size(), 5u);
  EXPECT_THAT(listed(*store_, "fo"), IsEmpty());
  EXPECT_THAT(store_->list_dir(""), ElementsAre("foo.x", "foo/", "foobar/", "z"));
  EXPECT_THAT(store_->list_dir("foo"), ElementsAre("1", "bar/"));
  EXPECT_THAT(store_->list_dir("z"), IsEmpty());
  EXPECT_THAT(store_->list_dir("none"), IsEmpty());
  store_->erase_prefix("foo");
  EXPECT_THAT(store_->list_dir(""), ElementsAre("foo.x", "foobar/", "z"));
  store_->erase_prefix("z");
  store_->erase_prefix("none");
  EXPECT_THAT(listed(*store_, ""), UnorderedElementsAre(Pair("foo.x", 5), Pair("foobar/3", 8)));
  store_->erase_prefix("");
  EXPECT_THAT(listed(*store_, ""), IsEmpty());
  store_->put("again", bytes_of("1"));
  EXPECT_EQ(get(*store_, "again"), "1");
}

TEST_P(StoreContract, refuses_bad_keys) {
  std::string with_nul = "a";
  with_nul += '\0';
  for (const std::string& key :
       {std::string(""), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."), std::string(".."),
        std::string("a/../b"), std::string("./a"), std::string("a/."), with_nul}) {
    EXPECT_EQ(kind_thrown([&] { get(*store_, key); }), ErrorKind::invalid) << key;
    EXPECT_EQ(kind_thrown([&] { store_->put(key, bytes_of("")); }), ErrorKind::invalid) << key;
    EXPECT_EQ(kind_thrown([&] { store_->erase(key); }), ErrorKind::invalid) << key;
    EXPECT_EQ(kind_thrown([&] { store_->stamp(key); }), ErrorKind::invalid) << key;
    if (!key.empty()) {
      EXPECT_EQ(kind_thrown([&] { store_->list_dir(key); }), ErrorKind::invalid) << key;
      EXPECT_EQ(kind_thrown([&] { store_->erase_prefix(key); }), ErrorKind::invalid) << key;
    }
  }
  store_->put(".zarray", bytes_of("x"));
  store_->put("...", bytes_of("y"));
  store_->put("grün/ü", bytes_of("z"));
  EXPECT_EQ(get(*store_, "grün/ü"), "z");
}

TEST_P(StoreContract, readers_never_see_half_a_value) {
  constexpr std::size_t kSize = 200'000;
  store_->put("k", bytes_of(std::string(kSize, 'a')));
  std::atomic<bool> done{false};
  std::atomic<int> torn{0}, missing{0};
  std::thread reader([&] {
    while (!done) {
      const auto text = get(*store_, "k", kSize);
      if (!text) {
        ++missing;
      } else if (text->size() != kSize || text->find_first_not_of((*text)[0]) != text->npos) {
        ++torn;
      }
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) store_->put("k", bytes_of(std::string(kSize, static_cast<char>('b' + t))));
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(listed(*store_, "").size(), 1u);
}

TEST_P(StoreContract, many_threads_put_into_new_folders) {
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        store_->put("deep/" + std::to_string(i) + "/" + std::to_string(t), bytes_of("x"), i % 10 == 0);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(listed(*store_, "deep").size(), 200u);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    testing::Values(StoreFactory{"file",
                                 [](const std::string& folder) { return make_file_store(folder + "/new/root"); }},
                    StoreFactory{"memory", [](const std::string&) { return make_memory_store(); }}),
    store_factory_name);

// Where a server is stated, as tests/interop/test_remote.py does: "s3://bucket".
std::vector<StoreFactory> s3_factories() {
  if (std::getenv("CUBOID_TEST_S3") == nullptr) return {};
  return {{"s3", [](const std::string& folder) {
             return open_store(std::getenv("CUBOID_TEST_S3") + std::string("/contract/") +
                               std::filesystem::path(folder).filename().string());
           }}};
}
// Values of more than 64 MiB are uploaded in parts, cut where the pieces that they are given in are not.
class UploadInParts : public StoreContract {};
TEST_P(UploadInParts, puts_the_parts_together) {
  std::vector<std::byte> value((70u << 20) + 3);
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(i * i >> 12);
  const std::span<const std::byte> all(value);
  const std::span<const std::byte> pieces[] = {all.first(5), all.subspan(5, 66u << 20), all.subspan((66u << 20) + 5)};
  store_->put("large", pieces);
  EXPECT_EQ(store_->stamp("large")->bytes, value.size());
  std::vector<std::byte> read(value.size());
  EXPECT_EQ(store_->read("large", read), value.size());
  EXPECT_TRUE(read == value);
  std::vector<std::byte> middle(1000);
  store_->read_range("large", (64u << 20) - 500, middle);
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), value.begin() + (64u << 20) - 500));
  store_->erase("large");
  EXPECT_EQ(store_->stamp("large"), std::nullopt);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(UploadInParts);
INSTANTIATE_TEST_SUITE_P(S3, UploadInParts, testing::ValuesIn(s3_factories()), store_factory_name);
INSTANTIATE_TEST_SUITE_P(S3, StoreContract, testing::ValuesIn(s3_factories()), store_factory_name);

}  // namespace
}  // namespace cuboid
