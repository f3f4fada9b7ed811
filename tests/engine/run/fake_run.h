// Runs without computing: kernels that only plan, and an executor that answers orders as a script says and stores
// chunks of a few bytes, so that everything around tasks is real.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/run/coordinator.h"

namespace cuboid::fake {

inline constexpr std::uint64_t MiB = 1u << 20;

// fake.exact: like its input, nothing uncertain, on threads. fake.halo: the same, reading one element around.
// fake.guess: `mib` uncertain MiB, in workers. fake.unknown: nobody knows. fake.rows: one ragged result of at most
// `rows` rows a block (a guess).
const KernelResolver& kernels();
Array call(const std::string& function, const Array& input, const std::string& name, Params params = {},
           StepOptions options = {});

// A folder that goes with the test, with one source array of `shape` in chunks, every chunk stored.
class Folder {
 public:
  Folder();
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  Array source(const Shape& shape, const Shape& chunks, const std::string& name = "image") const;

 private:
  std::string path_;
};

// 4 x 4 chunks of 8 KiB.
class FakeRunTest : public ::testing::Test {
 protected:
  Folder folder_;
  Array image_ = folder_.source({128, 128}, {32, 32});
};

struct Script {
  // What becomes of an order; default: done. Called at submission.
  std::function<TaskEvent(const Plan&, const TaskOrder&)> outcome;
  // What happened, in order of submission and completion.
  std::vector<TaskOrder> submitted;
  std::set<std::pair<std::string, std::int64_t>> finished;
  std::vector<std::string> faults;                            // rules of scheduling that were broken
  std::map<std::pair<int, std::int64_t>, TaskOrder> running;  // of all executors
  std::uint64_t most_running_bytes = 0;
  std::size_t most_running = 0;
  std::int64_t rows = 3;  // extent of every piece
  std::size_t told = 1;   // events that are collected at once
  int queue = 0;          // tasks that may wait at the executor of threads
  int replans = 0;
  std::function<void()> before_collect;

  std::int64_t count(const Plan& plan, const std::string& stage) const;
};

class Decisions final : public Decider {
 public:
  std::function<std::optional<Choice>(const Question&)> reply;  // nullopt: never answers
  std::vector<Question> asked;
  std::vector<int> withdrawn;
  void ask(const Question& question) override;
  void withdraw(int id) override { withdrawn.push_back(id); }
  std::vector<Answer> answers() override { return std::exchange(answers_, {}); }

 private:
  std::vector<Answer> answers_;
};

class Watch final : public Observer {
 public:
  std::vector<RunEvent> events;
  void on_event(const RunEvent& event) override { events.push_back(event); }
  std::int64_t count(RunEvent::What what) const;
};

ExecutorFactory factory(Script& script);

// One output of `array` at FOLDER/out.zarr, run directory FOLDER/run.
PlanRequest request(const Folder& folder, const Array& array, std::uint64_t budget = 1024 * MiB, int workers = 2);
RunResult run(const PlanRequest& request, Script& script, const RunOptions& options = {});

std::string stage_name(const Plan& plan, const TaskOrder& order);
const StageResult& stage_of(const RunResult& result, const std::string& name);
RunOptions with_policy(ExceedAction action);

// Outcomes.
// `rows`: of each piece that the task yields.
TaskEvent done(const Plan& plan, const TaskOrder& order, std::int64_t rows = 3);
TaskEvent exceeded(const TaskOrder& order, std::uint64_t needed_u, Evidence evidence = Evidence::own_account);
TaskEvent died(const TaskOrder& order, Evidence evidence = Evidence::unknown);
TaskEvent failed(const TaskOrder& order, ErrorKind kind);
TaskEvent wants_growth(const TaskOrder& order, std::uint64_t needed_u);

}  // namespace cuboid::fake
