// Reduction trees over the block grid.
#include "engine/plan/passes.h"

namespace cuboid::passes {

namespace {
// Tasks that the first level should have at least, so that cores have work; and blocks that one task streams at most,
// so that little is lost with it.
constexpr std::int64_t kTasksWanted = 32;
constexpr std::int64_t kMostStreamed = 64;
}  // namespace

Shape reduction_group(const Shape& counts, const std::vector<std::size_t>& reduced, bool first_level) {
  std::int64_t streams = 1, kept = 1;  // blocks along reduced axes, blocks along the others
  std::vector<bool> is_reduced(counts.size(), false);
  for (std::size_t axis : reduced) is_reduced[axis] = true;
  for (std::size_t axis = 0; axis < counts.size(); ++axis)
    (is_reduced[axis] ? streams : kept) *= std::max<std::int64_t>(counts[axis], 1);
  const std::int64_t groups = first_level ? (kTasksWanted + kept - 1) / kept : 1;
  std::int64_t left = std::min(kMostStreamed, (streams + groups - 1) / groups);
  Shape group(counts.size(), 1);
  for (std::size_t n = reduced.size(); n-- > 0;) {
    const std::size_t axis = reduced[n];
    group[axis] = std::max<std::int64_t>(1, std::min(left, counts[axis]));
    left = std::max<std::int64_t>(1, left / group[axis]);
  }
  return group;
}

}  // namespace cuboid::passes
