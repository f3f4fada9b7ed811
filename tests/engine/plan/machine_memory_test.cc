#include "engine/plan/machine_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace cuboid {
namespace {

constexpr std::uint64_t GiB = 1u << 30;

// A machine's files, below a folder of their own.
class AvailableMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ =
        std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    write("proc/meminfo", "MemTotal: 33554432 kB\nMemFree: 1 kB\nMemAvailable: 16777216 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void limit1(const std::string& group, std::uint64_t limit, std::uint64_t used) const {
    write("sys/fs/cgroup/memory/" + group + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write("sys/fs/cgroup/memory/" + group + "/memory.usage_in_bytes", std::to_string(used) + "\n");
  }
  void limit2(const std::string& group, const std::string& limit, std::uint64_t used) const {
    write("sys/fs/cgroup/" + group + "/memory.max", limit + "\n");
    write("sys/fs/cgroup/" + group + "/memory.current", std::to_string(used) + "\n");
  }
  std::uint64_t available() const { return available_memory(root_.string()); }

  std::filesystem::path root_;
};

TEST_F(AvailableMemory, IsTheMachinesWhereNothingLimitsIt) {
  EXPECT_EQ(available(), 16 * GiB);
  write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a\n0::/\n");
  limit1("a", 9223372036854771712u, 2 * GiB);  // as version 1 says "none"
  EXPECT_EQ(available(), 16 * GiB);
}

TEST_F(AvailableMemory, VersionOne) {
  write("proc/self/cgroup", "5:devices:/\n4:memory:/jobs/17\n0::/other\n");
  limit1("jobs/17", 4 * GiB, 1 * GiB);
  EXPECT_EQ(available(), 3 * GiB);
  limit1("jobs", 2 * GiB, 1 * GiB);  // what is above limits too
  EXPECT_EQ(available(), 1 * GiB);
  limit1("jobs", 2 * GiB, 3 * GiB);
  EXPECT_EQ(available(), 0u);
}

TEST_F(AvailableMemory, VersionTwo) {
  write("proc/self/cgroup", "0::/user/17\n");
  limit2("user/17", "max", 1 * GiB);
  EXPECT_EQ(available(), 16 * GiB);
  limit2("user", std::to_string(5 * GiB), 1 * GiB);
  EXPECT_EQ(available(), 4 * GiB);
}

TEST_F(AvailableMemory, InsideAContainerTheMountIsItsGroup) {
  write("proc/self/cgroup", "4:memory,hugetlb:/docker/0123\n");
  limit1("", 3 * GiB, 1 * GiB);
  EXPECT_EQ(available(), 2 * GiB);
  write("proc/self/cgroup", "0::/\n");
  limit2("", std::to_string(2 * GiB), 1 * GiB);
  EXPECT_EQ(available(), 1 * GiB);
}

TEST_F(AvailableMemory, FilesThatWereReadGiveWay) {
  write("proc/self/cgroup", "4:memory:/a\n");
  limit1("a", 4 * GiB, 4 * GiB);
  write("sys/fs/cgroup/memory/a/memory.stat", "cache 3221225472\ninactive_file 1\ntotal_inactive_file 3221225472\n");
  EXPECT_EQ(available(), 3 * GiB);
  write("proc/self/cgroup", "0::/b\n");
  limit2("b", std::to_string(4 * GiB), 4 * GiB);
  write("sys/fs/cgroup/b/memory.stat", "anon 1\ninactive_file 1073741824\n");
  EXPECT_EQ(available(), 1 * GiB);
}

}  // namespace
}  // namespace cuboid
