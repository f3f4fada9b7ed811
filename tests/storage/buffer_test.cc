#include "storage/buffer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "storage/error.h"

namespace cuboid {
namespace {

TEST(ClassBytes, hand_computed) {
  EXPECT_EQ(class_bytes(0), 0u);
  EXPECT_EQ(class_bytes(1), 4096u);
  EXPECT_EQ(class_bytes(4096), 4096u);
  EXPECT_EQ(class_bytes(4097), 8192u);
  EXPECT_EQ(class_bytes(32768), 32768u);
  EXPECT_EQ(class_bytes(32769), 36864u);
  EXPECT_EQ(class_bytes(65536), 65536u);
  EXPECT_EQ(class_bytes(65537), 73728u);
  EXPECT_EQ(class_bytes(32u << 20), 32u << 20);
  EXPECT_EQ(class_bytes((32u << 20) + 1), 36u << 20);
  EXPECT_THROW(class_bytes(SIZE_MAX), Error);
}

TEST(ClassBytes, is_a_monotone_idempotent_rounding_of_at_most_an_eighth) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    const std::size_t bytes = 1 + (random() >> (2 + random() % 50));
    const std::size_t rounded = class_bytes(bytes);
    ASSERT_GE(rounded, bytes);
    ASSERT_EQ(rounded % 4096, 0u);
    ASSERT_EQ(class_bytes(rounded), rounded);
    ASSERT_LE(class_bytes(bytes - 1), rounded);
    if (bytes > 32768) {
      ASSERT_LE(rounded - bytes, bytes / 8) << bytes;
    }
  }
}

TEST(MemoryAccount, charges_the_class_and_keeps_the_peak) {
  MemoryAccount account;
  {
    Buffer a = account.acquire(5000);
    EXPECT_EQ(a.size(), 5000u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
    std::memset(a.data(), 1, a.size());
    EXPECT_EQ(account.in_use(), 8192u);
    Charge c = account.charge(1000);
    EXPECT_EQ(account.in_use(), 9192u);
    Buffer b = std::move(a);
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(account.in_use(), 9192u);
    b = account.acquire(100);
    EXPECT_EQ(account.in_use(), 5096u);
    EXPECT_EQ(account.peak(), 9192u + 4096u);
    b.release();
    b.release();
    EXPECT_EQ(account.in_use(), 1000u);
  }
  EXPECT_EQ(account.in_use(), 0u);
  EXPECT_FALSE(account.acquire(0));
}

TEST(MemoryAccount, refuses_above_its_limit_and_says_what_was_needed) {
  MemoryAccount account(10000);
  Buffer first = account.acquire(8192);
  try {
    account.acquire(4096);
    FAIL() << "12288 bytes fit into 10000";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::over_budget);
    EXPECT_NE(error.message().find("12288"), std::string::npos) << error.message();
  }
  EXPECT_EQ(account.in_use(), 8192u);
  EXPECT_EQ(account.peak(), 8192u);
  EXPECT_EQ(account.needed(), 12288u);
  Charge rest = account.charge(1808);
  EXPECT_THROW(account.charge(1), Error);
}

TEST(MemoryAccount, a_handler_may_raise_the_limit) {
  MemoryAccount account(4096);
  int asked = 0;
  account.set_on_exceed([&](MemoryAccount& a, std::size_t needed) {
    EXPECT_EQ(needed, 8192u);
    if (++asked == 1) return false;
    if (asked == 2) return true;  // grants without raising: still refused
    a.set_limit(needed);
    return true;
  });
  EXPECT_THROW(account.acquire(8192), Error);
  EXPECT_THROW(account.acquire(8192), Error);
  EXPECT_TRUE(account.acquire(8192));
  EXPECT_EQ(asked, 3);
}

TEST(MemoryAccount, a_child_charges_its_parent_or_nobody) {
  MemoryAccount parent(10000);
  MemoryAccount child(MemoryAccount::kUnlimited, &parent);
  Buffer a = child.acquire(8192);
  EXPECT_EQ(parent.in_use(), 8192u);
  EXPECT_THROW(child.acquire(4096), Error);
  EXPECT_EQ(child.in_use(), 8192u);
  EXPECT_EQ(child.peak(), 8192u);
  EXPECT_EQ(parent.in_use(), 8192u);
  a.release();
  EXPECT_EQ(parent.in_use(), 0u);
  EXPECT_EQ(child.in_use(), 0u);
}

class PoolTest : public testing::Test {
 protected:
  void SetUp() override { pool::trim(); }
  void TearDown() override {
    pool::set_keep_limit(SIZE_MAX);
    pool::set_held_limit(SIZE_MAX);
    pool::trim();
  }
};

TEST_F(PoolTest, keeps_what_is_freed_for_reuse) {
  MemoryAccount account;
  const std::size_t held = pool::held_bytes();
  Buffer a = account.acquire(3u << 20);
  std::byte* where = a.data();
  EXPECT_EQ(pool::held_bytes(), held + (3u << 20));
  a.release();
  EXPECT_EQ(pool::free_bytes(), 3u << 20);
  Buffer b = account.acquire((3u << 20) - 100);
  EXPECT_EQ(b.data(), where);
  EXPECT_EQ(pool::free_bytes(), 0u);
}

TEST_F(PoolTest, trim_gives_back_the_largest_first) {
  MemoryAccount account;
  const std::size_t held = pool::held_bytes();
  { Buffer a = account.acquire(4096), b = account.acquire(1u << 20), c = account.acquire(8u << 20); }
  EXPECT_EQ(pool::free_bytes(), 4096u + (9u << 20));
  pool::trim(2u << 20);
  EXPECT_EQ(pool::free_bytes(), 4096u + (1u << 20));
  EXPECT_EQ(pool::held_bytes(), held + 4096u + (1u << 20));
  pool::trim();
  EXPECT_EQ(pool::free_bytes(), 0u);
}

TEST_F(PoolTest, knows_which_free_pages_were_really_given) {
  MemoryAccount account;
  constexpr std::size_t kBytes = 1 << 20;
  {
    const Buffer full = account.acquire(kBytes), part = account.acquire(kBytes), none = account.acquire(kBytes);
    std::memset(full.data(), 1, kBytes);
    std::memset(part.data(), 1, 3 * 4096);
    EXPECT_EQ(pool::resident_free_bytes(), 0u) << "in use, not free";
  }
  // Each free buffer holds the address of the next one: the first page of the untouched one is there now, too.
  EXPECT_EQ(pool::resident_free_bytes(), kBytes + 3 * 4096 + 4096);
  EXPECT_EQ(pool::free_bytes(), 3 * kBytes);
}

TEST_F(PoolTest, keep_limit_unmaps_the_excess_at_once) {
  MemoryAccount account;
  pool::set_keep_limit(1u << 20);
  Buffer a = account.acquire(1u << 20), b = account.acquire(4096);
  a.release();
  EXPECT_EQ(pool::free_bytes(), 1u << 20);
  b.release();
  EXPECT_EQ(pool::free_bytes(), 1u << 20);
  pool::set_keep_limit(0);
  EXPECT_EQ(pool::free_bytes(), 0u);
}

TEST_F(PoolTest, held_limit_makes_room_for_another_class) {
  MemoryAccount account;
  pool::set_held_limit(pool::held_bytes() + (4u << 20));
  Buffer a = account.acquire(3u << 20);
  a.release();
  Buffer b = account.acquire(1u << 20);  // fits beside the free one
  EXPECT_EQ(pool::free_bytes(), 3u << 20);
  Buffer c = account.acquire(2u << 20);  // does not
  EXPECT_EQ(pool::free_bytes(), 0u);
  c.release();
  pool::set_held_limit(pool::held_bytes() - 1);
  EXPECT_EQ(pool::free_bytes(), 0u);
}

TEST_F(PoolTest, free_buffers_make_room_for_what_is_charged_beside_them) {
  MemoryAccount task(8u << 20);
  pool::set_held_limit(8u << 20);
  { const Buffer a = task.acquire(4u << 20), b = task.acquire(3u << 20); }
  EXPECT_EQ(pool::held_bytes(), 7u << 20);
  MemoryAccount call(2u << 20, &task);
  {
    const Charge scratch = call.charge(1u << 20);
    EXPECT_EQ(pool::held_bytes(), 7u << 20) << "there is room";
    const Charge more = call.charge(1u << 20);
    EXPECT_EQ(pool::held_bytes(), 3u << 20) << "the largest had to go";
  }
  const Buffer back = task.acquire(5u << 20);
  EXPECT_EQ(pool::held_bytes(), 8u << 20);
}

TEST_F(PoolTest, buffers_are_disjoint_across_threads) {
  MemoryAccount account;
  std::vector<std::thread> threads;
  std::atomic<int> clashes{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<Buffer> mine;
      for (int i = 0; i < 2000; ++i) {
        if (mine.size() > 8) {
          Buffer& victim = mine[random() % mine.size()];
          for (std::size_t at = 0; at < victim.size(); at += 1024) clashes += victim.data()[at] != std::byte(t);
          victim = Buffer();
          std::swap(victim, mine.back());
          mine.pop_back();
        }
        mine.push_back(account.acquire(1 + random() % 60000));
        std::memset(mine.back().data(), static_cast<int>(t), mine.back().size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(account.in_use(), 0u);
  EXPECT_EQ(pool::free_bytes(), pool::held_bytes());
}

// A fresh mapping of this size faults in 256 pages each time, which costs more than what is computed on it.
TEST_F(PoolTest, reuse_faults_no_pages) {
  MemoryAccount parent, account(MemoryAccount::kUnlimited, &parent);
  constexpr std::size_t kBytes = 1u << 20;
  const auto use = [&] {
    const Buffer buffer = account.acquire(kBytes);
    std::memset(buffer.data(), 1, kBytes);
  };
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  use();
  const long before = faults();
  for (int round = 0; round < 100; ++round) use();
  EXPECT_LT(faults() - before, 256);
}

}  // namespace
}  // namespace cuboid
