// Tables, progress and the question, as text.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <thread>

#include "engine/report/plan_table.h"
#include "engine/report/progress.h"
#include "engine/report/question.h"
#include "engine/report/run_record.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() { ::close(ends[0]), close_writer(); }
  void close_writer() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  void put(const std::string& text) {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string take() {
    std::string text(1 << 16, '\0');
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const ssize_t got = ::read(ends[0], text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
};

TEST(Tables, AlignColumnsAndLeaveNoTrailingBlanks) {
  Table table;
  table.columns = {{"name"}, {"size", true}, {"what"}};
  table.rows = {{"a", "1", "x"}, {"größer", "1000", ""}, {"c"}};
  EXPECT_EQ(to_text(table, {}),
            "name    size  what\n"
            "a          1  x\n"
            "größer  1000\n"
            "c\n");
}

TEST(Tables, ColourOnlyWhereAsked) {
  EXPECT_EQ(paint({false}, Ink::red, "x"), "x");
  EXPECT_EQ(paint({true}, Ink::red, "x"), "\x1b[31mx\x1b[0m");
  Pipe pipe;
  EXPECT_FALSE(style_for(pipe.ends[1]).colour);
}

TEST(Tables, DurationsReadWell) {
  EXPECT_EQ(format_seconds(0.0123), "12 ms");
  EXPECT_EQ(format_seconds(1.84), "1.8 s");
  EXPECT_EQ(format_seconds(243), "4 min 03 s");
  EXPECT_EQ(format_seconds(7500), "2 h 05 min");
}

Plan small_plan() {
  Plan plan;
  plan.options.budget = 1u << 30;
  plan.options.workers = 2;
  PlanArray image{.name = "image",
                  .role = PlanArray::Role::source,
                  .spec = ArraySpec(kUint8, {872, 1000, 3}),
                  .chunks = {256, 256, 3},
                  .zarr = {},
                  .location = "image.zarr"};
  PlanArray smooth{.name = "smooth",
                   .role = PlanArray::Role::output,
                   .spec = ArraySpec(kFloat64, {872, 1000}),
                   .chunks = {256, 256},
                   .producer = 0,
                   .zarr = {},
                   .location = "out/smooth.zarr"};
  PlanArray rows{.name = "sources",
                 .role = PlanArray::Role::pieces,
                 .spec = ArraySpec(kFloat64, {80000, 6}),
                 .chunks = {5000, 6},
                 .producer = 1,
                 .zarr = {},
                 .location = "run/sources"};
  rows.spec.extents[0].trust = Trust::bound;
  plan.arrays = {image, smooth, rows};
  Stage first;
  first.name = "smooth";
  first.function = "filter.gaussian/1";
  first.steps = {"grey", "smooth"};
  first.inputs = {0};
  first.outputs = {1};
  first.numbers = {16, 8u << 20, 2, 2616000, 6976000};
  Stage second;
  second.name = "sources";
  second.function = "sky.sources/1";
  second.steps = {"sources"};
  second.confidence = Confidence::unsafe;
  second.approximate = true;
  second.inputs = {1};
  second.outputs = {2};
  second.numbers = {16, 71303168, 2, 7000000, 3840000};
  plan.stages = {first, second};
  plan.tasks = 32;
  plan.bytes_read = 9616000;
  plan.bytes_written = 10816000;
  plan.disk_peak = 9000000;
  return plan;
}

TEST(PlanTable, IsARowAStageThenTheTotals) {
  EXPECT_EQ(plan_table(small_plan(), {}),
            "stage                   function           confidence  tasks  memory/task  at once  output        "
            "     read    written\n"
            "smooth (grey + smooth)  filter.gaussian/1  exact          16        8 MiB        2  (872, 1000)   "
            " 2.49 MiB   6.65 MiB\n"
            "sources                 sky.sources/1      unsafe        ~16      ~68 MiB       ~2  (<=80000, 6)  "
            "~6.68 MiB  ~3.66 MiB\n"
            "\n"
            "2 stages, 32 tasks; reads 9.17 MiB, writes 10.3 MiB, at most 8.58 MiB on disk\n"
            "budget 1 GiB, 2 tasks at once at most; the tasks of a stage take up to 136 MiB\n");
}

TEST(PlanTable, SaysWhichStageDecidesAndWhatWouldLowerIt) {
  Plan plan = small_plan();
  plan.deciding = Deciding{"sources", 90u << 20};
  EXPECT_THAT(plan_table(plan, {}), HasSubstr("decided by 'sources': the plan needs 90 MiB\n"));
  plan.deciding->chunks = Shape{128, 256};
  plan.deciding->step = "sources";
  plan.deciding->budget_then = 50u << 20;
  EXPECT_THAT(plan_table(plan, {}),
              HasSubstr("decided by 'sources': the plan needs 90 MiB; with chunks: [128, 256] for "
                        "'sources' that stage needs 50 MiB\n"));
}

TEST(PlanTable, ShowsWhatBlocksOfUnsafeStagesTaught) {
  const Plan plan = small_plan();
  EXPECT_EQ(confidence_text(plan.stages[0], {4, 0}), "exact");
  EXPECT_EQ(confidence_text(plan.stages[1], {}), "unsafe");
  EXPECT_EQ(confidence_text(plan.stages[1], {12, 0}), "learned(12)");
  EXPECT_EQ(confidence_text(plan.stages[1], {12, 64u << 20}), ">64 MiB");
  EXPECT_THAT(plan_table(plan, {}, {{"sources", {12, 0}}}), HasSubstr("learned(12)"));
}

TEST(PlanTable, RefusalNamesStageNumberAndRemedy) {
  Plan plan = small_plan();
  EXPECT_EQ(refusal_text(plan), "");
  plan.refused = Refusal{"memory", "sources", 71303168, 32u << 20, "a budget of 96 MiB would do"};
  EXPECT_EQ(refusal_text(plan),
            "refused: one task of stage 'sources' takes 68 MiB, which does not fit the budget of 32 MiB; a budget "
            "of 96 MiB would do");
}

TEST(PlanTable, DotNamesArraysAndStages) {
  const std::string dot = plan_dot(small_plan());
  EXPECT_THAT(dot, HasSubstr("array0 -> stage0;"));
  EXPECT_THAT(dot, HasSubstr("stage1 -> array2;"));
  EXPECT_THAT(dot, HasSubstr("sources (<=80000, 6) float64"));
}

RunEvent event(RunEvent::What what, int stage = -1, std::int64_t block = -1, std::uint64_t bytes = 0,
               std::string text = "") {
  RunEvent e;
  e.what = what;
  e.stage = stage;
  e.block = block;
  e.bytes = bytes;
  e.text = std::move(text);
  return e;
}

TEST(ProgressLines, PlainOnesTellStagesAndTroubles) {
  Pipe pipe;
  Terminal terminal(pipe.ends[1], false);
  std::chrono::steady_clock::time_point now{};
  Progress progress(terminal, {ProgressMode::plain}, [&now] { return now; });
  const Plan plan = small_plan();
  RunEvent planned = event(RunEvent::What::planned);
  planned.plan = &plan;
  progress.on_event(planned);
  progress.on_event(event(RunEvent::What::task_started, 0, 0, 8u << 20));
  now += std::chrono::milliseconds(1500);
  progress.on_event(event(RunEvent::What::task_done, 0, 0, 1u << 20));
  progress.on_event(event(RunEvent::What::stage_done, 0));
  progress.on_event(event(RunEvent::What::task_retried, 1, 5, 64u << 20, "its own account refused"));
  EXPECT_EQ(pipe.take(),
            "32 tasks in 2 stages\n"
            "smooth: 1 task in 1.5 s\n"
            "sources, block 5: tried again with 64 MiB: its own account refused\n");
}

TEST(ProgressLines, ABarIsRewrittenAtMostTenTimesASecond) {
  Pipe pipe;
  Terminal terminal(pipe.ends[1], true);
  std::chrono::steady_clock::time_point now{};
  Progress progress(terminal, {ProgressMode::bar}, [&now] { return now; });
  const Plan plan = small_plan();
  RunEvent planned = event(RunEvent::What::planned);
  planned.plan = &plan;
  progress.on_event(planned);
  for (int k = 0; k < 16; ++k) {
    progress.on_event(event(RunEvent::What::task_started, 0, k, 8u << 20));
    now += std::chrono::milliseconds(10);
    progress.on_event(event(RunEvent::What::task_done, 0, k, 1u << 20));
  }
  const std::string shown = pipe.take();
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 0);
  EXPECT_LE(std::count(shown.begin(), shown.end(), '\r'), 3);
  EXPECT_EQ(progress.status(79), "[############............] 16/32  smooth  0.2 s left");
  EXPECT_EQ(progress.status(20), "[############.......");
}

// Of a run that goes on: what is kept counts as done, also what turns out to be kept later, and the time that is left
// follows from what this run computed since its first task.
TEST(ProgressLines, KeptTasksCountAndDoNotSpoilTheEstimate) {
  Pipe pipe;
  Terminal terminal(pipe.ends[1], true);
  std::chrono::steady_clock::time_point now{};
  Progress progress(terminal, {ProgressMode::bar}, [&now] { return now; });
  const Plan plan = small_plan();
  RunEvent planned = event(RunEvent::What::planned);
  planned.plan = &plan;
  progress.on_event(planned);
  RunEvent kept = event(RunEvent::What::resumed);
  kept.count = 10;
  progress.on_event(kept);
  now += std::chrono::seconds(30);  // comparing inputs
  for (int k = 0; k < 4; ++k) {
    progress.on_event(event(RunEvent::What::task_started, 0, 10 + k, 8u << 20));
    now += std::chrono::seconds(1);
    progress.on_event(event(RunEvent::What::task_done, 0, 10 + k, 1u << 20));
  }
  kept.count = 2;
  progress.on_event(kept);
  EXPECT_EQ(progress.status(79), "[############............] 16/32  smooth  16.0 s left");
  const std::string shown = pipe.take();
  EXPECT_THAT(shown, HasSubstr("goes on: 10 tasks kept from before"));
  EXPECT_THAT(shown, testing::Not(HasSubstr("2 tasks kept")));
}

Question question() {
  Question q;
  q.id = 7;
  q.stage = "sources";
  q.function = "crowd.sources/1";
  q.block = 5;
  q.block_index = {1, 1};
  q.allowed = 32u << 20;
  q.peak = 32u << 20;
  q.needed = 100u << 20;
  q.attempt = 1;
  q.max_attempts = 4;
  q.blocks_kept = 12;
  q.blocks_total = 16;
  q.tasks_kept = 30;
  q.tasks_total = 49;
  q.total_now = 120u << 20;
  Choice grow;
  grow.what = Choice::What::grow;
  grow.bytes = 128u << 20;
  grow.concurrency = 1;
  grow.total = 180u << 20;
  grow.seconds = 4;
  Choice alone = grow, park, stop;
  alone.what = Choice::What::alone;
  park.what = Choice::What::park;
  stop.what = Choice::What::stop;
  q.choices = {grow, alone, park, stop};
  return q;
}

TEST(QuestionText, TellsWhatEachAnswerCosts) {
  EXPECT_EQ(
      question_text(question(), {}),
      "sources, block 5 (1, 1): needs more memory than was estimated\n"
      "  crowd.sources/1 was allowed 32 MiB, took 32 MiB, needs at least 100 MiB; attempt 1 of 4\n"
      "  kept whatever you answer: 12 of 16 blocks of this stage, 30 of 49 tasks; the run takes 120 MiB now\n"
      "  yes     try again with 128 MiB; 1 at once; the run then takes 180 MiB; about 4.0 s for the rest of the stage\n"
      "  alone   try again while nothing else runs, with 128 MiB; 1 at once; the run then takes 180 MiB; about 4.0 s "
      "for "
      "the rest of the stage\n"
      "  park    set the block aside, finish what is independent, then stop; can be resumed\n"
      "  stop    start nothing more and stop; can be resumed\n"
      "  a size  that much instead, such as 256MiB\n"
      "what now? (with ! at the end: always for this step) ");
}

TEST(QuestionText, UnderstandsEveryAnswer) {
  const Question q = question();
  EXPECT_EQ(parse_answer(q, "yes").choice->what, Choice::What::grow);
  EXPECT_EQ(parse_answer(q, "yes").choice->bytes, 128u << 20);
  EXPECT_FALSE(parse_answer(q, "yes").choice->always);
  EXPECT_TRUE(parse_answer(q, " YES! ").choice->always);
  EXPECT_EQ(parse_answer(q, "grow").choice->bytes, 128u << 20);  // what was proposed
  EXPECT_EQ(parse_answer(q, "256MiB").choice->bytes, 256u << 20);
  EXPECT_EQ(parse_answer(q, "1.5GiB !").choice->bytes, 1536u << 20);
  EXPECT_TRUE(parse_answer(q, "256 MiB!").choice->always);
  EXPECT_EQ(parse_answer(q, "alone").choice->what, Choice::What::alone);
  EXPECT_EQ(parse_answer(q, "park").choice->what, Choice::What::park);
  EXPECT_EQ(parse_answer(q, "stop!").choice->what, Choice::What::stop);
}

TEST(QuestionText, RefusesOtherAnswersWithWhatIsAccepted) {
  const Question q = question();
  for (const char* line : {"", "perhaps", "split", "no", "!"}) {
    EXPECT_FALSE(parse_answer(q, line).choice) << line;
    EXPECT_THAT(parse_answer(q, line).complaint,
                HasSubstr("answer `yes`, a size such as 256MiB, `alone`, `park`, `stop`"))
        << line;
  }
  EXPECT_THAT(parse_answer(q, "16MiB").complaint, HasSubstr("not more than the 32 MiB"));
  EXPECT_THAT(parse_answer(q, "12parsecs").complaint, HasSubstr("parsecs"));
}

TEST(TerminalDecider, AsksOneAtATimeAndNeverWaits) {
  Pipe screen, keys;
  Terminal terminal(screen.ends[1], true);
  TerminalDecider decider(terminal, keys.ends[0]);
  EXPECT_EQ(decider.descriptor(), keys.ends[0]);
  Question first = question(), second = question();
  second.id = 8;
  second.block = 6;
  decider.ask(first);
  decider.ask(second);
  EXPECT_THAT(screen.take(), HasSubstr("block 5"));
  EXPECT_TRUE(decider.answers().empty());
  keys.put("perh");
  EXPECT_TRUE(decider.answers().empty());
  keys.put("aps\nyes!\n");
  const auto answers = decider.answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].id, 7);
  EXPECT_TRUE(answers[0].choice.always);
  const std::string shown = screen.take();
  EXPECT_THAT(shown, HasSubstr("answer `yes`"));
  EXPECT_THAT(shown, HasSubstr("block 6"));
  keys.close_writer();
  const auto last = decider.answers();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].id, 8);
  EXPECT_EQ(last[0].choice.what, Choice::What::park);
  EXPECT_EQ(decider.descriptor(), -1);
}

TEST(TerminalDecider, WithdrawnQuestionsLeaveTheScreen) {
  Pipe screen, keys;
  Terminal terminal(screen.ends[1], true);
  TerminalDecider decider(terminal, keys.ends[0]);
  Question first = question(), second = question(), third = question();
  second.id = 8;
  second.block = 6;
  third.id = 9;
  third.block = 7;
  for (const Question& each : {first, second, third}) decider.ask(each);
  screen.take();
  decider.withdraw(8);
  EXPECT_EQ(screen.take(), "") << "it was not on the screen yet";
  decider.withdraw(7);
  EXPECT_THAT(screen.take(), HasSubstr("block 7"));
  keys.put("park\n");
  const auto answers = decider.answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].id, 9);
}

TEST(TerminalDecider, LinesStayAboveTheQuestion) {
  Pipe screen;
  Terminal terminal(screen.ends[1], true);
  terminal.set_status("[##..] 1/2");
  terminal.prompt("several\nlines\nwhat now? ");
  screen.take();
  terminal.set_status("[####] 2/2");
  EXPECT_EQ(screen.take(), "");
  terminal.line("a notice");
  EXPECT_EQ(screen.take(), "\r\x1b[Ka notice\nwhat now? ");
  terminal.end_prompt();
  EXPECT_EQ(screen.take(), "\r[####] 2/2\x1b[K");
}

TEST(HtmlReport, ShowsStagesAndTroublesAndEscapesNames) {
  RunRecord record;
  record.run_dir = "a<b>.run";
  record.budget = 1u << 30;
  record.tasks = 3;
  RecordedStage stage;
  stage.name = "smooth";
  stage.function = "filter.gaussian/1";
  stage.confidence = "exact";
  stage.tasks = 3;
  stage.done = 2;
  stage.projected = 8u << 20;
  stage.peak = stage.allowed = 6u << 20;
  stage.peaks = {5u << 20, 6u << 20};
  record.stages = {stage};
  record.arrays = {{"smooth", "output", "float64", "out/\"x\".zarr", "(3, 4)"}};
  record.failures = {
      {.stage = "smooth", .block = 2, .outcome = "failed", .evidence = "none", .message = "5 < 6 & more"}};
  JournalRun run;
  run.status = "failed";
  record.runs = {run};
  const std::string html = html_report(record);
  for (const char* part :
       {"a&lt;b&gt;.run", "out/&quot;x&quot;.zarr", "5 &lt; 6 &amp; more", "2 / 3", "6 MiB measured", ">failed<"})
    EXPECT_THAT(html, HasSubstr(part));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("a<b>")));
}

}  // namespace
}  // namespace cuboid
