#include "engine/run/sorted_runs.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "engine/plan/piece.h"
#include "storage/error.h"

namespace cuboid {
namespace {

// A ragged array: one column of the runs' rows.
struct Column {
  const PlanArray& array;
  int index = 0;
  std::shared_ptr<Store> store;
  std::size_t item = 0;
};

std::vector<Column> open_columns(const Plan& plan, const std::vector<int>& arrays) {
  std::vector<Column> columns;
  for (int index : arrays) {
    const PlanArray& array = plan.arrays[static_cast<std::size_t>(index)];
    columns.push_back({array, index, open_store(array.location), array.spec.dtype.size});
  }
  return columns;
}

// The objects of one run.
std::span<const PieceList::Piece> objects_of(const Column& column, const Pieces& pieces, std::int64_t run) {
  const auto found = pieces.find(column.index);
  if (found == pieces.end())
    throw Error(ErrorKind::invalid, "internal error: the runs of '" + column.array.name + "' are not known");
  const auto& list = found->second->pieces;
  const auto first = std::lower_bound(list.begin(), list.end(), run,
                                      [](const PieceList::Piece& piece, std::int64_t r) { return piece.block < r; });
  return {first, std::find_if(first, list.end(), [&](const auto& piece) { return piece.block != run; })};
}

Error damaged(const PlanArray& array) {
  return Error(ErrorKind::corrupt,
               "the runs of '" + array.name + "' do not belong to what they were merged into; start anew with --fresh");
}

// One run, read object by object, all columns in step.
class RunReader {
 public:
  RunReader(const std::vector<Column>& columns, const Pieces& pieces, std::int64_t block) : columns_(columns) {
    for (const Column& column : columns) {
      const std::span<const PieceList::Piece> objects = objects_of(column, pieces, block);
      next_.push_back(objects.data());
      end_.push_back(objects.data() + objects.size());
    }
  }

  // False where no rows are left. Afterwards `run` says what is at hand.
  bool fill(MemoryAccount& account) {
    if (at_ < rows_) return true;
    at_ = rows_ = 0;
    while (rows_ == 0) {
      if (next_[0] == end_[0]) {
        memory_.clear();
        return false;
      }
      read(account);
    }
    return true;
  }
  MergeTurn::Run run() const {
    MergeTurn::Run run;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      run.columns.push_back(memory_[c].data() + static_cast<std::size_t>(at_) * columns_[c].item);
    run.rows = rows_ - at_;
    return run;
  }
  void took(std::int64_t rows) { at_ += rows; }

 private:
  void read(MemoryAccount& account) {
    const Shape extents = next_[0]->extents;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Column& column = columns_[c];
      const PieceList::Piece& piece = *next_[c]++;
      if (piece.extents != extents || extents[0] > column.array.chunks[0])
        throw Error(ErrorKind::corrupt, "the columns of a run of '" + column.array.name +
                                            "' are not of one length; start anew with --fresh");
      if (memory_.size() <= c)
        memory_.push_back(account.acquire(byte_count(column.array.chunks, column.array.spec.dtype)));
      read_piece(*column.store, piece.key, make_view(memory_[c].data(), column.array.spec.dtype, extents), account);
    }
    rows_ = extents[0];
  }

  const std::vector<Column>& columns_;
  std::vector<const PieceList::Piece*> next_, end_;  // by column
  std::vector<Buffer> memory_;                       // by column
  std::int64_t rows_ = 0, at_ = 0;
};

// One run, written object by object, all columns in step.
class RunWriter {
 public:
  // `run`: its number. `part`: counts the objects of the task in these arrays.
  RunWriter(const std::vector<Column>& columns, const TaskOrder& order, std::int64_t run, std::int64_t& part,
            MemoryAccount& account, std::vector<WrittenChunk>& written)
      : columns_(columns),
        order_(order),
        run_(run),
        part_(part),
        account_(account),
        written_(written),
        most_(columns[0].array.chunks[0]) {
    for (const Column& column : columns)
      memory_.push_back(account.acquire(byte_count(column.array.chunks, column.array.spec.dtype)));
  }
  // Rows that an object of the run has room for yet, and where they go.
  std::int64_t room() const { return most_ - rows_; }
  std::byte* next(std::size_t column) const {
    return memory_[column].data() + static_cast<std::size_t>(rows_) * columns_[column].item;
  }
  // `rows` more are there. An object is stored once it has no room for `least` more.
  void produced(std::int64_t rows, std::int64_t least = 1) {
    rows_ += rows;
    if (room() < least) flush();
  }
  // An empty run has an object too, so that it is known to be one.
  void finish() {
    if (rows_ > 0 || !stored_) flush();
  }

 private:
  void flush() {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Column& column = columns_[c];
      WrittenChunk done;
      done.array = column.index;
      done.chunk = run_;
      done.extents = {rows_};
      done.piece = piece_key(order_, part_);
      done.written = write_piece(*column.store, done.piece,
                                 make_view(memory_[c].data(), column.array.spec.dtype, {rows_}), account_);
      written_.push_back(std::move(done));
    }
    ++part_;
    stored_ = true;
    rows_ = 0;
  }

  const std::vector<Column>& columns_;
  const TaskOrder& order_;
  std::int64_t run_;
  std::int64_t& part_;
  MemoryAccount& account_;
  std::vector<WrittenChunk>& written_;
  std::int64_t most_;
  std::vector<Buffer> memory_;  // by column
  std::int64_t rows_ = 0;
  bool stored_ = false;
};

void stop_if_cancelled(const TaskMonitor& monitor) {
  if (monitor.cancelled()) throw Error(ErrorKind::cancelled, "the task was cancelled");
}

// The ranks of a merged run's rows, one after another: stored ones, or their own numbers where nothing was merged after.
class RankReader {
 public:
  RankReader(const std::vector<Column>& columns, const RunsOrder& order) {
    if (!columns.empty()) stored_.emplace(columns, order.pieces, order.order.block);
  }
  // None: there are no more.
  std::optional<std::int64_t> next(MemoryAccount& account) {
    if (!stored_) return at_++;
    if (at_ == end_ && !more(account)) return std::nullopt;
    return ranks_[at_++];
  }

 private:
  bool more(MemoryAccount& account) {
    stored_->took(end_);
    at_ = end_ = 0;
    if (!stored_->fill(account)) return false;
    const MergeTurn::Run run = stored_->run();
    ranks_ = reinterpret_cast<const std::int64_t*>(run.columns[0]);
    end_ = run.rows;
    return true;
  }

  std::optional<RunReader> stored_;
  const std::int64_t* ranks_ = nullptr;
  std::int64_t at_ = 0, end_ = 0;
};

}  // namespace

std::string piece_key(const TaskOrder& order, std::int64_t part) {
  std::string key = std::to_string(order.block) + "." + std::to_string(order.attempt);
  if (part > 0) key += "." + std::to_string(part);
  return key;
}

void merge_runs(const RunsOrder& order, MemoryAccount& account, const TaskMonitor& monitor,
                std::vector<WrittenChunk>& written) {
  const Step& step = order.step;
  const Kernel& kernel = *order.program.ops[static_cast<std::size_t>(step.op)].kernel;
  const std::vector<Column> from = open_columns(order.plan, step.in), to = open_columns(order.plan, step.out);
  const std::vector<Column> noted =
      open_columns(order.plan, step.array < 0 ? std::vector<int>{} : std::vector{step.array});
  std::vector<RunReader> readers;
  for (std::int64_t run = order.block.origin[0]; run < order.block.end(0); ++run)
    readers.emplace_back(from, order.pieces, run);
  std::int64_t parts = 0, note_parts = 0;
  RunWriter writer(to, order.order, order.order.block, parts, account, written);
  std::optional<RunWriter> notes;
  if (!noted.empty()) notes.emplace(noted, order.order, order.order.block, note_parts, account, written);
  for (;;) {
    stop_if_cancelled(monitor);
    MergeTurn turn;
    std::vector<std::size_t> at_hand;
    for (std::size_t k = 0; k < readers.size(); ++k)
      if (readers[k].fill(account)) {
        turn.runs.push_back(readers[k].run());
        at_hand.push_back(k);
      }
    if (at_hand.empty()) break;
    for (std::size_t c = 0; c < to.size(); ++c) turn.out.push_back(writer.next(c));
    turn.room = writer.room();
    if (notes) {
      turn.notes = reinterpret_cast<std::uint8_t*>(notes->next(0));
      turn.note_room = notes->room();
    }
    kernel.merge(turn);
    for (std::size_t k = 0; k < at_hand.size(); ++k) readers[at_hand[k]].took(turn.runs[k].taken);
    // Of the runs at hand to all of the task's.
    for (std::int64_t k = 0; k < turn.noted; ++k) {
      const std::uint8_t note = turn.notes[k];
      turn.notes[k] = static_cast<std::uint8_t>(at_hand[note & ~MergeTurn::kNewRow] | (note & MergeTurn::kNewRow));
    }
    writer.produced(turn.produced);
    if (notes) notes->produced(turn.noted, static_cast<std::int64_t>(readers.size()));
  }
  writer.finish();
  if (notes) notes->finish();
}

void split_ranks(const RunsOrder& order, MemoryAccount& account, const TaskMonitor& monitor,
                 std::vector<WrittenChunk>& written) {
  const Step& step = order.step;
  const std::vector<Column> noted = open_columns(order.plan, {step.array}), from = open_columns(order.plan, step.in),
                            to = open_columns(order.plan, step.out);
  const std::size_t before = written.size();
  std::int64_t parts = 0;
  std::vector<RunWriter> runs;
  for (std::int64_t run = order.block.origin[0]; run < order.block.end(0); ++run)
    runs.emplace_back(to, order.order, run, parts, account, written);
  RunReader notes(noted, order.pieces, order.order.block);
  RankReader ranks(from, order);
  std::optional<std::int64_t> rank;
  while (notes.fill(account)) {
    stop_if_cancelled(monitor);
    const MergeTurn::Run at_hand = notes.run();
    const auto* note = reinterpret_cast<const std::uint8_t*>(at_hand.columns[0]);
    for (std::int64_t k = 0; k < at_hand.rows; ++k) {
      if (note[k] & MergeTurn::kNewRow) rank = ranks.next(account);
      const std::size_t run = note[k] & ~MergeTurn::kNewRow;
      if (!rank || run >= runs.size()) throw damaged(noted[0].array);
      std::memcpy(runs[run].next(0), &*rank, sizeof *rank);
      runs[run].produced(1);
    }
    notes.took(at_hand.rows);
  }
  for (RunWriter& run : runs) run.finish();
  // The journal lists them run by run.
  std::stable_sort(written.begin() + static_cast<std::ptrdiff_t>(before), written.end(),
                   [](const WrittenChunk& a, const WrittenChunk& b) { return a.chunk < b.chunk; });
}

void look_up_ranks(const RunsOrder& order, const View& places, MemoryAccount& account) {
  const std::vector<Column> columns = open_columns(order.plan, {order.step.array});
  const std::span<const PieceList::Piece> objects = objects_of(columns[0], order.pieces, order.order.block);
  std::int64_t rows = 0;
  for (const PieceList::Piece& object : objects) rows += object.extents[0];
  if (rows > element_count(places.shape)) throw damaged(columns[0].array);
  const Buffer memory = account.acquire(byte_count({rows}, kInt64));
  auto* ranks = reinterpret_cast<std::int64_t*>(memory.data());
  std::int64_t read = 0;
  for (const PieceList::Piece& object : objects) {
    read_piece(*columns[0].store, object.key,
               make_view(memory.data() + read * static_cast<std::int64_t>(sizeof *ranks), kInt64, object.extents),
               account);
    read += object.extents[0];
  }
  auto* place = reinterpret_cast<std::int64_t*>(places.data);
  for (std::int64_t k = 0, n = element_count(places.shape); k < n; ++k) {
    if (place[k] < 0 || place[k] >= rows) throw damaged(columns[0].array);
    place[k] = ranks[place[k]];
  }
}

}  // namespace cuboid
