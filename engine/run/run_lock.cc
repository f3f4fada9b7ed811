// An open-file-description lock on a file that holds the owner's process id. The system drops it with the last
// descriptor; the id is for messages only.
#include "engine/run/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "storage/error.h"

namespace cuboid {
namespace {

[[noreturn]] void fail(const std::string& what, int number) {
  throw Error(ErrorKind::io, what + ": " + std::strerror(number) + "; choose another --run-dir");
}

std::string owner_of(int fd) {
  char text[32] = {};
  const ssize_t length = pread(fd, text, sizeof text - 1, 0);
  const long pid = length > 0 ? std::strtol(text, nullptr, 10) : 0;
  return pid > 0 ? "process " + std::to_string(pid) : "another process";
}

}  // namespace

RunLock::RunLock(const std::string& run_dir) {
  std::error_code error;
  made_directory_ = std::filesystem::create_directories(run_dir, error);
  if (error) fail("cannot make the run directory " + run_dir, error.value());
  const std::string path = run_dir + "/coordinator.lock";
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot open " + path, errno);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(fd_, F_OFD_SETLK, &whole) != 0) {
    const int number = errno;
    const std::string owner = owner_of(fd_);
    close(fd_);
    if (number != EAGAIN && number != EACCES) fail("cannot lock " + path, number);
    throw Error(ErrorKind::invalid, "the run directory " + run_dir + " is in use: " + owner +
                                        " is running it; wait for it, stop it, or choose another --run-dir");
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    const int number = errno;
    close(fd_);
    fail("cannot write " + path, number);
  }
}

RunLock::~RunLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace cuboid
