// Plugin functions run block by block through the ABI; the outcome is compared with plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <thread>

#include "engine/plugin/plugin_host.h"
#include "engine/plugin/plugin_kernel.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const PluginResolver& plugins() {
  static const PluginResolver resolver({read_manifest(std::filesystem::path(TEST_PLUGINS) / "libbehave.so")});
  return resolver;
}

struct Monitor : CallMonitor {
  bool stop = false;
  std::vector<std::string> logged;
  bool cancelled() const override { return stop; }
  void log(int, const std::string& text) override { logged.push_back(text); }
};

struct Array {
  Shape shape;
  std::vector<double> data;
};

Array counting(Shape shape) {
  Array array{shape, std::vector<double>(static_cast<std::size_t>(element_count(shape)))};
  std::iota(array.data.begin(), array.data.end(), 1.0);
  return array;
}

std::shared_ptr<const Kernel> kernel_of(const std::string& function, const std::vector<Array>& inputs,
                                        Params params = {}, std::map<std::size_t, Shape> max_shape = {},
                                        std::optional<std::uint64_t> extra_memory = {}) {
  KernelSpec spec;
  spec.function = function;
  for (const Array& input : inputs) spec.args.emplace_back(ArraySpec(kFloat64, input.shape));
  spec.params = std::move(params);
  spec.max_shape = std::move(max_shape);
  spec.extra_memory = extra_memory;
  return plugins().resolve(spec);
}

struct Outcome {
  Shape produced;
  std::vector<double> data;  // of the capacity
};

constexpr double kUntouched = -7e77;

// One call on one block with exactly the memory that the kernel declares, plus `more`.
Outcome run_block(const Kernel& kernel, const std::vector<Array>& inputs, const Box& block, Monitor& monitor,
                  std::uint64_t more = 0) {
  const CallMemory memory = kernel.memory(Phase::map, block.shape);
  MemoryAccount account(static_cast<std::size_t>(memory.sure + memory.uncertain + more));
  KernelCall call;
  call.block = block;
  call.memory = &account;
  call.monitor = &monitor;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Box box = kernel.input_box(k, block);
    call.in_box.push_back(box);
    const ConstView whole =
        make_view(reinterpret_cast<const std::byte*>(inputs[k].data.data()), kFloat64, inputs[k].shape);
    call.in.push_back(whole.sub(box.origin, box.shape));
  }
  Outcome outcome;
  const Shape capacity = kernel.output_extents(0, block.shape);
  outcome.data.assign(static_cast<std::size_t>(element_count(capacity)), kUntouched);
  call.out.push_back(make_view(reinterpret_cast<std::byte*>(outcome.data.data()), kFloat64, capacity));
  call.produced.push_back(capacity);
  kernel.run(call);
  EXPECT_EQ(account.in_use(), 0u);
  outcome.produced = call.produced[0];
  return outcome;
}

Outcome run_whole(const Kernel& kernel, const std::vector<Array>& inputs, std::uint64_t more = 0) {
  Monitor monitor;
  return run_block(kernel, inputs, Box::whole(kernel.domain()), monitor, more);
}

// The result of an aligned function, put together from blocks.
std::vector<double> run_in_blocks(const Kernel& kernel, const std::vector<Array>& inputs, const Shape& block) {
  const Shape whole = kernel.outputs()[0].spec.max_shape();
  std::vector<double> result(static_cast<std::size_t>(element_count(whole)), kUntouched);
  const View target = make_view(reinterpret_cast<std::byte*>(result.data()), kFloat64, whole);
  const Grid grid(kernel.domain(), block);
  Monitor monitor;
  for (std::int64_t k = 0; k < grid.size(); ++k) {
    const Box box = kernel.output_box(0, grid.box(k));
    const Outcome outcome = run_block(kernel, inputs, grid.box(k), monitor);
    EXPECT_EQ(outcome.produced, box.shape);
    copy_elements(make_view(reinterpret_cast<const std::byte*>(outcome.data.data()), kFloat64, box.shape),
                  target.sub(box.origin, box.shape));
  }
  return result;
}

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::invalid, "none");
}

std::uint64_t number(const Error& error, const std::string& key) {
  for (const auto& [name, value] : error.context())
    if (name == key) return std::stoull(value);
  ADD_FAILURE() << "no " << key << " in the context of: " << error.message();
  return 0;
}

TEST(PluginRun, ComputesBlocks) {
  const std::vector<Array> in = {counting({100})};
  const auto kernel = kernel_of("test.twice", in);
  const std::vector<double> out = run_in_blocks(*kernel, in, {17});
  for (std::size_t k = 0; k < 100; ++k) ASSERT_EQ(out[k], 2.0 * static_cast<double>(k + 1));
}

TEST(PluginRun, EmptyBlocksAreCalls) {
  const std::vector<Array> in = {{{0}, {}}};
  EXPECT_EQ(run_whole(*kernel_of("test.twice", in), in).produced, (Shape{0}));
  EXPECT_EQ(run_whole(*kernel_of("test.above", in), in).produced, (Shape{0}));
}

std::int64_t folded(std::int64_t i, std::int64_t n, const std::string& mode) {
  if (i >= 0 && i < n) return i;
  if (mode == "nearest") return i < 0 ? 0 : n - 1;
  if (mode == "wrap") return ((i % n) + n) % n;
  if (mode != "reflect") return -1;
  while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;
  return i;
}

// Blocks of any shape give what one loop over the whole array gives, in every mode, with halos larger than a block.
TEST(PluginRun, HalosArePaddedByEveryMode) {
  const std::int64_t h = 9, w = 7;
  const std::vector<Array> in = {counting({h, w})};
  for (const std::string mode : {"reflect", "nearest", "constant", "wrap", "clip"}) {
    for (const std::int64_t radius : {0, 1, 3, 12}) {
      const auto kernel =
          kernel_of("test.window", in, {{"radius", radius}, {"boundary", mode}, {"boundary_value", 0.5}});
      std::vector<double> expected;
      for (std::int64_t i = 0; i < h; ++i)
        for (std::int64_t j = 0; j < w; ++j) {
          double sum = 0;
          for (std::int64_t a = i - radius; a <= i + radius; ++a)
            for (std::int64_t b = j - radius; b <= j + radius; ++b) {
              const std::int64_t y = folded(a, h, mode), x = folded(b, w, mode);
              if (y >= 0 && x >= 0)
                sum += in[0].data[static_cast<std::size_t>(y * w + x)];
              else if (mode == "constant")
                sum += 0.5;
            }
          expected.push_back(sum);
        }
      for (const Shape& block : {Shape{9, 7}, Shape{4, 3}, Shape{1, 7}, Shape{5, 2}})
        EXPECT_EQ(run_in_blocks(*kernel, in, block), expected) << mode << radius << to_string(block);
    }
  }
}

TEST(PluginRun, RowsAreTrimmedEmittedAndPushed) {
  const std::vector<Array> in = {counting({20})};
  const Outcome above = run_whole(*kernel_of("test.above", in, {{"t", 17.5}}), in);
  EXPECT_EQ(above.produced, (Shape{3}));
  EXPECT_THAT(std::vector<double>(above.data.begin(), above.data.begin() + 4), ElementsAre(18, 19, 20, kUntouched));
  for (const char* function : {"test.emits", "test.pushes"}) {
    for (const std::int64_t rows : {0, 1, 3, 7, 20}) {
      const Outcome outcome = run_whole(*kernel_of(function, in, {{"rows", rows}}), in);
      ASSERT_EQ(outcome.produced, (Shape{rows, 2})) << function;
      for (std::int64_t i = 0; i < rows; ++i)
        ASSERT_EQ(outcome.data[static_cast<std::size_t>(2 * i + 1)], 10.0 * static_cast<double>(i) + 1);
    }
  }
}

// Whoever calls it has room for a few rows only, and takes them whenever they fill it.
// The most calls that were under way while several threads called the functions, each through a resolver of its own.
double most_under_way(const std::vector<std::string>& functions) {
  const std::vector<Array> in = {counting({1})};
  std::vector<double> seen(2 * functions.size(), 0);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < seen.size(); ++k)
    threads.emplace_back([&, k] {
      const PluginResolver own({read_manifest(std::filesystem::path(TEST_PLUGINS) / "libbehave.so")});
      KernelSpec spec;
      spec.function = functions[k / 2];
      spec.args.emplace_back(ArraySpec(kFloat64, {1}));
      const auto kernel = own.resolve(spec);
      for (int turn = 0; turn < 3; ++turn) seen[k] = std::max(seen[k], run_whole(*kernel, in).data[0]);
    });
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(seen.begin(), seen.end());
}

TEST(PluginRun, WhatMayNotOverlapNeverRunsTwiceAtOnceInAProcess) {
  EXPECT_EQ(most_under_way({"test.alone", "test.alone_too"}), 1);
  EXPECT_GT(most_under_way({"test.together", "test.together"}), 1);
}

TEST(PluginRun, SlabsAreStoredAsTheyFillTheirRoom) {
  const std::vector<Array> in = {counting({20})};
  for (const std::int64_t rows : {0, 3, 4, 8, 11, 20}) {
    const auto kernel = kernel_of("test.pushes", in, {{"rows", rows}});
    MemoryAccount account(0);
    Monitor monitor;
    std::vector<double> room(8), all;
    KernelCall call;
    call.block = Box::whole({20});
    call.in_box = {call.block};
    call.in.push_back(make_view(reinterpret_cast<const std::byte*>(in[0].data.data()), kFloat64, {20}));
    call.out.push_back(make_view(reinterpret_cast<std::byte*>(room.data()), kFloat64, {4, 2}));
    call.produced = {{4, 2}};
    call.memory = &account;
    call.monitor = &monitor;
    const auto take = [&](std::int64_t count) { all.insert(all.end(), room.begin(), room.begin() + 2 * count); };
    call.store = [&](std::size_t k, std::int64_t count) {
      EXPECT_EQ(k, 0u);
      EXPECT_EQ(count, 4);
      take(count);
    };
    kernel->run(call);
    EXPECT_EQ(call.produced[0], (Shape{rows % 4, 2}));
    take(call.produced[0][0]);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(2 * rows));
    for (std::int64_t i = 0; i < rows; ++i) {
      ASSERT_EQ(all[static_cast<std::size_t>(2 * i)], 10.0 * static_cast<double>(i));
      ASSERT_EQ(all[static_cast<std::size_t>(2 * i + 1)], 10.0 * static_cast<double>(i) + 1);
    }
    call.store = [](std::size_t, std::int64_t) { throw Error(ErrorKind::io, "the disk is full"); };
    if (rows < 4) continue;
    EXPECT_EQ(error_of([&] { kernel->run(call); }).kind(), ErrorKind::io);
  }
}

TEST(PluginRun, OnlyASlabOfAPushedOutputIsInMemory) {
  const std::vector<Array> in = {{{4'000'000}, {}}};
  EXPECT_EQ(kernel_of("test.pushes", in, {{"rows", std::int64_t{1}}})->output_extents(0, {1'000'000}),
            (Shape{1'000'000, 2}));
  EXPECT_EQ(kernel_of("test.pushes", in, {{"rows", std::int64_t{1}}})->room(0, {1'000'000}),
            (Shape{(1 << 16) + 1, 2}));  // worth an object
  EXPECT_EQ(kernel_of("test.pushes", in, {{"rows", std::int64_t{1}}})->room(0, {50}), (Shape{50, 2}));
  EXPECT_EQ(kernel_of("test.emits", in, {{"rows", std::int64_t{1}}})->room(0, {1'000'000}), (Shape{1'000'000, 2}));
}

TEST(PluginRun, AboveAPromisedBoundIsABrokenPromise) {
  const std::vector<Array> in = {counting({20})};
  for (const char* function : {"test.emits", "test.pushes"}) {
    const Error error = error_of([&] { run_whole(*kernel_of(function, in, {{"rows", std::int64_t{21}}}), in); });
    EXPECT_EQ(error.kind(), ErrorKind::plugin) << error.message();
  }
  const Error error = error_of([&] { run_whole(*kernel_of("test.overbound", in), in); });
  EXPECT_EQ(error.kind(), ErrorKind::plugin);
  EXPECT_THAT(error.message(), HasSubstr("promises at most 20"));
  EXPECT_THAT(error.context(), Contains(Pair("promise", "broken")));
}

TEST(PluginRun, AboveAGuessTheBoundMayGrow) {
  const std::vector<Array> in = {counting({20})};
  EXPECT_EQ(run_whole(*kernel_of("test.rows", in, {{"rows", std::int64_t{5}}}), in).produced, (Shape{5, 2}));
  const Error error = error_of([&] { run_whole(*kernel_of("test.rows", in, {{"rows", std::int64_t{9}}}), in); });
  EXPECT_EQ(error.kind(), ErrorKind::over_budget);
  EXPECT_EQ(number(error, "bound_output"), 0u);
  EXPECT_EQ(number(error, "bound_needed"), 9u);
  EXPECT_EQ(number(error, "bound_allowed"), 5u);
  EXPECT_THAT(error.context(), Contains(Pair("evidence", "own-bound")));
  // With the user's number it fits.
  const auto grown = kernel_of("test.rows", in, {{"rows", std::int64_t{9}}}, {{0, {9, 2}}});
  EXPECT_EQ(run_whole(*grown, in).produced, (Shape{9, 2}));
}

TEST(PluginRun, AboveAUsersBoundTheBoundMayGrow) {
  const std::vector<Array> in = {counting({20})};
  for (const char* function : {"test.emits", "test.pushes"}) {
    const Params params = {{"rows", std::int64_t{8}}};
    const Error error = error_of([&] { run_whole(*kernel_of(function, in, params, {{0, {6, 2}}}), in); });
    EXPECT_EQ(error.kind(), ErrorKind::over_budget);
    EXPECT_EQ(number(error, "bound_needed"), 8u);
  }
  const Error error = error_of([&] { run_whole(*kernel_of("test.above", in, {}, {{0, {6}}}), in); });
  EXPECT_EQ(number(error, "bound_needed"), 20u);
}

TEST(PluginRun, RefusedMemoryIsOverBudgetWithWhatWasNeeded) {
  const std::vector<Array> in = {counting({20})};
  run_whole(*kernel_of("test.hungry", in, {{"mib", 1.0}}), in);
  for (const char* manner : {"pass", "hide", "internal", "charge"}) {
    const auto kernel = kernel_of("test.hungry", in, {{"mib", 3.0}, {"manner", std::string(manner)}});
    const Error error = error_of([&] { run_whole(*kernel, in); });
    EXPECT_EQ(error.kind(), ErrorKind::over_budget) << manner;
    EXPECT_THAT(error.context(), Contains(Pair("evidence", "own-account"))) << manner;
    EXPECT_GE(number(error, "needed"), 3u << 20) << manner;
    const std::uint64_t missing = number(error, "needed") - number(error, "allowed");
    EXPECT_EQ(run_whole(*kernel, in, missing).data[19], 40) << manner;  // what it said was enough
  }
}

TEST(PluginRun, WhatThePluginSaysItNeedsCounts) {
  const std::vector<Array> in = {counting({20})};
  const auto kernel = kernel_of("test.hungry", in, {{"mib", 7.0}, {"manner", std::string("state")}});
  const Error error = error_of([&] { run_whole(*kernel, in); });
  EXPECT_EQ(error.kind(), ErrorKind::over_budget);
  EXPECT_THAT(error.message(), HasSubstr("too many objects"));
  EXPECT_THAT(error.context(), Contains(Pair("evidence", "own-account")));
  EXPECT_GE(number(error, "needed"), 7u << 20);
}

TEST(PluginRun, GrowingInPlaceLosesNothing) {
  const std::vector<Array> in = {counting({20})};
  const auto kernel = kernel_of("test.hungry", in, {{"mib", 3.0}});
  MemoryAccount account(1 << 20);
  int asked = 0;
  account.set_on_exceed([&](MemoryAccount& self, std::size_t needed) {
    ++asked;
    self.set_limit(needed);
    return true;
  });
  Monitor monitor;
  std::vector<double> out(20);
  KernelCall call;
  call.block = Box::whole({20});
  call.in_box = {call.block};
  call.in.push_back(make_view(reinterpret_cast<const std::byte*>(in[0].data.data()), kFloat64, {20}));
  call.out.push_back(make_view(reinterpret_cast<std::byte*>(out.data()), kFloat64, {20}));
  call.produced = {{20}};
  call.memory = &account;
  call.monitor = &monitor;
  kernel->run(call);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(out[19], 40);
}

TEST(PluginRun, ABrokenPromiseOfBytesIsNoMatterOfMemory) {
  const std::vector<Array> in = {counting({20})};
  const Error error = error_of([&] { run_whole(*kernel_of("test.liar", in), in, 1 << 20); });
  EXPECT_EQ(error.kind(), ErrorKind::plugin);
  EXPECT_THAT(error.message(), HasSubstr("took 64 KiB"));
  // Where the user gave a number of their own, that number counts.
  run_whole(*kernel_of("test.liar", in, {}, {}, 1 << 20), in);
}

TEST(PluginRun, MemoryOutsideTheHostIsOnlyDeclared) {
  const std::vector<Array> in = {counting({20})};
  const auto kernel = kernel_of("test.malloc", in, {{"mib", std::int64_t{1}}});
  EXPECT_EQ(kernel->memory(Phase::map, {20}).outside, 1u << 20);
  EXPECT_EQ(kernel->memory(Phase::map, {20}).uncertain, 1u << 20);
  EXPECT_EQ(run_whole(*kernel, in).data[0], 2);
}

TEST(PluginRun, LeaksAreFreedAndReported) {
  const std::vector<Array> in = {counting({20})};
  const auto kernel = kernel_of("test.hungry", in, {{"mib", 0.5}, {"manner", std::string("leak")}});
  Monitor monitor;
  run_block(*kernel, in, Box::whole({20}), monitor);
  EXPECT_THAT(monitor.logged, ElementsAre(HasSubstr("did not release 1 piece(s) of memory")));
}

TEST(PluginRun, BadEndsAreErrorsWithTheirCause) {
  const std::vector<Array> in = {counting({20})};
  const auto end = [&](const char* how) {
    return error_of([&] { run_whole(*kernel_of("test.ends", in, {{"how", std::string(how)}}), in); });
  };
  EXPECT_EQ(end("throw").kind(), ErrorKind::plugin);
  EXPECT_THAT(end("throw").message(), HasSubstr("boom"));
  EXPECT_EQ(end("throw_int").kind(), ErrorKind::plugin);
  EXPECT_EQ(end("status").kind(), ErrorKind::plugin);
  EXPECT_THAT(end("status").message(), HasSubstr("E_NUMERIC: no convergence after 7 steps"));
  EXPECT_EQ(end("positive").kind(), ErrorKind::plugin);
  EXPECT_EQ(end("bad_alloc").kind(), ErrorKind::over_budget);
  EXPECT_THAT(end("bad_alloc").context(), Contains(Pair("evidence", "unknown")));
  EXPECT_EQ(error_of([&] { run_whole(*kernel_of("test.forgets", in), in); }).kind(), ErrorKind::plugin);
}

TEST(PluginRun, ACancelledCallSaysSo) {
  const std::vector<Array> in = {counting({20})};
  Monitor monitor;
  monitor.stop = true;
  const auto kernel = kernel_of("test.ends", in, {{"how", std::string("status")}});
  EXPECT_EQ(error_of([&] { run_block(*kernel, in, Box::whole({20}), monitor); }).kind(), ErrorKind::cancelled);
}

TEST(PluginRun, AStateLivesFromOpenToClose) {
  const std::vector<Array> in = {counting({20})};
  const auto kernel = kernel_of("test.state", in, {{"names", std::vector<std::string>{"ab", "cde"}}});
  EXPECT_EQ(run_whole(*kernel, in).data[0], 1 + 3 + 5);  // 1 + 2 of the default list, two and three letters
}

TEST(PluginRun, NumbersThatOnlyThePluginKnowsAreAskedOfIt) {
  const PluginResolver asking({read_manifest(std::filesystem::path(TEST_PLUGINS) / "libbehave.so")}, call_infer);
  const std::vector<Array> in = {counting({20}), counting({3})};
  KernelSpec spec;
  spec.function = "test.infers";
  for (const Array& input : in) spec.args.emplace_back(ArraySpec(kFloat64, input.shape));
  spec.params["rows"] = std::int64_t{7};
  EXPECT_EQ(error_of([&] { plugins().resolve(spec); }).kind(), ErrorKind::unsupported);  // nobody to ask

  const auto kernel = asking.resolve(spec);
  EXPECT_EQ(kernel->outputs()[0].spec.extents[0], (Extent{23, Trust::bound}));
  EXPECT_EQ(kernel->output_extents(0, {5}), (Shape{8, 2}));
  EXPECT_EQ(kernel->memory(Phase::map, {5}).sure, 72u);
  EXPECT_EQ(run_whole(*kernel, in).produced, (Shape{7, 2}));
  EXPECT_EQ(error_of([&] {
              Monitor monitor;
              run_block(*kernel, in, Box{{0}, {3}}, monitor);
            }).kind(),
            ErrorKind::plugin);  // seven rows where six were promised

  KernelSpec large = spec;
  large.args[0] = ArraySpec(kFloat64, {5000});
  EXPECT_EQ(asking.resolve(large)->outputs()[0].spec.extents[0], (Extent{1000, Trust::guess}));
  spec.params["rows"] = std::int64_t{13};
  const Error refused = error_of([&] { asking.resolve(spec); });
  EXPECT_EQ(refused.kind(), ErrorKind::invalid);
  EXPECT_THAT(refused.message(), HasSubstr("thirteen rows are not for us"));
  spec.params["rows"] = std::int64_t{14};
  EXPECT_THAT(error_of([&] { asking.resolve(spec); }).message(), HasSubstr("another extent along axis 1"));
}

// Partial results of two blocks, merged and finished: what the tree of a plan does.
TEST(PluginRun, AReductionRunsThroughItsPhases) {
  const std::vector<Array> in = {counting({10}), counting({3})};
  const auto kernel = kernel_of("test.total", in);
  EXPECT_EQ(kernel->whole_axes(), (std::vector<bool>{false})) << "blocks may cut it";
  ASSERT_TRUE(kernel->reduction());
  const ReductionForm& form = *kernel->reduction();
  Monitor monitor;
  struct Partial {
    std::vector<std::vector<std::byte>> memory;
    std::vector<View> views;
  };
  const auto partial = [&] {
    Partial made;
    for (std::size_t k = 0; k < form.states.size(); ++k) {
      const Shape extents = form.with_tail({1}, k);
      made.memory.emplace_back(byte_count(extents, form.states[k]), std::byte{0xee});
      made.views.push_back(make_view(made.memory.back().data(), form.states[k], extents));
    }
    return made;
  };
  const auto run = [&](Phase phase, const Box& block, std::vector<ConstView> from, std::vector<View> to) {
    const CallMemory declared = kernel->memory(phase, block.shape);
    MemoryAccount account(static_cast<std::size_t>(declared.sure + declared.uncertain));
    KernelCall call;
    call.phase = phase;
    call.block = block;
    call.memory = &account;
    call.monitor = &monitor;
    call.in = std::move(from);
    if (phase == Phase::accumulate) {
      for (std::size_t k = 0; k < in.size(); ++k) {
        const Box box = kernel->input_box(k, block);
        call.in_box.push_back(box);
        call.in.push_back(make_view(reinterpret_cast<const std::byte*>(in[k].data.data()), kFloat64, in[k].shape)
                              .sub(box.origin, box.shape));
      }
    }
    for (const View& view : to) call.produced.push_back(view.shape);
    call.out = std::move(to);
    kernel->run(call);
  };
  const auto readable = [](const Partial& of) { return std::vector<ConstView>(of.views.begin(), of.views.end()); };
  Partial first = partial(), second = partial();
  run(Phase::init, Box{{0}, {6}}, {}, first.views);
  run(Phase::init, Box{{6}, {4}}, {}, second.views);
  run(Phase::accumulate, Box{{0}, {6}}, {}, first.views);
  run(Phase::accumulate, Box{{6}, {4}}, {}, second.views);
  run(Phase::merge, Box{{0}, {1}}, readable(second), first.views);
  double total = 0;
  run(Phase::finalize, Box{{0}, {1}}, readable(first), {make_view(reinterpret_cast<std::byte*>(&total), kFloat64, {})});
  EXPECT_EQ(total, 55 * 6);
}

TEST(PluginRun, BuffersThatDoNotFitTheBlockAreRefused) {
  const std::vector<Array> in = {counting({20})};
  Monitor monitor;
  MemoryAccount account;
  KernelCall call;
  call.block = Box{{0}, {10}};
  call.in_box = {Box{{0}, {9}}};
  call.in.push_back(make_view(reinterpret_cast<const std::byte*>(in[0].data.data()), kFloat64, {9}));
  std::vector<double> out(10);
  call.out.push_back(make_view(reinterpret_cast<std::byte*>(out.data()), kFloat64, {10}));
  call.memory = &account;
  call.monitor = &monitor;
  EXPECT_EQ(error_of([&] { kernel_of("test.twice", in)->run(call); }).kind(), ErrorKind::invalid);
}

}  // namespace
}  // namespace cuboid
