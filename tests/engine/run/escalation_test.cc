// Every expected number here was computed by hand from DESIGN.md, "When an estimate was too low".
#include "engine/run/escalation.h"

#include <gtest/gtest.h>

#include <vector>

namespace cuboid {
namespace {

constexpr std::uint64_t MiB = 1u << 20;
using What = Next::What;

// A task of 10 MiB sure bytes, 6 of them around the call, and 8 MiB declared: 14 MiB in all. The run has 400 MiB, so a
// task beside others may take 100.
StageLimits limits_of(ExceedAction action = ExceedAction::grow) {
  StageLimits limits;
  limits.rules = {action, 2.0, 300 * MiB, 4};
  limits.budget = 400 * MiB;
  limits.projection.sure = 10 * MiB;
  limits.projection.around_call = 6 * MiB;
  limits.projection.uncertain = 8 * MiB;
  limits.projection.peak = 14 * MiB;
  return limits;
}

FailedAttempt exceeded(std::uint64_t allowed, std::uint64_t peak, std::uint64_t needed = 0,
                       Evidence evidence = Evidence::own_account) {
  return {TaskEvent::What::exceeded, evidence, allowed * MiB, peak * MiB, needed * MiB, false};
}
FailedAttempt alone(FailedAttempt attempt) {
  attempt.alone = true;
  return attempt;
}
FailedAttempt in_pieces(std::int64_t splits, FailedAttempt attempt) {
  attempt.splits = splits;
  return attempt;
}
FailedAttempt died(Evidence evidence) { return {TaskEvent::What::died, evidence, 8 * MiB, 0, 0, false}; }

struct Row {
  const char* name;
  StageLimits limits;
  std::vector<FailedAttempt> history;
  SiblingStats siblings;
  bool can_split;
  What what;
  std::uint64_t allowance;
  What proposed = What::retry;
};

StageLimits with(StageLimits limits, auto change) {
  change(limits);
  return limits;
}

std::vector<Row> rows() {
  const SiblingStats none;
  SiblingStats greedy;  // a sibling took 40 MiB of 8 declared: 1.1 x 5 x 8 = 44
  greedy.add_failed(40 * MiB, 8 * MiB);
  const StageLimits grow = limits_of();
  const auto attempts = [](int n) { return [n](StageLimits& l) { l.rules.max_attempts = n; }; };
  return {
      {"twice what was allowed", grow, {exceeded(8, 7)}, none, false, What::retry, 16 * MiB},
      {"twice the peak where that is more", grow, {exceeded(8, 9)}, none, false, What::retry, 18 * MiB},
      {"what the plugin said", grow, {exceeded(8, 7, 50)}, none, false, What::retry, 50 * MiB},
      {"the worst sibling, 1.1 times", grow, {exceeded(8, 7)}, greedy, false, What::retry, 44 * MiB + 1},
      {"own limit raises too", grow, {exceeded(8, 8, 0, Evidence::own_limit)}, none, false, What::retry, 16 * MiB},
      {"factor 1.5",
       with(grow, [](StageLimits& l) { l.rules.factor = 1.5; }),
       {exceeded(8, 8)},
       none,
       false,
       What::retry,
       12 * MiB},
      {"nothing declared counts as 1 MiB",
       with(grow, [](StageLimits& l) { l.projection.uncertain = 0; }),
       {exceeded(0, 0)},
       none,
       false,
       What::retry,
       2 * MiB},
      {"second growth", grow, {exceeded(8, 8), exceeded(16, 16)}, none, false, What::retry, 32 * MiB},
      // 6 + 94 = 100 fits a quarter of 400; 6 + 95 does not.
      {"just within a quarter of the budget", grow, {exceeded(8, 7, 94)}, none, false, What::retry, 94 * MiB},
      {"beyond a quarter: alone with the cap", grow, {exceeded(8, 7, 95)}, none, false, What::retry_alone, 294 * MiB},
      {"beyond a quarter: split first", grow, {exceeded(8, 7, 95)}, none, true, What::split, 8 * MiB},
      {"beyond the cap",
       with(grow, [](StageLimits& l) { l.rules.cap = 20 * MiB; }),
       {exceeded(8, 8)},
       none,
       false,
       What::retry_alone,
       14 * MiB},
      {"the cap is no help",
       with(grow, [](StageLimits& l) { l.rules.cap = 14 * MiB; }),
       {exceeded(8, 8)},
       none,
       false,
       What::park,
       0},
      {"says it needs more than the cap", grow, {exceeded(8, 8, 295)}, none, false, What::park, 0},
      {"the last of four is alone",
       grow,
       {exceeded(8, 8), exceeded(16, 16), exceeded(32, 32)},
       none,
       false,
       What::retry_alone,
       294 * MiB},
      {"the last of four, splittable",
       grow,
       {exceeded(8, 8), exceeded(16, 16), exceeded(32, 32)},
       none,
       true,
       What::split,
       32 * MiB},
      {"pieces have attempts of their own",
       grow,
       {exceeded(8, 8), exceeded(16, 16), exceeded(32, 32), in_pieces(2, exceeded(32, 32))},
       none,
       true,
       What::retry,
       64 * MiB},
      {"pieces are cut again",
       grow,
       {exceeded(8, 7, 95), in_pieces(2, exceeded(8, 7, 95))},
       none,
       true,
       What::split,
       8 * MiB},
      {"pieces that cannot be cut end alone",
       grow,
       {exceeded(8, 7, 95), in_pieces(2, exceeded(8, 7, 95))},
       none,
       false,
       What::retry_alone,
       294 * MiB},
      {"four are all",
       grow,
       {exceeded(8, 8), exceeded(16, 16), exceeded(32, 32), alone(exceeded(294, 294))},
       none,
       false,
       What::park,
       0},
      {"alone with the cap once only",
       grow,
       {exceeded(8, 7, 95), alone(exceeded(294, 294))},
       none,
       false,
       What::park,
       0},
      {"one attempt", with(grow, attempts(1)), {exceeded(8, 8)}, none, false, What::park, 0},
      {"two attempts", with(grow, attempts(2)), {exceeded(8, 8)}, none, false, What::retry_alone, 294 * MiB},
      {"the same peak twice", grow, {exceeded(8, 7), exceeded(16, 7)}, none, false, What::condemn, 0},
      {"the same peak, but more was asked for",
       grow,
       {exceeded(8, 7, 12), exceeded(16, 7, 60)},
       none,
       false,
       What::retry,
       60 * MiB},
      {"another peak", grow, {exceeded(8, 7), exceeded(16, 12)}, none, false, What::retry, 32 * MiB},
      {"host: the same, alone", grow, {died(Evidence::host)}, none, false, What::retry_alone, 8 * MiB},
      {"host three times", grow, std::vector(3, died(Evidence::host)), none, false, What::retry_alone, 8 * MiB},
      {"host four times", grow, std::vector(4, died(Evidence::host)), none, false, What::park, 0},
      {"host is not an attempt",
       with(grow, attempts(3)),
       {died(Evidence::host), died(Evidence::host), exceeded(8, 8)},
       none,
       false,
       What::retry,
       16 * MiB},
      {"unknown: once more", grow, {died(Evidence::unknown)}, none, false, What::retry, 8 * MiB},
      {"unknown twice", grow, std::vector(2, died(Evidence::unknown)), none, false, What::condemn, 0},
      {"unknown, then memory", grow, {died(Evidence::unknown), exceeded(8, 8)}, none, false, What::retry, 16 * MiB},
      {"an error at once",
       grow,
       {{TaskEvent::What::failed, Evidence::none, 8 * MiB, 0, 0, false}},
       none,
       false,
       What::condemn,
       0},
      {"a time-out at once",
       grow,
       {{TaskEvent::What::timed_out, Evidence::none, 8 * MiB, 0, 0, false}},
       none,
       false,
       What::condemn,
       0},
      {"fail", limits_of(ExceedAction::fail), {exceeded(8, 8)}, none, false, What::stop, 0},
      {"park", limits_of(ExceedAction::park), {exceeded(8, 8)}, none, false, What::park, 0},
      {"park: a death still gets its repeat",
       limits_of(ExceedAction::park),
       {died(Evidence::unknown)},
       none,
       false,
       What::retry,
       8 * MiB},
      {"park: a full machine too",
       limits_of(ExceedAction::park),
       {died(Evidence::host)},
       none,
       false,
       What::retry_alone,
       8 * MiB},
      {"fail: an error is condemned",
       limits_of(ExceedAction::fail),
       {{TaskEvent::What::failed, Evidence::none, 8 * MiB, 0, 0, false}},
       none,
       false,
       What::condemn,
       0},
      {"ask proposes growth",
       limits_of(ExceedAction::ask),
       {exceeded(8, 8)},
       none,
       false,
       What::ask,
       16 * MiB,
       What::retry},
      {"ask proposes alone",
       limits_of(ExceedAction::ask),
       {exceeded(8, 8, 200)},
       none,
       false,
       What::ask,
       294 * MiB,
       What::retry_alone},
      {"ask proposes to park",
       limits_of(ExceedAction::ask),
       {exceeded(8, 8, 295)},
       none,
       false,
       What::ask,
       0,
       What::park},
  };
}

TEST(Escalation, EveryRung) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const Next next = decide(row.limits, row.history, row.siblings, row.can_split);
    EXPECT_EQ(static_cast<int>(next.what), static_cast<int>(row.what));
    if (row.what == What::ask) {
      EXPECT_EQ(static_cast<int>(next.proposed), static_cast<int>(row.proposed));
    }
    if (row.allowance > 0 || row.what == What::retry) {
      EXPECT_NEAR(static_cast<double>(next.allowance), static_cast<double>(row.allowance), 1.0);
    }
    EXPECT_FALSE(next.why.empty());
  }
}

TEST(Escalation, FirstSizesFollowFinishedSiblings) {
  const StageLimits limits = limits_of();
  SiblingStats siblings;
  EXPECT_EQ(first_allowance(limits, siblings), 8 * MiB);
  for (int n = 0; n < 4; ++n) siblings.add_finished(20 * MiB, 8 * MiB);
  EXPECT_EQ(first_allowance(limits, siblings), 8 * MiB) << "four teach nothing yet";
  siblings.add_finished(10 * MiB, 8 * MiB);
  EXPECT_NEAR(static_cast<double>(first_allowance(limits, siblings)), 22.0 * MiB, 1.0) << "1.1 x 20";
  siblings.add_failed(100 * MiB, 8 * MiB);
  EXPECT_NEAR(static_cast<double>(first_allowance(limits, siblings)), 22.0 * MiB, 1.0)
      << "healthy blocks keep their size when another one failed";
}

TEST(Escalation, AFewCrowdedBlocksDoNotRaiseTheOthers) {
  const StageLimits limits = limits_of();
  SiblingStats siblings;
  for (int n = 0; n < 6; ++n) siblings.add_finished(7 * MiB, 8 * MiB);
  for (int n = 0; n < 6; ++n) siblings.add_finished(20 * MiB, 8 * MiB);
  EXPECT_EQ(first_allowance(limits, siblings), 8 * MiB) << "half of them are healthy";
  siblings.add_finished(20 * MiB, 8 * MiB);
  EXPECT_NEAR(static_cast<double>(first_allowance(limits, siblings)), 22.0 * MiB, 1.0) << "most of them are not";
}

TEST(Escalation, LoweringNeedsTwentySiblings) {
  const StageLimits limits = limits_of();
  SiblingStats siblings;
  for (int n = 0; n < 19; ++n) siblings.add_finished(2 * MiB, 8 * MiB);
  EXPECT_EQ(first_allowance(limits, siblings), 8 * MiB);
  siblings.add_finished(2 * MiB, 8 * MiB);
  EXPECT_NEAR(static_cast<double>(first_allowance(limits, siblings)), 2.2 * MiB, 1.0);
}

TEST(Escalation, LearnedSizesStayWithinTheCap) {
  const StageLimits limits = limits_of();
  SiblingStats siblings;
  for (int n = 0; n < 5; ++n) siblings.add_finished(290 * MiB, 8 * MiB);
  EXPECT_EQ(first_allowance(limits, siblings), 294 * MiB) << "300 less the 6 around the call";
}

TEST(Escalation, UnknownMemoryRunsOneAtATimeWithTheCapUntilFiveHaveFinished) {
  StageLimits limits = limits_of();
  limits.projection.unknown = true;
  limits.projection.uncertain = 0;
  SiblingStats siblings;
  for (int n = 0; n < 5; ++n) {
    EXPECT_TRUE(runs_one_at_a_time(limits, siblings));
    EXPECT_EQ(first_allowance(limits, siblings), 294 * MiB);
    siblings.add_finished(20 * MiB, 0);
  }
  EXPECT_FALSE(runs_one_at_a_time(limits, siblings));
  EXPECT_NEAR(static_cast<double>(first_allowance(limits, siblings)), 22.0 * MiB, 1.0);
}

TEST(Escalation, GrowthInPlaceTakesTheFactorWhereFreeElseWhatIsNeededElseNothing) {
  const StageLimits limits = limits_of();  // holds 6 + 8 = 14 MiB
  EXPECT_EQ(grow_in_place(limits, 8 * MiB, 9 * MiB, 100 * MiB), 16 * MiB);
  EXPECT_EQ(grow_in_place(limits, 8 * MiB, 9 * MiB, 8 * MiB), 16 * MiB) << "22 - 14 = 8 are free";
  EXPECT_EQ(grow_in_place(limits, 8 * MiB, 9 * MiB, 7 * MiB), 9 * MiB) << "one more is needed and free";
  EXPECT_EQ(grow_in_place(limits, 8 * MiB, 9 * MiB, MiB / 2), std::nullopt);
  EXPECT_EQ(grow_in_place(limits, 8 * MiB, 200 * MiB, 400 * MiB), 200 * MiB) << "a quarter is no limit in place";
  EXPECT_EQ(grow_in_place(limits, 8 * MiB, 294 * MiB, 400 * MiB), 294 * MiB) << "exactly the cap";
  EXPECT_EQ(grow_in_place(limits, 8 * MiB, 295 * MiB, 400 * MiB), std::nullopt) << "beyond the cap";
  EXPECT_EQ(grow_in_place(limits_of(ExceedAction::park), 8 * MiB, 9 * MiB, 100 * MiB), std::nullopt);
  EXPECT_EQ(grow_in_place(limits_of(ExceedAction::fail), 8 * MiB, 9 * MiB, 100 * MiB), std::nullopt);
}

// After twenty siblings that took little, blocks begin with less than the 8 MiB that are declared.
TEST(Escalation, WhatIsDeclaredIsGivenWhateverThePolicy) {
  for (const ExceedAction action : {ExceedAction::fail, ExceedAction::park, ExceedAction::ask, ExceedAction::grow}) {
    const StageLimits limits = limits_of(action);
    for (const std::uint64_t needed : {0, 7}) {
      const std::vector<FailedAttempt> lowered{exceeded(3, 3, needed)};
      const Next next = decide(limits, lowered, {}, true);
      EXPECT_EQ(next.what, What::retry);
      EXPECT_EQ(next.allowance, 8 * MiB);
    }
    EXPECT_EQ(grow_in_place(limits, 3 * MiB, 7 * MiB, 5 * MiB), 8 * MiB);
    EXPECT_EQ(grow_in_place(limits, 3 * MiB, 7 * MiB, 3 * MiB), 7 * MiB);
  }
  // Then, and where more than that is needed, the policy decides.
  for (const std::vector<FailedAttempt>& history :
       {std::vector{exceeded(3, 3, 7), exceeded(8, 8, 9)}, std::vector{exceeded(3, 3, 9)}}) {
    EXPECT_EQ(decide(limits_of(ExceedAction::fail), history, {}, true).what, What::stop);
    EXPECT_EQ(decide(limits_of(ExceedAction::park), history, {}, true).what, What::park);
    EXPECT_EQ(decide(limits_of(ExceedAction::ask), history, {}, true).what, What::ask);
  }
  EXPECT_EQ(grow_in_place(limits_of(ExceedAction::fail), 3 * MiB, 9 * MiB, 100 * MiB), std::nullopt);
  // It is not one of the four attempts: the fourth one still is the last.
  const std::vector<FailedAttempt> four{exceeded(3, 3, 7), exceeded(8, 8, 9), exceeded(16, 16, 17),
                                        exceeded(34, 33, 40)};
  EXPECT_EQ(decide(limits_of(), four, {}, false).what, What::retry_alone);
}

TEST(Escalation, BoundsGrowByTheFactorOrToWhatWasNeeded) {
  EXPECT_EQ(grow_bound(2, 100, std::nullopt), 200);
  EXPECT_EQ(grow_bound(2, 100, 150), 200);
  EXPECT_EQ(grow_bound(2, 100, 777), 777);
  EXPECT_EQ(grow_bound(1.5, 3, std::nullopt), 5);
  EXPECT_EQ(grow_bound(2, 0, std::nullopt), 2);
  EXPECT_THROW(grow_bound(2, std::int64_t{1} << 60, std::nullopt), Error);
}

TEST(Escalation, FlagsBeatStepsWhichBeatTheRun) {
  ExceedPolicy run, step;
  EXPECT_EQ(resolve_rules(run, step, false, 100).action, ExceedAction::grow);
  EXPECT_EQ(resolve_rules(run, step, false, 100).cap, 100u);
  run.action = ExceedAction::park, run.max_task_memory = 500, run.factor = 3;
  step.action = ExceedAction::fail, step.max_attempts = 2;
  const ExceedRules by_step = resolve_rules(run, step, false, 100);
  EXPECT_EQ(by_step.action, ExceedAction::fail);
  EXPECT_EQ(by_step.factor, 3);
  EXPECT_EQ(by_step.cap, 100u) << "never more than there is";
  EXPECT_EQ(by_step.max_attempts, 2);
  EXPECT_EQ(resolve_rules(run, step, true, 100).action, ExceedAction::park);
}

}  // namespace
}  // namespace cuboid
