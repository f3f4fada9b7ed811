#include "engine/run/worker_questions.h"

#include <gmock/gmock.h>

#include "storage/error.h"

namespace cuboid {
namespace {

using std::chrono::milliseconds;

std::string failure(WorkerQuestions& questions, const std::string& question, milliseconds timeout) {
  try {
    questions.ask(question, timeout);
    return "answered";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(WorkerQuestions, AreAnsweredOneAfterAnotherByOneProcess) {
  WorkerQuestions questions(FAKE_WORKER);
  std::string noted;
  const auto note = [&](const std::string& text) { noted = text; };
  EXPECT_EQ(questions.ask("why", milliseconds(20000), note), "why");
  EXPECT_EQ(noted, "thinking of why");
  EXPECT_EQ(questions.ask(std::string(1 << 20, 'x'), milliseconds(20000)), std::string(1 << 20, 'x'));
}

TEST(WorkerQuestions, DeathIsAnErrorAndTheNextQuestionIsAnswered) {
  WorkerQuestions questions(FAKE_WORKER);
  EXPECT_THAT(failure(questions, "die", milliseconds(20000)), testing::HasSubstr("signal 6"));
  EXPECT_EQ(questions.ask("again", milliseconds(20000)), "again");
}

TEST(WorkerQuestions, SilenceIsAnErrorAndTheNextQuestionIsAnswered) {
  WorkerQuestions questions(FAKE_WORKER);
  EXPECT_THAT(failure(questions, "sleep", milliseconds(200)), testing::HasSubstr("no answer in time"));
  EXPECT_EQ(questions.ask("again", milliseconds(20000)), "again");
}

}  // namespace
}  // namespace cuboid
