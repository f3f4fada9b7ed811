// A handler that writes to an event descriptor: unlike a blocked mask with signalfd it is not inherited by workers, and
// it works whichever thread of an embedding program takes the signal.
#include "engine/run/stop_signals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "storage/error.h"

namespace cuboid {
namespace {

std::atomic<int> signal_fd{-1};
std::atomic<int> signals{0};

void on_signal(int) {
  const int saved = errno;
  signals.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  if (const int fd = signal_fd.load(std::memory_order_relaxed); fd >= 0) {
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
  }
  errno = saved;
}

}  // namespace

StopSignals::StopSignals() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw Error(ErrorKind::io, "the system grants no more descriptors: raise the limit (ulimit -n)");
  int none = -1;
  installed_ = signal_fd.compare_exchange_strong(none, fd_);
  if (!installed_) return;
  signals = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

StopSignals::~StopSignals() {
  if (installed_) {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
    signal_fd = -1;
  }
  close(fd_);
}

int StopSignals::count() const { return installed_ ? signals.load(std::memory_order_relaxed) : 0; }

}  // namespace cuboid
