// Questions to a worker process that are no tasks: what a plugin's own code says of a block, whether it keeps a promise.
// Foreign code answers, so the process may end or hang instead: that is an Error, and the next question starts a new one.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "engine/run/protocol.h"
#include "engine/run/worker_process.h"

namespace cuboid {

class WorkerQuestions {
 public:
  // `program`: path of the worker program. No process is started before the first question.
  explicit WorkerQuestions(std::string program) : program_(std::move(program)) {}

  using OnNote = std::function<void(const std::string&)>;
  // Waits for the answer; `on_note` hears what the process says meanwhile. Throws Error{plugin} with the way the process
  // ended, context "ended"; or, after `timeout`, with what it did not do. Not thread-safe.
  std::string ask(const std::string& question, std::chrono::milliseconds timeout, const OnNote& on_note = nullptr);

 private:
  // What came, or nullopt where the process closed its socket. Throws Error{plugin} where `until` passed.
  std::optional<protocol::FrameReader::Frame> next_frame(std::chrono::steady_clock::time_point until);

  std::string program_;
  std::optional<WorkerProcess> process_;
  protocol::FrameReader reader_;
};

}  // namespace cuboid
