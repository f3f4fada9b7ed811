// Reductions: functions that fold axes away. A reduction is a set of typed loops over its partial results ("states");
// the kernel walks the axes and hands the loops strips. Order is fixed by the logical shape of what is folded, never by
// strides: the same block gives the same bits however it lies in memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/expr/cast.h"
#include "engine/expr/kernel.h"

namespace cuboid {

inline constexpr std::size_t kMaxStates = 3;

// All loops of one reduction of one element type. `cells[s]` addresses state s; `strides[s]` in bytes.
struct ReductionLoops {
  DType strip;                // what the input's elements are converted to
  std::vector<DType> states;  // at most kMaxStates
  alignas(16) std::byte initial[kMaxStates][kMaxItemSize] = {};
  // n elements into one cell. `position` is the first one's place along the reduced axes.
  void (*fold)(std::byte* const* cells, const std::byte* strip, std::int64_t n, std::int64_t position) = nullptr;
  // The same for `count` cells of state 0, `stride` bytes apart, n elements each; null: fold is called for each.
  void (*folds)(std::byte* cells, std::int64_t stride, const std::byte* strip, std::int64_t n,
                std::int64_t count) = nullptr;
  // n elements, each into a cell of its own; all at `position`.
  void (*rows)(std::byte* const* cells, const std::int64_t* strides, const std::byte* strip, std::int64_t n,
               std::int64_t position) = nullptr;
  // Four rows of n elements, `row_stride` bytes apart, into n contiguous cells of state 0; null: rows is called.
  void (*rows4)(std::byte* cells, const std::byte* rows, std::int64_t row_stride, std::int64_t n) = nullptr;
  // n states into n states.
  void (*merge)(std::byte* const* cells, const std::int64_t* strides, const std::byte* const* others,
                const std::int64_t* other_strides, std::int64_t n) = nullptr;
  // n results of type `finished` from contiguous states; null: the result is state `result_state`, converted.
  // `count` elements were folded into each.
  void (*finish)(const std::byte* const* states, std::byte* out, std::int64_t n, double count,
                 double correction) = nullptr;
  DType finished;
  std::size_t result_state = 0;
  bool positions = false;  // fold and rows use `position`
};

// The loops, by name of the reduction. `input` is the element type, `as` the type of accumulation where the caller
// chooses it (sum, prod). Throws nothing; `fold` is null where the reduction is not defined for the type.
ReductionLoops sum_loops(DType as);
ReductionLoops prod_loops(DType as);
ReductionLoops mean_loops(DType input);
ReductionLoops extreme_loops(DType input, bool largest);
ReductionLoops any_loops();
ReductionLoops all_loops();
ReductionLoops count_loops();
ReductionLoops moment_loops(DType input, bool root);
ReductionLoops arg_loops(DType input, bool largest);

// One per function; each checks its arguments and parameters.
std::shared_ptr<const Kernel> make_sum(KernelSpec spec);
std::shared_ptr<const Kernel> make_prod(KernelSpec spec);
std::shared_ptr<const Kernel> make_mean(KernelSpec spec);
std::shared_ptr<const Kernel> make_min(KernelSpec spec);
std::shared_ptr<const Kernel> make_max(KernelSpec spec);
std::shared_ptr<const Kernel> make_any(KernelSpec spec);
std::shared_ptr<const Kernel> make_all(KernelSpec spec);
std::shared_ptr<const Kernel> make_count_nonzero(KernelSpec spec);
std::shared_ptr<const Kernel> make_var(KernelSpec spec);
std::shared_ptr<const Kernel> make_std(KernelSpec spec);
std::shared_ptr<const Kernel> make_argmin(KernelSpec spec);
std::shared_ptr<const Kernel> make_argmax(KernelSpec spec);

}  // namespace cuboid
