// Functions that are made of others: a list of calls is all there is to them.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/expr/kernel.h"

namespace cuboid {

// Gathers the calls of a function, and knows what each yields.
class Expanding {
 public:
  using Ref = Expansion::Ref;
  using Arg = std::variant<Ref, Scalar>;

  explicit Expanding(const KernelSpec& spec);
  Ref input(std::size_t k) const { return {k, 0}; }
  // The first output of a call of a built-in function; throws what making its kernel throws.
  Ref call(const std::string& function, std::vector<Arg> args, Params params = {});
  const ArraySpec& spec(const Ref& ref) const { return specs_[ref.node][ref.output]; }
  // The function, whose outputs are called `names` (one output: "0").
  std::shared_ptr<const Kernel> finish(KernelSpec spec, std::vector<Ref> outputs,
                                       std::vector<std::string> names = {"0"});

 private:
  Expansion expansion_;
  std::vector<std::vector<ArraySpec>> specs_;  // of inputs and calls
};

// "0", "1", ...
std::vector<std::string> numbered(std::size_t count);
// Throws where an extent of argument k depends on data: what the function becomes depends on it.
const ArraySpec& exact_arg(const KernelSpec& spec, std::size_t k);

}  // namespace cuboid
