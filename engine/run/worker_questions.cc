#include "engine/run/worker_questions.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "storage/error.h"

namespace cuboid {

using protocol::Type;
using Clock = std::chrono::steady_clock;

std::optional<protocol::FrameReader::Frame> WorkerQuestions::next_frame(Clock::time_point until) {
  std::array<char, 16384> bytes;
  for (;;) {
    if (auto frame = reader_.next()) return frame;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waiting{process_->socket(), POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) throw Error(ErrorKind::plugin, "gave no answer in time", {{"ended", "timeout"}});
    const ssize_t got = ::recv(process_->socket(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    reader_.append({bytes.data(), static_cast<std::size_t>(got)});
  }
}

std::string WorkerQuestions::ask(const std::string& question, std::chrono::milliseconds timeout,
                                 const OnNote& on_note) {
  if (!process_) {
    process_ = WorkerProcess::start(program_);
    reader_ = {};
  }
  try {
    const Clock::time_point until = Clock::now() + timeout;
    process_->send(protocol::encode_text(Type::ask, question));
    while (auto frame = next_frame(until)) {
      if (frame->type == Type::told) return protocol::decode_text(frame->payload);
      if (frame->type == Type::log && on_note) on_note(protocol::decode_text(frame->payload));
    }
  } catch (const Error&) {
    process_->let_go(true);
    process_.reset();
    throw;
  }
  const WorkerProcess::End end = process_->end();
  process_.reset();
  throw Error(ErrorKind::plugin, end.cause, {{"ended", end.cause}});
}

}  // namespace cuboid
