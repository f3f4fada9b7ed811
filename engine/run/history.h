// What calls of plugins took in earlier runs: a small SQLite file of the user's, keyed by what the function is (its
// name and the hash of the library's content, so that a changed plugin starts anew), its parameters, and the shapes and
// element types of one block. It teaches first sizes before a run's own blocks can, and is the audit of a manifest:
// declared against measured.
//
// A run takes what it teaches into its journal when it begins and never looks again, so that going on later decides as
// before. One thread at a time; several processes may use one file. Faults throw Error{io | corrupt}: no reason for a
// run to fail.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/escalation.h"

namespace cuboid {

struct CallKind {
  std::string function;  // "sky.sources/1"
  std::string plugin;    // content hash
  std::string params;    // JSON; the user's own estimate too
  std::string block;     // "float64 (290, 290)": per argument, then the block
  friend auto operator<=>(const CallKind&, const CallKind&) = default;
};
// Blocks of one stage differ in shape at the grid's edges alone: a bit per axis along which this one is cut short.
std::uint64_t shape_class(const Grid& grid, std::int64_t block);
// Of the call that the stage's estimate is about; no function where it calls no plugin.
CallKind call_kind(const Stage& stage, std::int64_t block);

struct CallRecord {
  CallKind kind;
  std::uint64_t declared = 0;  // uncertain bytes
  std::uint64_t peak = 0;      // the most of them that a call took
  SiblingStats stats;          // ratios to the declared ones
  std::int64_t breaches = 0;   // attempts that needed more than they were allowed
};

class History {
 public:
  // Makes the file, and its folder, where there is none.
  explicit History(const std::string& path);
  History(History&&) noexcept;
  ~History();
  std::vector<CallRecord> find(const CallKind& kind) const;            // at most one; of another declared number: none
  std::vector<CallRecord> of_function(const std::string& name) const;  // with or without "/revision"
  void add(const std::vector<CallRecord>& records);                    // all or nothing; counts add up, extremes stay

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a run of the plan is taught: per stage with an estimate and per shape class.
struct Taught {
  std::string stage;
  std::uint64_t shape_class = 0;
  SiblingStats stats;
};
std::vector<Taught> taught_by(const History& history, const Plan& plan);

}  // namespace cuboid
