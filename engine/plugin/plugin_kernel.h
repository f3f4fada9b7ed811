// A plugin function as a kernel: planning by its manifest (Binding), running through the C ABI (PluginCall).
#pragma once
#include <memory>

#include "engine/expr/kernel.h"
#include "engine/plugin/binding.h"
#include "engine/plugin/plugin_library.h"
#include "engine/plugin/plugin_state.h"

namespace cuboid {

// What run() throws, beside what the account and the monitor throw:
// - Error{over_budget}, an estimate that was too low. Context: "function" and "evidence". For memory: "needed" and
//   "allowed", bytes beyond CallMemory::sure, that is in the terms of CallMemory::uncertain; "evidence" is
//   "own-account" where the host refused an allocation or the plugin stated what it needs, "unknown" where it only said
//   that memory ran out (a worker that refused a malloc knows better: "own-limit"). For a result above a guess or a
//   user's max_shape: "bound_output" (its index), "bound_needed" and "bound_allowed" (extents along axis 0),
//   "own-bound".
// - Error{plugin}, context "function" and, where it is one, "promise": the plugin broke a promise of its manifest, gave
//   an error status, or let an exception escape. More memory does not help.
// - Error{cancelled}.
class PluginKernel : public Kernel {
 public:
  // Throws Error{invalid, unsupported} for arguments and parameters that the function does not take.
  PluginKernel(KernelSpec spec, std::shared_ptr<const PluginLibrary> library, std::size_t index,
               const Inference& inference = {});

  std::string identity() const override;
  bool foreign() const override { return true; }

  Shape domain() const override { return binding_.domain(); }
  std::vector<bool> whole_axes() const override { return binding_.whole_axes(); }
  // The chunks of the first input; with a halo as many of them as keep re-reading below 1.25 times.
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override;
  Box input_box(std::size_t k, const Box& block) const override { return binding_.input_box(k, block); }
  Shape input_extents(std::size_t k, const Shape& block) const override { return binding_.input_extents(k, block); }
  bool input_is_block(std::size_t k) const override { return binding_.input_is_block(k); }
  Box output_box(std::size_t k, const Box& block) const override { return binding_.output_box(k, block); }
  Shape output_extents(std::size_t k, const Shape& block) const override { return binding_.output_extents(k, block); }
  Shape room(std::size_t k, const Shape& block) const override { return binding_.room(k, block); }
  const ReductionForm* reduction() const override { return binding_.reduction() ? &*binding_.reduction() : nullptr; }
  // In the phases of a reduction that see no block (init, merge, finalize) axes are 1 where they are cut.
  CallMemory memory(Phase phase, const Shape& block) const override;
  void run(KernelCall& call) const override;

  const FunctionManifest& function() const { return binding_.function(); }
  const Binding& binding() const { return binding_; }
  const PluginLibrary& library() const { return *library_; }
  // Loads the code. Throws Error{plugin}.
  void load() const { library_->load(); }
  // Per axis of the domain: one block may be cut along it, and the parts' results joined are the uncut result.
  std::vector<bool> splittable_axes() const override;

 private:
  std::optional<std::uint64_t> kept_state_bytes(const KernelCall& call) const;
  std::shared_ptr<PluginState> borrow_state(const cuboid_fn& fn, std::uint64_t limit, KernelCall& call,
                                            bool alone) const;  // alone: holds the library's turn already

  std::shared_ptr<const PluginLibrary> library_;
  std::size_t index_;
  Binding binding_;
  mutable PluginStates states_;  // goes before what its states refer to
};

}  // namespace cuboid
