#include "engine/run/split.h"

#include <gmock/gmock.h>

#include <numeric>

namespace cuboid {
namespace {

// Two results of a 2-D input: each element plus its left neighbour (a halo along axis 1), and the odd elements in C
// order as rows (ragged). May be cut along the axes that the parameter names.
class NeighbourKernel final : public Kernel {
 public:
  NeighbourKernel(Shape shape, std::vector<bool> safe) : Kernel({}), safe_(std::move(safe)) {
    spec_.args = {ArraySpec(kInt64, shape)};
    ArraySpec odd(kInt64, {element_count(shape)});
    odd.extents[0].trust = Trust::bound;
    outputs_ = {{"sums", ArraySpec(kInt64, shape), std::nullopt}, {"odd", odd, 0}};
  }
  std::string identity() const override { return "test.neighbour"; }
  Shape preferred_block(const std::vector<Shape>& chunks) const override { return chunks.at(0); }
  std::vector<bool> splittable_axes() const override { return safe_; }
  Box input_box(std::size_t, const Box& block) const override {
    Box wider = block;
    const std::int64_t left = std::min<std::int64_t>(1, block.origin[1]);
    wider.origin[1] -= left, wider.shape[1] += left;
    return wider;
  }
  Shape input_extents(std::size_t, const Shape& block) const override { return {block[0], block[1] + 1}; }
  Shape output_extents(std::size_t k, const Shape& block) const override {
    return k == 0 ? block : Shape{element_count(block)};
  }
  Shape room(std::size_t k, const Shape& block) const override {
    return k == 1 && slab_ > 0 ? Shape{slab_} : output_extents(k, block);
  }
  void hand_over_in_slabs(std::int64_t of) { slab_ = of; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  void run(KernelCall& call) const override {
    const auto in = [&](std::int64_t y, std::int64_t x) {
      const ConstView& view = call.in[0];
      return *reinterpret_cast<const std::int64_t*>(view.data + (y - call.in_box[0].origin[0]) * view.strides[0] +
                                                    (x - call.in_box[0].origin[1]) * view.strides[1]);
    };
    std::int64_t odd = 0;
    for (std::int64_t y = 0; y < call.block.shape[0]; ++y)
      for (std::int64_t x = 0; x < call.block.shape[1]; ++x) {
        const std::int64_t row = call.block.origin[0] + y, column = call.block.origin[1] + x;
        const std::int64_t left = column > 0 ? in(row, column - 1) : 0;
        *reinterpret_cast<std::int64_t*>(call.out[0].data + y * call.out[0].strides[0] + x * call.out[0].strides[1]) =
            in(row, column) + left;
        if (in(row, column) % 2 == 0) continue;
        *reinterpret_cast<std::int64_t*>(call.out[1].data + odd++ * call.out[1].strides[0]) = in(row, column);
        if (call.store && odd == call.out[1].shape[0]) call.store(1, std::exchange(odd, 0));
      }
    call.produced[1][0] = odd;
  }

 private:
  std::vector<bool> safe_;
  std::int64_t slab_ = 0;
};

struct Results {
  std::vector<std::int64_t> sums, odd;
  int calls = 0;
  friend bool operator==(const Results& a, const Results& b) { return a.sums == b.sums && a.odd == b.odd; }
};

Results run(const NeighbourKernel& kernel, const Shape& shape, std::int64_t pieces) {
  std::vector<std::int64_t> input(static_cast<std::size_t>(element_count(shape)));
  std::iota(input.begin(), input.end(), 3);
  Results results;
  results.sums.resize(input.size());
  results.odd.resize(input.size());
  const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  KernelCall call;
  call.block = Box::whole(shape);
  call.in = {make_view(static_cast<const std::byte*>(bytes(input)), kInt64, shape)};
  call.in_box = {Box::whole(shape)};
  call.out = {make_view(bytes(results.sums), kInt64, shape),
              make_view(bytes(results.odd), kInt64, {element_count(shape)})};
  call.produced = {shape, {element_count(shape)}};
  run_in_pieces(kernel, call, pieces, [&](KernelCall& piece) {
    kernel.run(piece);
    ++results.calls;
  });
  results.odd.resize(static_cast<std::size_t>(call.produced[1][0]));
  return results;
}

TEST(Split, PiecesJoinedAreTheUncutResult) {
  const Shape shape{7, 5};
  const NeighbourKernel kernel(shape, {true, false});
  const Results whole = run(kernel, shape, 1);
  EXPECT_EQ(whole.calls, 1);
  EXPECT_EQ(whole.odd.size(), 18u) << "3, 5, ..., 37";
  for (const std::int64_t pieces : {2, 3, 4, 7, 100}) {
    const Results cut = run(kernel, shape, pieces);
    EXPECT_EQ(cut, whole) << pieces;
    EXPECT_EQ(cut.calls, pieces == 100 ? 7 : pieces == 4 ? 4 : pieces);
  }
}

TEST(Split, SlabsOfPiecesFollowEachOther) {
  const Shape shape{7, 5};
  NeighbourKernel kernel(shape, {true, false});
  const std::vector<std::int64_t> whole = run(kernel, shape, 1).odd;
  for (const std::int64_t slab : {1, 2, 4, 100}) {
    kernel.hand_over_in_slabs(slab);
    std::vector<std::int64_t> input(35), sums(35), room(static_cast<std::size_t>(slab)), odd;
    std::iota(input.begin(), input.end(), 3);
    const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
    KernelCall call;
    call.block = Box::whole(shape);
    call.in = {make_view(static_cast<const std::byte*>(bytes(input)), kInt64, shape)};
    call.in_box = {Box::whole(shape)};
    call.out = {make_view(bytes(sums), kInt64, shape), make_view(bytes(room), kInt64, {slab})};
    call.produced = {shape, {slab}};
    call.store = [&](std::size_t, std::int64_t rows) { odd.insert(odd.end(), room.begin(), room.begin() + rows); };
    run_in_pieces(kernel, call, 3, [&](KernelCall& piece) { kernel.run(piece); });
    odd.insert(odd.end(), room.begin(), room.begin() + call.produced[1][0]);
    EXPECT_EQ(odd, whole) << slab;
  }
}

TEST(Split, HalosReachAcrossCuts) {
  const Shape shape{1, 12};
  const NeighbourKernel kernel(shape, {false, true});
  EXPECT_EQ(run(kernel, shape, 5), run(kernel, shape, 1));
}

TEST(Split, NothingIsCutWhereNoAxisIsSafe) {
  const Shape shape{7, 5};
  EXPECT_EQ(run(NeighbourKernel(shape, {false, false}), shape, 4).calls, 1);
  EXPECT_EQ(run(NeighbourKernel(shape, {}), shape, 4).calls, 1);
}

TEST(Split, CutsTheLongestSafeAxisInOrder) {
  const NeighbourKernel kernel({100, 100}, {true, true});
  const std::vector<Box> pieces = split_block(kernel, {{10, 20}, {3, 8}}, 3);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0], (Box{{10, 20}, {3, 3}}));
  EXPECT_EQ(pieces[1], (Box{{10, 23}, {3, 3}}));
  EXPECT_EQ(pieces[2], (Box{{10, 26}, {3, 2}}));
}

}  // namespace
}  // namespace cuboid
