// What an earlier run of the same directory left that still counts: blocks whose journaled fingerprint is the one they
// would get now, and whose chunks are where the journal says, with the length it says (one listing per array). Asked
// of each array by itself: of a stage's outputs one may have served, and be gone, while another is still to be read.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/block_set.h"
#include "engine/run/journal.h"
#include "engine/run/run.h"

namespace cuboid {

// A finished block that may teach: sizes measured in earlier runs.
struct MeasuredBlock {
  std::int64_t block = 0;
  std::uint64_t peak_u = 0;
};

struct StageRecord {
  BlockSet known;                   // a row with this fingerprint
  std::map<int, BlockSet> present;  // by output: of those, what they wrote into this array is there
  std::uint64_t peak = 0;           // over all rows that count
  std::uint64_t allowed = 0;
  std::int64_t grown = 0, retried = 0;
  double seconds = 0;
  std::vector<MeasuredBlock> measured;  // of unsafe stages only
};

// Remembers, stage by stage in plan order, as far as extents are known.
class Recall {
 public:
  Recall(const Plan& plan, const Journal& journal)
      : journal_(journal),
        outputs_(journal.outputs()),
        records_(plan.stages.size()),
        fingerprints_(plan.stages.size()) {}

  // Everything upstream of the stage was remembered before. `pieces`: by array index, for stages that gather.
  void remember(const Plan& plan, int stage, const Pieces& pieces);
  bool remembered(int stage) const { return records_[static_cast<std::size_t>(stage)].has_value(); }
  const StageRecord& record(int stage) const { return *records_[static_cast<std::size_t>(stage)]; }
  // Sources' chunks of which only times had changed: as they are known from now on, for the journal. By name.
  const std::vector<std::pair<std::string, JournalSource>>& recognised() const { return recognised_; }
  // Of a source that a remembered stage reads.
  const SourceIdentity& source(int array) const { return *sources_.at(array); }
  const Fingerprint& fingerprint(int stage, std::int64_t block) const {
    return fingerprints_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(block)];
  }
  // Blocks of each remembered stage that must run: those of outputs that are not there, and of intermediates what such
  // blocks read. Where a consumer is not remembered yet, everything that is not there.
  std::vector<BlockSet> needed(const Plan& plan, const Pieces& pieces) const;

 private:
  const Journal& journal_;
  std::vector<JournalOutput> outputs_;
  std::vector<std::optional<StageRecord>> records_;     // by stage
  std::vector<std::vector<Fingerprint>> fingerprints_;  // by stage and block
  std::map<int, std::unique_ptr<SourceIdentity>> sources_;
  std::vector<std::pair<std::string, JournalSource>> recognised_;

  void identify(const PlanArray& array, int index);
};

// The pieces of a ragged array whose producer is complete, from the journal, in block order.
PieceList list_pieces(const Journal& journal, const Plan& plan, int array);

}  // namespace cuboid
