// One coordinator per run directory.
#pragma once
#include <string>

namespace cuboid {

// Held until destroyed, or until the process dies, however it dies: a dead coordinator's lock is no obstacle.
class RunLock {
 public:
  // Makes the directory where needed. Throws Error{invalid} naming the live coordinator's process id, Error{io} where
  // the directory cannot be used.
  explicit RunLock(const std::string& run_dir);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();
  bool made_directory() const { return made_directory_; }

 private:
  int fd_ = -1;
  bool made_directory_ = false;
};

}  // namespace cuboid
