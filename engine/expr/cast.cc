#include "engine/expr/cast.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/expr/elements.h"
#include "storage/half.h"

namespace cuboid {
namespace {

// What cvttsd2si gives: truncation, or the smallest integer where the value is NaN or out of range. Written out because
// the plain conversion is undefined there, and scalar and vector code of one loop may then differ.
template <class Wide, Float F>
Wide truncate(F value) {
  constexpr F kLow = static_cast<F>(std::numeric_limits<Wide>::min());
  // double holds INT32_MIN - 0.5 exactly and truncates it to INT32_MIN; the types that cannot hold it need no more.
  const bool below = sizeof(F) > sizeof(Wide) ? value <= kLow - F{1} : value < kLow;
  const bool inside = !below && value < -kLow;  // false for NaN
  return inside ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min();
}

template <Integer To, Float From>
To float_to_int(From value) {
  if constexpr (std::is_same_v<To, std::uint64_t>) {
    constexpr From kHalf = static_cast<From>(9223372036854775808.0);
    if (value >= kHalf)
      return static_cast<std::uint64_t>(truncate<std::int64_t>(value - kHalf)) ^ (std::uint64_t{1} << 63);
    return static_cast<std::uint64_t>(truncate<std::int64_t>(value));
  } else if constexpr (sizeof(To) == 8 || std::is_same_v<To, std::uint32_t>) {
    return static_cast<To>(truncate<std::int64_t>(value));
  } else {
    return static_cast<To>(truncate<std::int32_t>(value));
  }
}

// float16 is converted, but nothing computes in it.
struct Half {
  std::uint16_t bits;
};

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, Half>)
    return convert<To>(half_to_float(value.bits));
  else if constexpr (std::is_same_v<To, Half>) {
    // As NumPy: integers by way of float32.
    if constexpr (Float<From>)
      return Half{half_from(value)};
    else
      return Half{half_from(convert<float>(value))};
  } else if constexpr (Boolean<To>) {
    if constexpr (Complex<From>)
      return Bool(value.real() != 0 || value.imag() != 0);
    else
      return Bool(value != 0);
  } else if constexpr (Boolean<From>)
    return static_cast<To>(value.byte != 0 ? 1 : 0);
  else if constexpr (Complex<To>) {
    using Part = typename To::value_type;
    if constexpr (Complex<From>)
      return To(static_cast<Part>(value.real()), static_cast<Part>(value.imag()));
    else
      return To(static_cast<Part>(value), Part{0});
  } else if constexpr (Complex<From>)
    return convert<To>(value.real());
  else if constexpr (Integer<To> && Float<From>)
    return float_to_int<To>(value);
  else
    return static_cast<To>(value);
}

template <class From, class To>
void cast(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride, std::int64_t n) {
  if (from_stride == sizeof(From) && to_stride == sizeof(To)) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
    } else {
      const auto* __restrict in = reinterpret_cast<const From*>(from);
      auto* __restrict out = reinterpret_cast<To*>(to);
      for (std::int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[i]);
    }
    return;
  }
  if (from_stride == 0 && to_stride == sizeof(To)) {
    std::fill_n(reinterpret_cast<To*>(to), n, convert<To>(*reinterpret_cast<const From*>(from)));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i)
    *reinterpret_cast<To*>(to + i * to_stride) = convert<To>(*reinterpret_cast<const From*>(from + i * from_stride));
}

template <class From>
constexpr auto kCastsFrom = table_over_types<CastLoop>([]<class To>(std::type_identity<To>) -> CastLoop {
  return &cast<From, To>;
});
constexpr auto kCasts = table_over_types<const std::array<CastLoop, kDTypeCount>*>(
    []<class From>(std::type_identity<From>) { return &kCastsFrom<From>; });
constexpr auto kCastsToHalf =
    table_over_types<CastLoop>([]<class From>(std::type_identity<From>) -> CastLoop { return &cast<From, Half>; });

std::int64_t first_run(const Runs& runs, std::int64_t* index) {
  for (std::size_t axis = 0; axis < runs.rank; ++axis) {
    index[axis] = 0;
    if (runs.extents[axis] == 0) return 0;
  }
  return runs.extents[runs.rank - 1];
}

// Steps from the end of one innermost run to the start of the next: the change of address.
std::int64_t step_run(const Runs& runs, std::int64_t* index) {
  const std::size_t inner = runs.rank - 1;
  std::int64_t step = -runs.extents[inner] * runs.strides[inner];
  for (std::size_t axis = inner; axis-- > 0;) {
    step += runs.strides[axis];
    if (++index[axis] < runs.extents[axis]) break;
    step -= runs.extents[axis] * runs.strides[axis];
    index[axis] = 0;
  }
  return step;
}

}  // namespace

CastLoop cast_loop(DType from, DType to) {
  if (from == kFloat16 && to == kFloat16) return &cast<Half, Half>;
  if (from == kFloat16) return kCastsFrom<Half>[dtype_index(to)];
  if (to == kFloat16) return kCastsToHalf[dtype_index(from)];
  return (*kCasts[dtype_index(from)])[dtype_index(to)];
}

void cast_elements(const ConstView& from, const View& to) {
  if (from.dtype == to.dtype) return copy_elements(from, to);
  StripReader reader;
  reader.reset(from, to.dtype);
  StripWriter writer(to);
  const std::int64_t total = element_count(to.shape);
  for (std::int64_t done = 0; done < total;) {
    const std::int64_t n = std::min({kStrip, total - done, writer.in_place()});
    const std::byte* strip = reader.next(n);
    std::memcpy(writer.begin(n), strip, static_cast<std::size_t>(n) * to.dtype.size);
    writer.commit(n);
    done += n;
  }
}

void store_scalar(const Scalar& scalar, DType dtype, std::byte* to) {
  std::visit(
      [&]<class T>(const T& value) {
        if constexpr (std::is_same_v<T, bool>) {
          const Bool truth(value);
          cast_loop(kBool, dtype)(reinterpret_cast<const std::byte*>(&truth), 0, to, 0, 1);
        } else {
          cast_loop(kDTypeOf<T>, dtype)(reinterpret_cast<const std::byte*>(&value), 0, to, 0, 1);
        }
      },
      scalar);
}

void fill_elements(const View& to, const std::byte* value) {
  copy_elements(ConstView{to.dtype, value, to.shape, Shape(to.shape.size(), 0)}, to);
}

Runs::Runs(const Shape& shape, const Shape& byte_strides) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    if (rank > 0 && strides[rank - 1] == byte_strides[axis] * shape[axis]) {
      extents[rank - 1] *= shape[axis];
      strides[rank - 1] = byte_strides[axis];
    } else {
      extents[rank] = shape[axis];
      strides[rank++] = byte_strides[axis];
    }
  }
  if (rank == 0) {
    extents[0] = 1;
    strides[0] = 0;
    rank = 1;
  }
}

void StripReader::reset(const ConstView& view, DType as) {
  runs_ = Runs(view.shape, view.strides);
  at_ = view.data;
  left_ = first_run(runs_, index_);
  item_ = as.size;
  cast_ = cast_loop(view.dtype, as);
  direct_ = view.dtype == as && runs_.strides[runs_.rank - 1] == static_cast<std::int64_t>(item_);
  constant_ = left_ > 0 && runs_.rank == 1 && runs_.strides[0] == 0;
  if (constant_) cast_(at_, 0, scratch_, static_cast<std::int64_t>(item_), std::min(kStrip, left_));
}

std::int64_t StripReader::in_place() const { return direct_ ? left_ : kStrip; }

void StripReader::advance_run() {
  at_ += step_run(runs_, index_);
  left_ = runs_.extents[runs_.rank - 1];
}

const std::byte* StripReader::next(std::int64_t n) {
  if (constant_) return scratch_;
  const std::int64_t stride = runs_.strides[runs_.rank - 1];
  if (direct_ && left_ >= n) {
    const std::byte* strip = at_;
    at_ += n * stride;
    left_ -= n;
    if (left_ == 0) advance_run();
    return strip;
  }
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t part = std::min(n - done, left_);
    cast_(at_, stride, scratch_ + static_cast<std::size_t>(done) * item_, static_cast<std::int64_t>(item_), part);
    at_ += part * stride;
    left_ -= part;
    done += part;
    if (left_ == 0) advance_run();
  }
  return scratch_;
}

StripWriter::StripWriter(const View& view) : runs_(view.shape, view.strides), at_(view.data), item_(view.dtype.size) {
  left_ = first_run(runs_, index_);
  copy_ = cast_loop(view.dtype, view.dtype);
  direct_ = runs_.strides[runs_.rank - 1] == static_cast<std::int64_t>(item_) || (runs_.rank == 1 && left_ == 1);
}

void StripWriter::advance_run() {
  at_ += step_run(runs_, index_);
  left_ = runs_.extents[runs_.rank - 1];
}

std::byte* StripWriter::begin(std::int64_t n) {
  staged_ = !(direct_ && left_ >= n);
  return staged_ ? scratch_ : at_;
}

void StripWriter::commit(std::int64_t n) {
  const std::int64_t stride = runs_.strides[runs_.rank - 1];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t part = std::min(n - done, left_);
    if (staged_)
      copy_(scratch_ + static_cast<std::size_t>(done) * item_, static_cast<std::int64_t>(item_), at_, stride, part);
    at_ += part * stride;
    left_ -= part;
    done += part;
    if (left_ == 0) advance_run();
  }
}

}  // namespace cuboid
