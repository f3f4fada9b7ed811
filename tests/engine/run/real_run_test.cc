// Whole runs on real bytes: values against an independent computation, and coordinators that are killed at random
// moments. Seeds are fixed and printed.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#include "engine/run/coordinator.h"
#include "storage/error.h"

namespace cuboid {
namespace {

// The positive elements of a one-dimensional array: data-dependent, bounded by the block. Sleeps a little, so that
// kills find something to interrupt.
class PositiveKernel final : public Kernel {
 public:
  explicit PositiveKernel(KernelSpec spec) : Kernel(std::move(spec)) {
    ArraySpec result = spec_.inputs().at(0);
    result.extents[0].trust = Trust::bound;
    outputs_.push_back({"0", std::move(result), 0});
  }
  std::string identity() const override { return "test.positive#1"; }
  Shape domain() const override { return spec_.inputs()[0].max_shape(); }
  Shape preferred_block(const std::vector<Shape>& chunks) const override { return chunks.at(0); }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  void run(KernelCall& call) const override {
    const auto* from = reinterpret_cast<const std::int64_t*>(call.in[0].data);
    auto* to = reinterpret_cast<std::int64_t*>(call.out[0].data);
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < call.in[0].shape[0]; ++k)
      if (from[k] > 0) to[count++] = from[k];
    call.produced[0][0] = count;
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
};

class TestResolver final : public KernelResolver {
 public:
  std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const override {
    return spec.function == "test.positive" ? std::make_shared<PositiveKernel>(spec) : nullptr;
  }
  std::vector<FunctionDoc> functions() const override { return {}; }
};
const TestResolver test_kernels;
const Resolvers resolvers{&test_kernels, &builtin_kernels()};

Array call(const std::string& function, const Array& input, const std::string& name, Params params = {}) {
  KernelSpec spec;
  spec.function = function;
  spec.args = {input.spec()};
  spec.params = std::move(params);
  return apply(resolve_kernel(resolvers, spec), {input}, name).at(0);
}

RunResult run_threads(const PlanRequest& request, const RunOptions& options = {}) {
  ExecutorFactory factory;
  factory.threads = make_thread_executor;
  return run_with(request, resolvers, options, factory);
}

constexpr std::int64_t kLength = 20'000, kChunk = 50;

class RealRunTest : public testing::Test {
 protected:
  RealRunTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cuboid-real-XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
    std::mt19937_64 random(20240607);
    for (std::int64_t& value : values_) value = static_cast<std::int64_t>(random() % 2001) - 1000;
    store("in", values_);
  }
  ~RealRunTest() override { std::filesystem::remove_all(dir_); }

  void store(const std::string& name, const std::vector<std::int64_t>& values) const {
    ArrayMetadata metadata;
    metadata.shape = {kLength};
    metadata.chunks = {kChunk};
    metadata.dtype = kInt64;
    metadata.fill.assign(8, std::byte{0});
    metadata.codecs = codecs_by_name("none", kInt64);
    const ZarrArray array = ZarrArray::prepare(make_file_store(dir_ + "/" + name + ".zarr"), "", std::move(metadata));
    MemoryAccount account;
    for (std::int64_t k = 0; k < kLength / kChunk; ++k)
      array.write_chunk(
          {k}, make_view(reinterpret_cast<const std::byte*>(values.data() + k * kChunk), kInt64, {kChunk}), account);
    array.publish();
  }

  // negative -> its positive elements (in chunks of 70) and its sum.
  PlanRequest request(const std::string& name, int workers = 2) const {
    const Array image = source(ZarrArray::open(dir_ + "/in.zarr"), "in");
    const Array negative = call("negative", image, "negative");
    PlanRequest request;
    request.outputs.push_back({call("test.positive", negative, "positive"),
                               dir_ + "/" + name + "/positive.zarr",
                               Shape{70},
                               {},
                               3,
                               "blosc-lz4",
                               false,
                               "",
                               {}});
    request.outputs.push_back(
        {call("sum", negative, "sum"), dir_ + "/" + name + "/sum.zarr", {}, {}, 3, "none", false, "", {}});
    request.options.budget = 256u << 20;
    request.options.workers = workers;
    request.options.run_dir = dir_ + "/" + name + "/run";
    return request;
  }
  static std::vector<std::int64_t> read(const std::string& path) {
    const ZarrArray array = ZarrArray::open(path);
    std::vector<std::int64_t> result(static_cast<std::size_t>(element_count(array.shape())));
    MemoryAccount account;
    array.read(Box::whole(array.shape()), make_view(reinterpret_cast<std::byte*>(result.data()), kInt64, array.shape()),
               account);
    return result;
  }
  // Every stored byte of both outputs; not what a kill left of unfinished files.
  std::map<std::string, std::string> bytes_of(const std::string& name) const {
    std::map<std::string, std::string> result;
    for (const char* output : {"positive.zarr", "sum.zarr"}) {
      const std::string root = dir_ + "/" + name + "/" + output;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
        if (!entry.is_regular_file() || entry.path().filename().string().starts_with(".cuboid-put-")) continue;
        std::stringstream text;
        text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        result[output + entry.path().string().substr(root.size())] = text.str();
      }
    }
    return result;
  }
  std::int64_t journaled(const std::string& name) const {
    std::int64_t rows = 0;
    const std::string run_dir = dir_ + "/" + name + "/run";
    if (!std::filesystem::exists(Journal::path_in(run_dir))) return 0;
    const Journal journal(run_dir, Journal::Mode::read);
    for (const std::string& stage : journal.stages()) journal.each_block(stage, [&](const JournalBlock&) { ++rows; });
    return rows;
  }
  std::string dir_;
  std::vector<std::int64_t> values_ = std::vector<std::int64_t>(kLength);
};

struct Sums {
  std::int64_t done = 0, reused = 0, attempts = 0;
};
Sums sums_of(const RunResult& result) {
  Sums sums;
  for (const StageResult& stage : result.stages)
    sums.done += stage.tasks_done, sums.reused += stage.tasks_reused, sums.attempts += stage.attempts;
  return sums;
}

TEST_F(RealRunTest, ComputesWhatAnIndependentLoopComputes) {
  const RunResult result = run_threads(request("a"));
  ASSERT_EQ(result.exit_code, 0) << (result.error ? result.error->message() : "");
  std::vector<std::int64_t> positive;
  for (const std::int64_t value : values_)
    if (-value > 0) positive.push_back(-value);
  EXPECT_EQ(read(dir_ + "/a/positive.zarr"), positive);
  EXPECT_THAT(read(dir_ + "/a/sum.zarr"), testing::ElementsAre(-std::accumulate(values_.begin(), values_.end(), 0L)));
  EXPECT_GT(result.peak_rss_bytes, 1u << 20);
  const Sums sums = sums_of(result);
  EXPECT_EQ(sums.done, result.plan.tasks);
  EXPECT_EQ(sums.attempts, sums.done);
  EXPECT_TRUE(run_threads(request("a")).nothing_to_do);
}

TEST_F(RealRunTest, BytesDoNotDependOnThreadsOrRestarts) {
  ASSERT_EQ(run_threads(request("one", 1)).exit_code, 0);
  ASSERT_EQ(run_threads(request("two", 2)).exit_code, 0);
  EXPECT_EQ(bytes_of("one"), bytes_of("two"));
}

TEST_F(RealRunTest, ACoordinatorMayBeKilledAtAnyMoment) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_threads(request("whole")).exit_code, 0);
  const auto uninterrupted =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  const auto expected = bytes_of("whole");
  std::mt19937 random(7);
  int kills = 0;
  for (int round = 0; round < 60; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        const RunResult result = run_threads(request("killed"));
        if (result.error) std::cerr << result.error->message() << "\n";
        _exit(result.exit_code);
      } catch (const Error& error) {
        std::cerr << error.message() << "\n";
        _exit(99);
      }
    }
    // So early that several attempts are needed, however fast the machine is.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(uninterrupted / 3 + 1)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ++kills;
    if (round == 40) break;
  }
  EXPECT_GE(kills, 2) << "the moments were too late to interrupt anything";
  const std::int64_t rows = journaled("killed");
  const RunResult result = run_threads(request("killed"));
  ASSERT_EQ(result.exit_code, 0) << (result.error ? result.error->message() : "");
  const Sums sums = sums_of(result);
  EXPECT_GE(sums.reused, rows) << "no journaled block is computed twice";
  EXPECT_EQ(sums.attempts, sums.done - sums.reused);
  EXPECT_EQ(bytes_of("killed"), expected);
}

// Over 400 blocks a sum is a tree of two levels; over the few rows that turn out to be there it is one task.
TEST_F(RealRunTest, FactsMayChangeTheStagesThatFollow) {
  std::vector<std::int64_t> sparse(kLength, -1);
  for (std::size_t k = 0; k < sparse.size(); k += 500) sparse[k] = 7;
  store("sparse", sparse);
  PlanRequest request;
  const Array rows = call("test.positive", source(ZarrArray::open(dir_ + "/sparse.zarr"), "sparse"), "rows");
  request.outputs.push_back({call("sum", rows, "sum"), dir_ + "/total.zarr", {}, {}, 3, "none", false, "", {}});
  request.options.budget = 256u << 20;
  request.options.workers = 2;
  request.options.run_dir = dir_ + "/run";
  const Plan before = make_plan(request, resolvers);
  const RunResult result = run_threads(request);
  ASSERT_EQ(result.exit_code, 0) << (result.error ? result.error->message() : "");
  EXPECT_LT(result.plan.stages.size(), before.stages.size());
  EXPECT_THAT(read(dir_ + "/total.zarr"), testing::ElementsAre(40 * 7));
  const StageResult& produced = result.stages.at(static_cast<std::size_t>(result.plan.stage_index("rows")));
  EXPECT_EQ(produced.attempts, 400);
  EXPECT_EQ(produced.tasks_done, 400);
  EXPECT_EQ(produced.tasks_reused, 0) << "what this run did is not reused";
  EXPECT_TRUE(run_threads(request).nothing_to_do);
}

TEST_F(RealRunTest, KeepKeepsIntermediatesReadable) {
  PlanRequest kept = request("kept");
  kept.options.keep = true;
  ASSERT_EQ(run_threads(kept).exit_code, 0);
  std::vector<std::int64_t> negative;
  for (const std::int64_t value : values_) negative.push_back(-value);
  EXPECT_EQ(read(dir_ + "/kept/run/data/negative"), negative);
}

TEST_F(RealRunTest, AnUnreadableInputChunkIsSixAndTheRestIsKept) {
  std::ofstream(dir_ + "/in.zarr/c/7", std::ios::trunc) << "cut";
  const RunResult result = run_threads(request("cut"));
  EXPECT_EQ(result.exit_code, 6);
  ASSERT_TRUE(result.error);
  EXPECT_THAT(result.error->message(), testing::HasSubstr("kept"));
  EXPECT_GT(sums_of(result).done, 300);
}

}  // namespace
}  // namespace cuboid
