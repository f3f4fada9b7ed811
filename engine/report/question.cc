#include "engine/report/question.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "storage/printable.h"

namespace cuboid {
namespace {

std::string meaning(const Choice& choice, const Question& question) {
  std::string text;
  switch (choice.what) {
    case Choice::What::grow:
      text = (question.held ? "grow in place to " : "try again with ") + format_size(choice.bytes);
      break;
    case Choice::What::alone:
      text = "try again while nothing else runs";
      if (choice.bytes > 0) text += ", with " + format_size(choice.bytes);
      break;
    case Choice::What::split:
      text = "compute the block in smaller pieces";
      break;
    case Choice::What::park:
      text = "set the block aside, finish what is independent, then stop; can be resumed";
      break;
    case Choice::What::stop:
      text = "start nothing more and stop; can be resumed";
      break;
  }
  if (choice.concurrency > 0) text += "; " + std::to_string(choice.concurrency) + " at once";
  if (choice.total > 0) text += "; the run then takes " + format_size(choice.total);
  if (choice.seconds >= 0) text += "; about " + format_seconds(choice.seconds) + " for the rest of the stage";
  return text;
}

bool offers(const Question& question, Choice::What what) {
  return std::any_of(question.choices.begin(), question.choices.end(),
                     [what](const Choice& c) { return c.what == what; });
}

std::string what_is_accepted(const Question& question) {
  std::string text = "answer `yes`";
  if (offers(question, Choice::What::grow)) text += ", a size such as 256MiB";
  for (const Choice& choice : question.choices)
    if (choice.what != Choice::What::grow) text += std::string(", `") + to_string(choice.what) + "`";
  return text + "; with a trailing ! for always";
}

}  // namespace

std::string question_text(const Question& question, const TextStyle& style) {
  std::string text = paint(style, Ink::yellow,
                           question.stage + ", block " + std::to_string(question.block) +
                               (question.block_index.empty() ? "" : " " + to_string(question.block_index)) +
                               ": needs more memory than was estimated");
  text += "\n  " + question.function + " was allowed " + format_size(question.allowed);
  if (question.peak > 0) text += ", took " + format_size(question.peak);
  if (question.needed > 0) text += ", needs at least " + format_size(question.needed);
  text += "; attempt " + std::to_string(question.attempt) + " of " + std::to_string(question.max_attempts);
  if (question.held) text += "; the call waits, growing loses nothing";
  text += "\n  kept whatever you answer: " + std::to_string(question.blocks_kept) + " of " +
          count_of(question.blocks_total, "block") + " of this stage, " + std::to_string(question.tasks_kept) + " of " +
          count_of(question.tasks_total, "task");
  if (question.total_now > 0) text += "; the run takes " + format_size(question.total_now) + " now";
  text += "\n";
  std::vector<std::pair<std::string, std::string>> lines;
  for (std::size_t k = 0; k < question.choices.size(); ++k) {
    const Choice& choice = question.choices[k];
    if (k == 0) {
      lines.emplace_back("yes", meaning(choice, question));
    } else if (choice.what == Choice::What::grow) {
      lines.emplace_back(format_size(choice.bytes), meaning(choice, question));
    } else {
      lines.emplace_back(to_string(choice.what), meaning(choice, question));
    }
  }
  if (offers(question, Choice::What::grow)) lines.emplace_back("a size", "that much instead, such as 256MiB");
  std::size_t width = 0;
  for (const auto& [word, ignored] : lines) width = std::max(width, word.size());
  for (const auto& [word, what] : lines)
    text += "  " + paint(style, Ink::bold, word) + std::string(width - word.size() + 2, ' ') + what + "\n";
  return text + "what now? (with ! at the end: always for this step) ";
}

ParsedAnswer parse_answer(const Question& question, const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  std::string word = first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
  bool always = false;
  if (!word.empty() && word.back() == '!') {
    always = true;
    word.pop_back();
    while (!word.empty() && word.back() == ' ') word.pop_back();
  }
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const std::string original = first == std::string::npos ? "" : line.substr(first);

  ParsedAnswer answer;
  if (word == "yes" || word == "y") {
    if (!question.choices.empty()) answer.choice = question.choices[0];
  } else {
    // Of several that grow the first one: what was proposed.
    for (const Choice& choice : question.choices)
      if (!answer.choice && word == to_string(choice.what)) answer.choice = choice;
    if (!answer.choice && !word.empty() && word[0] >= '0' && word[0] <= '9' && offers(question, Choice::What::grow)) {
      try {
        std::string size = original.substr(0, original.find_last_not_of(" \t\r!") + 1);
        std::erase(size, ' ');
        Choice grow = *std::find_if(question.choices.begin(), question.choices.end(),
                                    [](const Choice& c) { return c.what == Choice::What::grow; });
        grow.bytes = parse_size(size);
        if (grow.bytes <= question.allowed) {
          answer.complaint = "that is not more than the " + format_size(question.allowed) + " that were allowed";
          return answer;
        }
        answer.choice = grow;
      } catch (const Error& error) {
        answer.complaint = error.message();
        return answer;
      }
    }
  }
  if (answer.choice) {
    answer.choice->always = always;
  } else {
    answer.complaint = what_is_accepted(question);
  }
  return answer;
}

void TerminalDecider::ask(const Question& question) {
  open_.push_back(question);
  if (!shown_) show_next();
}

void TerminalDecider::withdraw(int id) {
  std::erase_if(answers_, [id](const Answer& answer) { return answer.id == id; });
  const bool on_screen = shown_ && !open_.empty() && open_.front().id == id;
  std::erase_if(open_, [id](const Question& question) { return question.id == id; });
  if (!on_screen) return;
  shown_ = false;
  terminal_.end_prompt(false);
  show_next();
}

void TerminalDecider::show_next() {
  if (open_.empty() || closed_) return;
  shown_ = true;
  terminal_.prompt(question_text(open_.front(), terminal_.style()));
}

void TerminalDecider::take_line(const std::string& line) {
  if (open_.empty()) return;  // typed while nothing was asked
  const ParsedAnswer parsed = parse_answer(open_.front(), line);
  if (!parsed.choice) {
    terminal_.prompt(printable(parsed.complaint) + "\nwhat now? ");
    return;
  }
  answers_.push_back({open_.front().id, *parsed.choice});
  open_.pop_front();
  shown_ = false;
  terminal_.end_prompt();
  show_next();
}

std::vector<Decider::Answer> TerminalDecider::answers() {
  struct pollfd ready {
    input_, POLLIN, 0
  };
  while (!closed_ && ::poll(&ready, 1, 0) > 0) {
    char bytes[512];
    const ssize_t got = ::read(input_, bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (got <= 0) {
      closed_ = true;
      break;
    }
    pending_.append(bytes, static_cast<std::size_t>(got));
    for (std::size_t end; (end = pending_.find('\n')) != std::string::npos; pending_.erase(0, end + 1))
      take_line(pending_.substr(0, end));
    if (pending_.size() > 4096) pending_.clear();
  }
  if (closed_ && !open_.empty()) {
    if (shown_) terminal_.end_prompt(false);
    shown_ = false;
    for (const Question& question : open_) {
      Choice park;
      park.what = Choice::What::park;
      answers_.push_back({question.id, park});
    }
    open_.clear();
  }
  return std::exchange(answers_, {});
}

}  // namespace cuboid
