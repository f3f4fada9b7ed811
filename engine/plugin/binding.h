// A plugin function bound to the types and shapes of its arguments: all that planning asks, computed from the manifest
// alone. Pure; runs no code of the plugin.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/expr/kernel.h"
#include "engine/plugin/infer.h"
#include "engine/plugin/parameters.h"

namespace cuboid {

// Room for a plugin's own bytes in the account: what the pool adds by rounding them up to its size classes.
std::uint64_t with_rounding(std::uint64_t bytes);

class Binding {
 public:
  // How the plugin's own code is asked where the manifest says `?` or `callback`; answers are kept by block.
  struct Ask {
    std::function<InferAnswer(const InferAsk&)> infer;
    std::function<RegionsAnswer(const InferAsk&, const RegionsAsk&)> regions;
  };

  // Throws Error{invalid}: number, dtype or rank of an argument, axes that disagree, parameters, a user's max_shape; or
  // Error{unsupported} where the plugin's code would have to be asked and cannot.
  Binding(const FunctionManifest& function, const KernelSpec& spec, Ask ask = {});

  const FunctionManifest& function() const { return *function_; }
  const BoundParams& params() const { return params_; }
  const std::vector<ArraySpec>& inputs() const { return inputs_; }
  const std::vector<OutputSpec>& outputs() const { return outputs_; }

  // The domain: the index space of the first input. An axis that may not be cut is whole.
  const Shape& domain() const { return domain_; }
  const std::vector<bool>& whole_axes() const { return whole_; }

  // The box of input k without halo, with halo (it may reach beyond the array), and what of it must be read.
  Box interior(std::size_t k, const Box& block) const;
  Box wanted(std::size_t k, const Box& block) const;
  Box input_box(std::size_t k, const Box& block) const;
  Shape input_extents(std::size_t k, const Shape& block) const;
  bool input_is_block(std::size_t k) const;
  Box output_box(std::size_t k, const Box& block) const;
  // Extents of one call's output: exact, or the capacity of a data-dependent one.
  Shape output_extents(std::size_t k, const Shape& block) const;
  // What of it is in memory at once: of one that is pushed, a slab, or as many rows as make an object worth storing.
  Shape room(std::size_t k, const Shape& block) const;
  // The manifest's own bound of a data-dependent first extent; nullopt where it is a guess.
  std::optional<std::int64_t> promised_rows(std::size_t k, const Shape& block) const;
  // Of Delivery::push: the largest first extent of one slab.
  std::optional<std::int64_t> promised_slab(std::size_t k, const Shape& block) const;

  // Bytes that one call may take; nullopt where the number is no promise (guess, unknown, replaced by the user).
  std::optional<std::uint64_t> promised_bytes(const BytesManifest& bytes, const Shape& block) const;
  // `padded`: for calls that see inputs.
  CallMemory memory(const Shape& block, bool padded = true) const;
  // Partial results of `combine`; nullopt where the function is no reduction. All axes are reduced.
  const std::optional<ReductionForm>& reduction() const { return reduction_; }
  DType dtype(const ArrayPattern& pattern) const;

  std::int64_t halo(const std::string& axis) const;

 private:
  void bind_inputs(const KernelSpec& spec);
  void bind_axes();
  void bind_halos();
  void bind_outputs(const KernelSpec& spec);
  void bind_partials();
  void check_boundary_value() const;
  std::int64_t first_extent(std::size_t k, const Shape& block) const;
  Trust worst_trust(const ExtentPattern& extent) const;
  InferAnswer::Bytes number(const BytesManifest& bytes, const Shape& block) const;
  const InferAnswer& inferred(const Shape& block) const;
  InferAsk ask_about(const Shape& block) const;
  bool asks_regions() const { return function_->regions.kind == RegionManifest::Kind::callback; }
  Box block_part(std::size_t k, const Box& block) const;  // of input k, along the axes that it shares with the block
  std::vector<Box> output_boxes(const Box& block) const;
  std::vector<Box> regions_of(const Box& block) const;
  Shape largest_region(std::size_t k, const Shape& block) const;
  Expression::Variables variables(const Shape& block) const;
  std::optional<std::size_t> domain_axis(const std::string& axis) const;
  std::uint64_t padding_bytes(const Shape& block) const;
  // Of a formula; what is wrong with it is said of this function.
  double value(const Expression& formula, const Expression::Variables& variables) const;
  std::int64_t count(const Expression& formula, const Expression::Variables& variables) const;
  [[noreturn]] void refuse(const std::string& why) const;

  const FunctionManifest* function_;
  BoundParams params_;
  std::vector<ArraySpec> inputs_;
  std::map<std::string, DType> variables_;  // type variables
  std::map<std::string, Extent> axes_;      // extents of the whole arrays
  std::map<std::string, std::int64_t> halos_;
  Expression::Variables constants_;        // of formulas: parameters, halos, sizes, whole axes
  std::vector<std::string> domain_names_;  // "" where the first input's extent is a number
  Shape domain_;
  std::vector<bool> whole_;
  std::vector<OutputSpec> outputs_;
  std::optional<ReductionForm> reduction_;
  std::map<std::size_t, std::int64_t> user_rows_;  // a user's max_shape, first extent, by output
  std::optional<std::uint64_t> extra_memory_;
  Ask ask_;
  mutable std::mutex asking_;
  mutable std::map<Shape, InferAnswer> answers_;
  mutable std::map<std::pair<Shape, Shape>, std::vector<Box>> regions_;  // by origin and extents of a block
  mutable std::map<Shape, std::vector<Shape>> largest_;                  // of the regions of blocks of these extents
};

}  // namespace cuboid
