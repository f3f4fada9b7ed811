// What a run directory knows of finished work: a SQLite file that the coordinator alone writes. Rows are gathered in
// one open transaction and committed together (every 100 ms at most); promises are about committed rows.
//
// Safe against kill: SQLite's rollback journal with synchronous off orders its writes, and what was handed to the
// system survives the process. Against loss of power only where `durable` (synchronous full). No write-ahead log: it
// needs shared memory beside the file, which network file systems lack, and two more files.
//
// One thread at a time. Every fault throws Error{corrupt} where the file is no sound journal of this version, else
// Error{io}; the message says what to do.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/fingerprint.h"
#include "engine/run/task.h"

namespace cuboid {

// A stored chunk or piece.
struct JournalObject {
  std::string array;        // its name in the plan
  std::int64_t chunk = 0;   // linear index in the array's grid of write-chunks; of pieces: the block
  std::uint64_t bytes = 0;  // stored length; 0: not stored (equal to fill, or an empty piece)
  std::uint32_t crc32c = 0;
  std::string piece;  // of pieces: the key
  Shape extents;      // of pieces
};
// A finished block.
struct JournalBlock {
  std::int64_t block = 0;
  Fingerprint fingerprint;
  int attempts = 1;             // over all runs
  bool grown = false;           // got more memory in place
  std::uint64_t allowed = 0;    // bytes: the last grant
  std::uint64_t allowance = 0;  // uncertain bytes within it
  std::uint64_t peak = 0;       // measured
  std::uint64_t peak_u = 0;     // uncertain bytes, measured
  double seconds = 0;           // of the attempt that succeeded
  std::vector<JournalObject> objects;
};
// An attempt that did not succeed.
struct JournalFailure {
  std::string stage;
  std::int64_t block = 0;
  int attempt = 1;
  std::string outcome, evidence;  // "exceeded", "own-account"
  std::uint64_t allowed = 0, allowance = 0, needed = 0, peak = 0, peak_u = 0;
  double seconds = 0;
  std::string message;
};
struct JournalParked {
  std::string stage;
  std::int64_t block = 0;
  int exit_code = 4;
  std::string why;
};
struct JournalAnswer {
  std::string stage;
  std::int64_t block = 0;
  std::string choice;
  std::uint64_t bytes = 0;
  bool always = false;
};
// A stored chunk of a source, as it was when a task read it.
struct JournalSource {
  std::int64_t chunk = 0;      // linear index in the array's grid of write-chunks
  std::uint64_t identity = 0;  // what fingerprints know it by
  std::uint64_t stamp = 0;     // hash of the stamp under which it was last known to hold that
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> crc32c;  // of the stored bytes; none: tasks saw different ones
};
// What the history of earlier runs had to say when this run directory's first run began.
struct JournalTaught {
  std::string stage;
  std::uint64_t shape_class = 0;
  std::int64_t finished = 0, above = 0;
  double worst_finished = 0, worst_seen = 0;
};
// An output array that this run directory made. The location is kept as place() spells it, so that it is the same from
// whatever folder it is asked for; where the run directory was moved and the output with it, it is where it lies now.
struct JournalOutput {
  std::string location;
  Fingerprint metadata;  // of what its chunks were written under
  bool published = false;
};
struct JournalRun {
  std::int64_t id = 0;
  double started = 0, ended = 0;  // seconds since 1970; 0: not ended (killed, or still running)
  std::int64_t pid = 0;
  std::string status;  // as RunStatus; "" while running
  double wall_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
};

class Journal {
 public:
  enum class Mode : std::uint8_t { create, read };
  static std::string path_in(const std::string& run_dir) { return run_dir + "/journal.sqlite"; }
  // create: opens for writing, makes it where there is none. read: for observers, also while a coordinator writes;
  // throws Error{not_found} where there is none.
  Journal(const std::string& run_dir, Mode mode, bool durable = false);
  Journal(Journal&&) noexcept;
  ~Journal();  // uncommitted rows are dropped

  // --- writing: gathered until commit()
  std::int64_t begin_run();  // parked blocks of earlier runs are forgotten
  void end_run(const std::string& status, double wall_seconds, std::uint64_t peak_rss_bytes);
  void add_block(const std::string& stage, const JournalBlock& row);  // replaces an earlier row of the block
  void add_failure(const JournalFailure& row);
  void add_parked(const JournalParked& row);
  void add_answer(const JournalAnswer& row);
  void add_taught(const JournalTaught& row);
  // Of the same identity with another crc32c: the chunk changed while it was being read, and its crc32c is forgotten.
  void add_source(const std::string& array, const JournalSource& row);
  void set_output(const JournalOutput& row);
  void forget_output(const std::string& location);
  void set_shape(const std::string& array, const Shape& shape);  // of a data-dependent array: for reports
  void set_bound(const std::string& array, std::int64_t bound);  // a grown bound of one block's ragged extent
  bool dirty() const;                                            // something waits for commit()
  // False where a reader holds the file just now: nothing is lost, try again. `patient`: waits up to ten seconds.
  bool commit(bool patient = false);

  // --- reading
  // Committed and gathered rows, in block order.
  void each_block(const std::string& stage, const std::function<void(const JournalBlock&)>& each) const;
  // What those wrote alone, one at a time: a block may have written ten thousands.
  void each_object(const std::string& stage,
                   const std::function<void(std::int64_t block, const JournalObject&)>& each) const;
  void each_source(const std::string& array, const std::function<void(const JournalSource&)>& each) const;
  std::vector<std::string> stages() const;
  // How many attempts at each block failed, over all runs.
  std::map<std::int64_t, int> failed_attempts(const std::string& stage) const;
  std::vector<JournalTaught> taught() const;
  std::vector<JournalFailure> failures() const;
  std::vector<JournalParked> parked() const;
  std::vector<JournalAnswer> answers() const;
  // Those given since a run last ended by itself: whoever goes on after a kill need not ask again.
  std::vector<JournalAnswer> standing_answers() const;
  std::vector<JournalOutput> outputs() const;
  std::map<std::string, Shape> shapes() const;
  std::map<std::string, std::int64_t> bounds() const;
  std::vector<JournalRun> runs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cuboid
