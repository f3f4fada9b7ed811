// One child process with a socket to it: started, spoken to, ended. Never fork(): a copy of a large parent costs 61 ms
// where posix_spawn takes 1.7.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace cuboid {

// Owns the process and the socket: where they still live, the destructor ends both. Move only.
class WorkerProcess {
 public:
  struct End {
    int status = 0;        // as waitpid() says
    std::string cause;     // "ended with exit code 3", "was killed by signal 11 (Segmentation fault)"
    bool crashed() const;  // by a signal that a fault of its own raises
    bool killed() const;   // by SIGKILL
  };

  // Runs `program --socket FD --parent PID`. Its standard output is this process's standard error, its input is empty;
  // it inherits no other descriptor. Throws Error{plugin} where it cannot be started.
  static WorkerProcess start(const std::string& program);

  WorkerProcess() = default;
  WorkerProcess(WorkerProcess&& other) noexcept { swap(other); }
  WorkerProcess& operator=(WorkerProcess&& other) noexcept {
    WorkerProcess(std::move(other)).swap(*this);
    return *this;
  }
  ~WorkerProcess() { let_go(true); }
  void swap(WorkerProcess& other) noexcept;

  int socket() const { return socket_; }
  pid_t id() const { return id_; }
  // False where the process is gone.
  bool send(const std::string& frame);
  void kill();
  // How it ended; one that closed its socket and lives on is killed. Waits for it. Once.
  End end();
  // Closes the socket, upon which an idle worker ends by itself; one that does not (or `busy`) is killed.
  void let_go(bool busy);

 private:
  int socket_ = -1;
  pid_t id_ = -1;
};

// Processes that this machine killed for want of memory since it started; 0 where it does not tell.
std::uint64_t system_kills();

}  // namespace cuboid
