// The typed loops of reductions. Floats are accumulated in float64 (complex in complex128) in eight independent lanes
// per strip, whose order is fixed: fast (the chain of one addition is four cycles) and closer to the exact sum than one
// running total.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/expr/elements.h"
#include "engine/expr/order.h"
#include "engine/expr/reduction.h"

namespace cuboid {
namespace {

constexpr std::int64_t kLanes = 8;

template <class T>
T& at(std::byte* base, std::int64_t offset = 0) {
  return *reinterpret_cast<T*>(base + offset);
}
template <class T>
const T& at(const std::byte* base, std::int64_t offset = 0) {
  return *reinterpret_cast<const T*>(base + offset);
}

struct Plus {
  template <class T>
  static T identity() {
    return T(0);
  }
  template <Float T>
  T operator()(T a, T b) const {
    return a + b;
  }
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  }
  template <Complex T>
  T operator()(T a, T b) const {
    return {a.real() + b.real(), a.imag() + b.imag()};
  }
};
struct Times {
  template <class T>
  static T identity() {
    return T(1);
  }
  template <Float T>
  T operator()(T a, T b) const {
    return a * b;
  }
  template <Integer T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
  template <Complex T>
  T operator()(T a, T b) const {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
};
struct Smallest : Minimum {
  template <class T>
  static T identity() {
    if constexpr (Boolean<T>)
      return Bool(true);
    else if constexpr (Complex<T>)
      return {std::numeric_limits<typename T::value_type>::infinity(),
              std::numeric_limits<typename T::value_type>::infinity()};
    else if constexpr (Float<T>)
      return std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::max();
  }
};
struct Largest : Maximum {
  template <class T>
  static T identity() {
    if constexpr (Boolean<T>)
      return Bool(false);
    else if constexpr (Complex<T>)
      return {-std::numeric_limits<typename T::value_type>::infinity(),
              -std::numeric_limits<typename T::value_type>::infinity()};
    else if constexpr (Float<T>)
      return -std::numeric_limits<T>::infinity();
    else
      return std::numeric_limits<T>::lowest();
  }
};

template <class F, class T>
T fold_strip(const T* x, std::int64_t n) {
  if (n < 2 * kLanes) {
    T all = x[0];
    for (std::int64_t i = 1; i < n; ++i) all = F{}(all, x[i]);
    return all;
  }
  T lanes[kLanes];
  for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = x[k];
  std::int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = F{}(lanes[k], x[i + k]);
  for (std::int64_t k = 0; i < n; ++i, ++k) lanes[k] = F{}(lanes[k], x[i]);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t k = 0; k < half; ++k) lanes[k] = F{}(lanes[k], lanes[k + half]);
  return lanes[0];
}

template <class F, class T>
void fold(std::byte* const* cells, const std::byte* strip, std::int64_t n, std::int64_t) {
  T& cell = at<T>(cells[0]);
  cell = F{}(cell, fold_strip<F>(reinterpret_cast<const T*>(strip), n));
}

template <class F, class T>
void folds(std::byte* cells, std::int64_t stride, const std::byte* strip, std::int64_t n, std::int64_t count) {
  const T* x = reinterpret_cast<const T*>(strip);
  for (std::int64_t i = 0; i < count; ++i, x += n) {
    T& cell = at<T>(cells, i * stride);
    cell = F{}(cell, fold_strip<F>(x, n));
  }
}

template <class F, class T>
void rows(std::byte* const* cells, const std::int64_t* strides, const std::byte* strip, std::int64_t n, std::int64_t) {
  const T* __restrict x = reinterpret_cast<const T*>(strip);
  if (strides[0] == sizeof(T)) {
    T* __restrict cell = reinterpret_cast<T*>(cells[0]);
    for (std::int64_t i = 0; i < n; ++i) cell[i] = F{}(cell[i], x[i]);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    T& cell = at<T>(cells[0], i * strides[0]);
    cell = F{}(cell, x[i]);
  }
}

template <class F, class T>
void rows4(std::byte* cells, const std::byte* rows, std::int64_t row_stride, std::int64_t n) {
  T* __restrict cell = reinterpret_cast<T*>(cells);
  const T* __restrict a = reinterpret_cast<const T*>(rows);
  const T* __restrict b = reinterpret_cast<const T*>(rows + row_stride);
  const T* __restrict c = reinterpret_cast<const T*>(rows + 2 * row_stride);
  const T* __restrict d = reinterpret_cast<const T*>(rows + 3 * row_stride);
  for (std::int64_t i = 0; i < n; ++i) cell[i] = F{}(F{}(F{}(F{}(cell[i], a[i]), b[i]), c[i]), d[i]);
}

template <class F, class T>
void merge(std::byte* const* cells, const std::int64_t* strides, const std::byte* const* others,
           const std::int64_t* other_strides, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    T& cell = at<T>(cells[0], i * strides[0]);
    cell = F{}(cell, at<T>(others[0], i * other_strides[0]));
  }
}

template <class T>
void set_initial(ReductionLoops& loops, std::size_t state, T value) {
  std::memcpy(loops.initial[state], &value, sizeof(T));
}

template <class F, class T>
ReductionLoops simple() {
  ReductionLoops loops;
  loops.strip = kDTypeOf<T>;
  loops.states = {kDTypeOf<T>};
  set_initial(loops, 0, F::template identity<T>());
  loops.fold = &fold<F, T>;
  loops.folds = &folds<F, T>;
  loops.rows = &rows<F, T>;
  loops.rows4 = &rows4<F, T>;
  loops.merge = &merge<F, T>;
  return loops;
}

template <class F>
ReductionLoops accumulating(DType as) {
  switch (as.kind) {
    case Kind::boolean:
    case Kind::signed_int:
      return simple<F, std::int64_t>();
    case Kind::unsigned_int:
      return simple<F, std::uint64_t>();
    case Kind::floating:
      return simple<F, double>();
    case Kind::complex_float:
      return simple<F, std::complex<double>>();
    case Kind::opaque:
      break;
  }
  return {};
}

template <class T>
void divide_by_count(const std::byte* const* states, std::byte* out, std::int64_t n, double count, double) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T sum = reinterpret_cast<const T*>(states[0])[i];
    if constexpr (Complex<T>)
      reinterpret_cast<T*>(out)[i] = {sum.real() / count, sum.imag() / count};
    else
      reinterpret_cast<T*>(out)[i] = sum / count;
  }
}

// --- any, all, count_nonzero: strips are bool.
void fold_any(std::byte* const* cells, const std::byte* strip, std::int64_t n, std::int64_t) {
  std::uint8_t any = at<Bool>(cells[0]).byte;
  for (std::int64_t i = 0; i < n; ++i) any |= static_cast<std::uint8_t>(strip[i]);
  at<Bool>(cells[0]) = Bool(any != 0);
}
void fold_all(std::byte* const* cells, const std::byte* strip, std::int64_t n, std::int64_t) {
  if (at<Bool>(cells[0]).byte == 0) return;
  at<Bool>(cells[0]) = Bool(std::memchr(strip, 0, static_cast<std::size_t>(n)) == nullptr);
}
void fold_count(std::byte* const* cells, const std::byte* strip, std::int64_t n, std::int64_t) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) count += strip[i] != std::byte{0};
  at<std::int64_t>(cells[0]) += count;
}
void rows_count(std::byte* const* cells, const std::int64_t* strides, const std::byte* strip, std::int64_t n,
                std::int64_t) {
  if (strides[0] == sizeof(std::int64_t)) {
    auto* __restrict cell = reinterpret_cast<std::int64_t*>(cells[0]);
    for (std::int64_t i = 0; i < n; ++i) cell[i] += strip[i] != std::byte{0};
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) at<std::int64_t>(cells[0], i * strides[0]) += strip[i] != std::byte{0};
}

// --- var, std: count, mean and sum of squared deviations, joined by the formula of Chan, Golub and LeVeque (1979).
void join_moments(std::byte* const* cells, const std::int64_t* strides, std::int64_t i, std::int64_t count, double mean,
                  double squares) {
  std::int64_t& own_count = at<std::int64_t>(cells[0], i * strides[0]);
  double& own_mean = at<double>(cells[1], i * strides[1]);
  double& own_squares = at<double>(cells[2], i * strides[2]);
  if (count == 0) return;
  const double both = static_cast<double>(own_count + count), delta = mean - own_mean;
  const double share = static_cast<double>(count) / both;
  own_mean += delta * share;
  own_squares += squares + delta * delta * static_cast<double>(own_count) * share;
  own_count += count;
}
void fold_moments(std::byte* const* cells, const std::byte* strip, std::int64_t n, std::int64_t) {
  const auto* x = reinterpret_cast<const double*>(strip);
  const double mean = fold_strip<Plus>(x, n) / static_cast<double>(n);
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += (x[i + k] - mean) * (x[i + k] - mean);
  for (std::int64_t k = 0; i < n; ++i, ++k) lanes[k] += (x[i] - mean) * (x[i] - mean);
  constexpr std::int64_t kNone[3]{};
  join_moments(cells, kNone, 0, n, mean, fold_strip<Plus>(lanes, kLanes));
}
void rows_moments(std::byte* const* cells, const std::int64_t* strides, const std::byte* strip, std::int64_t n,
                  std::int64_t) {
  const auto* __restrict x = reinterpret_cast<const double*>(strip);
  if (strides[0] == 8 && strides[1] == 8 && strides[2] == 8) {
    // The same formula, but one division where all counts are equal, as they are within a block.
    auto* __restrict count = reinterpret_cast<std::int64_t*>(cells[0]);
    auto* __restrict mean = reinterpret_cast<double*>(cells[1]);
    auto* __restrict squares = reinterpret_cast<double*>(cells[2]);
    const std::int64_t before = count[0];
    if (std::all_of(count, count + n, [before](std::int64_t one) { return one == before; })) {
      const double own = static_cast<double>(before), share = 1.0 / static_cast<double>(before + 1);
      for (std::int64_t i = 0; i < n; ++i) {
        const double delta = x[i] - mean[i];
        mean[i] += delta * share;
        squares[i] += delta * delta * own * share;
        count[i] = before + 1;
      }
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) join_moments(cells, strides, i, 1, x[i], 0);
}
void merge_moments(std::byte* const* cells, const std::int64_t* strides, const std::byte* const* others,
                   const std::int64_t* other_strides, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    join_moments(cells, strides, i, at<std::int64_t>(others[0], i * other_strides[0]),
                 at<double>(others[1], i * other_strides[1]), at<double>(others[2], i * other_strides[2]));
}
template <bool kRoot>
void finish_moments(const std::byte* const* states, std::byte* out, std::int64_t n, double, double correction) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto count = static_cast<double>(reinterpret_cast<const std::int64_t*>(states[0])[i]);
    const double variance = reinterpret_cast<const double*>(states[2])[i] / std::max(count - correction, 0.0);
    reinterpret_cast<double*>(out)[i] = kRoot ? std::sqrt(variance) : variance;
  }
}

// --- argmin, argmax: value and position; the first one wins, and the first NaN wins over all.
template <class T, bool kLargest>
bool before(T value, std::int64_t position, T best, std::int64_t best_position) {
  if (best_position < 0) return true;
  if constexpr (Float<T>) {
    if (std::isnan(best)) return std::isnan(value) && position < best_position;
    if (std::isnan(value)) return true;
  }
  if (value == best) return position < best_position;
  return kLargest ? value > best : value < best;
}
template <class T, bool kLargest>
void take_position(std::byte* const* cells, const std::int64_t* strides, std::int64_t i, T value,
                   std::int64_t position) {
  T& best = at<T>(cells[0], i * strides[0]);
  std::int64_t& best_position = at<std::int64_t>(cells[1], i * strides[1]);
  if (position < 0 || !before<T, kLargest>(value, position, best, best_position)) return;
  best = value;
  best_position = position;
}
template <class T, bool kLargest>
void fold_arg(std::byte* const* cells, const std::byte* strip, std::int64_t n, std::int64_t position) {
  constexpr std::int64_t kNone[2]{};
  const auto* x = reinterpret_cast<const T*>(strip);
  // Most strips hold nothing better than what was found: their extreme tells.
  using F = std::conditional_t<kLargest, Largest, Smallest>;
  const T extreme = fold_strip<F>(x, n);
  if (!before<T, kLargest>(extreme, position, at<T>(cells[0]), at<std::int64_t>(cells[1]))) return;
  const T* found = std::find_if(x, x + n, [extreme](T value) { return value == extreme || is_nan(value); });
  take_position<T, kLargest>(cells, kNone, 0, *found, position + (found - x));
}
template <class T, bool kLargest>
void rows_arg(std::byte* const* cells, const std::int64_t* strides, const std::byte* strip, std::int64_t n,
              std::int64_t position) {
  const auto* x = reinterpret_cast<const T*>(strip);
  for (std::int64_t i = 0; i < n; ++i) take_position<T, kLargest>(cells, strides, i, x[i], position);
}
template <class T, bool kLargest>
void merge_arg(std::byte* const* cells, const std::int64_t* strides, const std::byte* const* others,
               const std::int64_t* other_strides, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    take_position<T, kLargest>(cells, strides, i, at<T>(others[0], i * other_strides[0]),
                               at<std::int64_t>(others[1], i * other_strides[1]));
}
template <class T, bool kLargest>
ReductionLoops arg() {
  ReductionLoops loops;
  loops.strip = kDTypeOf<T>;
  loops.states = {kDTypeOf<T>, kInt64};
  set_initial(loops, 0, T(0));
  set_initial<std::int64_t>(loops, 1, -1);
  loops.fold = &fold_arg<T, kLargest>;
  loops.rows = &rows_arg<T, kLargest>;
  loops.merge = &merge_arg<T, kLargest>;
  loops.result_state = 1;
  loops.positions = true;
  return loops;
}

template <bool kLargest>
constexpr auto kArg =
    table_over_types<ReductionLoops (*)()>([]<class T>(std::type_identity<T>) -> ReductionLoops (*)() {
      if constexpr (Boolean<T>)
        return &arg<std::uint8_t, kLargest>;
      else if constexpr (Complex<T>)
        return nullptr;
      else
        return &arg<T, kLargest>;
    });
template <class F>
constexpr auto kExtreme = table_over_types<ReductionLoops (*)()>(
    []<class T>(std::type_identity<T>) -> ReductionLoops (*)() { return &simple<F, T>; });

}  // namespace

ReductionLoops sum_loops(DType as) { return accumulating<Plus>(as); }
ReductionLoops prod_loops(DType as) { return accumulating<Times>(as); }

ReductionLoops mean_loops(DType input) {
  const bool complex = input.kind == Kind::complex_float;
  ReductionLoops loops = accumulating<Plus>(complex ? kComplex128 : kFloat64);
  loops.finish = complex ? &divide_by_count<std::complex<double>> : &divide_by_count<double>;
  loops.finished = loops.states[0];
  return loops;
}

ReductionLoops extreme_loops(DType input, bool largest) {
  return (largest ? kExtreme<Largest> : kExtreme<Smallest>)[dtype_index(input)]();
}

ReductionLoops any_loops() {
  ReductionLoops loops = simple<Largest, Bool>();
  loops.fold = &fold_any;
  loops.folds = nullptr;
  return loops;
}
ReductionLoops all_loops() {
  ReductionLoops loops = simple<Smallest, Bool>();
  loops.fold = &fold_all;
  loops.folds = nullptr;
  return loops;
}
ReductionLoops count_loops() {
  ReductionLoops loops = simple<Plus, std::int64_t>();
  loops.strip = kBool;
  loops.fold = &fold_count;
  loops.folds = nullptr;
  loops.rows = &rows_count;
  loops.rows4 = nullptr;
  return loops;
}

ReductionLoops moment_loops(DType input, bool root) {
  ReductionLoops loops;
  if (input.kind == Kind::complex_float) return loops;
  loops.strip = kFloat64;
  loops.states = {kInt64, kFloat64, kFloat64};
  loops.fold = &fold_moments;
  loops.rows = &rows_moments;
  loops.merge = &merge_moments;
  loops.finish = root ? &finish_moments<true> : &finish_moments<false>;
  loops.finished = kFloat64;
  return loops;
}

ReductionLoops arg_loops(DType input, bool largest) {
  const auto make = (largest ? kArg<true> : kArg<false>)[dtype_index(input)];
  return make != nullptr ? make() : ReductionLoops{};
}

}  // namespace cuboid
