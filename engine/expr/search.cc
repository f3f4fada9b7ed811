// searchsorted: the place of each element among sorted ones. It is how many of those come before it: a sum over the
// sorted array's blocks, so that the array need not fit memory.
#include <algorithm>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/order.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

// A block of x2, whose places are wanted, and of x1, where they are looked for.
struct Search {
  ConstView wanted, sorted;
  bool right = false;
};

// Adds to `places`, which has the shape of `wanted`.
using SearchLoop = void (*)(const Search& search, const View& places);

template <class T>
T element(const ConstView& view, std::int64_t index) {
  return *reinterpret_cast<const T*>(view.data + index * view.strides[0]);
}

// The first index in [low, high) at which `holds` is true; it is so from there on.
template <class Holds>
std::int64_t first_index(std::int64_t low, std::int64_t high, Holds holds) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

template <class T>
std::int64_t first_behind(const ConstView& sorted, T wanted) {
  return first_index(0, sorted.shape[0], [&](std::int64_t k) { return sorts_before(wanted, element<T>(sorted, k)); });
}
template <class T>
std::int64_t first_equal(const ConstView& sorted, T wanted) {
  return first_index(0, sorted.shape[0], [&](std::int64_t k) { return !sorts_before(element<T>(sorted, k), wanted); });
}

// Nearly all elements lie beyond a block of many: comparing with its ends first takes 1 ns for each instead of the 100
// and more of a search.
template <class T>
void search_loop(const Search& search, const View& places) {
  const std::int64_t total = element_count(search.wanted.shape), length = search.sorted.shape[0];
  const T least = element<T>(search.sorted, 0), most = element<T>(search.sorted, length - 1);
  StripReader reader, before;
  reader.reset(search.wanted, kDTypeOf<T>);
  before.reset(places, kInt64);
  StripWriter writer(places);
  std::int64_t within[kStrip];
  for (std::int64_t done = 0; done < total;) {
    const std::int64_t count = std::min(kStrip, total - done);
    const T* strip = reinterpret_cast<const T*>(reader.next(count));
    const auto* old = reinterpret_cast<const std::int64_t*>(before.next(count));
    auto* sum = reinterpret_cast<std::int64_t*>(writer.begin(count));
    std::int64_t found = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const bool behind = search.right ? !sorts_before(strip[k], most) : sorts_before(most, strip[k]);
      const bool ahead = search.right ? sorts_before(strip[k], least) : !sorts_before(least, strip[k]);
      sum[k] = old[k] + (behind ? length : 0);
      within[found] = k;
      found += !behind && !ahead;
    }
    for (std::int64_t n = 0; n < found; ++n) {
      const T wanted = strip[within[n]];
      sum[within[n]] += search.right ? first_behind(search.sorted, wanted) : first_equal(search.sorted, wanted);
    }
    writer.commit(count);
    done += count;
  }
}

const std::array<SearchLoop, kDTypeCount> kSearchLoops =
    table_over_types<SearchLoop>([]<class T>(std::type_identity<T>) -> SearchLoop { return &search_loop<T>; });

// Over the axes of x2 and, last and reduced, the one of x1.
class SearchKernel final : public Kernel {
 public:
  SearchKernel(KernelSpec spec, bool right) : Kernel(std::move(spec)), right_(right) {
    const ArraySpec& sorted = std::get<ArraySpec>(spec_.args[0]);
    wanted_ = std::get<ArraySpec>(spec_.args[1]);
    type_ = promote(sorted.dtype, wanted_.dtype);
    sorted_ = sorted.extents[0].value;
    ArraySpec result = wanted_;
    result.dtype = kInt64;
    outputs_.push_back({"0", std::move(result), std::nullopt});
    form_ = {{wanted_.rank()}, false, {kInt64}, {}};
  }
  std::string identity() const override { return "searchsorted#1"; }
  Shape domain() const override {
    Shape domain = wanted_.max_shape();
    domain.push_back(sorted_);
    return domain;
  }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    Shape block = input_chunks.at(1);
    block.push_back(std::max<std::int64_t>(1, std::min(input_chunks[0][0], sorted_)));
    const Shape shape = wanted_.max_shape();
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    return block;
  }
  Box input_box(std::size_t k, const Box& block) const override {
    const std::size_t last = block.shape.size() - 1;
    if (k != 1) return {{block.origin[last]}, {block.shape[last]}};
    Box box = block;
    box.origin.pop_back();
    box.shape.pop_back();
    return box;
  }
  Shape input_extents(std::size_t k, const Shape& block) const override {
    return input_box(k, Box::whole(block)).shape;
  }
  Box output_box(std::size_t, const Box& block) const override { return input_box(1, block); }
  Shape output_extents(std::size_t, const Shape& block) const override { return input_extents(1, block); }
  const ReductionForm* reduction() const override { return &form_; }
  CallMemory memory(Phase phase, const Shape& block) const override {
    CallMemory memory;
    if (phase == Phase::accumulate && std::get<ArraySpec>(spec_.args[0]).dtype != type_)
      memory.sure = class_bytes(static_cast<std::size_t>(block.back()) * type_.size);
    return memory;
  }

  void run(KernelCall& call) const override {
    switch (call.phase) {
      case Phase::init: {
        const std::int64_t zero = 0;
        return fill_elements(call.out[0], reinterpret_cast<const std::byte*>(&zero));
      }
      case Phase::accumulate:
        return accumulate(call);
      case Phase::merge:
        return add(call.in[0], call.out[0]);
      case Phase::finalize: {
        ConstView state = call.in[0];
        state.shape.pop_back();
        state.strides.pop_back();
        return copy_elements(state, call.out[0]);
      }
      case Phase::map:
        break;
    }
    throw Error(ErrorKind::invalid, "searchsorted: a reduction has no map phase");
  }

 private:
  void accumulate(KernelCall& call) const {
    Buffer converted;
    Search search{call.in[1], call.in[0], right_};
    const Shape& extents = call.in[0].shape;
    if (element_count(extents) == 0 || element_count(call.in[1].shape) == 0) return;
    if (search.sorted.dtype != type_) {
      converted = call.memory->acquire(byte_count(extents, type_));
      const View view = make_view(converted.data(), type_, extents);
      cast_elements(search.sorted, view);
      search.sorted = view;
    }
    View places = call.out[0];
    places.shape.pop_back();
    places.strides.pop_back();
    kSearchLoops[dtype_index(type_)](search, places);
  }

  static void add(const ConstView& from, const View& to) {
    StripReader a, b;
    a.reset(from, kInt64);
    b.reset(to, kInt64);
    StripWriter writer(to);
    const std::int64_t total = element_count(to.shape);
    for (std::int64_t done = 0; done < total;) {
      const std::int64_t n = std::min({kStrip, total - done, writer.in_place()});
      const auto* x = reinterpret_cast<const std::int64_t*>(a.next(n));
      const auto* y = reinterpret_cast<const std::int64_t*>(b.next(n));
      auto* sum = reinterpret_cast<std::int64_t*>(writer.begin(n));
      for (std::int64_t k = 0; k < n; ++k) sum[k] = x[k] + y[k];
      writer.commit(n);
      done += n;
    }
  }

  bool right_;
  ArraySpec wanted_;
  DType type_;
  std::int64_t sorted_ = 0;
  ReductionForm form_;
};

std::shared_ptr<const Kernel> make_searchsorted(KernelSpec spec) {
  expect_args(spec, 2, 2);
  const ArraySpec &sorted = array_arg(spec, 0), &wanted = array_arg(spec, 1);
  const ParamReader params(spec, {"side"});
  if (sorted.rank() != 1) params.fail("x1 must have one axis, it has " + std::to_string(sorted.rank()));
  const std::string side = params.given("side") ? params.text("side") : "left";
  if (side != "left" && side != "right") params.fail("side", "\"left\" or \"right\"");
  if (wanted.rank() + 1 > kMaxRank) params.fail("x2 has too many axes");
  promote(sorted.dtype, wanted.dtype);
  return std::make_shared<SearchKernel>(std::move(spec), side == "right");
}

}  // namespace

std::vector<BuiltinFunction> search_builtins() {
  return {{{"searchsorted",
            "builtin",
            "searchsorted(x1, x2, *, side=\"left\")",
            "Where the elements of x2 would stand in x1, which has one axis and is in ascending order.",
            "a block of x1 in the type of x2 where they differ",
            {param("side", "string", "before equal elements (left) or behind them (right)", std::string("left"))}},
           make_searchsorted}};
}

}  // namespace cuboid
