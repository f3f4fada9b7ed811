#include "engine/run/resume.h"

#include <algorithm>

#include "storage/error.h"

namespace cuboid {
namespace {

const PlanArray& array_of(const Plan& plan, int index) { return plan.arrays[static_cast<std::size_t>(index)]; }

// A row's objects name arrays; a plan knows them by index.
class ArrayIndex {
 public:
  ArrayIndex(const Plan& plan, const Stage& stage) {
    for (const int index : stage.outputs) names_.emplace_back(array_of(plan, index).name, index);
  }
  int find(const std::string& name) const {
    for (const auto& [known, index] : names_)
      if (known == name) return index;
    return -1;
  }

 private:
  std::vector<std::pair<std::string, int>> names_;
};

}  // namespace

Recall::Listing Recall::list(const PlanArray& array) const {
  Listing listing;
  const auto add = [&](std::string_view key, const Stamp& stamp) { listing.emplace(hash_key(key), stamp.bytes); };
  if (array.zarr)
    array.zarr->store().list(array.zarr->path(), add);
  else
    open_store(array.location)->list("", add);
  return listing;
}

void Recall::remember(const Plan& plan, int index, const std::map<int, PieceList>& pieces) {
  const auto at = static_cast<std::size_t>(index);
  const Stage& stage = plan.stages[at];
  const std::int64_t blocks = stage.grid.size();
  fingerprints_[at] = fingerprint_stage(plan, index, fingerprints_, sources_, pieces);
  StageRecord record;
  record.known = BlockSet(blocks);
  record.present = BlockSet(blocks);
  std::map<int, Listing> listings;
  std::map<int, Grid> grids;
  const ArrayIndex arrays(plan, stage);
  const auto stored = [&](const JournalObject& object) {
    const int array_index = arrays.find(object.array);
    if (array_index < 0) return false;
    const PlanArray& array = array_of(plan, array_index);
    const auto listing = listings.try_emplace(array_index);
    if (listing.second) listing.first->second = list(array);
    std::string key = object.piece;
    if (array.zarr) {
      const auto grid =
          grids.try_emplace(array_index, array.zarr->shape(), array.zarr->metadata().write_chunks()).first;
      if (object.chunk < 0 || object.chunk >= grid->second.size()) return false;
      key = array.zarr->key_of(grid->second.index(object.chunk));
    }
    const auto found = listing.first->second.find(hash_key(key));
    return found == listing.first->second.end() ? object.bytes == 0 : object.bytes > 0 && found->second == object.bytes;
  };
  // Of an output only chunks that this run directory wrote, under the same metadata, count.
  const bool counts = std::all_of(stage.outputs.begin(), stage.outputs.end(), [&](int output) {
    const PlanArray& array = array_of(plan, output);
    if (array.role != PlanArray::Role::output) return true;
    return std::any_of(outputs_.begin(), outputs_.end(), [&](const JournalOutput& made) {
      return made.location == array.location && made.metadata == metadata_fingerprint(array.zarr->metadata());
    });
  });
  journal_.each_block(stage.name, [&](const JournalBlock& row) {
    if (row.block < 0 || row.block >= blocks) return;
    if (!(row.fingerprint == fingerprints_[at][static_cast<std::size_t>(row.block)])) return;
    record.known.insert(row.block);
    if (counts && std::all_of(row.objects.begin(), row.objects.end(), stored)) record.present.insert(row.block);
    record.peak = std::max(record.peak, row.peak);
    record.allowed = std::max(record.allowed, row.allowed);
    record.grown += row.grown;
    record.retried += row.attempts > 1;
    record.seconds += row.seconds;
    if (stage.confidence == Confidence::unsafe) record.measured.push_back({row.block, row.peak_u});
  });
  records_[at] = std::move(record);
}

std::vector<BlockSet> Recall::needed(const Plan& plan, const std::map<int, PieceList>& pieces) const {
  const std::size_t stages = plan.stages.size();
  std::vector<BlockSet> result(stages);
  std::vector<bool> all_present(stages, false);
  for (std::size_t s = 0; s < stages; ++s) {
    if (!records_[s]) {
      // Its consumers may need any of what it reads: only what is there will do.
      for (const int input : plan.stages[s].inputs)
        if (const int producer = array_of(plan, input).producer; producer >= 0)
          all_present[static_cast<std::size_t>(producer)] = true;
      continue;
    }
    for (const int output : plan.stages[s].outputs)
      if (array_of(plan, output).role == PlanArray::Role::output) all_present[s] = true;
  }
  for (std::size_t s = 0; s < stages; ++s)
    if (records_[s]) result[s] = BlockSet(records_[s]->present.size());
  const bool anew =
      std::none_of(records_.begin(), records_.end(), [](const auto& r) { return r && r->known.count() > 0; });
  if (anew) {  // nothing to be spared by asking what is needed
    for (std::size_t s = 0; s < stages; ++s)
      if (records_[s]) result[s] = BlockSet(records_[s]->present.size(), true);
    return result;
  }
  for (std::size_t s = stages; s-- > 0;) {
    if (!records_[s]) continue;
    const BlockSet& present = records_[s]->present;
    if (all_present[s])
      for (std::int64_t block = present.next_absent(0); block < present.size(); block = present.next_absent(block + 1))
        result[s].insert(block);
    if (result[s].count() == 0) continue;
    for (std::int64_t block = result[s].next(0); block < result[s].size(); block = result[s].next(block + 1)) {
      for (const TaskBox& read : task_reads(plan, plan.stages[s], block)) {
        const PlanArray& array = array_of(plan, read.array);
        if (array.producer < 0) continue;
        const auto up = static_cast<std::size_t>(array.producer);
        if (records_[up]->present.full()) continue;
        const auto require = [&](std::int64_t producer) {
          if (!records_[up]->present.contains(producer)) result[up].insert(producer);
        };
        if (read.of_runs) {
          for (std::int64_t run = read.box.origin[0]; run < read.box.end(0); ++run) require(run);
        } else if (array.role == PlanArray::Role::pieces) {
          const auto [first, last] = pieces_meeting(pieces.at(read.array), read.box.origin[array.ragged_axis],
                                                    read.box.end(array.ragged_axis));
          for (std::size_t piece = first; piece < last; ++piece)
            require(pieces.at(read.array).pieces[piece].block);
        } else if (result[up].count() + records_[up]->present.count() < result[up].size()) {
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
  journal.each_block(stage.name, [&](const JournalBlock& row) {
    if (row.block < 0 || row.block >= stage.grid.size()) return;
    for (const JournalObject& object : row.objects)
      if (object.array == array.name && object.extents.size() > array.ragged_axis) {
        list.pieces.push_back({object.piece, object.extents, object.bytes, object.crc32c, row.block});
        known.insert(row.block);
      }
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
