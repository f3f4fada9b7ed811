#include "engine/run/resume.h"

#include <algorithm>
#include <unordered_map>

#include "engine/plan/places.h"
#include "storage/error.h"

namespace cuboid {
namespace {

const PlanArray& array_of(const Plan& plan, int index) { return plan.arrays[static_cast<std::size_t>(index)]; }

// What is in one array's store, listed when it is first asked.
class Stored {
 public:
  Stored(const PlanArray& array, const std::vector<JournalOutput>& outputs) : array_(array) {
    if (array.zarr) grid_.emplace(array.zarr->shape(), array.zarr->metadata().write_chunks());
    // Of an output only chunks that this run directory wrote, under the same metadata, count.
    counts_ = array.role != PlanArray::Role::output ||
              std::any_of(outputs.begin(), outputs.end(), [&](const JournalOutput& made) {
                return made.location == place(array.location) &&
                       made.metadata == metadata_fingerprint(array.zarr->metadata());
              });
  }

  // All that a row says was written into this array, and it says that something was.
  bool holds(const std::vector<JournalObject>& objects) {
    if (!counts_) return false;
    bool named = false;
    for (const JournalObject& object : objects) {
      if (object.array != array_.name) continue;
      if (!holds(object)) return false;
      named = true;
    }
    return named;
  }

 private:
  bool holds(const JournalObject& object) {
    if (!lengths_) list();
    std::string key = object.piece;
    if (grid_) {
      if (object.chunk < 0 || object.chunk >= grid_->size()) return false;
      key = array_.zarr->key_of(grid_->index(object.chunk));
    }
    const auto found = lengths_->find(hash_key(key));
    return found == lengths_->end() ? object.bytes == 0 : object.bytes > 0 && found->second == object.bytes;
  }

  void list() {
    lengths_.emplace();
    const auto add = [&](std::string_view key, const Stamp& stamp) { lengths_->emplace(hash_key(key), stamp.bytes); };
    if (array_.zarr)
      array_.zarr->store().list(array_.zarr->path(), add);
    else
      open_store(array_.location)->list("", add);
  }

  const PlanArray& array_;
  std::optional<Grid> grid_;
  bool counts_ = false;
  std::optional<std::unordered_map<std::uint64_t, std::uint64_t>> lengths_;  // by hash of the key
};

}  // namespace

void Recall::identify(const PlanArray& array, int index) {
  auto& source = sources_[index];
  if (source) return;
  source = std::make_unique<SourceIdentity>(*array.zarr);
  journal_.each_source(array.name, [&](const JournalSource& row) {
    if (!source->recognise(row.chunk, {row.identity, row.stamp}, row.bytes, row.crc32c)) return;
    recognised_.emplace_back(array.name, row);
    recognised_.back().second.stamp = source->chunk(row.chunk).stamp;
  });
}

void Recall::remember(const Plan& plan, int index, const Pieces& pieces) {
  const auto at = static_cast<std::size_t>(index);
  const Stage& stage = plan.stages[at];
  const std::int64_t blocks = stage.grid.size();
  for (const int input : stage.inputs)
    if (const PlanArray& array = array_of(plan, input); array.role == PlanArray::Role::source) identify(array, input);
  fingerprints_[at] = fingerprint_stage(plan, index, fingerprints_, sources_, pieces);
  StageRecord record;
  record.known = BlockSet(blocks);
  std::vector<Stored> stored;
  for (const int output : stage.outputs) {
    record.present.emplace(output, blocks);
    stored.emplace_back(array_of(plan, output), outputs_);
  }
  journal_.each_block(stage.name, [&](const JournalBlock& row) {
    if (row.block < 0 || row.block >= blocks) return;
    if (!(row.fingerprint == fingerprints_[at][static_cast<std::size_t>(row.block)])) return;
    record.known.insert(row.block);
    for (std::size_t k = 0; k < stored.size(); ++k)
      if (stored[k].holds(row.objects)) record.present.at(stage.outputs[k]).insert(row.block);
    record.peak = std::max(record.peak, row.peak);
    record.allowed = std::max(record.allowed, row.allowed);
    record.grown += row.grown;
    record.retried += row.attempts > 1;
    record.seconds += row.seconds;
    if (stage.confidence == Confidence::unsafe) record.measured.push_back({row.block, row.peak_u});
  });
  records_[at] = std::move(record);
}

std::vector<BlockSet> Recall::needed(const Plan& plan, const Pieces& pieces) const {
  const std::size_t stages = plan.stages.size();
  const bool anew =  // nothing to be spared by asking what is needed
      std::none_of(records_.begin(), records_.end(), [](const auto& r) { return r && r->known.count() > 0; });
  std::vector<BlockSet> result(stages);
  for (std::size_t s = 0; s < stages; ++s)
    if (records_[s]) result[s] = BlockSet(records_[s]->known.size(), anew);
  if (anew) return result;

  std::vector<bool> whole(plan.arrays.size());       // by array: all of it must be there
  std::vector<BlockSet> wanted(plan.arrays.size());  // else which of its producer's blocks must write it again
  for (std::size_t a = 0; a < plan.arrays.size(); ++a) {
    whole[a] = plan.arrays[a].role == PlanArray::Role::output;
    if (plan.arrays[a].producer >= 0)
      wanted[a] = BlockSet(result[static_cast<std::size_t>(plan.arrays[a].producer)].size());
  }
  for (std::size_t s = 0; s < stages; ++s)
    if (!records_[s])  // it may need any of what it reads
      for (const int input : plan.stages[s].inputs) whole[static_cast<std::size_t>(input)] = true;

  for (std::size_t s = stages; s-- > 0;) {
    if (!records_[s]) continue;
    for (const auto& [output, present] : records_[s]->present) {
      const auto a = static_cast<std::size_t>(output);
      for (std::int64_t block = present.next_absent(0); block < present.size(); block = present.next_absent(block + 1))
        if (whole[a] || wanted[a].contains(block)) result[s].insert(block);
    }
    for (std::int64_t block = result[s].next(0); block < result[s].size(); block = result[s].next(block + 1)) {
      for (const TaskBox& read : task_reads(plan, plan.stages[s], block)) {
        const PlanArray& array = array_of(plan, read.array);
        if (array.producer < 0) continue;
        const BlockSet& present = records_[static_cast<std::size_t>(array.producer)]->present.at(read.array);
        BlockSet& again = wanted[static_cast<std::size_t>(read.array)];
        if (again.count() + present.count() == present.size()) continue;  // all that is absent is wanted already
        const auto require = [&](std::int64_t producer) {
          if (!present.contains(producer)) again.insert(producer);
        };
        if (read.of_runs) {
          for (std::int64_t run = read.box.origin[0]; run < read.box.end(0); ++run)
            require(producing_block_of_run(plan, read.array, run));
        } else if (array.role == PlanArray::Role::pieces) {
          const PieceList& list = *pieces.at(read.array);
          const auto [first, last] =
              pieces_meeting(list, read.box.origin[array.ragged_axis], read.box.end(array.ragged_axis));
          for (std::size_t piece = first; piece < last; ++piece) require(list.pieces[piece].block);
        } else {
          for (const std::int64_t producer : producing_blocks(plan, read.array, read.box)) require(producer);
        }
      }
    }
  }
  return result;
}

PieceList list_pieces(const Journal& journal, const Plan& plan, int index) {
  const PlanArray& array = array_of(plan, index);
  const Stage& stage = plan.stages[static_cast<std::size_t>(array.producer)];
  PieceList list;
  BlockSet known(stage.grid.size());
  journal.each_object(stage.name, [&](std::int64_t block, const JournalObject& object) {
    if (block < 0 || block >= stage.grid.size()) return;
    if (object.array != array.name || object.extents.size() <= array.ragged_axis) return;
    list.pieces.push_back({object.piece, object.extents, object.chunk});
    known.insert(block);
  });
  if (!known.full())
    throw Error(ErrorKind::corrupt, "the journal does not know what every block of stage '" + stage.name +
                                        "' produced; start anew with --fresh");
  list.offsets.push_back(0);
  for (const PieceList::Piece& piece : list.pieces)
    list.offsets.push_back(list.offsets.back() + piece.extents[array.ragged_axis]);
  return list;
}

}  // namespace cuboid
