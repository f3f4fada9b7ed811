// Standard error, shared by everything that writes there while a run goes on: whole lines, and below them one status
// line that is rewritten in place. One thread only: the coordinator's.
#pragma once
#include <chrono>
#include <string>

#include "engine/report/table.h"

namespace cuboid {

class Terminal {
 public:
  // `live`: the descriptor is a terminal whose last line may be rewritten.
  Terminal(int descriptor, bool live) : descriptor_(descriptor), live_(live), style_(style_for(descriptor)) {}
  ~Terminal() { clear_status(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool live() const { return live_; }
  const TextStyle& style() const { return style_; }
  // Columns of the terminal now; 80 where that is not known.
  std::size_t width() const;

  // Writes a line above the status line.
  void line(const std::string& text);
  // Replaces the status line; unchanged text writes nothing. Without effect where not live, or while a prompt is shown.
  void set_status(const std::string& text);
  void clear_status();
  // Shows a prompt and leaves the cursor behind it; the status line waits until end_prompt().
  void prompt(const std::string& text);
  void end_prompt(bool answered = true);  // where the person's answer ended its line, or nobody did

 private:
  void write(const std::string& text) const;

  int descriptor_;
  bool live_;
  TextStyle style_;
  bool prompting_ = false;
  std::string status_;
  std::string prompt_;
};

}  // namespace cuboid
