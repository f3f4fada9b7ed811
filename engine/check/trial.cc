#include "engine/check/trial.h"

#include <algorithm>
#include <atomic>

namespace cuboid::check {
namespace {

class Watch final : public CallProbe {
 public:
  Watch(const TrialOptions& options, TrialReport& report) : options_(options), report_(report) {}

  bool admits(std::uint64_t) override { return report_.requests++ != options_.refuse; }
  void holds(std::uint64_t call, std::uint64_t state, std::uint64_t outside) override {
    report_.call_bytes = std::max(report_.call_bytes, call);
    report_.state_bytes = std::max(report_.state_bytes, state);
    report_.outside_bytes = std::max(report_.outside_bytes, outside);
  }
  void returned(std::int32_t status) override {
    if (report_.status == 0) report_.status = status;
  }
  void broke(Promise promise, const std::string& what) override { report_.broken.emplace(promise, what); }
  bool cancelled() const override {
    const std::int64_t question = questions_++;
    return options_.cancel_at >= 0 && question >= options_.cancel_at;
  }
  std::int64_t questions() const { return questions_; }

 private:
  const TrialOptions& options_;
  TrialReport& report_;
  mutable std::atomic<std::int64_t> questions_{0};
};

class Trial {
 public:
  Trial(const PluginKernel& kernel, const Sample& sample, const TrialOptions& options)
      : kernel_(kernel), sample_(sample), options_(options), watch_(options_, report_) {}

  TrialReport run() {
    try {
      const Shape domain = kernel_.domain();
      const Grid grid(domain, options_.block.empty() ? at_least_one(domain) : options_.block);
      pieces_.resize(kernel_.outputs().size());
      std::vector<Box> blocks;
      for (std::int64_t block = 0; block < grid.size(); ++block) blocks.push_back(grid.box(block));
      if (blocks.empty()) blocks.push_back(Box::whole(domain));
      if (kernel_.reduction())
        reduce(blocks);
      else
        for (const Box& block : blocks) run_block(block);
      join();
    } catch (Error& error) {
      report_.error = std::move(error);
    }
    report_.questions = watch_.questions();
    return std::move(report_);
  }

 private:
  struct Piece {
    Box box;
    std::vector<std::byte> elements;
  };

  static Shape at_least_one(Shape shape) {
    for (std::int64_t& extent : shape) extent = std::max<std::int64_t>(extent, 1);
    return shape;
  }

  void add_inputs(const Box& block, KernelCall& call, std::vector<ArrayMemory>& memory) {
    const std::vector<ArraySpec> inputs = sample_.spec.inputs();
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const Box box = kernel_.input_box(k, block);
      const ConstView whole = make_view(sample_.in[k].data(), inputs[k].dtype, inputs[k].max_shape());
      memory.emplace_back(inputs[k].dtype, box.shape, options_.in, options_.in_fence, std::byte{0xFF});
      copy_elements(whole.sub(box.origin, box.shape), memory.back().view());
      if (options_.protect_inputs) memory.back().protect();
      call.in.push_back(memory.back().view());
      call.in_box.push_back(box);
    }
  }

  void add_outputs(const Box& block, KernelCall& call, std::vector<ArrayMemory>& memory) {
    for (std::size_t k = 0; k < kernel_.outputs().size(); ++k) {
      const OutputSpec& output = kernel_.outputs()[k];
      Shape shape = output.ragged_axis ? kernel_.output_extents(k, block.shape) : kernel_.output_box(k, block).shape;
      // More room than is promised, so that a broken bound shows as such and harms no other check.
      if (output.ragged_axis)
        shape[*output.ragged_axis] = options_.capacity.value_or(4 * shape[*output.ragged_axis] + 64);
      memory.emplace_back(output.spec.dtype, shape, options_.out, options_.out_fence, options_.filler);
      call.out.push_back(memory.back().view());
      call.produced.push_back(shape);
    }
  }

  void run_block(const Box& block) {
    MemoryAccount account;
    KernelCall call = new_call(Phase::map, block, account);
    std::vector<ArrayMemory> in, out;
    in.reserve(sample_.in.size());
    out.reserve(kernel_.outputs().size());
    add_inputs(block, call, in);
    add_outputs(block, call, out);
    measured([&] { kernel_.run(call); });
    collect(call, out);
  }

  void collect(const KernelCall& call, const std::vector<ArrayMemory>& out) {
    for (const ArrayMemory& memory : out) report_.outputs_intact = report_.outputs_intact && memory.intact();
    for (std::size_t k = 0; k < out.size(); ++k) {
      const OutputSpec& output = kernel_.outputs()[k];
      const Shape& shape = call.produced[k];
      Piece piece{output.ragged_axis ? Box::whole(shape) : kernel_.output_box(k, call.block), {}};
      piece.elements.resize(byte_count(shape, output.spec.dtype));
      copy_elements(ConstView(out[k].view()).sub(Shape(shape.size(), 0), shape),
                    make_view(piece.elements.data(), output.spec.dtype, shape));
      pieces_[k].push_back(std::move(piece));
    }
  }

  // The partial results of one block, or of several.
  using Partial = std::vector<ArrayMemory>;

  KernelCall new_call(Phase phase, const Box& block, MemoryAccount& account) {
    KernelCall call;
    call.phase = phase;
    call.block = block;
    call.memory = &account;
    call.monitor = &watch_;
    return call;
  }

  void take_out(KernelCall& call, const Partial& states) {
    for (const ArrayMemory& state : states) {
      call.out.push_back(state.view());
      call.produced.push_back(state.view().shape);
    }
  }

  Partial accumulated(const Box& block) {
    const ReductionForm& form = *kernel_.reduction();
    MemoryAccount account;
    Partial states;
    for (std::size_t k = 0; k < form.states.size(); ++k)
      states.emplace_back(form.states[k], form.with_tail(Shape(block.shape.size(), 1), k), Layout::contiguous,
                          options_.out_fence, options_.filler);
    KernelCall init = new_call(Phase::init, block, account);
    take_out(init, states);
    measured([&] { kernel_.run(init); });
    KernelCall call = new_call(Phase::accumulate, block, account);
    std::vector<ArrayMemory> in;
    in.reserve(sample_.in.size());
    add_inputs(block, call, in);
    take_out(call, states);
    measured([&] { kernel_.run(call); });
    for (const ArrayMemory& state : states) report_.outputs_intact = report_.outputs_intact && state.intact();
    return states;
  }

  // Pairs of neighbours, then pairs of these.
  void reduce(const std::vector<Box>& blocks) {
    std::vector<Partial> level;
    for (const Box& block : blocks) level.push_back(accumulated(block));
    MemoryAccount account;
    while (level.size() > 1) {
      std::vector<Partial> next;
      for (std::size_t n = 0; n < level.size(); n += 2) {
        if (n + 1 < level.size()) {
          KernelCall call = new_call(Phase::merge, blocks.front(), account);
          for (const ArrayMemory& state : level[n + 1]) call.in.push_back(state.view());
          take_out(call, level[n]);
          measured([&] { kernel_.run(call); });
        }
        next.push_back(std::move(level[n]));
      }
      level = std::move(next);
    }
    KernelCall call = new_call(Phase::finalize, Box::whole(kernel_.domain()), account);
    for (const ArrayMemory& state : level.front()) call.in.push_back(state.view());
    std::vector<ArrayMemory> out;
    out.reserve(kernel_.outputs().size());
    add_outputs(call.block, call, out);
    measured([&] { kernel_.run(call); });
    collect(call, out);
  }

  template <class Body>
  void measured(const Body& body) {
    if (!options_.heap) return body();
    options_.heap.begin();
    try {
      body();
    } catch (...) {
      options_.heap.end();
      throw;
    }
    report_.heap_bytes = std::max(report_.heap_bytes, options_.heap.end());
  }

  void join() {
    for (std::size_t k = 0; k < pieces_.size(); ++k) {
      const OutputSpec& output = kernel_.outputs()[k];
      Shape shape = output.spec.max_shape();
      if (output.ragged_axis) {
        std::int64_t rows = 0;
        for (Piece& piece : pieces_[k]) {
          piece.box.origin[*output.ragged_axis] = rows;
          rows += piece.box.shape[*output.ragged_axis];
        }
        shape[*output.ragged_axis] = rows;
      }
      std::vector<std::byte> joined(byte_count(shape, output.spec.dtype));
      const View whole = make_view(joined.data(), output.spec.dtype, shape);
      for (const Piece& piece : pieces_[k])
        copy_elements(make_view(piece.elements.data(), output.spec.dtype, piece.box.shape),
                      whole.sub(piece.box.origin, piece.box.shape));
      report_.shapes.push_back(std::move(shape));
      report_.out.push_back(std::move(joined));
    }
  }

  const PluginKernel& kernel_;
  const Sample& sample_;
  const TrialOptions& options_;
  TrialReport report_;
  Watch watch_;
  std::vector<std::vector<Piece>> pieces_;  // by output
};

}  // namespace

TrialReport run_trial(const PluginKernel& kernel, const Sample& sample, const TrialOptions& options) {
  return Trial(kernel, sample, options).run();
}

}  // namespace cuboid::check
