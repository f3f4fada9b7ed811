// SIGINT and SIGTERM as something to wait for.
#pragma once
#include <signal.h>

namespace cuboid {

// Installs handlers for its lifetime and puts back what was there. One at a time in a process; a second one sees no
// signals. The descriptor becomes readable with the first signal and stays so.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();
  int descriptor() const { return fd_; }
  int count() const;  // signals so far

 private:
  int fd_ = -1;
  bool installed_ = false;
  struct sigaction old_int_ {
  }, old_term_{};
};

}  // namespace cuboid
