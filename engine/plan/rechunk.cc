// Rechunking in bounded memory. A task reads a block and writes the target chunks in it; blocks that cut source chunks
// read them several times. Larger blocks cut fewer; where memory does not allow them, two passes through chunks in
// between move fewer bytes (as in the rechunker library: https://rechunker.readthedocs.io/en/latest/algorithm.html).
#include <algorithm>
#include <cmath>

#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {

// Two passes read and write everything once more, so one pass may read its source up to this many times.
constexpr double kMostDirectReads = 3.0;
// The pattern of cuts repeats: looking at this many blocks along an axis is enough, whatever the number of chunks.
constexpr std::int64_t kBlocksLooked = 1024;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Source elements that the blocks along one axis decode, per element of the axis.
double amplification_along(std::int64_t extent, std::int64_t source, std::int64_t block) {
  if (extent == 0 || block % source == 0) return 1;
  extent = std::min(extent, block * kBlocksLooked);
  double decoded = 0;
  for (std::int64_t begin = 0; begin < extent; begin += block)
    decoded += static_cast<double>(round_up(std::min(begin + block, extent), source) - begin / source * source);
  return std::max(1.0, decoded / static_cast<double>(round_up(extent, source)));
}

std::uint64_t bytes_of(const Shape& block, std::size_t item) {
  std::uint64_t bytes = item;
  for (std::int64_t n : block) bytes *= static_cast<std::uint64_t>(n);
  return bytes;
}

// Larger extents of a block along one axis that are worth a look: twice as large, up to the next border of `toward`,
// and as large as the room allows. All are multiples of the unit, or the whole axis.
std::vector<std::int64_t> larger_extents(std::int64_t extent, std::int64_t toward, std::int64_t unit, std::int64_t now,
                                         std::uint64_t room, std::uint64_t bytes_now) {
  const std::int64_t border = round_up((now / toward + 1) * toward, unit);
  const std::int64_t fit = static_cast<std::int64_t>(room / std::max<std::uint64_t>(bytes_now / now, 1)) / unit * unit;
  std::vector<std::int64_t> found;
  for (std::int64_t wanted : {std::min(2 * now, border), border, std::min(fit, border)}) {
    wanted = std::min(round_up(wanted, unit), extent);
    if (wanted > now && static_cast<double>(wanted) * static_cast<double>(bytes_now) / static_cast<double>(now) <=
                            static_cast<double>(room))
      found.push_back(wanted);
  }
  return found;
}

// Grows a block from `unit` along the axis that saves most until nothing is gained or the room is full.
Shape grow(const Shape& shape, const Shape& toward, const Shape& unit, std::size_t item, std::uint64_t room) {
  Shape block = unit;
  for (std::size_t axis = 0; axis < block.size(); ++axis)
    block[axis] = std::min(block[axis], std::max<std::int64_t>(shape[axis], 1));
  for (;;) {
    std::size_t best_axis = block.size();
    std::int64_t best_extent = 0;
    double best_rate = 0;  // of saving per growth
    const std::uint64_t bytes = bytes_of(block, item);
    for (std::size_t axis = 0; axis < block.size(); ++axis) {
      const double now = amplification_along(shape[axis], toward[axis], block[axis]);
      for (std::int64_t extent : larger_extents(shape[axis], toward[axis], unit[axis], block[axis], room, bytes)) {
        const double gain = std::log(now / amplification_along(shape[axis], toward[axis], extent));
        const double rate = gain / std::log(static_cast<double>(extent) / static_cast<double>(block[axis]));
        if (gain > 1e-9 && rate > best_rate) best_rate = rate, best_axis = axis, best_extent = extent;
      }
    }
    if (best_axis == block.size()) return block;
    block[best_axis] = best_extent;
  }
}

}  // namespace

double read_amplification(const Shape& shape, const Shape& source_chunks, const Shape& block) {
  double product = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    product *= amplification_along(shape[axis], source_chunks[axis], block[axis]);
  return product;
}

RechunkPlan plan_rechunk(const Shape& shape, const Shape& source_chunks, const Shape& target_chunks, std::size_t item,
                         std::uint64_t room) {
  RechunkPlan plan;
  plan.block = grow(shape, source_chunks, target_chunks, item, room);
  const double direct = read_amplification(shape, source_chunks, plan.block);
  if (direct <= kMostDirectReads) return plan;

  // First pass: blocks of whole source chunks, grown toward the last pass's blocks; between: what both can use whole.
  const Shape first = grow(shape, plan.block, source_chunks, item, room);
  Shape between(shape.size());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) between[axis] = std::min(first[axis], plan.block[axis]);
  const double two =
      read_amplification(shape, source_chunks, first) + read_amplification(shape, between, plan.block) + 1;
  // The first pass writes whole chunks of `between`, so its blocks must be multiples of them.
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (first[axis] % between[axis] != 0 && first[axis] < shape[axis]) return plan;
  if (two < direct) plan.first_block = first, plan.between = between;
  return plan;
}

}  // namespace cuboid::passes
