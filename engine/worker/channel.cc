#include "engine/worker/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace cuboid {

using protocol::FrameReader;
using protocol::Type;

void Channel::send(const std::string& frame) {
  std::lock_guard lock(sending_);
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t got = ::send(socket_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) _exit(0);
    sent += static_cast<std::size_t>(got);
  }
}

bool Channel::fill(bool wait) {
  std::array<char, 16384> bytes;
  for (;;) {
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), wait ? 0 : MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (got <= 0) return closed_ = true, false;
    reader_.append({bytes.data(), static_cast<std::size_t>(got)});
    return true;
  }
}

std::optional<FrameReader::Frame> Channel::receive() {
  std::lock_guard lock(receiving_);
  for (;;) {
    if (auto frame = reader_.next()) return frame;
    if (!fill(true) && closed_) return std::nullopt;
  }
}

void Channel::take_notes() {
  while (auto frame = reader_.next()) {
    if (frame->type == Type::cancel) cancelled_ = true;
    if (frame->type == Type::answer) answer_ = protocol::decode_answer(frame->payload);
  }
}

protocol::Answer Channel::wait_for_answer() {
  std::lock_guard lock(receiving_);
  for (;;) {
    take_notes();
    if (answer_) {
      const protocol::Answer answer = *answer_;
      answer_.reset();
      return answer;
    }
    if (cancelled_) return {};
    if (!fill(true) && closed_) _exit(0);
  }
}

bool Channel::cancelled() {
  constexpr std::int64_t kBetweenLooks = 20'000'000;
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  if (cancelled_ || now < next_look_.load(std::memory_order_relaxed)) return cancelled_;
  std::unique_lock lock(receiving_, std::try_to_lock);
  if (!lock) return cancelled_;
  next_look_ = now + kBetweenLooks;
  while (fill(false)) {
  }
  if (closed_) _exit(0);
  take_notes();
  return cancelled_;
}

}  // namespace cuboid
