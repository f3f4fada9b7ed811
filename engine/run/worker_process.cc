#include "engine/run/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "storage/error.h"

namespace cuboid {
namespace {

constexpr int kChildSocket = 3;

std::string describe_end(int status) {
  if (WIFEXITED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = sigdescr_np(signal);
  return "was killed by signal " + std::to_string(signal) + (name ? std::string(" (") + name + ")" : "");
}

// The attributes and file actions of one spawn.
class SpawnSetup {
 public:
  explicit SpawnSetup(int socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, socket, kChildSocket);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kChildSocket + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

bool WorkerProcess::End::crashed() const {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS;
}

bool WorkerProcess::End::killed() const { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

WorkerProcess WorkerProcess::start(const std::string& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(ErrorKind::plugin, std::string("cannot make a socket for a worker process: ") + std::strerror(errno));
  }
  WorkerProcess process;
  process.socket_ = ends[0];
  int child_end = ends[1];
  if (child_end == kChildSocket) {  // dup2 onto itself would leave it close-on-exec
    child_end = fcntl(ends[1], F_DUPFD_CLOEXEC, kChildSocket + 1);
    close(ends[1]);
  }
  const SpawnSetup setup(child_end);
  std::string arguments[] = {program, "--socket", std::to_string(kChildSocket), "--parent", std::to_string(getpid())};
  char* argv[std::size(arguments) + 1] = {};
  std::transform(std::begin(arguments), std::end(arguments), argv, [](std::string& text) { return text.data(); });
  const int fault = posix_spawn(&process.id_, program.c_str(), &setup.actions_, &setup.attributes_, argv, environ);
  close(child_end);
  if (fault != 0) {
    process.id_ = -1;
    throw Error(ErrorKind::plugin, "cannot start the worker program " + program + ": " + std::strerror(fault) +
                                       "; set CUBOID_WORKER to the path of cuboid-worker");
  }
  return process;
}

void WorkerProcess::swap(WorkerProcess& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(id_, other.id_);
}

bool WorkerProcess::send(const std::string& frame) {
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t got = ::send(socket_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    sent += static_cast<std::size_t>(got);
  }
  return true;
}

void WorkerProcess::kill() {
  if (id_ > 0) ::kill(id_, SIGKILL);
}

WorkerProcess::End WorkerProcess::end() {
  End end;
  if (id_ <= 0) return end;
  // Its sockets close a moment before its end can be collected; that moment is not a reason to kill it.
  pid_t ended = 0;
  for (int i = 0; i < 100 && (ended = waitpid(id_, &end.status, WNOHANG)) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  end.cause = describe_end(end.status);
  if (ended == 0) {
    kill();
    while (waitpid(id_, &end.status, 0) < 0 && errno == EINTR) {
    }
    end.cause = "closed its connection and was stopped";
    end.status = 0;
  }
  id_ = -1;
  return end;
}

void WorkerProcess::let_go(bool busy) {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
  if (id_ <= 0) return;
  if (busy) kill();
  end();
}

std::uint64_t system_kills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;)
    if (name == "oom_kill") return value;
  return 0;
}

}  // namespace cuboid
