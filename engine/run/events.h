// What happens during a run, as plain data. Progress lines, logs and reports observe these; nothing else knows them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/executor.h"

namespace cuboid {

struct RunEvent {
  enum class What : std::uint8_t {
    planned,        // the plan was accepted (also again after facts): `plan`
    resumed,        // `count` blocks more are known to be kept from an earlier run
    stage_started,  // stage
    task_started,   // stage, block, bytes = grant
    task_done,      // stage, block, bytes = peak
    task_grown,     // stage, block, bytes = new grant: a running call got more memory
    task_retried,   // stage, block, bytes = next grant, text = why
    task_parked,    // stage, block, text = why
    stage_done,     // stage
    facts,          // stage: extents became known, text = the shape
    log,            // stage, block, text
    notice          // text: for the user
  };
  What what = What::notice;
  const Plan* plan = nullptr;  // valid during the call
  int stage = -1;
  std::int64_t block = -1;
  std::uint64_t bytes = 0;
  std::int64_t count = 0;
  std::string text;
};

// Called on the coordinator's thread, between its steps: must return soon and not throw.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_event(const RunEvent& event) = 0;
  // Called at most every 100 ms while running, so that displays can refresh without threads.
  virtual void on_tick() {}
};

// "It needs more memory: what now?" A decider is posed a question and answers later; the coordinator never blocks on it.
struct Choice {
  enum class What : std::uint8_t { grow, alone, split, park, stop };
  What what = What::park;
  std::uint64_t bytes = 0;  // grow: task memory proposed or chosen
  int concurrency = 0;      // how many at once then
  std::uint64_t total = 0;  // the whole run's memory at that point, after the choice
  double seconds = -1;      // estimated time for the rest of the stage; < 0: unknown
  bool always = false;      // an answer: for the rest of this step's failures too
};
const char* to_string(Choice::What what);  // the word by which it is answered and journaled
struct Question {
  int id = 0;
  std::string stage, function;
  std::int64_t block = 0;
  Shape block_index;
  std::uint64_t allowed = 0, peak = 0, needed = 0;  // bytes; 0: not known
  Evidence evidence = Evidence::none;
  int attempt = 1, max_attempts = 4;
  std::int64_t blocks_kept = 0, blocks_total = 0;  // of the stage
  std::int64_t tasks_kept = 0, tasks_total = 0;    // of the plan
  std::uint64_t total_now = 0;                     // memory of the run as planned now
  bool held = false;                               // the call waits at the allocation; nothing is lost by growing
  std::vector<Choice> choices;                     // what may be answered, the proposed one first
};
class Decider {
 public:
  virtual ~Decider() = default;
  virtual void ask(const Question& question) = 0;
  // The question has been settled otherwise: no answer is wanted any more.
  virtual void withdraw(int id) = 0;
  // A descriptor that becomes readable when an answer may be there; -1: only poll with answers().
  virtual int descriptor() const { return -1; }
  struct Answer {
    int id;
    Choice choice;
  };
  virtual std::vector<Answer> answers() = 0;
};

}  // namespace cuboid
