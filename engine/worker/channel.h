// The worker's end of the socket. Frames may be sent from any thread, also from inside malloc; whoever waits for an
// answer reads, and a call that only wants to know whether it is cancelled never waits for it.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "engine/run/protocol.h"

namespace cuboid {

class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}

  // Ends the process where the coordinator is gone: nobody is left to work for.
  void send(const std::string& frame);
  // The next frame; nullopt where the coordinator closed the socket. On the main thread, between tasks.
  std::optional<protocol::FrameReader::Frame> receive();
  // The answer to growth; not granted where the task is cancelled meanwhile.
  protocol::Answer wait_for_answer();
  // True once the coordinator asked the running task to stop. Looks at the socket now and then.
  bool cancelled();
  void begin_task() { cancelled_ = false, answer_.reset(); }

 private:
  bool fill(bool wait);  // reads what there is; false: nothing came

  const int socket_;
  std::mutex sending_, receiving_;
  protocol::FrameReader reader_;
  bool closed_ = false;
  std::optional<protocol::Answer> answer_;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::int64_t> next_look_{0};  // ns of the steady clock

  void take_notes();  // cancel and answer, while a task runs
};

}  // namespace cuboid
