// Where tasks run: threads of this process, or worker processes. The coordinator's loop submits, waits on descriptors,
// and collects events; an executor never blocks it and never retries.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/task.h"
#include "storage/error.h"

namespace cuboid {

// Why a task's memory did not suffice, or that this is not known.
enum class Evidence : std::uint8_t {
  none,
  own_account,  // the host allocator refused: exact
  own_limit,    // the worker hit its own limit (malloc counted, RLIMIT_DATA)
  own_bound,    // a result was larger than a guessed or user-given shape bound
  host,         // the machine was full, not this task: its killer, or a mapping within the limit that was refused
  unknown       // it died
};
std::string to_string(Evidence evidence);

struct TaskEvent {
  enum class What : std::uint8_t {
    done,
    failed,        // threw, or a promise was broken: `error`
    exceeded,      // needed more memory (or a larger bound) than allowed: `evidence`, `needed`
    died,          // the worker is gone (signal or exit code in `error`): `evidence` unknown, host or own_limit
    timed_out,     // made no progress for the step's time-out and was killed
    wants_growth,  // the call waits at an allocation: answer with grow() or refuse()
    log            // text from the call
  };
  What what = What::done;
  TaskOrder order;
  TaskResult result;           // done
  std::optional<Error> error;  // failed, exceeded, died, timed_out
  Evidence evidence = Evidence::none;
  std::uint64_t needed = 0;  // uncertain bytes that would have sufficed up to here; wants_growth: bytes wanted
  std::uint64_t peak = 0;    // measured bytes above baseline (VmHWM in workers, the account on threads)
  std::optional<std::int64_t> bound_needed;  // own_bound: the extent that was needed ...
  std::optional<std::int64_t> bound_output;  // ... along the ragged axis of this output of the function
  double seconds = 0;                        // wall time of the attempt
  std::string text;                          // log
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Tasks that can run at once.
  virtual int slots() const = 0;
  virtual int running() const = 0;
  // Throws Error{plugin} where a worker cannot be started. Requires running() < slots() + queue().
  virtual void submit(const TaskOrder& order) = 0;
  // Tasks that may wait for a slot, in the order in which they were submitted; they count as running.
  virtual int queue() const { return 0; }
  // Descriptors that become readable when collect() has something to say.
  virtual std::vector<int> descriptors() const = 0;
  // When collect() must be called at the latest (time-outs), in milliseconds from now; -1: whenever readable.
  virtual int next_deadline_ms() const { return -1; }
  virtual std::vector<TaskEvent> collect() = 0;
  // Answers to wants_growth, for the running task of this stage and block.
  virtual void grow(const TaskOrder& order, std::uint64_t new_limit, std::uint64_t new_allowance) = 0;
  virtual void refuse(const TaskOrder& order) = 0;
  // The plan's extents became known: later tasks follow this plan (generation counts up; workers read the file).
  virtual void replan(std::shared_ptr<const Plan> plan, int generation, const Pieces& pieces) = 0;
  // Asks running calls to stop; those that do not are killed with the executor.
  virtual void cancel() = 0;
  // Bytes that its processes take beside tasks, measured (0 for threads).
  virtual std::uint64_t baseline() const = 0;
  // Gives idle memory back: pooled buffers, idle workers.
  virtual void trim() = 0;
};

std::unique_ptr<Executor> make_thread_executor(std::shared_ptr<const Plan> plan, int threads);

struct WorkerOptions {
  std::string program;               // path of cuboid-worker
  std::string run_dir;               // holds plan.json, plan.1.json, ... by generation
  std::vector<std::string> plugins;  // libraries that the plan uses: loaded at start
  int count = 1;
  int stop = -1;  // a descriptor: once it is readable, nobody waits for plugins to be loaded
};
// Starts one worker at once and loads every plugin in it: throws Error{plugin} with the loader's text. Others start as
// they are needed.
std::unique_ptr<Executor> make_worker_executor(std::shared_ptr<const Plan> plan, const WorkerOptions& options);

}  // namespace cuboid
