// What a person sees while a run goes on: a bar on a terminal, or plain lines.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/report/terminal.h"
#include "engine/run/events.h"

namespace cuboid {

enum class ProgressMode : std::uint8_t { bar, plain, none };

class Progress : public Observer {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  // `quiet`: notices and troubles are not written either. `verbosity`: 1 adds logs of functions, 2 every task.
  struct Options {
    ProgressMode mode = ProgressMode::plain;
    bool quiet = false;
    int verbosity = 0;
  };
  Progress(Terminal& terminal, Options options, Clock clock = std::chrono::steady_clock::now);

  void on_event(const RunEvent& event) override;
  void on_tick() override;
  // The status line as it would read now, at most `width` characters.
  std::string status(std::size_t width) const;

 private:
  struct StageState {
    std::string name;
    std::int64_t tasks = 0, done = 0;
    double started = -1;  // seconds since the start
  };
  double now() const { return std::chrono::duration<double>(clock_() - start_).count(); }
  void take_plan(const Plan& plan);
  void announce();  // once, when the first task starts
  void refresh(bool force);
  void trouble(const RunEvent& event, const std::string& text);
  std::string name_of(int stage) const;

  Terminal& terminal_;
  Options options_;
  Clock clock_;
  std::chrono::steady_clock::time_point start_;
  std::vector<StageState> stages_;
  std::map<std::pair<int, std::int64_t>, std::uint64_t> running_;  // grants
  std::int64_t total_ = 0, done_ = 0, kept_ = 0;
  int current_ = -1;  // the stage that started a task last
  bool planned_ = false, announced_ = false;
  double shown_at_ = -1, first_started_at_ = -1;
};

}  // namespace cuboid
