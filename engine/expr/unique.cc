// unique_values, unique_counts, unique_inverse, unique_all: each block yields a run, its distinct elements in ascending
// order; runs are merged until one is left. Every NaN is distinct, -0.0 equals 0.0 (array API 2024.12); of equal
// elements the first one is kept. The ranks of unique_inverse are searched for in the result (search.cc).
#include <algorithm>
#include <cstring>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/order.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

// An element, where it stands in the whole array in C order, and how often it is there.
template <class T>
struct Row {
  T key;
  std::int64_t first;
};

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

// The sorts and merges of one element type.
struct UniqueLoops {
  std::size_t key_scratch = 0, row_scratch = 0;  // bytes per element, where keys alone are sorted and else
  void (*sort)(const KernelCall& call, std::byte* scratch, const std::vector<std::byte*>& out, const Shape& whole,
               Columns columns, std::int64_t& rows) = nullptr;
  void (*merge)(MergeTurn& turn, Columns columns) = nullptr;
};

template <class T>
T element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (Boolean<T>) return Bool(static_cast<bool>(value));
  return value;
}

// The elements of a block alone: sorted where they are copied to.
template <class T>
std::int64_t sort_keys(const KernelCall& call, T* keys, std::byte* out, bool all) {
  const std::int64_t n = element_count(call.in[0].shape);
  StripReader reader;
  reader.reset(call.in[0], kDTypeOf<T>);
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t count = std::min(kStrip, n - done);
    const std::byte* strip = reader.next(count);
    for (std::int64_t k = 0; k < count; ++k) keys[done + k] = element<T>(strip + k * sizeof(T));
    done += count;
  }
  // Of equal elements that differ there are 0.0 and -0.0 alone: the first one is kept.
  T zero{};
  if constexpr (Float<T>)
    if (const T* first = std::find(keys, keys + n, T{}); first != keys + n) zero = *first;
  std::sort(keys, keys + n, [](const T& a, const T& b) { return sorts_before(a, b); });
  T* end = keys + n;
  if (!all) end = std::unique(keys, end, [](const T& a, const T& b) { return equal_keys(a, b); });
  if constexpr (Float<T>)
    if (T* kept = std::find(keys, end, T{}); !all && kept != end) *kept = zero;
  std::memcpy(out, keys, static_cast<std::size_t>(end - keys) * sizeof(T));
  return end - keys;
}

template <class T>
std::int64_t sort_rows(const KernelCall& call, Row<T>* rows, const std::vector<std::byte*>& out, const Shape& whole,
                       Columns columns) {
  const std::int64_t n = element_count(call.in[0].shape);
  FlatIndex index(call.block, whole);
  StripReader reader;
  reader.reset(call.in[0], kDTypeOf<T>);
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t count = std::min(kStrip, n - done);
    const std::byte* strip = reader.next(count);
    for (std::int64_t k = 0; k < count; ++k) rows[done + k] = {element<T>(strip + k * sizeof(T)), index.next()};
    done += count;
  }
  std::sort(rows, rows + n, [](const Row<T>& a, const Row<T>& b) {
    if (sorts_before(a.key, b.key)) return true;
    return !sorts_before(b.key, a.key) && a.first < b.first;
  });
  T* keys = reinterpret_cast<T*>(out[0]);
  std::int64_t* first = columns.first ? reinterpret_cast<std::int64_t*>(out[1]) : nullptr;
  std::int64_t* counts = columns.counts ? reinterpret_cast<std::int64_t*>(out[columns.first ? 2 : 1]) : nullptr;
  std::int64_t distinct = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    if (k > 0 && !columns.all && equal_keys(rows[k - 1].key, rows[k].key)) {
      if (counts) ++counts[distinct - 1];
      continue;
    }
    keys[distinct] = rows[k].key;
    if (first) first[distinct] = rows[k].first;
    if (counts) counts[distinct] = 1;
    ++distinct;
  }
  return distinct;
}

template <class T>
void sort_block(const KernelCall& call, std::byte* scratch, const std::vector<std::byte*>& out, const Shape& whole,
                Columns columns, std::int64_t& rows) {
  if constexpr (!Complex<T>)
    if (!columns.first && !columns.counts) {
      rows = sort_keys(call, reinterpret_cast<T*>(scratch), out[0], columns.all);
      return;
    }
  rows = sort_rows(call, reinterpret_cast<Row<T>*>(scratch), out, whole, columns);
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
  for (bool more = true; more && !heads.empty() && turn.produced < turn.room; ++turn.produced) {
    const T key = heads.top().key;
    keys[turn.produced] = key;
    if (first) first[turn.produced] = heads.top().first;
    std::int64_t count = counts ? count_of_top() : 0;
    more = heads.take();
    while (!columns.all && !heads.empty() && equal_keys(heads.top().key, key)) {
      if (counts) count += count_of_top();
      more &= heads.take();
    }
    if (counts) counts[turn.produced] = count;
  }
}

const std::array<UniqueLoops, kDTypeCount> kUniqueLoops =
    table_over_types<UniqueLoops>([]<class T>(std::type_identity<T>) -> UniqueLoops {
      return {Complex<T> ? sizeof(Row<T>) : sizeof(T), sizeof(Row<T>), &sort_block<T>, &merge_runs<T>};
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
    form_.lookup = {form_.columns[0]};
    // Only NaNs need to be told apart by where they stand.
    const bool has_nan = input_.dtype.kind == Kind::floating || input_.dtype.kind == Kind::complex_float;
    if (columns_.first && has_nan) form_.lookup.push_back(form_.columns[1]);
  }

  std::string identity() const override { return spec_.function + "#1"; }
  Shape domain() const override { return input_.max_shape(); }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    return grow_block(input_chunks.at(0), domain(), kRunElements);
  }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  bool input_is_block(std::size_t) const override { return true; }
  Box output_box(std::size_t, const Box& block) const override { return Box::whole(Shape(block.shape.size(), 0)); }
  Shape output_extents(std::size_t k, const Shape& block) const override {
    if (k == form_.ranks) return Shape(block.size(), 0);
    return {std::min(element_count(block), most_distinct())};
  }
  const RunsForm* runs() const override { return &form_; }

  CallMemory memory(Phase, const Shape& block) const override {
    CallMemory memory;
    memory.sure = class_bytes(static_cast<std::size_t>(element_count(block)) * scratch_per_element());
    return memory;
  }

  void run(KernelCall& call) const override {
    const auto elements = static_cast<std::size_t>(element_count(call.in[0].shape));
    Buffer scratch = call.memory->acquire(elements * scratch_per_element());
    std::vector<std::byte*> out;
    for (std::size_t k : form_.columns) out.push_back(call.out[k].data);
    std::int64_t rows = 0;
    if (elements > 0) loops().sort(call, scratch.data(), out, domain(), columns_, rows);
    for (std::size_t k : form_.columns) call.produced[k][0] = rows;
  }

  void merge(MergeTurn& turn) const override { loops().merge(turn, columns_); }

 private:
  // Blocks of small chunks are made of several, so that there are few runs to merge.
  static constexpr std::int64_t kRunElements = 1 << 19;

  std::int64_t most_distinct() const { return columns_.all ? INT64_MAX : values_of(input_.dtype); }
  const UniqueLoops& loops() const { return kUniqueLoops[dtype_index(input_.dtype)]; }
  std::size_t scratch_per_element() const {
    return form_.columns.size() > 1 ? loops().row_scratch : loops().key_scratch;
  }

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
                  outputs.size() > 1 ? "a row of element and index for each element of the block, to sort"
                                     : "a copy of the block, to sort",
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
      entry("unique_inverse",
            "The distinct elements, and for each element of x its place among them; also where in x, in C order, each "
            "is first (indices).",
            {"values", "inverse_indices", "indices"}),
      entry("unique_all",
            "The distinct elements, where in x, in C order, each is first, for each element of x its place among them, "
            "and how often each is there.",
            {"values", "indices", "inverse_indices", "counts"}),
  };
}

}  // namespace cuboid
