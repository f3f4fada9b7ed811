// When an estimate was too low: what happens to a block next. Retry lives here and nowhere else. Everything is a pure
// function of numbers; the coordinator supplies them and does what is said.
//
// Formulas concern the uncertain bytes u of a task's call alone; Projection::with_uncertain(u) adds the exact ones.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/expr/array.h"
#include "engine/plan/task_program.h"
#include "engine/run/executor.h"

namespace cuboid {

// A stage's policy with nothing left open.
struct ExceedRules {
  ExceedAction action = ExceedAction::grow;
  double factor = 2;      // > 1
  std::uint64_t cap = 0;  // bytes of one task, at most `room`
  int max_attempts = 4;   // >= 1; attempts that the host is to blame for do not count
};
// What the step says beats what the run says, unless `run_wins`; open fields are grow, 2, the whole room, 4. `room`:
// bytes that one task may hold when it is alone.
ExceedRules resolve_rules(const ExceedPolicy& run, const ExceedPolicy& step, bool run_wins, std::uint64_t room);

// The numbers that decisions about one stage rest on. Bytes.
struct StageLimits {
  ExceedRules rules;
  std::uint64_t budget = 0;  // of the run
  Projection projection;     // of a task of this stage; `uncertain` is the declared u
};

// What finished blocks of one shape class (function, parameters, dtypes, block shapes) have taught.
struct SiblingStats {
  std::int64_t finished = 0;
  double worst_finished = 0;  // max of measured u / declared u over finished blocks
  double worst_seen = 0;      // the same, failed attempts included
  std::int64_t above = 0;     // finished blocks that used more than was declared

  // Declared bytes count as at least 1 MiB.
  void add_finished(std::uint64_t peak_u, std::uint64_t declared_u);
  void add_failed(std::uint64_t peak_u, std::uint64_t declared_u);
};

// The uncertain bytes that a block's first attempt may use. The declared number until 5 siblings have finished; then
// 1.1 x the worst ratio, which lowers the declared number only from 20 siblings on, and raises it only where more than
// half of them used more than was declared: a few crowded blocks grow by themselves, healthy ones keep their size. Where
// nothing is declared (`unknown`): everything under the cap until 5 have finished. Raised numbers stay within the cap.
std::uint64_t first_allowance(const StageLimits& limits, const SiblingStats& siblings);
// True where a first attempt of this stage runs one at a time: nothing is known of its memory yet.
bool runs_one_at_a_time(const StageLimits& limits, const SiblingStats& siblings);
// The uncertain bytes of a task that has the whole cap.
std::uint64_t largest_allowance(const StageLimits& limits);

// How one attempt at a block ended without success.
struct FailedAttempt {
  TaskEvent::What what = TaskEvent::What::exceeded;
  Evidence evidence = Evidence::none;
  std::uint64_t allowed_u = 0;  // bytes
  std::uint64_t peak_u = 0;     // measured; 0: not known
  std::uint64_t needed_u = 0;   // would have sufficed up to the refusal; 0: not known
  bool alone = false;           // it had the whole cap and nothing ran beside it
  std::int64_t splits = 1;      // pieces that the call was cut into
};

struct Next {
  enum class What : std::uint8_t {
    retry,        // another attempt with `allowance`, beside others
    retry_alone,  // the same, with nothing else running
    split,        // cut into twice as many pieces along the axis that the function declares safe; these have attempts
                  // of their own
    park,         // give up on this block; independent work goes on; exit 4
    ask,          // the user decides; `proposed` is what `grow` would do
    stop,         // start nothing more; exit 4
    condemn       // not a matter of memory: park with exit 5
  };
  What what = What::park;
  What proposed = What::park;   // of ask
  std::uint64_t allowance = 0;  // uncertain bytes of the next (or proposed) attempt
  std::string why;              // one clause for messages
};
// `history`: the failed attempts at this block, oldest first, not empty. `can_split`: its pieces may still be cut.
Next decide(const StageLimits& limits, std::span<const FailedAttempt> history, const SiblingStats& siblings,
            bool can_split);

// True where an attempt had less than was declared, as siblings had taken less, and needs no more than that (0: not
// known): its block gets what was declared, whatever the policy; no estimate was too low.
bool within_declared(const StageLimits& limits, std::uint64_t allowed_u, std::uint64_t needed_u);

// A call waits at an allocation. The new uncertain bytes, at least `needed_u`, that the policy and `free_bytes` (of the
// budget, right now) allow; nullopt: refuse. Never queues. `action`: what the policy (or a user's answer) says.
std::optional<std::uint64_t> grow_in_place(const StageLimits& limits, std::uint64_t allowed_u, std::uint64_t needed_u,
                                           std::uint64_t free_bytes);

// A result was larger than a guessed bound: the next bound. Throws Error{invalid} where it would not fit an int64.
std::int64_t grow_bound(double factor, std::int64_t bound, std::optional<std::int64_t> needed);

}  // namespace cuboid
