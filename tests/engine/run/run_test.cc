// The coordinating loop with executors that compute nothing: what is started when, what is kept, what a failure costs.
#include "engine/run/run.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "engine/run/run_lock.h"
#include "storage/error.h"
#include "tests/engine/run/fake_run.h"

namespace cuboid {
namespace {

using fake::Folder;
using fake::MiB;
using fake::Script;
using fake::stage_name;
using fake::stage_of;
using fake::with_policy;
using testing::HasSubstr;

Params mib(std::int64_t n) { return {{"mib", n}}; }

// The image -> guess of 8 MiB -> halo: the second stage reads up to nine blocks of the first.
class RunTest : public fake::FakeRunTest {
 protected:
  Array guess_ = fake::call("fake.guess", image_, "guess", mib(8));
  Array two_ = fake::call("fake.halo", guess_, "halo");
};

TEST_F(RunTest, RunsEveryBlockOnceInAnOrderThatDependenciesAllow) {
  Script script;
  fake::Watch watch;
  RunOptions options;
  options.observer = &watch;
  const RunResult result = fake::run(fake::request(folder_, two_), script, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(to_string(result.status), "done");
  EXPECT_EQ(script.submitted.size(), 32u);
  for (const char* name : {"guess", "halo"}) {
    EXPECT_EQ(stage_of(result, name).tasks_done, 16) << name;
    EXPECT_EQ(stage_of(result, name).attempts, 16) << name;
    EXPECT_EQ(stage_of(result, name).tasks_reused, 0) << name;
  }
  EXPECT_EQ(watch.count(RunEvent::What::task_done), 32);
  EXPECT_EQ(watch.count(RunEvent::What::stage_done), 2);
  EXPECT_EQ(ZarrArray::open(folder_ / "out.zarr").shape(), Shape({128, 128}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/data/guess/c/0/0")) << "an intermediate goes with its last use";
  EXPECT_GT(result.peak_rss_bytes, MiB);
}

TEST_F(RunTest, AFinishedRunDoesNothing) {
  Script first;
  fake::run(fake::request(folder_, two_), first);
  const auto before = std::filesystem::last_write_time(folder_ / "out.zarr/zarr.json");
  Script second;
  const RunResult result = fake::run(fake::request(folder_, two_), second);
  EXPECT_TRUE(result.nothing_to_do);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(second.submitted.empty());
  EXPECT_EQ(stage_of(result, "halo").tasks_reused, 16);
  EXPECT_EQ(stage_of(result, "halo").tasks_done, 16);
  EXPECT_EQ(stage_of(result, "halo").attempts, 0);
  EXPECT_TRUE(stage_of(result, "halo").peak_bytes.has_value()) << "over all runs";
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "out.zarr/zarr.json"), before);
}

TEST_F(RunTest, OnlyTheBlockThatFailedGetsMore) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    if (stage_name(plan, order) == "guess" && order.block == 5 && order.allowance < 20 * MiB)
      return fake::exceeded(order, 20 * MiB);
    TaskEvent event = fake::done(plan, order);
    event.result.call_peak = MiB;
    return event;
  };
  const RunResult result = fake::run(fake::request(folder_, two_), script);
  EXPECT_EQ(result.exit_code, 0);
  const int guess = result.plan.stage_index("guess");
  for (const TaskOrder& order : script.submitted) {
    if (order.stage != guess) continue;
    EXPECT_EQ(order.allowance, order.block == 5 && order.attempt == 2 ? 20 * MiB : 8 * MiB) << order.block;
  }
  EXPECT_EQ(stage_of(result, "guess").attempts, 17);
  EXPECT_EQ(stage_of(result, "guess").tasks_retried, 1);
  EXPECT_GT(stage_of(result, "guess").seconds_lost, 0);
}

TEST_F(RunTest, ParkingKeepsEverythingIndependentAndMoreMemoryGoesOn) {
  const auto hungry = [](const Plan& plan, const TaskOrder& order) {
    if (stage_name(plan, order) == "guess" && order.block == 0 && order.allowance < 20 * MiB)
      return fake::exceeded(order, 20 * MiB);
    return fake::done(plan, order);
  };
  Script script;
  script.outcome = hungry;
  const RunResult stopped = fake::run(fake::request(folder_, two_), script, with_policy(ExceedAction::park));
  EXPECT_EQ(stopped.exit_code, 4);
  EXPECT_EQ(to_string(stopped.status), "exceeded");
  EXPECT_EQ(stage_of(stopped, "guess").tasks_done, 15);
  EXPECT_EQ(stage_of(stopped, "guess").parked, 1);
  EXPECT_EQ(stage_of(stopped, "halo").tasks_done, 12) << "all but the four that read block (0, 0)";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.zarr/zarr.json")) << "an unfinished output is not visible";
  ASSERT_TRUE(stopped.error);
  EXPECT_EQ(stopped.error->kind(), ErrorKind::over_budget);
  for (const char* part : {"guess", "(0, 0)", "20 MiB", "8.02 MiB", "27 of 32", "--on-exceed grow"})
    EXPECT_THAT(stopped.error->message(), HasSubstr(part));

  Script again;
  again.outcome = hungry;
  fake::Watch watch;
  RunOptions options;
  options.observer = &watch;
  const RunResult result = fake::run(fake::request(folder_, two_, 2048 * MiB, 1), again, options);
  EXPECT_EQ(watch.count(RunEvent::What::resumed), 1);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(stage_of(result, "guess").tasks_reused, 15)
      << "another budget and another number of workers change nothing";
  EXPECT_EQ(stage_of(result, "guess").attempts, 2);
  EXPECT_EQ(stage_of(result, "halo").attempts, 4);
  EXPECT_EQ(again.submitted[0].attempt, 2) << "attempts count over all runs";
}

TEST_F(RunTest, WhatIsTooLargeBesideOthersIsCutWhereTheFunctionAllows) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 6 && order.splits < 4 ? fake::exceeded(order, 60 * MiB) : fake::done(plan, order);
  };
  const Array guess =
      fake::call("fake.guess", image_, "guess", {{"mib", std::int64_t{8}}, {"splittable", std::int64_t{1}}});
  const RunResult result = fake::run(fake::request(folder_, guess, 200 * MiB), script);
  EXPECT_EQ(result.exit_code, 0);
  std::vector<std::int64_t> splits;
  for (const TaskOrder& order : script.submitted)
    if (order.block == 6) splits.push_back(order.splits);
  EXPECT_THAT(splits, testing::ElementsAre(1, 2, 4)) << "a quarter of 200 MiB is less than it says it needs";
}

TEST_F(RunTest, FailStartsNothingMore) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 3 ? fake::exceeded(order, 20 * MiB) : fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, two_), script, with_policy(ExceedAction::fail));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_LE(script.submitted.size(), 6u);
  EXPECT_GE(stage_of(result, "guess").tasks_done, 3) << "what was running is kept";
}

// Forty blocks take 1 MiB of the 8 that are declared, so that the others begin with less: the one that takes 6 gets
// what was declared, though the policy is to fail.
TEST_F(RunTest, ALowerFirstSizeIsNoEstimateThatWasTooLow) {
  const Folder folder;
  const Array guess = fake::call("fake.guess", folder.source({256, 256}, {32, 32}), "guess", mib(8));
  for (const bool asks_first : {false, true}) {
    Script script;
    std::uint64_t least = ~std::uint64_t{0};
    script.outcome = [&](const Plan& plan, const TaskOrder& order) {
      least = std::min(least, order.allowance);
      if (order.block == 40 && order.allowance < 6 * MiB)
        return asks_first ? fake::wants_growth(order, 6 * MiB) : fake::exceeded(order, 6 * MiB);
      TaskEvent event = fake::done(plan, order);
      event.result.call_peak = (order.block == 40 ? 6 : 1) * MiB;
      return event;
    };
    RunOptions options = with_policy(ExceedAction::fail);
    options.fresh = true;
    const RunResult result = fake::run(fake::request(folder, guess), script, options);
    EXPECT_EQ(result.exit_code, 0) << result.error.value_or(Error(ErrorKind::io, "")).message();
    EXPECT_LT(least, 2 * MiB);
    EXPECT_EQ(stage_of(result, "guess").tasks_grown, asks_first);
    EXPECT_EQ(stage_of(result, "guess").tasks_retried, !asks_first);
  }
}

TEST_F(RunTest, AFullMachineIsNotTheBlocksFault) {
  Script script;
  std::vector<std::size_t> beside;
  script.outcome = [&](const Plan& plan, const TaskOrder& order) {
    if (stage_name(plan, order) == "guess" && order.block == 2) {
      beside.push_back(script.running.size());
      if (beside.size() < 4) return fake::died(order, Evidence::host);
    }
    return fake::done(plan, order);
  };
  EXPECT_EQ(fake::run(fake::request(folder_, two_), script).exit_code, 0);
  EXPECT_THAT(std::vector(beside.begin() + 1, beside.end()), testing::ElementsAre(1, 1, 1)) << "alone, same size";
}

// Of a built-in function too: it keeps to its projection, and something else had taken the memory.
TEST_F(RunTest, AMachineThatIsFullAllTheTimeParksTheBlockAtItsSize) {
  for (const char* function : {"fake.exact", "fake.guess"}) {
    const Folder folder;
    const Array array = fake::call(function, folder.source({128, 128}, {32, 32}), "step", mib(8));
    Script script;
    std::vector<std::uint64_t> limits;
    script.outcome = [&](const Plan& plan, const TaskOrder& order) {
      if (order.block != 2) return fake::done(plan, order);
      limits.push_back(order.limit);
      EXPECT_EQ(script.running.size(), limits.size() == 1 ? script.running.size() : 1u) << "alone";
      return fake::exceeded(order, 0, Evidence::host);
    };
    const RunResult result = fake::run(fake::request(folder, array), script);
    EXPECT_EQ(result.exit_code, 4) << function;
    EXPECT_THAT(limits, testing::ElementsAre(limits[0], limits[0], limits[0], limits[0]))
        << "once, and three times more";
    EXPECT_EQ(stage_of(result, "step").tasks_done, 15);
    EXPECT_THAT(result.error->message(), HasSubstr("machine was full"));
  }
}

// --- the ladder's stops

TEST_F(RunTest, AttemptsAreCountedAndTheLastOneIsAloneWithTheCap) {
  Script script;
  std::vector<std::uint64_t> limits;
  std::size_t beside = 0;
  script.outcome = [&](const Plan& plan, const TaskOrder& order) {
    if (order.block != 5) return fake::done(plan, order);
    limits.push_back(order.limit);
    beside = script.running.size();
    return fake::exceeded(order, order.allowance + MiB);
  };
  RunOptions options;
  options.on_exceed.max_task_memory = 200 * MiB;
  const RunResult result = fake::run(fake::request(folder_, guess_), script, options);
  EXPECT_EQ(result.exit_code, 4);
  const std::uint64_t around = limits.at(0) - 8 * MiB;
  EXPECT_THAT(limits, testing::ElementsAre(around + 8 * MiB, around + 16 * MiB, around + 32 * MiB, 200 * MiB));
  EXPECT_EQ(beside, 1u) << "alone";
  EXPECT_EQ(stage_of(result, "guess").attempts, 15 + 4);
  EXPECT_EQ(stage_of(result, "guess").tasks_retried, 1);
  EXPECT_EQ(stage_of(result, "guess").parked, 1);
  EXPECT_NEAR(stage_of(result, "guess").seconds_lost, 4 * 0.02, 1e-9) << "the time of every failed attempt";
  EXPECT_THAT(result.error->message(), HasSubstr("attempts"));
}

TEST_F(RunTest, NoAttemptIsMadeThatCannotGiveMore) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 5 ? fake::exceeded(order, 60 * MiB) : fake::done(plan, order);
  };
  RunOptions options;
  options.on_exceed.max_task_memory = 20 * MiB;
  const RunResult result = fake::run(fake::request(folder_, guess_), script, options);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(stage_of(result, "guess").attempts, 16) << "it says that it needs more than the cap";
  EXPECT_THAT(result.error->message(), HasSubstr("--max-task-memory"));
}

TEST_F(RunTest, TheSamePeakTwiceIsNoMatterOfMemory) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    if (order.block != 5) return fake::done(plan, order);
    TaskEvent event = fake::exceeded(order, 0, Evidence::own_limit);
    event.peak = 7 * MiB;
    return event;
  };
  const RunResult result = fake::run(fake::request(folder_, guess_), script);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(stage_of(result, "guess").attempts, 15 + 2);
  EXPECT_THAT(result.error->message(), HasSubstr("same memory"));
}

TEST_F(RunTest, WhatIsNoMatterOfMemoryIsNeverGivenMore) {
  TaskEvent late;
  late.what = TaskEvent::What::timed_out;
  late.error = Error(ErrorKind::plugin, "no progress for 1000 ms");
  for (const auto& [attempts, outcome] : std::vector<std::pair<std::size_t, TaskEvent>>{
           {2, fake::died({})}, {1, fake::failed({}, ErrorKind::plugin)}, {1, late}}) {
    const Folder folder;
    Script script;
    std::vector<std::uint64_t> limits;
    script.outcome = [&, outcome = outcome](const Plan& plan, const TaskOrder& order) {
      if (order.block != 5) return fake::done(plan, order);
      limits.push_back(order.limit);
      TaskEvent event = outcome;
      event.order = order;
      return event;
    };
    const Array guess = fake::call("fake.guess", folder.source({128, 128}, {32, 32}), "guess", mib(8));
    const RunResult result = fake::run(fake::request(folder, guess), script);
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_EQ(limits, std::vector(attempts, limits.at(0))) << outcome.error->message();
    EXPECT_EQ(stage_of(result, "guess").tasks_done, 15);
  }
}

TEST_F(RunTest, ADeathGetsOneRepeatThenIsCondemned) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return stage_name(plan, order) == "guess" && order.block == 15 ? fake::died(order) : fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, two_), script);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(to_string(result.status), "failed");
  EXPECT_EQ(stage_of(result, "guess").attempts, 17);
  EXPECT_EQ(stage_of(result, "halo").tasks_done, 12);
  EXPECT_THAT(result.error->message(), HasSubstr("signal 9"));
}

TEST_F(RunTest, SixBeforeFiveBeforeFour) {
  const auto outcome = [](bool corrupt) {
    return [corrupt](const Plan& plan, const TaskOrder& order) {
      if (order.block == 1) return fake::failed(order, ErrorKind::plugin);
      if (order.block == 2) return fake::exceeded(order, 20 * MiB);
      if (order.block == 3 && corrupt) return fake::failed(order, ErrorKind::corrupt);
      return fake::done(plan, order);
    };
  };
  Script script;
  script.outcome = outcome(true);
  const RunResult six = fake::run(fake::request(folder_, guess_), script, with_policy(ExceedAction::park));
  EXPECT_EQ(six.exit_code, 6);
  EXPECT_EQ(six.error->kind(), ErrorKind::corrupt);
  EXPECT_EQ(stage_of(six, "guess").tasks_done, 13) << "one chunk that cannot be read says nothing about others";
  Script second;
  second.outcome = outcome(false);
  EXPECT_EQ(fake::run(fake::request(folder_, guess_), second, with_policy(ExceedAction::park)).exit_code, 5);
}

TEST_F(RunTest, AStoreThatFailsStopsTheRun) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 4 ? fake::failed(order, ErrorKind::io) : fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, two_), script);
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_LE(script.submitted.size(), 8u);
}

// As where the journal's disk is full: what is told together with it is heard, or its tasks would never end.
TEST_F(RunTest, AFaultInTakingOneResultLosesNoOther) {
  class Fault final : public Observer {
   public:
    int left = 1;
    void on_event(const RunEvent& event) override {
      if (event.what == RunEvent::What::task_done && left-- > 0) throw Error(ErrorKind::io, "no space");
    }
  } fault;
  Script script;
  script.told = 2;
  RunOptions options;
  options.observer = &fault;
  const RunResult result = fake::run(fake::request(folder_, two_, 1024 * MiB, 4), script, options);
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_TRUE(script.running.empty());
  EXPECT_EQ(script.submitted.size(), script.finished.size());
  EXPECT_GE(script.submitted.size(), 4u);
  fake::run(fake::request(folder_, two_, 1024 * MiB, 4), script);
}

TEST_F(RunTest, ABuiltInBeyondItsProjectionIsOurFault) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 4 ? fake::failed(order, ErrorKind::over_budget) : fake::done(plan, order);
  };
  EXPECT_EQ(fake::run(fake::request(folder_, fake::call("fake.exact", image_, "exact")), script).exit_code, 1);
}

TEST_F(RunTest, ABrokenPromiseIsNotRetried) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 4 ? fake::exceeded(order, 9 * MiB) : fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, fake::call("fake.guess", image_, "sure", mib(0))), script);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(stage_of(result, "sure").attempts, 16);
  EXPECT_THAT(result.error->message(), HasSubstr("promise"));
}

// --- growth in place and questions

TEST_F(RunTest, GrowsInPlaceWhereThePolicyAllows) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 7 ? fake::wants_growth(order, 30 * MiB) : fake::done(plan, order);
  };
  const RunResult grown = fake::run(fake::request(folder_, guess_), script);
  EXPECT_EQ(grown.exit_code, 0);
  EXPECT_EQ(stage_of(grown, "guess").tasks_grown, 1);
  EXPECT_EQ(stage_of(grown, "guess").tasks_retried, 0);
  EXPECT_EQ(stage_of(grown, "guess").attempts, 16);
  EXPECT_GE(stage_of(grown, "guess").allowed_bytes, 30 * MiB);
}

TEST_F(RunTest, AskHoldsTheCallAndTheAnswerGrowsIt) {
  fake::Decisions decider;
  decider.reply = [](const Question& q) {
    return std::optional<Choice>({Choice::What::grow, q.choices.at(0).bytes, 0, 0, -1, false});
  };
  RunOptions options = with_policy(ExceedAction::ask);
  options.decider = &decider;
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 7 ? fake::wants_growth(order, 30 * MiB) : fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, guess_), script, options);
  EXPECT_EQ(result.exit_code, 0);
  ASSERT_EQ(decider.asked.size(), 1u);
  const Question& question = decider.asked[0];
  EXPECT_TRUE(question.held);
  EXPECT_EQ(question.stage, "guess");
  EXPECT_EQ(question.block_index, Shape({1, 3}));
  EXPECT_GE(question.choices[0].bytes, 30 * MiB);
  EXPECT_EQ(question.blocks_total, 16);
  EXPECT_EQ(stage_of(result, "guess").tasks_grown, 1);
}

TEST_F(RunTest, AskAfterAFailureGrowsOnlyWhatTheAnswerSays) {
  fake::Decisions decider;
  decider.reply = [](const Question&) {
    return std::optional<Choice>({Choice::What::grow, 60 * MiB, 0, 0, -1, false});
  };
  RunOptions options = with_policy(ExceedAction::ask);
  options.decider = &decider;
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block >= 14 && order.attempt == 1 ? fake::exceeded(order, 9 * MiB) : fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, guess_), script, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(decider.asked.size(), 2u) << "each block asks";
  EXPECT_FALSE(decider.asked[0].held);
  EXPECT_EQ(script.submitted.back().limit, 60 * MiB);
}

TEST_F(RunTest, AnAnswerForAlwaysIsAskedForOnce) {
  fake::Decisions decider;
  decider.reply = [](const Question&) { return std::optional<Choice>({Choice::What::grow, 0, 0, 0, -1, true}); };
  RunOptions options = with_policy(ExceedAction::ask);
  options.decider = &decider;
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block >= 10 && order.attempt == 1 ? fake::exceeded(order, 9 * MiB) : fake::done(plan, order);
  };
  EXPECT_EQ(fake::run(fake::request(folder_, guess_), script, options).exit_code, 0);
  EXPECT_LE(decider.asked.size(), 2u) << "two may be out before the first answer";
}

// Two calls are held at once; the person answers one, for always, and leaves.
TEST_F(RunTest, AnAnswerForAlwaysSettlesWhatIsOpenAlready) {
  for (const bool held : {true, false}) {
    const Folder folder;
    const Array guess = fake::call("fake.guess", folder.source({128, 128}, {32, 32}), "guess", mib(8));
    fake::Decisions decider;
    decider.reply = [&](const Question& q) {
      if (decider.asked.size() < 2) return std::optional<Choice>();
      return std::optional<Choice>({Choice::What::grow, q.choices.at(0).bytes, 0, 0, -1, true});
    };
    RunOptions options = with_policy(ExceedAction::ask);
    options.decider = &decider;
    Script script;
    script.outcome = [held](const Plan& plan, const TaskOrder& order) {
      if (order.block < 14 || order.attempt > 1) return fake::done(plan, order);
      return held ? fake::wants_growth(order, 30 * MiB) : fake::exceeded(order, 30 * MiB);
    };
    const RunResult result = fake::run(fake::request(folder, guess), script, options);
    EXPECT_EQ(result.exit_code, 0) << "held " << held;
    EXPECT_EQ(decider.asked.size(), 2u);
    EXPECT_EQ(decider.withdrawn, std::vector<int>{decider.asked[0].id});
    EXPECT_EQ(held ? stage_of(result, "guess").tasks_grown : stage_of(result, "guess").tasks_retried, 2);
  }
}

// Given before a kill, for one block or always; after a run that ended by itself the person may have changed his mind.
TEST_F(RunTest, AnswersOutliveAKillAndNoMore) {
  for (const auto& [killed, always, asked] : {std::tuple{true, true, 0}, {true, false, 1}, {false, true, 2}}) {
    const Folder folder;
    const Array guess = fake::call("fake.guess", folder.source({128, 128}, {32, 32}), "guess", mib(8));
    const PlanRequest request = fake::request(folder, guess);
    std::filesystem::create_directories(request.options.run_dir);
    {
      Journal journal(request.options.run_dir, Journal::Mode::create);
      journal.begin_run();
      journal.add_answer({"guess", 14, "grow", 60 * MiB, always});
      if (!killed) journal.end_run("exceeded", 1, 1);
      journal.commit(true);
    }
    fake::Decisions decider;
    decider.reply = [](const Question&) { return std::optional<Choice>({Choice::What::park, 0, 0, 0, -1, false}); };
    RunOptions options = with_policy(ExceedAction::ask);
    options.decider = &decider;
    Script script;
    script.outcome = [](const Plan& plan, const TaskOrder& order) {
      return order.block >= 14 && order.limit < 60 * MiB ? fake::exceeded(order, 9 * MiB) : fake::done(plan, order);
    };
    const RunResult result = fake::run(request, script, options);
    EXPECT_EQ(decider.asked.size(), static_cast<std::size_t>(asked)) << "killed " << killed << ", always " << always;
    EXPECT_EQ(result.exit_code, asked == 0 ? 0 : 4);
    EXPECT_EQ(stage_of(result, "guess").parked, asked);
  }
}

TEST_F(RunTest, TheQuestionOffersNoMoreThanTheBudget) {
  fake::Decisions decider;
  decider.reply = [](const Question&) { return std::optional<Choice>({Choice::What::park, 0, 0, 0, -1, false}); };
  RunOptions options = with_policy(ExceedAction::ask);
  options.decider = &decider;
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 1 ? fake::exceeded(order, 9 * MiB) : fake::done(plan, order);
  };
  const PlanRequest request = fake::request(folder_, guess_);
  fake::run(request, script, options);
  ASSERT_EQ(decider.asked.size(), 1u);
  int alone = 0;
  for (const Choice& choice : decider.asked[0].choices) {
    EXPECT_LE(choice.total, request.options.budget) << to_string(choice.what);
    alone += choice.what == Choice::What::alone;
  }
  EXPECT_EQ(alone, 1);
}

TEST_F(RunTest, AnswersParkAndStop) {
  for (const auto what : {Choice::What::park, Choice::What::stop}) {
    const Folder folder;
    const Array guess = fake::call("fake.guess", folder.source({128, 128}, {32, 32}), "guess", mib(8));
    fake::Decisions decider;
    decider.reply = [what](const Question&) { return std::optional<Choice>({what, 0, 0, 0, -1, false}); };
    RunOptions options = with_policy(ExceedAction::ask);
    options.decider = &decider;
    Script script;
    script.outcome = [](const Plan& plan, const TaskOrder& order) {
      return order.block == 1 ? fake::exceeded(order, 9 * MiB) : fake::done(plan, order);
    };
    const RunResult result = fake::run(fake::request(folder, guess), script, options);
    EXPECT_EQ(result.exit_code, 4);
    if (what == Choice::What::park) {
      EXPECT_EQ(stage_of(result, "guess").tasks_done, 15);
    } else {
      EXPECT_LT(script.submitted.size(), 10u);
    }
  }
}

TEST_F(RunTest, AskWithNobodyToAskParks) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    return order.block == 1 ? fake::exceeded(order, 9 * MiB) : fake::done(plan, order);
  };
  const RunResult result = fake::run(fake::request(folder_, guess_), script, with_policy(ExceedAction::ask));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(stage_of(result, "guess").attempts, 16);
}

// --- learning

TEST_F(RunTest, UnknownMemoryRunsOneAtATimeUntilFiveBlocksHaveTaught) {
  Script script;
  script.outcome = [](const Plan& plan, const TaskOrder& order) {
    TaskEvent event = fake::done(plan, order);
    event.result.call_peak = 10 * MiB;
    return event;
  };
  const RunResult result =
      fake::run(fake::request(folder_, fake::call("fake.unknown", image_, "u"), 400 * MiB), script);
  EXPECT_EQ(result.exit_code, 0);
  ASSERT_EQ(script.submitted.size(), 16u);
  for (std::size_t k = 0; k < 5; ++k) EXPECT_GT(script.submitted[k].allowance, 300 * MiB) << k;
  for (std::size_t k = 5; k < 16; ++k)
    EXPECT_NEAR(static_cast<double>(script.submitted[k].allowance), 11.0 * MiB, 2) << k;
  EXPECT_EQ(script.most_running, 2u);
}

TEST_F(RunTest, SiblingsRaiseFirstSizesAndTheNextRunRemembers) {
  const auto outcome = [](const Plan& plan, const TaskOrder& order) {
    TaskEvent event = fake::done(plan, order);
    event.result.call_peak = 12 * MiB;
    return event;
  };
  Script script;
  script.outcome = outcome;
  fake::run(fake::request(folder_, guess_), script);
  EXPECT_EQ(script.submitted.front().allowance, 8 * MiB);
  EXPECT_NEAR(static_cast<double>(script.submitted.back().allowance), 13.2 * MiB, 2);
  std::filesystem::remove(folder_ / "out.zarr/c/2/2");
  Script again;
  again.outcome = outcome;
  fake::run(fake::request(folder_, guess_), again);
  ASSERT_EQ(again.submitted.size(), 1u);
  EXPECT_NEAR(static_cast<double>(again.submitted[0].allowance), 13.2 * MiB, 2);
}

// --- what is kept

TEST_F(RunTest, AMissingOrCutChunkIsComputedAgain) {
  Script first;
  fake::run(fake::request(folder_, two_), first);
  std::filesystem::remove(folder_ / "out.zarr/c/0/0");
  std::ofstream(folder_ / "out.zarr/c/3/3", std::ios::trunc) << "short";
  Script second;
  const RunResult result = fake::run(fake::request(folder_, two_), second);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(stage_of(result, "halo").attempts, 2);
  EXPECT_EQ(stage_of(result, "halo").tasks_reused, 14);
  EXPECT_EQ(stage_of(result, "guess").attempts, 8) << "the intermediate blocks that those two read";
}

TEST_F(RunTest, AChangedInputChunkIsFollowedThroughAndNothingElse) {
  Script first;
  fake::run(fake::request(folder_, two_), first);
  std::ofstream(folder_ / "image.zarr/c/0/0", std::ios::trunc) << "another length";
  Script second;
  const RunResult result = fake::run(
      fake::request(
          folder_, fake::call("fake.halo",
                              fake::call("fake.guess", folder_.source({128, 128}, {32, 32}), "guess", mib(8)), "halo")),
      second);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(stage_of(result, "halo").attempts, 4) << "the four that read block (0, 0)";
  EXPECT_EQ(stage_of(result, "guess").attempts, 9) << "all that those four read: (0..2, 0..2)";
}

TEST_F(RunTest, OtherParametersComputeAgain) {
  Script first;
  fake::run(fake::request(folder_, guess_), first);
  Script second;
  const RunResult result = fake::run(fake::request(folder_, fake::call("fake.guess", image_, "guess", mib(9))), second);
  EXPECT_EQ(stage_of(result, "guess").attempts, 16);
  EXPECT_EQ(result.exit_code, 0);
}

TEST_F(RunTest, FreshStartsAnew) {
  Script first;
  fake::run(fake::request(folder_, two_), first);
  RunOptions options;
  options.fresh = true;
  Script second;
  const RunResult result = fake::run(fake::request(folder_, two_), second, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(second.submitted.size(), 32u);
}

TEST_F(RunTest, AnInterruptedRunGoesOn) {
  Script script;
  script.before_collect = [&] {
    if (script.finished.size() == 10) raise(SIGINT);
  };
  const RunResult stopped = fake::run(fake::request(folder_, two_), script);
  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_EQ(to_string(stopped.status), "interrupted");
  const std::int64_t kept = stage_of(stopped, "guess").tasks_done + stage_of(stopped, "halo").tasks_done;
  EXPECT_GE(kept, 10);
  EXPECT_LT(kept, 14);
  Script second;
  const RunResult result = fake::run(fake::request(folder_, two_), second);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(static_cast<std::int64_t>(second.submitted.size()), 32 - kept);
}

TEST_F(RunTest, ARunDirectoryInUseIsRefusedBeforeAnything) {
  const RunLock lock(folder_ / "run");
  Script script;
  try {
    fake::run(fake::request(folder_, two_), script);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.message(), HasSubstr(std::to_string(getpid())));
  }
}

TEST_F(RunTest, ADamagedJournalIsRefusedWithAWayOut) {
  Script first;
  fake::run(fake::request(folder_, two_), first);
  std::ofstream(folder_ / "run/journal.sqlite", std::ios::trunc) << std::string(8192, 'z');
  Script script;
  try {
    fake::run(fake::request(folder_, two_), script);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.message(), HasSubstr("--fresh"));
  }
}

TEST_F(RunTest, APluginThatCannotBeLoadedLeavesNothingBehind) {
  ExecutorFactory factory;
  factory.workers = [](auto, int, int) -> std::unique_ptr<Executor> {
    throw Error(ErrorKind::plugin, "undefined symbol: f");
  };
  try {
    run_with(fake::request(folder_, guess_), {&fake::kernels()}, {}, factory);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.message(), HasSubstr("undefined symbol"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.zarr"));
}

TEST_F(RunTest, ARefusedPlanWritesNothing) {
  Script script;
  const RunResult result = fake::run(fake::request(folder_, guess_, 20 * MiB), script);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(to_string(result.status), "refused");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(RunTest, OverwritingRefusesAGroup) {
  std::filesystem::create_directories(folder_ / "out.zarr");
  std::ofstream(folder_ / "out.zarr/zarr.json") << R"({"zarr_format": 3, "node_type": "group"})";
  PlanRequest request = fake::request(folder_, guess_);
  request.outputs[0].overwrite = true;
  Script script;
  EXPECT_THROW(fake::run(request, script), Error);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out.zarr/zarr.json"));
}

TEST_F(RunTest, OverwritingReplacesAnArray) {
  folder_.source({500, 2}, {1, 1}, "out");
  PlanRequest request = fake::request(folder_, guess_);
  request.outputs[0].overwrite = true;
  Script script;
  EXPECT_EQ(fake::run(request, script).exit_code, 0);
  EXPECT_EQ(ZarrArray::open(folder_ / "out.zarr").shape(), Shape({128, 128}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.zarr/c/400/1")) << "nothing of the old one is left";
}

}  // namespace
}  // namespace cuboid
