// What a run directory remembers of its run, gathered for a report: from plan.json and the journal alone, while a run
// goes on, after it failed, or when it is done. No plugin is needed to read it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/journal.h"

namespace cuboid {

struct RecordedStage {
  std::string name, function, confidence;
  std::vector<std::string> steps;
  std::int64_t tasks = 0, done = 0, retried = 0, grown = 0;
  int concurrency = 1;
  std::uint64_t projected = 0, allowed = 0, peak = 0;  // bytes; allowed and peak: the largest of finished blocks
  std::uint64_t bytes_read = 0, bytes_written = 0;
  double seconds = 0;                // sum over finished blocks
  double seconds_lost = 0;           // in attempts that failed
  std::vector<std::uint64_t> peaks;  // by block order, at most kMostPoints of them, evenly picked
};
struct ArrayRecord {
  std::string name, role, dtype, location;
  std::string shape;  // "(<=4000, 6)"; as measured where that is known
};
struct RunRecord {
  static constexpr std::size_t kMostPoints = 400;

  std::string run_dir;
  std::uint64_t budget = 0;  // bytes
  int workers = 0;
  std::int64_t tasks = 0;
  std::vector<RecordedStage> stages;
  std::vector<ArrayRecord> arrays;
  std::vector<JournalRun> runs;
  std::vector<JournalFailure> failures;
  std::vector<JournalParked> parked;
  std::vector<JournalAnswer> answers;

  std::int64_t tasks_done() const;
  // "done", "running", "killed", "exceeded", ...
  std::string status() const;
};

// Throws Error{not_found} where the folder holds no run, Error{invalid} where it is damaged.
RunRecord read_run_record(const std::string& run_dir);

// A page that needs nothing else: no script, no network.
std::string html_report(const RunRecord& record);

}  // namespace cuboid
