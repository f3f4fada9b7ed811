// What surrounds one task in a worker: the task's account, the counting of malloc beside it, and the line to the
// coordinator, on which a call that needs more memory waits before it is refused.
//
// One account counts everything. Host services acquire from it through the call's own account; what the plugin takes by
// malloc is charged to it in steps as it grows. So the task's limit holds for their sum. Behind it stands RLIMIT_DATA,
// for memory that a plugin maps by itself.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "engine/run/protocol.h"
#include "engine/run/task.h"
#include "engine/worker/channel.h"
#include "engine/worker/counted_malloc.h"

namespace cuboid {

class WorkerTask final : public TaskMonitor, private counted_malloc::Gate {
 public:
  // `data_floor`: bytes of private writable memory that this process has beside the task.
  WorkerTask(Channel& channel, const TaskOrder& order, std::uint64_t data_floor);
  ~WorkerTask() override;

  MemoryAccount& account() { return account_; }
  // The request that was refused in the task, as uncertain bytes of the call; nullopt: none was.
  std::optional<std::uint64_t> refused() const { return refused_; }

  bool cancelled() const override;
  void progress(double) override;
  void log(int level, const std::string& text) override;
  void holds_outside(std::uint64_t bytes) override;
  void aside(const std::function<void()>& work) override;
  void call_begins(const Call& call) override;
  std::uint64_t call_ends() override;

 private:
  bool extend(std::int64_t above) noexcept override;
  void shrink(std::int64_t above) noexcept override;
  void system_refused(std::int64_t above) noexcept override;
  bool extend_mappings(std::size_t bytes) noexcept override;

  bool ask(std::uint64_t wanted, Evidence evidence);
  bool within_outside_limit(std::int64_t above);
  bool charge(std::int64_t above);
  std::int64_t outside_limit() const;
  void limit_data() const;
  std::int64_t free_of_charge() const;
  void note_refusal(std::uint64_t wanted, Evidence evidence);

  Channel& channel_;
  MemoryAccount account_;
  const std::uint64_t data_floor_;
  std::atomic<std::int64_t> last_progress_{0};  // ns of the steady clock

  std::mutex asking_;   // one question at a time, whichever thread of the call asks
  std::mutex outside_;  // guards charged_; never taken while asking_ is held
  MemoryAccount* call_ = nullptr;
  CallMemory declared_;
  std::atomic<std::uint64_t> allowance_{0};
  std::int64_t charged_ = 0;  // bytes of malloc that account_ holds
  // Bytes of malloc that the call charged by itself: counted once, whoever charges them.
  std::int64_t stated_ = 0, stated_peak_ = 0;
  std::optional<std::uint64_t> refused_;
};

}  // namespace cuboid
