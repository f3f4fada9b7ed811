#include "engine/plugin/boundary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>

namespace cuboid {
namespace {

// A run of indices along one axis that is filled from a run of the array: source = first + step * (index - begin).
struct Run {
  std::int64_t length = 0;
  std::int64_t first = 0;
  int step = 1;  // 1, -1, or 0: one element over and over
  bool constant = false;
};

std::int64_t modulo(std::int64_t a, std::int64_t n) { return (a % n + n) % n; }

// The longest run that starts at `index` and ends before `end`. Requires extent > 0.
Run run_at(std::int64_t index, std::int64_t end, std::int64_t extent, BoundaryMode mode) {
  if (index >= 0 && index < extent) return {std::min(end, extent) - index, index, 1, false};
  const std::int64_t outside_end = index < 0 ? std::min<std::int64_t>(end, 0) : end;
  switch (mode) {
    case BoundaryMode::nearest:
      return {outside_end - index, index < 0 ? 0 : extent - 1, 0, false};
    case BoundaryMode::wrap: {
      const std::int64_t first = modulo(index, extent);
      return {std::min(outside_end - index, extent - first), first, 1, false};
    }
    case BoundaryMode::reflect: {
      if (extent == 1) return {outside_end - index, 0, 0, false};
      const std::int64_t place = modulo(index, 2 * extent);
      if (place < extent) return {std::min(outside_end - index, extent - place), place, 1, false};
      const std::int64_t first = 2 * extent - 1 - place;
      return {std::min(outside_end - index, first + 1), first, -1, false};
    }
    case BoundaryMode::constant:
    case BoundaryMode::clip:
      break;
  }
  return {outside_end - index, 0, 0, true};
}

template <class T>
void store(double value, std::byte* to) {
  const T typed = static_cast<T>(value);
  std::memcpy(to, &typed, sizeof typed);
}

std::array<std::byte, 16> element(DType dtype, double value) {
  std::array<std::byte, 16> bytes{};
  const bool is_signed = dtype.kind == Kind::signed_int;
  switch (dtype.kind) {
    case Kind::floating:
    case Kind::complex_float:  // the imaginary part stays 0
      if (dtype.size == 4 || dtype == kComplex64)
        store<float>(value, bytes.data());
      else
        store<double>(value, bytes.data());
      break;
    case Kind::boolean:
      bytes[0] = std::byte{value != 0};
      break;
    case Kind::signed_int:
    case Kind::unsigned_int:
      switch (dtype.size) {
        case 1:
          is_signed ? store<std::int8_t>(value, bytes.data()) : store<std::uint8_t>(value, bytes.data());
          break;
        case 2:
          is_signed ? store<std::int16_t>(value, bytes.data()) : store<std::uint16_t>(value, bytes.data());
          break;
        case 4:
          is_signed ? store<std::int32_t>(value, bytes.data()) : store<std::uint32_t>(value, bytes.data());
          break;
        default:
          is_signed ? store<std::int64_t>(value, bytes.data()) : store<std::uint64_t>(value, bytes.data());
      }
      break;
    case Kind::opaque:  // no plugin takes these
      break;
  }
  return bytes;
}

class Padder {
 public:
  Padder(const ConstView& from, const Box& held, const Shape& whole, const View& to, const Box& wanted,
         const Padding& padding)
      : held_(held),
        whole_(whole),
        wanted_(wanted),
        padding_(padding),
        source_(from),
        target_(to),
        fill_(element(to.dtype, padding.value)) {}

  // Runs along each axis, outermost first; the innermost level copies a box.
  void fill(std::size_t axis) {
    if (axis == wanted_.shape.size()) {
      copy_elements(source_, target_);
      return;
    }
    const ConstView source = source_;
    const View target = target_;
    for (std::int64_t at = wanted_.origin[axis]; at < wanted_.end(axis);) {
      const Run run = run_at(at, wanted_.end(axis), whole_[axis], padding_.mode);
      target_ = target;
      target_.data += (at - wanted_.origin[axis]) * target.strides[axis];
      target_.shape[axis] = run.length;
      if (run.constant) {
        fill_constant();
      } else {
        source_ = source;
        source_.data += (run.first - held_.origin[axis]) * source.strides[axis];
        source_.strides[axis] = run.step * source.strides[axis];
        source_.shape[axis] = run.length;
        fill(axis + 1);
      }
      at += run.length;
    }
    source_ = source;
    target_ = target;
  }

 private:
  void fill_constant() {
    const ConstView value{target_.dtype, fill_.data(), target_.shape, Shape(target_.shape.size(), 0)};
    copy_elements(value, target_);
  }

  const Box& held_;
  const Shape& whole_;
  const Box& wanted_;
  const Padding& padding_;
  ConstView source_;
  View target_;
  std::array<std::byte, 16> fill_;
};

}  // namespace

void pad(const ConstView& from, const Box& held, const Shape& whole, const View& to, const Box& wanted,
         const Padding& padding) {
  if (wanted.empty()) return;
  Padder(from, held, whole, to, wanted, padding).fill(0);
}

}  // namespace cuboid
