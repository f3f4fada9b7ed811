#include <gtest/gtest.h>

#include "engine/plan/task_program.h"
#include "fake_kernel.h"

namespace cuboid {
namespace {

constexpr std::uint64_t MiB = 1u << 20;

// One mebibyte beside each read, two beside each write.
class FixedIo final : public IoMemory {
 public:
  std::uint64_t read(int, const BufferDecl&) const override { return 1 * MiB; }
  std::uint64_t gather(int, const BufferDecl&) const override { return 4 * MiB; }
  std::uint64_t write(int, const BufferDecl&) const override { return 2 * MiB; }
  std::uint64_t write_piece(int, const BufferDecl&) const override { return 3 * MiB; }
  std::uint64_t runs(const Step&, std::int64_t runs) const override { return static_cast<std::uint64_t>(runs) * MiB; }
  std::uint64_t look_up(int, const BufferDecl&) const override { return 0; }
};

// out = f(a, b) on blocks of 1 MiB (128 x 1024 float64), buffers 0, 1 -> 2.
TaskProgram two_inputs(CallMemory memory) {
  auto kernel = std::make_shared<FakeKernel>("f", Shape{1024, 1024}, 2);
  kernel->call = memory;
  using O = BufferDecl::Operand;
  using W = Step::What;
  const Shape block{128, 1024};
  TaskProgram program;
  program.ops.push_back({kernel, -1, 0, false});
  program.buffers = {
      {O::input, 0, 0, kFloat64, block}, {O::input, 0, 1, kFloat64, block}, {O::output, 0, 0, kFloat64, block}};
  program.steps = {{W::acquire, 0, -1, -1, Phase::map, {}, {}}, {W::read, 0, 0, -1, Phase::map, {}, {}},
                   {W::acquire, 1, -1, -1, Phase::map, {}, {}}, {W::read, 1, 1, -1, Phase::map, {}, {}},
                   {W::acquire, 2, -1, -1, Phase::map, {}, {}}, {W::call, -1, -1, 0, Phase::map, {0, 1}, {2}},
                   {W::release, 0, -1, -1, Phase::map, {}, {}}, {W::release, 1, -1, -1, Phase::map, {}, {}},
                   {W::write, 2, 2, -1, Phase::map, {}, {}},    {W::release, 2, -1, -1, Phase::map, {}, {}}};
  return program;
}

TEST(Project, IsThePeakOfTheWalk) {
  // Held at the call: three buffers of 1 MiB; at the write: one and two beside it; at the second read: two and one.
  const Projection p = project(two_inputs({}), {128, 1024}, FixedIo());
  EXPECT_EQ(p.peak, 3 * MiB);
  EXPECT_EQ(p.sure, 3 * MiB);
  EXPECT_EQ(p.uncertain, 0u);
}

TEST(Project, AddsWhatACallTakes) {
  CallMemory memory;
  memory.sure = 5 * MiB;
  EXPECT_EQ(project(two_inputs(memory), {128, 1024}, FixedIo()).peak, 8 * MiB);
}

TEST(Project, KeepsUncertainBytesApart) {
  CallMemory memory;
  memory.sure = 1 * MiB;
  memory.uncertain = 10 * MiB;
  const Projection p = project(two_inputs(memory), {128, 1024}, FixedIo());
  EXPECT_EQ(p.peak, 14 * MiB);
  EXPECT_EQ(p.sure, 4 * MiB);
  EXPECT_EQ(p.with_uncertain(20 * MiB), 24 * MiB);
  EXPECT_EQ(p.with_uncertain(0), 4 * MiB);
}

TEST(BufferBox, FollowsHalosThroughInlinedSteps) {
  // root needs a halo of 2 of a producer that needs a halo of 3 of its input.
  auto root = std::make_shared<FakeKernel>("root", Shape{100}, 1),
       inner = std::make_shared<FakeKernel>("inner", Shape{100}, 1);
  root->halo = 2, inner->halo = 3;
  TaskProgram program;
  program.ops = {{root, -1, 0, false}, {inner, 0, 0, false}};
  program.buffers = {{BufferDecl::Operand::input, 1, 0, kFloat64, {20}},
                     {BufferDecl::Operand::output, 1, 0, kFloat64, {14}}};
  EXPECT_EQ(buffer_box(program, 1, Box{{50}, {10}}, {10}), (Box{{48}, {14}}));
  EXPECT_EQ(buffer_box(program, 0, Box{{50}, {10}}, {10}), (Box{{45}, {20}}));
  EXPECT_EQ(buffer_box(program, 0, Box{{0}, {10}}, {10}), (Box{{0}, {15}}));
  EXPECT_EQ(buffer_box(program, 0, Box{{90}, {10}}, {10}), (Box{{85}, {15}}));
}

}  // namespace
}  // namespace cuboid
