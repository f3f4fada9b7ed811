#include "engine/expr/builtin.h"

#include <algorithm>
#include <map>

#include "engine/expr/promotion.h"
#include "storage/error.h"

namespace cuboid {
namespace {

// The functions that only move elements (and astype, which says itself what it converts): they take any type.
constexpr std::string_view kAnyElements[] = {
    "astype",   "broadcast_to", "concat",  "expand_dims", "flip",  "getitem", "matrix_transpose",
    "moveaxis", "permute_dims", "rechunk", "squeeze",     "stack", "take"};

void check_computable(const KernelSpec& spec) {
  for (const auto& arg : spec.args) {
    const auto* array = std::get_if<ArraySpec>(&arg);
    if (array == nullptr) continue;
    try {
      dtype_index(array->dtype);
    } catch (const Error& error) {
      throw Error(ErrorKind::invalid, spec.function + ": " + error.message(), {{"function", spec.function}});
    }
  }
}

class BuiltinResolver final : public KernelResolver {
 public:
  BuiltinResolver() {
    for (auto family :
         {elementwise_builtins, reduction_builtins, conversion_builtins, creation_builtins, movement_builtins,
          join_builtins, take_builtins, unique_builtins, selection_builtins, search_builtins, rearranging_builtins,
          reshape_builtins, cumulative_builtins, histogram_builtins, quantile_builtins})
      for (BuiltinFunction& function : family()) {
        const std::string name = function.doc.name;
        functions_.emplace(name, std::move(function));
      }
  }

  std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const override {
    const auto found = functions_.find(spec.function);
    if (found == functions_.end()) return nullptr;
    if (std::find(std::begin(kAnyElements), std::end(kAnyElements), spec.function) == std::end(kAnyElements))
      check_computable(spec);
    return found->second.make(spec);
  }

  std::vector<FunctionDoc> functions() const override {
    std::vector<FunctionDoc> docs;
    for (const auto& [name, function] : functions_) docs.push_back(function.doc);
    return docs;
  }

 private:
  std::map<std::string, BuiltinFunction> functions_;
};

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

const KernelResolver& builtin_kernels() {
  static const BuiltinResolver resolver;
  return resolver;
}

std::shared_ptr<const Kernel> resolve_kernel(const std::vector<const KernelResolver*>& resolvers,
                                             const KernelSpec& spec) {
  for (const KernelResolver* resolver : resolvers)
    if (auto kernel = resolver->resolve(spec)) return kernel;
  std::vector<std::string> names;
  for (const KernelResolver* resolver : resolvers)
    for (const FunctionDoc& doc : resolver->functions()) names.push_back(doc.name);
  std::string message = "no function is called \"" + spec.function + "\"";
  if (const auto near = nearest_name(spec.function, names)) message += ", did you mean \"" + *near + "\"?";
  throw Error(ErrorKind::invalid, message + " (`cuboid functions` lists them all)", {{"function", spec.function}});
}

std::optional<std::string> nearest_name(const std::string& word, const std::vector<std::string>& candidates) {
  // Words longer than any name are no typing errors, and comparing them would take long.
  constexpr std::size_t kLongest = 100;
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  const std::size_t most = std::max<std::size_t>(1, word.size() / 3);
  std::optional<std::string> nearest;
  std::size_t least = most + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

Shape default_block(const Shape& shape, std::size_t item_size, const std::vector<bool>& fixed) {
  constexpr double kMost = 8 << 20;
  Shape block = shape;
  for (std::int64_t& extent : block) extent = std::max<std::int64_t>(extent, 1);
  for (;;) {
    double bytes = static_cast<double>(item_size);
    std::optional<std::size_t> longest;
    for (std::size_t axis = 0; axis < block.size(); ++axis) {
      bytes *= static_cast<double>(block[axis]);
      if (!fixed.empty() && fixed[axis]) continue;
      if (!longest || block[axis] > block[*longest]) longest = axis;
    }
    if (bytes <= kMost || !longest || block[*longest] == 1) return block;
    block[*longest] = (block[*longest] + 1) / 2;
  }
}

Shape grow_block(Shape block, const Shape& shape, std::int64_t elements) {
  std::int64_t now = 1;
  for (std::size_t axis = 0; axis < block.size(); ++axis) {
    block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    now *= block[axis];
  }
  for (std::size_t axis = block.size(); axis-- > 0;) {
    const std::int64_t times = elements / now;
    if (times <= 1) break;
    const std::int64_t before = block[axis], whole = std::max<std::int64_t>(shape[axis], 1);
    block[axis] = before >= (whole + times - 1) / times ? whole : before * times;
    now = now / before * block[axis];
    if (block[axis] < whole) break;
  }
  return block;
}

Extent user_bound(const KernelSpec& spec, std::size_t k, Extent extent, std::size_t axis) {
  const auto stated = spec.max_shape.find(k);
  if (stated == spec.max_shape.end()) return extent;
  if (stated->second.size() <= axis || stated->second[axis] < 0)
    throw Error(ErrorKind::invalid, spec.function + ": max_shape " + to_string(stated->second) +
                                        " does not suit the result: expected its extents, none of them negative");
  if (stated->second[axis] >= extent.value) return extent;
  return {stated->second[axis], Trust::guess};
}

}  // namespace cuboid
