// Task programs on bytes: whole plans of small arrays are run task by task, each within exactly its projection, and
// what they stored is compared with numbers worked out here; programs that are wrong are found out.
#include "engine/run/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <variant>

#include "engine/plan/passes.h"
#include "engine/plan/piece.h"
#include "storage/error.h"
#include "tests/engine/run/fake_kernels.h"

namespace cuboid {
namespace {

using ::testing::HasSubstr;

View view_of(std::vector<double>& values, const Shape& shape) {
  return make_view(reinterpret_cast<std::byte*>(values.data()), kFloat64, shape);
}

class TaskTest : public ::testing::Test {
 protected:
  // An array on disk whose element i (in C order) is value(i).
  Array stored(const std::string& name, const Shape& shape, const Shape& chunks,
               const std::function<double(std::int64_t)>& value) {
    ArrayMetadata metadata;
    metadata.shape = shape;
    metadata.chunks = chunks;
    metadata.dtype = kFloat64;
    metadata.fill.resize(8);
    metadata.codecs = codecs_by_name("blosc-lz4", kFloat64);
    const ZarrArray zarr = ZarrArray::prepare(make_file_store((folder.path() / name).string()), "", metadata);
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<std::int64_t>(i));
    const View whole = view_of(values, shape);
    const Grid grid(shape, chunks);
    MemoryAccount account;
    for (std::int64_t i = 0; i < grid.size(); ++i) {
      const Box box = grid.box(i);
      zarr.write_chunk(grid.index(i), whole.sub(box.origin, box.shape), account);
    }
    zarr.publish();
    return source(ZarrArray::open((folder.path() / name).string()), name);
  }

  static Array call(const std::string& function, const std::vector<std::variant<Array, Scalar>>& args,
                    Params params = {}) {
    KernelSpec spec;
    spec.function = function;
    spec.params = std::move(params);
    std::vector<Array> inputs;
    for (const auto& arg : args) {
      if (const auto* array = std::get_if<Array>(&arg)) {
        spec.args.emplace_back(array->spec());
        inputs.push_back(*array);
      } else {
        spec.args.emplace_back(std::get<Scalar>(arg));
      }
    }
    return apply(resolve_kernel({&builtin_kernels()}, spec), inputs)[0];
  }

  Plan plan_for(const Array& array, const Shape& chunks) {
    PlanRequest request;
    request.options.budget = 1u << 30;
    request.options.run_dir = (folder.path() / "run").string();
    OutputRequest output{array, (folder.path() / "out").string(), chunks, {}, 3, "blosc-lz4", false, "", {}};
    request.outputs.push_back(std::move(output));
    return make_plan(request, {&builtin_kernels()});
  }

  // Runs every task within its projection, and returns what the last array holds.
  static std::vector<double> run(const Plan& plan) {
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
      for (std::int64_t block = 0; block < plan.stages[stage].grid.size(); ++block) {
        MemoryAccount account(plan.stages[stage].projection.peak);
        TaskMonitor monitor;
        const TaskResult result =
            run_task(plan, {static_cast<int>(stage), block, 1, account.limit(), 0}, account, monitor);
        EXPECT_LE(result.account_peak, account.limit());
        EXPECT_EQ(account.in_use(), 0u);
      }
    }
    for (const PlanArray& array : plan.arrays)
      if (array.role == PlanArray::Role::output) return read(*array.zarr);
    throw std::runtime_error("the plan has no output");
  }

  static std::vector<double> read(const ZarrArray& zarr) {
    std::vector<double> values(static_cast<std::size_t>(element_count(zarr.shape())));
    MemoryAccount account;
    zarr.read(Box::whole(zarr.shape()), view_of(values, zarr.shape()), account);
    return values;
  }

  testing::TemporaryFolder folder;
};

TEST_F(TaskTest, elements_keep_their_places_through_other_chunks) {
  const Array a = stored("a", {50, 37}, {7, 11}, [](std::int64_t i) { return 3.0 * static_cast<double>(i); });
  const std::vector<double> out =
      run(plan_for(call("rechunk", {a}, {{"chunks", std::vector<std::int64_t>{9, 37}}}), {9, 37}));
  ASSERT_EQ(out.size(), 50u * 37);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 3.0 * static_cast<double>(i)) << i;
}

TEST_F(TaskTest, a_chain_of_steps_over_two_inputs_of_other_chunks) {
  const Array a = stored("a", {20, 30}, {6, 10}, [](std::int64_t i) { return static_cast<double>(i); });
  const Array b = stored("b", {20, 30}, {5, 7}, [](std::int64_t i) { return 0.5 * static_cast<double>(i); });
  const Array sum = call("add", {a, b});
  const std::vector<double> out = run(plan_for(call("multiply", {sum, Scalar{2.0}}), {6, 10}));
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 3.0 * static_cast<double>(i)) << i;
}

TEST_F(TaskTest, an_array_with_itself_is_read_once) {
  const Array a = stored("a", {8, 8}, {4, 4}, [](std::int64_t i) { return static_cast<double>(i); });
  const std::vector<double> out = run(plan_for(call("multiply", {a, a}), {4, 4}));
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<double>(i * i));
}

TEST_F(TaskTest, a_reduction_of_an_axis_streams_its_blocks) {
  constexpr std::int64_t kRows = 200, kColumns = 45;
  const Array a = stored("a", {kRows, kColumns}, {9, 8}, [](std::int64_t i) { return static_cast<double>(i % 101); });
  const std::vector<double> out = run(plan_for(call("sum", {a}, {{"axis", std::int64_t{0}}}), {45}));
  ASSERT_EQ(out.size(), static_cast<std::size_t>(kColumns));
  for (std::int64_t column = 0; column < kColumns; ++column) {
    double sum = 0;
    for (std::int64_t row = 0; row < kRows; ++row) sum += static_cast<double>((row * kColumns + column) % 101);
    EXPECT_EQ(out[static_cast<std::size_t>(column)], sum) << column;
  }
}

TEST_F(TaskTest, a_reduction_of_everything_goes_through_partial_results) {
  const Array a = stored("a", {300, 200}, {7, 9}, [](std::int64_t i) { return static_cast<double>(i); });
  const Plan plan = plan_for(call("mean", {a}), {});
  EXPECT_GE(plan.stages.size(), 2u);
  const std::vector<double> out = run(plan);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0], (300.0 * 200 - 1) / 2);
}

TEST_F(TaskTest, a_scalar_is_an_array_too) {
  const Array scalar = stored("s", {}, {}, [](std::int64_t) { return 4.0; });
  EXPECT_EQ(run(plan_for(call("add", {scalar, scalar}), {})), std::vector<double>{8.0});
}

// --- pieces: produced by blocks, put together by a compact stage

class PieceTest : public TaskTest {
 protected:
  // Blocks of a (9, 4) bound, three rows each, of which `rows` are produced.
  PieceList produce(std::int64_t rows, int attempt = 1) {
    plan_ = testing::make_fake_plan({{"fake.short", rows, 0, {9, 4}, {3, 4}}}, folder.path());
    PieceList list;
    list.offsets = {0};
    for (std::int64_t block = 0; block < 3; ++block) {
      MemoryAccount account;
      TaskMonitor monitor;
      const TaskResult result = run_task(*plan_, {0, block, attempt, 1u << 20, 0}, account, monitor);
      EXPECT_EQ(result.written.size(), 1u);
      const WrittenChunk& piece = result.written.at(0);
      EXPECT_EQ(piece.chunk, block);
      EXPECT_EQ(piece.extents, (Shape{rows, 4}));
      EXPECT_EQ(piece.written.bytes == 0, rows == 0);
      list.pieces.push_back({piece.piece, piece.extents, block});
      list.offsets.push_back(list.offsets.back() + rows);
    }
    return list;
  }

  static std::shared_ptr<const PieceList> shared(PieceList list) {
    return std::make_shared<const PieceList>(std::move(list));
  }

  // A compact stage that writes `chunk` rows a task.
  Plan compact(const PieceList& list, std::int64_t chunk) const {
    Plan plan = *plan_;
    const Shape shape{list.offsets.back(), 4};
    ArrayMetadata metadata;
    metadata.shape = shape;
    metadata.chunks = {chunk, 4};
    metadata.dtype = kFloat64;
    metadata.fill.resize(8);
    metadata.codecs = codecs_by_name("none", kFloat64);
    PlanArray dense;
    dense.name = "dense";
    dense.role = PlanArray::Role::output;
    dense.spec = ArraySpec(kFloat64, shape);
    dense.zarr = ZarrArray::prepare(make_file_store((folder.path() / "dense").string()), "", metadata);
    plan.arrays.push_back(dense);
    Stage stage;
    stage.name = "compact";
    stage.grid = Grid(shape, {chunk, 4});
    stage.program = passes::move_program(dense.spec, {chunk, 4}, 0, 1, passes::Move::gather);
    plan.stages.push_back(stage);
    return plan;
  }

  std::shared_ptr<const Plan> plan_;
};

TEST_F(PieceTest, pieces_become_dense_chunks_whatever_the_borders) {
  const PieceList list = produce(2);
  for (std::int64_t chunk : {1, 2, 4, 5, 6, 100}) {
    const Plan plan = compact(list, std::min<std::int64_t>(chunk, 6));
    std::filesystem::remove_all(folder.path() / "dense");
    for (std::int64_t block = 0; block < plan.stages[1].grid.size(); ++block) {
      MemoryAccount account;
      TaskMonitor monitor;
      run_task(plan, {1, block, 1, 1u << 20, 0}, account, monitor, {{0, shared(list)}});
    }
    const std::vector<double> rows = read(*plan.arrays[1].zarr);
    ASSERT_EQ(rows.size(), 24u);
    // fake.short fills row r of the block that begins at row o with r + 10 o.
    const double expected[] = {0, 1, 30, 31, 60, 61};
    for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], expected[i / 4]) << "chunk " << chunk << ", " << i;
  }
}

TEST_F(PieceTest, only_the_pieces_that_a_block_meets_are_needed) {
  const PieceList list = produce(2);
  PieceList part;  // of the second block of two chunks: rows 3 to 5
  part.pieces = {list.pieces[1], list.pieces[2]};
  part.offsets = {2, 4, 6};
  const Plan plan = compact(list, 3);
  MemoryAccount account;
  TaskMonitor monitor;
  run_task(plan, {1, 1, 1, 1u << 20, 0}, account, monitor, {{0, shared(part)}});
  EXPECT_THROW(run_task(plan, {1, 0, 1, 1u << 20, 0}, account, monitor, {{0, shared(part)}}), Error);
}

TEST_F(PieceTest, every_attempt_has_a_name_of_its_own_and_an_empty_piece_stores_nothing) {
  const PieceList first = produce(2, 1), second = produce(2, 2);
  EXPECT_NE(first.pieces[0].key, second.pieces[0].key);
  const PieceList empty = produce(0, 3);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out0" / empty.pieces[0].key));
}

TEST_F(PieceTest, a_damaged_piece_is_never_used) {
  const PieceList list = produce(2);
  std::fstream file(folder.path() / "out0" / list.pieces[1].key, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.is_open());
  file.seekp(20);
  file.put('\x55');
  file.close();
  const Plan plan = compact(list, 6);
  MemoryAccount account;
  TaskMonitor monitor;
  try {
    run_task(plan, {1, 0, 1, 1u << 20, 0}, account, monitor, {{0, shared(list)}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  }
}

TEST_F(PieceTest, a_piece_that_is_short_along_an_inner_axis_is_packed) {
  plan_ = testing::make_fake_plan({{"fake.narrow", 2, 0, {3, 8}, {3, 4}}}, folder.path());
  MemoryAccount account;
  TaskMonitor monitor;
  const TaskResult result = run_task(*plan_, {0, 1, 1, 1u << 20, 0}, account, monitor);
  ASSERT_EQ(result.written.at(0).extents, (Shape{3, 2}));
  std::vector<double> values(6);
  read_piece(*make_file_store((folder.path() / "out0").string()), result.written[0].piece, view_of(values, {3, 2}),
             account);
  // fake.narrow fills element (r, c) of the block that begins at column o with 100 r + c + o.
  EXPECT_THAT(values, ::testing::ElementsAre(4, 5, 104, 105, 204, 205));
}

// --- programs and orders that are wrong

class WrongTest : public TaskTest {
 protected:
  WrongTest() : plan(*testing::make_fake_plan({{"fake.fill"}}, folder.path())) {}
  std::string message(std::int64_t block = 0, int stage = 0) {
    try {
      MemoryAccount account;
      TaskMonitor monitor;
      run_task(plan, {stage, block, 1, 1u << 20, 0}, account, monitor);
    } catch (const Error& error) {
      return error.message();
    }
    return "nothing was thrown";
  }
  TaskProgram& program() { return plan.stages[0].program; }
  Plan plan;
};

TEST_F(WrongTest, blocks_and_stages_that_are_not_there) {
  EXPECT_EQ(message(), "nothing was thrown");
  EXPECT_THAT(message(4), HasSubstr("has no block 4"));
  EXPECT_THAT(message(-1), HasSubstr("has no block -1"));
  EXPECT_THAT(message(0, 1), HasSubstr("no stage 1"));
}

TEST_F(WrongTest, a_buffer_larger_than_declared) {
  program().buffers[0].extents = {2, 2};
  EXPECT_THAT(message(), HasSubstr("(2, 3) at (0, 0) where the program declares (2, 2)"));
}

TEST_F(WrongTest, a_chunk_that_the_task_holds_only_in_part) {
  plan.stages[0].grid = Grid({4, 6}, {2, 2});
  EXPECT_THAT(message(), HasSubstr("only in part"));
}

TEST_F(WrongTest, steps_in_no_order) {
  std::swap(program().steps[0], program().steps[1]);
  EXPECT_THAT(message(), HasSubstr("before it is acquired"));
  program().steps = {{Step::What::loop_begin, -1, -1, -1, Phase::map, {}, {}}};
  EXPECT_THAT(message(), HasSubstr("no end"));
}

TEST_F(WrongTest, a_function_that_produces_less_than_it_must) {
  plan = *testing::make_fake_plan({{"fake.less"}}, folder.path());
  EXPECT_THAT(message(), HasSubstr("function fake.less produced (1, 3)"));
}

TEST_F(WrongTest, cancelled_tasks_stop_before_their_next_step) {
  struct Cancelled : TaskMonitor {
    bool cancelled() const override { return true; }
  } monitor;
  MemoryAccount account;
  try {
    run_task(plan, {0, 0, 1, 1u << 20, 0}, account, monitor);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
}

}  // namespace
}  // namespace cuboid
