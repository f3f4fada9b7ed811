#include "engine/run/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/run/run_lock.h"
#include "storage/error.h"

namespace cuboid {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cuboid-journal-XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
  }
  ~JournalTest() override { std::filesystem::remove_all(dir_); }
  Journal open(Journal::Mode mode = Journal::Mode::create) { return Journal(dir_, mode); }
  std::string dir_;
};

JournalBlock block(std::int64_t number) {
  JournalBlock row;
  row.block = number;
  row.fingerprint = {static_cast<std::uint64_t>(number) * 77, 5};
  row.attempts = 2, row.grown = true;
  row.allowed = 1000, row.allowance = 300, row.peak = 900, row.peak_u = 250;
  row.seconds = 0.5;
  row.objects = {{"smooth", number, 4096, 0xdeadbeef, "", {}}, {"rows.pieces", number, 88, 7, "b1-a2", {3, 6}}};
  return row;
}

std::vector<std::int64_t> blocks_of(const Journal& journal, const std::string& stage) {
  std::vector<std::int64_t> result;
  journal.each_block(stage, [&](const JournalBlock& row) { result.push_back(row.block); });
  return result;
}

TEST_F(JournalTest, KeepsEverythingOfABlock) {
  {
    Journal journal = open();
    journal.begin_run();
    journal.add_block("smooth", block(3));
    journal.add_block("smooth", block(1));
    journal.add_block("other", block(9));
    EXPECT_TRUE(journal.dirty());
    EXPECT_TRUE(journal.commit());
    EXPECT_FALSE(journal.dirty());
  }
  const Journal journal = open();
  EXPECT_THAT(blocks_of(journal, "smooth"), testing::ElementsAre(1, 3));
  EXPECT_THAT(blocks_of(journal, "nothing"), testing::IsEmpty());
  journal.each_block("other", [](const JournalBlock& row) {
    const JournalBlock expected = block(9);
    EXPECT_EQ(row.fingerprint, expected.fingerprint);
    EXPECT_EQ(row.attempts, 2);
    EXPECT_TRUE(row.grown);
    EXPECT_EQ(row.allowed, 1000u);
    EXPECT_EQ(row.allowance, 300u);
    EXPECT_EQ(row.peak, 900u);
    EXPECT_EQ(row.peak_u, 250u);
    EXPECT_EQ(row.seconds, 0.5);
    ASSERT_EQ(row.objects.size(), 2u);
    EXPECT_EQ(row.objects[0].array, "smooth");
    EXPECT_EQ(row.objects[0].chunk, 9);
    EXPECT_EQ(row.objects[0].bytes, 4096u);
    EXPECT_EQ(row.objects[0].crc32c, 0xdeadbeefu);
    EXPECT_EQ(row.objects[1].piece, "b1-a2");
    EXPECT_EQ(row.objects[1].extents, Shape({3, 6}));
  });
}

TEST_F(JournalTest, KeepsWhatWasReadOfSourcesAndForgetsWhatIsInDoubt) {
  const auto rows_of = [](const Journal& journal, const std::string& array) {
    std::vector<JournalSource> rows;
    journal.each_source(array, [&](const JournalSource& row) { rows.push_back(row); });
    return rows;
  };
  {
    Journal journal = open();
    journal.begin_run();
    journal.add_source("image", {5, ~0ull, ~0ull, 4096, 0xfffffffe});
    journal.add_source("image", {2, 11, 11, 100, 7});
    journal.add_source("image", {2, 11, 11, 100, 7});
    journal.add_source("image", {3, 12, 12, 100, 7});
    journal.add_source("image", {3, 12, 12, 100, 8});  // another task read other bytes under the same stamp
    journal.add_source("image", {4, 13, 13, 100, 7});
    journal.add_source("image", {4, 14, 14, 90, 9});  // changed between two runs
    journal.add_source("other", {2, 1, 1, 1, 1});
    journal.commit();
  }
  const Journal journal = open();
  const std::vector<JournalSource> rows = rows_of(journal, "image");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].chunk, 2);
  EXPECT_EQ(rows[0].crc32c, 7u);
  EXPECT_EQ(rows[1].crc32c, std::nullopt);
  EXPECT_EQ(rows[2].identity, 14u);
  EXPECT_EQ(rows[2].bytes, 90u);
  EXPECT_EQ(rows[2].crc32c, 9u);
  EXPECT_EQ(rows[3].identity, ~0ull);
  EXPECT_EQ(rows[3].crc32c, 0xfffffffe);
  EXPECT_TRUE(rows_of(journal, "nothing").empty());
}

TEST_F(JournalTest, KeepsWhatARunWasTaught) {
  {
    Journal journal = open();
    journal.add_taught({"sources", 3, 40, 2, 0.5, 1.75});
    journal.commit();
  }
  const std::vector<JournalTaught> taught = open().taught();
  ASSERT_EQ(taught.size(), 1u);
  EXPECT_EQ(taught[0].stage, "sources");
  EXPECT_EQ(taught[0].shape_class, 3u);
  EXPECT_EQ(taught[0].finished, 40);
  EXPECT_EQ(taught[0].above, 2);
  EXPECT_EQ(taught[0].worst_finished, 0.5);
  EXPECT_EQ(taught[0].worst_seen, 1.75);
}

TEST_F(JournalTest, OutputsThatWereMovedAlongAreFoundBesideIt) {
  const std::filesystem::path root = dir_;
  std::filesystem::create_directories(root / "project/p.run");
  std::filesystem::create_directories(root / "project/out/a.zarr");
  std::filesystem::create_directories(root / "far/b.zarr");
  const std::string a = (root / "project/out/a.zarr").string(), b = (root / "far/b.zarr").string();
  const auto locations = [](const std::filesystem::path& run_dir) {
    std::vector<std::string> result;
    for (const JournalOutput& output : Journal(run_dir.string(), Journal::Mode::read).outputs())
      result.push_back(output.location);
    return result;
  };
  {
    Journal journal((root / "project/p.run").string(), Journal::Mode::create);
    journal.set_output({a, {1, 2}, true});
    journal.set_output({b, {1, 2}, true});
    journal.set_output({"memory://x", {1, 2}, true});
    journal.commit();
  }
  EXPECT_THAT(locations(root / "project/p.run"), testing::UnorderedElementsAre(a, b, "memory://x"));
  // Moved alone: the outputs are where they were.
  std::filesystem::rename(root / "project/p.run", root / "p.run");
  EXPECT_THAT(locations(root / "p.run"), testing::UnorderedElementsAre(a, b, "memory://x"));
  std::filesystem::rename(root / "p.run", root / "project/p.run");
  // A copy of the whole project: its own, though the original is still there.
  std::filesystem::copy(root / "project", root / "copy", std::filesystem::copy_options::recursive);
  const std::string beside = (root / "copy/out/a.zarr").string();
  EXPECT_THAT(locations(root / "copy/p.run"), testing::UnorderedElementsAre(beside, b, "memory://x"));
  {
    Journal journal((root / "copy/p.run").string(), Journal::Mode::create);
    journal.begin_run();
    journal.commit();
  }
  std::filesystem::remove_all(root / "copy/out");
  EXPECT_THAT(locations(root / "copy/p.run"), testing::UnorderedElementsAre(beside, b, "memory://x"))
      << "as of now it was always there";
}

TEST_F(JournalTest, WhatWasNotCommittedIsNotThere) {
  {
    Journal journal = open();
    journal.add_block("s", block(1));
    journal.commit();
    journal.add_block("s", block(2));
  }
  EXPECT_THAT(blocks_of(open(), "s"), testing::ElementsAre(1));
}

TEST_F(JournalTest, KeepsFailuresFactsAnswersAndOutputs) {
  {
    Journal journal = open();
    journal.begin_run();
    journal.add_failure({"s", 4, 1, "exceeded", "own-account", 10, 5, 12, 9, 4, 0.25, "too small"});
    journal.add_failure({"s", 4, 2, "died", "unknown", 20, 15, 0, 9, 4, 0.25, "signal 11"});
    journal.add_parked({"s", 4, 5, "died twice"});
    journal.add_answer({"s", 4, "grow", 1 << 20, true});
    journal.set_output({"out/a.zarr", {1, 2}, false});
    journal.set_output({"out/a.zarr", {1, 2}, true});
    journal.set_output({"out/b.zarr", {3, 4}, false});
    journal.forget_output("out/b.zarr");
    journal.set_shape("sources", {123, 6});
    journal.set_bound("sources", 800);
    journal.end_run("exceeded", 1.5, 77);
    journal.commit(true);
  }
  Journal journal = open();
  EXPECT_THAT(journal.failed_attempts("s"), testing::ElementsAre(testing::Pair(4, 2)));
  ASSERT_EQ(journal.failures().size(), 2u);
  EXPECT_EQ(journal.failures()[0].needed, 12u);
  EXPECT_EQ(journal.failures()[1].message, "signal 11");
  ASSERT_EQ(journal.parked().size(), 1u);
  EXPECT_EQ(journal.parked()[0].exit_code, 5);
  ASSERT_EQ(journal.answers().size(), 1u);
  EXPECT_TRUE(journal.answers()[0].always);
  ASSERT_EQ(journal.outputs().size(), 1u);
  EXPECT_TRUE(journal.outputs()[0].published);
  EXPECT_EQ(journal.shapes().at("sources"), Shape({123, 6}));
  EXPECT_EQ(journal.bounds().at("sources"), 800);
  ASSERT_EQ(journal.runs().size(), 1u);
  EXPECT_EQ(journal.runs()[0].status, "exceeded");
  EXPECT_EQ(journal.runs()[0].peak_rss_bytes, 77u);
  EXPECT_EQ(journal.begin_run(), 2);
  EXPECT_TRUE(journal.parked().empty()) << "a new run begins with nothing parked";
}

TEST_F(JournalTest, AReaderDelaysACommitButLosesNothing) {
  Journal writer = open();
  for (int k = 0; k < 100; ++k) writer.add_block("s", block(k));
  writer.commit();
  const Journal reader = open(Journal::Mode::read);
  writer.add_block("s", block(200));
  bool delayed = false;
  reader.each_block("s", [&](const JournalBlock& row) {
    if (row.block == 50) delayed = !writer.commit();
  });
  EXPECT_TRUE(delayed);
  EXPECT_TRUE(writer.commit());
  EXPECT_EQ(blocks_of(reader, "s").size(), 101u);
}

TEST_F(JournalTest, SaysWhatToDoAboutADamagedFile) {
  {
    Journal journal = open();
    for (int k = 0; k < 2000; ++k) journal.add_block("s", block(k));
    journal.commit();
  }
  const auto expect_corrupt = [&](const char* what) {
    try {
      Journal journal = open();
      (void)blocks_of(journal, "s");
      ADD_FAILURE() << what << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt) << what << ": " << error.message();
      EXPECT_THAT(error.message(), testing::HasSubstr("--fresh"));
      EXPECT_THAT(error.message(), testing::HasSubstr(dir_));
    }
  };
  const std::string path = Journal::path_in(dir_);
  const auto size = std::filesystem::file_size(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size / 2));
    const std::string noise(20000, '\x5a');
    file.write(noise.data(), static_cast<std::streamsize>(noise.size()));
  }
  expect_corrupt("a page of noise");
  std::filesystem::resize_file(path, size / 3);
  expect_corrupt("a cut file");
  std::ofstream(path, std::ios::trunc) << "this is no database, though it is long enough to have a header in it, "
                                          "which a file of less than a hundred bytes would not";
  expect_corrupt("text");
}

TEST_F(JournalTest, RefusesAnotherVersion) {
  open();
  const std::string command = "/usr/bin/sqlite3 " + Journal::path_in(dir_) + " 'PRAGMA user_version=99'";
  if (std::system(command.c_str()) != 0) GTEST_FAIL() << "the sqlite3 program is needed";
  EXPECT_THROW(open(), Error);
}

TEST_F(JournalTest, ReadingNeedsAJournal) {
  try {
    open(Journal::Mode::read);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
  }
}

TEST_F(JournalTest, AFileWhoseMakerWasKilledBeforeItsFirstCommitIsNoJournalYet) {
  std::ofstream(Journal::path_in(dir_)).close();
  try {
    open(Journal::Mode::read);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
  }
  EXPECT_TRUE(open(Journal::Mode::create).stages().empty());
}

TEST_F(JournalTest, CommittedRowsSurviveAKill) {
  for (int round = 0; round < 10; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      Journal journal(dir_, Journal::Mode::create);
      for (std::int64_t k = 0;; ++k) {
        journal.add_block("s" + std::to_string(round), block(k));
        if (k % 7 == 0 && journal.commit() && write(pipe_ends[1], &k, sizeof k) != sizeof k) _exit(1);
      }
    }
    close(pipe_ends[1]);
    std::int64_t committed = -1;
    for (int k = 0; k < 20 + round * 5; ++k) ASSERT_EQ(read(pipe_ends[0], &committed, sizeof committed), 8);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(pipe_ends[0], &committed, sizeof committed) == 8) {
    }
    close(pipe_ends[0]);
    EXPECT_GE(static_cast<std::int64_t>(blocks_of(open(), "s" + std::to_string(round)).size()), committed + 1);
  }
}

TEST_F(JournalTest, ASecondCoordinatorIsRefusedWithTheFirstOnesProcessId) {
  const RunLock lock(dir_);
  try {
    RunLock second(dir_);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.message(), testing::HasSubstr(std::to_string(getpid())));
  }
}

TEST_F(JournalTest, ADeadCoordinatorsLockIsNoObstacle) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    RunLock lock(dir_);
    if (write(pipe_ends[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(pipe_ends[0], &byte, 1), 1);
  EXPECT_THROW(RunLock{dir_}, Error);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const RunLock lock(dir_);
  close(pipe_ends[0]), close(pipe_ends[1]);
}

}  // namespace
}  // namespace cuboid
