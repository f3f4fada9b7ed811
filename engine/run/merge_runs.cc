#include "engine/run/merge_runs.h"

#include <algorithm>

#include "engine/plan/piece.h"
#include "storage/error.h"

namespace cuboid {
namespace {

// A ragged array that a merge reads or writes: one column of the runs' rows.
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

// One run, read object by object, all columns in step.
class RunReader {
 public:
  RunReader(const std::vector<Column>& columns, const std::map<int, PieceList>& pieces, std::int64_t block)
      : columns_(columns) {
    for (const Column& column : columns) {
      const auto found = pieces.find(column.index);
      if (found == pieces.end())
        throw Error(ErrorKind::invalid, "internal error: the runs of '" + column.array.name + "' are not known");
      const auto& list = found->second.pieces;
      const auto first =
          std::lower_bound(list.begin(), list.end(), block,
                           [](const PieceList::Piece& piece, std::int64_t b) { return piece.block < b; });
      next_.push_back(list.data() + (first - list.begin()));
      end_.push_back(list.data() +
                     (std::find_if(first, list.end(), [&](const auto& p) { return p.block != block; }) - list.begin()));
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

class RunWriter {
 public:
  RunWriter(const std::vector<Column>& columns, const TaskOrder& order, MemoryAccount& account,
            std::vector<WrittenChunk>& written)
      : columns_(columns), order_(order), account_(account), written_(written), most_(columns[0].array.chunks[0]) {
    for (const Column& column : columns)
      memory_.push_back(account.acquire(byte_count(column.array.chunks, column.array.spec.dtype)));
  }
  void offer(MergeTurn& turn) const {
    turn.out.clear();
    for (std::size_t c = 0; c < columns_.size(); ++c)
      turn.out.push_back(memory_[c].data() + static_cast<std::size_t>(rows_) * columns_[c].item);
    turn.room = most_ - rows_;
    turn.produced = 0;
  }
  void produced(std::int64_t rows) {
    rows_ += rows;
    if (rows_ == most_) flush();
  }
  // An empty run has an object too, so that it is known to be one.
  void finish() {
    if (rows_ > 0 || part_ == 0) flush();
  }

 private:
  void flush() {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Column& column = columns_[c];
      WrittenChunk done;
      done.array = column.index;
      done.chunk = order_.block;
      done.extents = {rows_};
      done.piece = piece_key(order_, part_);
      done.written = write_piece(*column.store, done.piece,
                                 make_view(memory_[c].data(), column.array.spec.dtype, {rows_}), account_);
      written_.push_back(std::move(done));
    }
    ++part_;
    rows_ = 0;
  }

  const std::vector<Column>& columns_;
  const TaskOrder& order_;
  MemoryAccount& account_;
  std::vector<WrittenChunk>& written_;
  std::int64_t most_;
  std::vector<Buffer> memory_;  // by column
  std::int64_t rows_ = 0, part_ = 0;
};

}  // namespace

std::string piece_key(const TaskOrder& order, std::int64_t part) {
  std::string key = std::to_string(order.block) + "." + std::to_string(order.attempt);
  if (part > 0) key += "." + std::to_string(part);
  return key;
}

void merge_runs(const MergeOrder& order, MemoryAccount& account, const TaskMonitor& monitor,
                std::vector<WrittenChunk>& written) {
  const std::vector<Column> from = open_columns(order.plan, order.step.in),
                            to = open_columns(order.plan, order.step.out);
  std::vector<RunReader> readers;
  for (std::int64_t run = order.runs.origin[0]; run < order.runs.end(0); ++run)
    readers.emplace_back(from, order.pieces, run);
  RunWriter writer(to, order.order, account, written);
  for (;;) {
    if (monitor.cancelled()) throw Error(ErrorKind::cancelled, "the task was cancelled");
    MergeTurn turn;
    std::vector<RunReader*> at_hand;
    for (RunReader& reader : readers)
      if (reader.fill(account)) {
        turn.runs.push_back(reader.run());
        at_hand.push_back(&reader);
      }
    if (at_hand.empty()) break;
    writer.offer(turn);
    order.kernel.merge(turn);
    for (std::size_t k = 0; k < at_hand.size(); ++k) at_hand[k]->took(turn.runs[k].taken);
    writer.produced(turn.produced);
  }
  writer.finish();
}

}  // namespace cuboid
