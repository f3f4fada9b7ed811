// The question on a terminal: "it needs more memory: what now?", with what each answer costs, answered by one line.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/report/terminal.h"
#include "engine/run/events.h"

namespace cuboid {

// The question as people read it: several lines, the last without a line break.
std::string question_text(const Question& question, const TextStyle& style);

// What a line of an answer means: `yes`, a size, `split`, `alone`, `park`, `stop`, each with a trailing `!` for always.
// nullopt where it is none of what the question offers; `complaint` then says what was expected.
struct ParsedAnswer {
  std::optional<Choice> choice;
  std::string complaint;
};
ParsedAnswer parse_answer(const Question& question, const std::string& line);

// Asks one question at a time on `terminal` and reads lines from `input`, which is only read when it is readable: the
// loop never waits for it. At the end of input every open and later question is answered with `park`.
class TerminalDecider : public Decider {
 public:
  TerminalDecider(Terminal& terminal, int input) : terminal_(terminal), input_(input) {}
  void ask(const Question& question) override;
  void withdraw(int id) override;
  int descriptor() const override { return closed_ ? -1 : input_; }
  std::vector<Answer> answers() override;

 private:
  void show_next();
  void take_line(const std::string& line);

  Terminal& terminal_;
  int input_;
  bool closed_ = false;
  bool shown_ = false;
  std::string pending_;  // of a line that is not complete
  std::deque<Question> open_;
  std::vector<Answer> answers_;
};

}  // namespace cuboid
