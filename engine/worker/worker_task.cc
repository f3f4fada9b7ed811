#include "engine/worker/worker_task.h"

#include <algorithm>
#include <utility>

#include "engine/worker/process_memory.h"
#include "storage/error.h"

namespace cuboid {
namespace {

// Malloc that any library does in passing: part of the worker's baseline, not of a call.
constexpr std::int64_t kOutsideSlack = 1 << 20;
// By how much at a time malloc is charged to the account.
constexpr std::int64_t kChargeStep = 256 << 10;
// What a call that was refused may still take, so that it can say so: an exception, a message.
constexpr std::int64_t kLastWords = 128 << 10;
// What RLIMIT_DATA leaves beyond the task's limit: stacks of a plugin's threads (8 MiB each), heap that malloc rounds
// up.
constexpr std::uint64_t kDataMargin = 64u << 20;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

WorkerTask::WorkerTask(Channel& channel, const TaskOrder& order, std::uint64_t data_floor)
    : channel_(channel), account_(order.limit), data_floor_(data_floor) {
  channel_.begin_task();
  limit_data();
}

WorkerTask::~WorkerTask() {
  if (counted_malloc::active()) process_memory::limit_data(0);
}

void WorkerTask::limit_data() const {
  pool::set_held_limit(account_.limit());
  if (!counted_malloc::active()) return;  // a sanitizer maps shadow memory as it goes
  std::uint64_t bytes = 0;
  if (__builtin_add_overflow(account_.limit(), data_floor_ + kDataMargin, &bytes)) bytes = 0;
  process_memory::limit_data(bytes);
}

bool WorkerTask::cancelled() const {
  const counted_malloc::LetThrough guard;  // of the locks below, one may be held by whoever waits for more malloc
  return channel_.cancelled();
}

void WorkerTask::progress(double) {
  const counted_malloc::LetThrough guard;
  constexpr std::int64_t kBetween = 20'000'000;
  const std::int64_t now = now_ns();
  std::int64_t last = last_progress_.load(std::memory_order_relaxed);
  if (now - last < kBetween || !last_progress_.compare_exchange_strong(last, now, std::memory_order_relaxed)) return;
  channel_.send(protocol::encode(protocol::Type::progress));
}

void WorkerTask::log(int /*level*/, const std::string& text) {
  const counted_malloc::LetThrough guard;
  channel_.send(protocol::encode_text(protocol::Type::log, text));
}

// What malloc may take before more of it is charged.
std::int64_t WorkerTask::free_of_charge() const { return kOutsideSlack + stated_ + charged_; }

void WorkerTask::holds_outside(std::uint64_t bytes) {
  const counted_malloc::LetThrough guard;
  std::lock_guard lock(outside_);
  stated_ = static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, INT64_MAX / 4));
  stated_peak_ = std::max(stated_peak_, stated_);
  if (call_) counted_malloc::allow(free_of_charge());
}

void WorkerTask::aside(const std::function<void()>& work) {
  progress(0);
  const counted_malloc::LetThrough guard;
  work();
}

void WorkerTask::call_begins(const Call& call) {
  progress(0);
  if (!call.estimated) return;
  call_ = &call.memory;
  declared_ = call.declared;
  allowance_ = call.allowance;
  call_->set_on_exceed([this](MemoryAccount&, std::size_t needed) {
    return ask(needed - std::min<std::uint64_t>(needed, declared_.sure), Evidence::own_account);
  });
  account_.set_on_exceed([this](MemoryAccount& account, std::size_t needed) {
    return ask(allowance_ + (needed - std::min(needed, account.limit())), Evidence::own_limit);
  });
  charged_ = stated_ = stated_peak_ = 0;
  counted_malloc::set_gate(*this, kOutsideSlack);
}

std::uint64_t WorkerTask::call_ends() {
  progress(0);
  if (!call_) return 0;
  const std::int64_t outside = counted_malloc::remove_gate();
  call_ = nullptr;
  account_.set_on_exceed(nullptr);
  if (charged_ > 0) account_.release(static_cast<std::size_t>(std::exchange(charged_, 0)));
  const std::int64_t beside = outside - stated_peak_;  // what was stated is in the account's peak
  return beside > kOutsideSlack ? static_cast<std::uint64_t>(beside) : 0;
}

// What the manifest declares to bypass host services, and whatever the allowance grew beyond the declared estimate.
std::int64_t WorkerTask::outside_limit() const {
  const std::uint64_t declared = declared_.unknown ? 0 : declared_.uncertain;
  const std::uint64_t grown = allowance_ > declared ? allowance_ - declared : 0;
  std::uint64_t limit = 0;
  if (__builtin_add_overflow(declared_.outside + kOutsideSlack, grown, &limit)) limit = INT64_MAX;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(limit, INT64_MAX));
}

bool WorkerTask::extend(std::int64_t above) noexcept {
  try {
    std::lock_guard lock(outside_);
    if (above <= counted_malloc::allowed()) return true;
    const bool before = refused_.has_value();
    if (within_outside_limit(above) && charge(above)) return true;
    if (!before) counted_malloc::allow(counted_malloc::allowed() + kLastWords);
  } catch (...) {
    // Nothing may be thrown through malloc; the allocation fails.
  }
  return false;
}

bool WorkerTask::within_outside_limit(std::int64_t above) {
  if (above <= outside_limit()) return true;
  const auto wanted = allowance_ + static_cast<std::uint64_t>(above - outside_limit());
  return ask(wanted, Evidence::own_limit) && above <= outside_limit();
}

// Charges `above` to the account: in steps, or to the byte where only that fits.
bool WorkerTask::charge(std::int64_t above) {
  const std::int64_t exact = above - free_of_charge();
  const std::int64_t rounded = round_up(exact, kChargeStep);
  const std::size_t in_use = account_.in_use();
  const bool fits = in_use <= account_.limit() && static_cast<std::size_t>(rounded) <= account_.limit() - in_use;
  const std::int64_t bytes = fits ? rounded : exact;
  try {
    account_.admit(static_cast<std::size_t>(bytes));  // asks before it refuses
  } catch (const Error&) {
    return false;
  }
  charged_ += bytes;
  counted_malloc::allow(free_of_charge());
  return true;
}

void WorkerTask::shrink(std::int64_t above) noexcept {
  std::unique_lock lock(outside_, std::try_to_lock);
  if (!lock) return;
  const std::int64_t keep =
      round_up(std::max<std::int64_t>(0, above - kOutsideSlack - stated_), kChargeStep) + kChargeStep;
  if (keep >= charged_) return;
  account_.release(static_cast<std::size_t>(charged_ - keep));
  charged_ = keep;
  counted_malloc::allow(free_of_charge());
}

bool WorkerTask::extend_mappings(std::size_t bytes) noexcept {
  try {
    return ask(allowance_ + bytes, Evidence::own_limit);
  } catch (...) {
    return false;
  }
}

// RLIMIT_DATA was hit: the call took memory that neither the account nor the counting of malloc saw.
void WorkerTask::system_refused(std::int64_t above) noexcept {
  try {
    note_refusal(std::max<std::uint64_t>(allowance_ + 1, static_cast<std::uint64_t>(std::max<std::int64_t>(0, above))),
                 Evidence::own_limit);
  } catch (...) {
    return;  // without memory for a message there is none
  }
}

void WorkerTask::note_refusal(std::uint64_t wanted, Evidence evidence) {
  refused_ = std::max(refused_.value_or(0), wanted);
  channel_.send(protocol::encode(protocol::Type::refused, {wanted, account_.peak(), evidence}));
}

// Waits at the allocation for the coordinator's word, which has noted a refusal by the time the plugin hears of it: an
// abort that follows is then known to be a matter of memory.
bool WorkerTask::ask(std::uint64_t wanted, Evidence evidence) {
  const counted_malloc::LetThrough guard;
  std::lock_guard one_question(asking_);
  if (wanted <= allowance_) return true;  // another thread's question was granted
  if (refused_) return false;             // one refusal is the last word: the call is about to fail
  channel_.send(protocol::encode(protocol::Type::growth, {wanted, account_.peak(), evidence}));
  const protocol::Answer answer = channel_.wait_for_answer();
  if (!answer.granted) {
    refused_ = std::max(refused_.value_or(0), wanted);
    return false;
  }
  account_.set_limit(answer.limit);
  call_->set_limit(declared_.sure + answer.allowance);
  allowance_ = answer.allowance;
  limit_data();
  return true;
}

}  // namespace cuboid
