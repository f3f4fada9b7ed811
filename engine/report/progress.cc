#include "engine/report/progress.h"

#include <algorithm>

#include "engine/plan/plan.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

constexpr double kRefreshSeconds = 0.1;  // a bar: at most ten times a second
constexpr double kPlainSeconds = 10;     // plain lines: a sign of life
constexpr std::size_t kBarWidth = 24;

std::string fitted(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::string cut;
  std::size_t used = 0;
  for (char byte : text) {
    if ((byte & 0xC0) != 0x80 && ++used > width) break;
    cut += byte;
  }
  return cut;
}

}  // namespace

Progress::Progress(Terminal& terminal, Options options, Clock clock)
    : terminal_(terminal), options_(options), clock_(std::move(clock)), start_(clock_()) {}

std::string Progress::name_of(int stage) const {
  const auto index = static_cast<std::size_t>(stage);
  return stage >= 0 && index < stages_.size() ? stages_[index].name : "?";
}

void Progress::take_plan(const Plan& plan) {
  stages_.resize(plan.stages.size());
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    stages_[k].name = plan.stages[k].name;
    stages_[k].tasks = plan.stages[k].numbers.tasks;
  }
  total_ = plan.tasks;
  planned_ = true;
}

void Progress::announce() {
  if (!announced_ && options_.mode == ProgressMode::plain)
    terminal_.line(count_of(total_, "task") + " in " + count_of(static_cast<std::int64_t>(stages_.size()), "stage"));
  announced_ = true;
}

void Progress::trouble(const RunEvent& event, const std::string& text) {
  if (options_.quiet) return;
  const std::string where = name_of(event.stage) + ", block " + std::to_string(event.block) + ": ";
  terminal_.line(paint(terminal_.style(), Ink::yellow, where + text) +
                 (event.text.empty() ? "" : ": " + printable(event.text)));
}

void Progress::on_event(const RunEvent& event) {
  using What = RunEvent::What;
  if (event.plan && (!planned_ || event.what == What::planned)) take_plan(*event.plan);
  const auto key = std::make_pair(event.stage, event.block);
  const bool plain = options_.mode == ProgressMode::plain;
  StageState* stage = event.stage >= 0 && static_cast<std::size_t>(event.stage) < stages_.size()
                          ? &stages_[static_cast<std::size_t>(event.stage)]
                          : nullptr;
  switch (event.what) {
    case What::planned:
      break;
    case What::resumed:
      if (!options_.quiet && kept_ == 0)
        terminal_.line("goes on: " + count_of(event.count, "task") + " kept from before");
      kept_ += event.count;
      break;
    case What::stage_started:
      if (stage) stage->started = now();
      break;
    case What::task_started:
      announce();
      if (first_started_at_ < 0) first_started_at_ = now();
      if (stage && stage->started < 0) stage->started = now();
      running_[key] = event.bytes;
      current_ = event.stage;
      if (options_.verbosity >= 2)
        terminal_.line(name_of(event.stage) + ", block " + std::to_string(event.block) + ": starts with " +
                       format_size(event.bytes));
      break;
    case What::task_done:
      running_.erase(key);
      ++done_;
      if (stage) ++stage->done;
      if (options_.verbosity >= 2)
        terminal_.line(name_of(event.stage) + ", block " + std::to_string(event.block) + ": done, took " +
                       format_size(event.bytes));
      break;
    case What::task_grown:
      running_[key] = event.bytes;
      trouble(event, "grown in place to " + format_size(event.bytes));
      break;
    case What::task_retried:
      running_.erase(key);
      trouble(event, "tried again with " + format_size(event.bytes));
      break;
    case What::task_parked:
      running_.erase(key);
      trouble(event, "parked");
      break;
    case What::stage_done:
      if (plain && stage && stage->done > 0)
        terminal_.line(stage->name + ": " + count_of(stage->done, "task") + " in " +
                       format_seconds(now() - std::max(0.0, stage->started)));
      break;
    case What::facts:
      // What an earlier run found out is no news.
      if (!options_.quiet && done_ > 0 && (plain || options_.verbosity > 0))
        terminal_.line(name_of(event.stage) + ": its result is " + event.text);
      break;
    case What::log:
      if (options_.verbosity >= 1)
        terminal_.line(name_of(event.stage) + ", block " + std::to_string(event.block) + ": " + printable(event.text));
      break;
    case What::notice:
      if (!options_.quiet) terminal_.line(printable(event.text));
      break;
  }
  refresh(false);
}

void Progress::on_tick() { refresh(false); }

void Progress::refresh(bool force) {
  if (options_.mode == ProgressMode::none || stages_.empty()) return;
  const double at = now();
  const double pause = options_.mode == ProgressMode::bar ? kRefreshSeconds : kPlainSeconds;
  if (!force && at - std::max(shown_at_, options_.mode == ProgressMode::bar ? -pause : 0.0) < pause) return;
  shown_at_ = at;
  if (options_.mode == ProgressMode::bar) {
    terminal_.set_status(status(terminal_.width() - 1));
  } else {
    terminal_.line(status(200));
  }
}

std::string Progress::status(std::size_t width) const {
  const std::int64_t done = std::min(total_, done_ + kept_);
  std::string text;
  if (options_.mode == ProgressMode::bar) {
    const std::size_t full =
        total_ > 0 ? static_cast<std::size_t>(static_cast<double>(done) / static_cast<double>(total_) * kBarWidth) : 0;
    text = "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "] ";
  }
  text += std::to_string(done) + "/" + std::to_string(total_);
  if (current_ >= 0 && static_cast<std::size_t>(current_) < stages_.size()) text += "  " + name_of(current_);
  std::uint64_t granted = 0;
  for (const auto& [key, bytes] : running_) granted += bytes;
  if (!running_.empty()) text += "  " + std::to_string(running_.size()) + " running in " + format_size(granted);
  // The rate of what this run computed; a first task's time would be a poor guess.
  if (done_ >= 3 && done < total_)
    text += "  " +
            format_seconds((now() - std::max(0.0, first_started_at_)) / static_cast<double>(done_) *
                           static_cast<double>(total_ - done)) +
            " left";
  return fitted(text, width);
}

}  // namespace cuboid
