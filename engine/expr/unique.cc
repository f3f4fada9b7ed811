// unique_values, unique_counts, unique_inverse, unique_all: each block yields a run, its distinct elements in ascending
// order; runs are merged until one is left. Every NaN is distinct, -0.0 equals 0.0 (array API 2024.12); of equal
// elements the first one is kept. Beside its run a block yields the rank of each of its elements in it.
#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/order.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

template <class T>
bool equal_keys(T a, T b) {
  return !sorts_before(a, b) && !sorts_before(b, a) && !is_nan(a);
}

// Every index of a box in the C order of the whole it lies in.
class FlatIndex {
 public:
  FlatIndex(const Box& box, const Shape& whole) : box_(box), strides_(whole.size(), 1), index_(whole.size(), 0) {
    for (std::size_t axis = whole.size(); axis-- > 1;)
      strides_[axis - 1] = strides_[axis] * std::max<std::int64_t>(whole[axis], 1);
    for (std::size_t axis = 0; axis < whole.size(); ++axis) at_ += box.origin[axis] * strides_[axis];
  }
  std::int64_t next() {
    const std::int64_t here = at_;
    for (std::size_t axis = index_.size(); axis-- > 0;) {
      at_ += strides_[axis];
      if (++index_[axis] < box_.shape[axis]) break;
      at_ -= strides_[axis] * box_.shape[axis];
      index_[axis] = 0;
    }
    return here;
  }

 private:
  const Box& box_;
  Shape strides_, index_;
  std::int64_t at_ = 0;
};

struct Columns {
  bool first = false, counts = false;
  bool all = false;  // equal elements are kept: sorted, no more
};

// Where a block's run goes; null: not wanted.
struct RunTarget {
  std::byte* keys = nullptr;
  std::int64_t *first = nullptr, *counts = nullptr;
  std::int64_t* ranks = nullptr;  // by element, in C order
};

// The sorts and merges of one element type.
struct UniqueLoops {
  std::size_t (*scratch)(std::int64_t elements) = nullptr;  // bytes
  std::int64_t (*sort)(const KernelCall& call, std::byte* scratch, const RunTarget& out, const Shape& whole,
                       bool all) = nullptr;  // returns the rows
  void (*merge)(MergeTurn& turn, Columns columns) = nullptr;
};

template <class T>
T element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (Boolean<T>) return Bool(static_cast<bool>(value));
  return value;
}

// Calls `each` with every element of a block in C order.
template <class T, class Each>
void for_each_element(const ConstView& block, Each each) {
  const std::int64_t n = element_count(block.shape);
  StripReader reader;
  reader.reset(block, kDTypeOf<T>);
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t count = std::min(kStrip, n - done);
    const std::byte* strip = reader.next(count);
    for (std::int64_t k = 0; k < count; ++k) each(element<T>(strip + k * sizeof(T)));
    done += count;
  }
}

// The index of the one among `n` >= 1 distinct keys in ascending order that equals `wanted`. Without branches, which
// could not be foreseen.
template <class T>
std::int64_t rank_of(const T* keys, std::int64_t n, T wanted) {
  const T* base = keys;
  while (n > 1) {
    const std::int64_t half = n / 2;
    base += sorts_before(base[half - 1], wanted) ? half : 0;
    n -= half;
  }
  return base - keys;
}

// NaNs are a key each: of those that sort alike, each one met takes the next key.
template <class T>
class NanRanks {
 public:
  // `keys`: NaNs in ascending order, `n` of them; `taken`: zeroed bits, one for each (of complex numbers alone).
  NanRanks(const T* keys, std::int64_t n, std::byte* taken) : keys_(keys), end_(keys + n), taken_(taken) {}

  std::int64_t next(T nan) {
    if constexpr (!Complex<T>) return met_++;
    const auto [low, high] = std::equal_range(keys_, end_, nan, [](T a, T b) { return sorts_before(a, b); });
    // Those that are taken come first.
    const T* free = std::partition_point(low, high, [&](const T& key) { return is_taken(&key - keys_); });
    const std::int64_t rank = free - keys_;
    taken_[rank / 8] |= bit(rank);
    return rank;
  }

 private:
  static std::byte bit(std::int64_t rank) { return std::byte{1} << (rank % 8); }
  bool is_taken(std::int64_t rank) const { return (taken_[rank / 8] & bit(rank)) != std::byte{0}; }

  const T *keys_, *end_;
  std::byte* taken_;
  std::int64_t met_ = 0;
};

// Bytes of scratch for a block of n elements: a copy of it, and of complex numbers a bit for each.
template <class T>
std::size_t sort_scratch(std::int64_t n) {
  return static_cast<std::size_t>(n) * sizeof(T) + (Complex<T> ? static_cast<std::size_t>(n / 8 + 1) : 0);
}

// Ranks, and where each key is first: every element is looked up among the keys.
template <class T>
void look_up(const KernelCall& call, T* keys, std::int64_t rows, std::byte* bits, const RunTarget& out,
             const Shape& whole) {
  const std::int64_t numbers = std::partition_point(keys, keys + rows, [](T key) { return !is_nan(key); }) - keys;
  if (Complex<T>) std::memset(bits, 0, static_cast<std::size_t>(rows / 8 + 1));
  NanRanks<T> nans(keys + numbers, rows - numbers, bits);
  FlatIndex index(call.block, whole);
  std::int64_t* ranks = out.ranks;
  if (out.first) std::fill_n(out.first, rows, -1);
  for_each_element<T>(call.in[0], [&](T value) {
    const std::int64_t rank = is_nan(value) ? numbers + nans.next(value) : rank_of(keys, numbers, value);
    const std::int64_t place = index.next();
    if (ranks) *ranks++ = rank;
    if (out.first && out.first[rank] < 0) out.first[rank] = place, keys[rank] = value;  // complex zeros differ
  });
}

template <class T>
std::int64_t sort_block(const KernelCall& call, std::byte* scratch, const RunTarget& out, const Shape& whole,
                        bool all) {
  T* keys = reinterpret_cast<T*>(scratch);
  T* end = keys;
  std::optional<T> zero;  // the first one
  for_each_element<T>(call.in[0], [&](T value) {
    if constexpr (Float<T>)
      if (value == 0 && !zero) zero = value;
    *end++ = value;
  });
  std::byte* bits = reinterpret_cast<std::byte*>(end);
  std::sort(keys, end, [](const T& a, const T& b) { return sorts_before(a, b); });
  std::int64_t rows = 0;
  for (const T* key = keys; key != end; ++key) {
    if (!all && rows > 0 && equal_keys(keys[rows - 1], *key)) {
      if (out.counts) ++out.counts[rows - 1];
      continue;
    }
    keys[rows] = *key;
    if (out.counts) out.counts[rows] = 1;
    ++rows;
  }
  if constexpr (Float<T>)
    if (zero && !all) *std::find(keys, keys + rows, *zero) = *zero;
  if (out.first || out.ranks) look_up(call, keys, rows, bits, out, whole);
  std::memcpy(out.keys, keys, static_cast<std::size_t>(rows) * sizeof(T));
  return rows;
}

// The runs' heads in a binary heap, the least on top: by key, then by first place where it is known, then by run.
template <class T>
class Heads {
 public:
  Heads(MergeTurn& turn, bool by_first) : turn_(turn), by_first_(by_first) {
    for (std::size_t k = 0; k < turn.runs.size(); ++k) heap_.push_back(head(k));
    for (std::size_t k = heap_.size() / 2; k-- > 0;) sift(k);
  }
  struct Head {
    T key;
    std::int64_t first;
    std::size_t run;
  };
  const Head& top() const { return heap_[0]; }
  bool empty() const { return heap_.empty(); }
  // Takes the top's row. False where its run has none at hand any more.
  bool take() {
    MergeTurn::Run& run = turn_.runs[heap_[0].run];
    const bool more = ++run.taken < run.rows;
    if (more) {
      heap_[0] = head(heap_[0].run);
    } else {
      heap_[0] = heap_.back();
      heap_.pop_back();
    }
    if (!heap_.empty()) sift(0);
    return more;
  }

 private:
  Head head(std::size_t k) const {
    const MergeTurn::Run& run = turn_.runs[k];
    Head made{reinterpret_cast<const T*>(run.columns[0])[run.taken], 0, k};
    if (by_first_) made.first = reinterpret_cast<const std::int64_t*>(run.columns[1])[run.taken];
    return made;
  }
  static bool before(const Head& a, const Head& b) {
    if (sorts_before(a.key, b.key)) return true;
    if (sorts_before(b.key, a.key)) return false;
    return a.first != b.first ? a.first < b.first : a.run < b.run;
  }
  void sift(std::size_t at) {
    const Head moved = heap_[at];
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
      if (!before(heap_[child], moved)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = moved;
  }

  MergeTurn& turn_;
  bool by_first_;
  std::vector<Head> heap_;
};

// Equal rows are at the heads of their runs at the same time, as no run holds two of them.
template <class T>
void merge_runs(MergeTurn& turn, Columns columns) {
  Heads<T> heads(turn, columns.first);
  T* keys = reinterpret_cast<T*>(turn.out[0]);
  std::int64_t* first = columns.first ? reinterpret_cast<std::int64_t*>(turn.out[1]) : nullptr;
  const std::size_t at = columns.first ? 2 : 1;
  std::int64_t* counts = columns.counts ? reinterpret_cast<std::int64_t*>(turn.out[at]) : nullptr;
  const auto count_of_top = [&] {
    const MergeTurn::Run& run = turn.runs[heads.top().run];
    return reinterpret_cast<const std::int64_t*>(run.columns[at])[run.taken];
  };
  for (bool more = true; more && !heads.empty() && turn.has_room(); ++turn.produced) {
    const T key = heads.top().key;
    keys[turn.produced] = key;
    if (first) first[turn.produced] = heads.top().first;
    std::int64_t count = counts ? count_of_top() : 0;
    turn.note(heads.top().run, true);
    more = heads.take();
    while (!columns.all && !heads.empty() && equal_keys(heads.top().key, key)) {
      if (counts) count += count_of_top();
      turn.note(heads.top().run, false);
      more &= heads.take();
    }
    if (counts) counts[turn.produced] = count;
  }
}

const std::array<UniqueLoops, kDTypeCount> kUniqueLoops =
    table_over_types<UniqueLoops>([]<class T>(std::type_identity<T>) -> UniqueLoops {
      return {&sort_scratch<T>, &sort_block<T>, &merge_runs<T>};
    });

// How many values a type has, where that matters.
std::int64_t values_of(DType dtype) {
  if (dtype.kind == Kind::boolean) return 2;
  const bool integer = dtype.kind == Kind::signed_int || dtype.kind == Kind::unsigned_int;
  return integer && dtype.size < 8 ? std::int64_t{1} << (8 * dtype.size) : INT64_MAX;
}

class UniqueKernel final : public Kernel {
 public:
  // `all`: equal elements are kept.
  UniqueKernel(KernelSpec spec, const std::vector<std::string>& outputs, bool all)
      : Kernel(std::move(spec)), input_(std::get<ArraySpec>(spec_.args[0])) {
    columns_.all = all;
    const std::int64_t elements = element_count(input_.max_shape());
    Extent rows{std::min(elements, most_distinct()), all && input_.exact() ? Trust::exact : Trust::bound};
    for (std::size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k] != "inverse_indices") rows = user_bound(spec_, k, rows);
    for (const std::string& name : outputs) {
      if (name == "inverse_indices") {
        form_.ranks = outputs_.size();
        ArraySpec like = input_;
        like.dtype = kInt64;
        outputs_.push_back({name, std::move(like), std::nullopt});
        continue;
      }
      columns_.first |= name == "indices";
      columns_.counts |= name == "counts";
      form_.columns.push_back(outputs_.size());
      ArraySpec column;
      column.dtype = name == "values" ? input_.dtype : kInt64;
      column.extents = {rows};
      outputs_.push_back({name, std::move(column), 0});
    }
  }

  std::string identity() const override { return spec_.function + "#2"; }
  Shape domain() const override { return input_.max_shape(); }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    return grow_block(input_chunks.at(0), domain(), kRunElements);
  }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  bool input_is_block(std::size_t) const override { return true; }
  Shape output_extents(std::size_t k, const Shape& block) const override {
    if (k == form_.ranks) return block;
    return {std::min(element_count(block), most_distinct())};
  }
  const RunsForm* runs() const override { return &form_; }

  CallMemory memory(Phase, const Shape& block) const override {
    CallMemory memory;
    memory.sure = class_bytes(loops().scratch(element_count(block)));
    return memory;
  }

  void run(KernelCall& call) const override {
    const std::int64_t elements = element_count(call.in[0].shape);
    const Buffer scratch = call.memory->acquire(loops().scratch(elements));
    RunTarget out;
    out.keys = call.out[form_.columns[0]].data;
    std::size_t column = 1;
    const auto next = [&] { return reinterpret_cast<std::int64_t*>(call.out[form_.columns[column++]].data); };
    if (columns_.first) out.first = next();
    if (columns_.counts) out.counts = next();
    if (form_.ranks) out.ranks = reinterpret_cast<std::int64_t*>(call.out[*form_.ranks].data);
    const std::int64_t rows = elements > 0 ? loops().sort(call, scratch.data(), out, domain(), columns_.all) : 0;
    for (std::size_t k : form_.columns) call.produced[k][0] = rows;
  }

  void merge(MergeTurn& turn) const override { loops().merge(turn, columns_); }

 private:
  // Blocks of small chunks are made of several, so that there are few runs to merge.
  static constexpr std::int64_t kRunElements = 1 << 19;

  std::int64_t most_distinct() const { return columns_.all ? INT64_MAX : values_of(input_.dtype); }
  const UniqueLoops& loops() const { return kUniqueLoops[dtype_index(input_.dtype)]; }

  ArraySpec input_;
  RunsForm form_;
  Columns columns_;
};

BuiltinFunction entry(const char* name, const char* text, const std::vector<std::string>& outputs) {
  BuiltinFunction function;
  function.doc = {name,
                  "builtin",
                  std::string(name) + "(x)",
                  std::string(text) + " In ascending order, NaN last; every NaN is distinct, -0.0 equals 0.0.",
                  "a copy of the block, to sort",
                  {}};
  function.make = [outputs](KernelSpec spec) {
    expect_args(spec, 1, 1);
    dtype_index(array_arg(spec, 0).dtype);
    const ParamReader params(spec, {});
    return std::make_shared<UniqueKernel>(std::move(spec), outputs, false);
  };
  return function;
}

}  // namespace

std::shared_ptr<const Kernel> make_sorted_run(KernelSpec spec) {
  return std::make_shared<UniqueKernel>(std::move(spec), std::vector<std::string>{"values"}, true);
}

std::vector<BuiltinFunction> unique_builtins() {
  return {
      entry("unique_values", "The distinct elements.", {"values"}),
      entry("unique_counts", "The distinct elements, and how often each is there.", {"values", "counts"}),
      entry("unique_inverse", "The distinct elements, and for each element of x its place among them.",
            {"values", "inverse_indices"}),
      entry("unique_all",
            "The distinct elements, where in x, in C order, each is first, for each element of x its place among them, "
            "and how often each is there.",
            {"values", "indices", "inverse_indices", "counts"}),
  };
}

}  // namespace cuboid
