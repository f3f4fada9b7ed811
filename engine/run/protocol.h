// What a coordinator and a worker process say to each other over one socket: small length-prefixed binary messages, in
// the byte order of the machine that both run on. Neither side trusts the other's lengths: a worker hosts code that is
// not ours.
//
// Frame: u32 bytes that follow, u8 type, payload. A conversation: setup, hello, then any number of (task, finished),
// with notes (growth, refused, progress, log) in between; the worker ends when its socket closes.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/executor.h"

namespace cuboid::protocol {

enum class Type : std::uint8_t {
  // to the worker
  setup = 1,  // Setup: once, first
  task,       // Task
  answer,     // Answer to growth
  cancel,     // nothing: the running call should stop
  trim,       // nothing: give idle memory back
  ask,        // text: a question that is no task (a plugin's infer, a check)
  // to the coordinator
  hello = 64,  // Hello: once, after every plugin is loaded (or one failed)
  finished,    // Finished
  growth,      // Growth: the call waits for an answer
  refused,     // Growth: the allocation was refused; sent before the plugin hears of it
  progress,    // nothing
  log,         // text
  told         // text: the answer to ask
};

struct Setup {
  std::string run_dir;               // holds plan.json, plan.1.json, ... by generation
  std::vector<std::string> plugins;  // paths
};
struct Task {
  TaskOrder order;
  int generation = 0;  // of the plan file
  Pieces pieces;       // what the task's gathers meet
};
struct Answer {
  bool granted = false;
  std::uint64_t limit = 0, allowance = 0;
};
struct Hello {
  std::uint64_t baseline = 0;  // bytes this process takes beside tasks, its share of what it shares
  std::optional<Error> error;  // a plugin that cannot be loaded
};
struct Finished {
  TaskEvent event;             // done, failed or exceeded; `order` is not sent
  std::uint64_t baseline = 0;  // as in Hello, by now
  std::uint64_t kept = 0;      // free bytes in the worker's pool
};
struct Growth {
  std::uint64_t wanted = 0;  // uncertain bytes of the call
  std::uint64_t peak = 0;    // bytes the task's account held at most
  Evidence evidence = Evidence::own_account;
};

// Whole frames.
std::string encode(const Setup& setup);
std::string encode(const Task& task);
std::string encode(const Answer& answer);
std::string encode(const Hello& hello);
std::string encode(const Finished& finished);
std::string encode(Type growth_or_refused, const Growth& growth);
std::string encode_text(Type log_ask_or_told, const std::string& text);
std::string encode(Type bare);

// Payloads. Throw Error{corrupt} where a payload is not what its type says.
Setup decode_setup(std::span<const char> payload);
Task decode_task(std::span<const char> payload);
Answer decode_answer(std::span<const char> payload);
Hello decode_hello(std::span<const char> payload);
Finished decode_finished(std::span<const char> payload);
Growth decode_growth(std::span<const char> payload);
std::string decode_text(std::span<const char> payload);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  struct Frame {
    Type type;
    std::string payload;
  };
  void append(std::span<const char> bytes) { buffer_.append(bytes.data(), bytes.size()); }
  // The next whole frame, if it is there. Throws Error{corrupt} for a length beyond kMaxFrame and
  // for an unknown type.
  std::optional<Frame> next();

 private:
  std::string buffer_;
};
inline constexpr std::uint32_t kMaxFrame = 256u << 20;

}  // namespace cuboid::protocol
