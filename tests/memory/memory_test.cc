// The promise of the whole project, checked by the operating system: a task takes no more than was projected, and where
// the projection is exact it is no more than 1.3 times what the task takes. Every case is planned by the planner, run
// up to the task that is looked at, and that task then runs by itself in a fresh process (memory_probe).
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <variant>

#include "engine/plan/passes.h"
#include "engine/run/protocol.h"
#include "storage/error.h"
#include "tests/engine/run/fake_kernels.h"

namespace cuboid {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;
constexpr std::uint64_t kTolerated = kMiB;       // above the projection
constexpr std::uint64_t kTightFrom = 32 * kMiB;  // from here on projections must be tight
constexpr double kTight = 1.3;

struct Input {
  Shape shape, chunks;
  DType dtype = kFloat64;
};

// An expression over inputs, at two sizes: `scale` 1 is what is measured, 8 (extents divided by it) warms the process
// up.
struct Case {
  std::string name;
  std::vector<Input> inputs;
  std::function<Array(const std::vector<Array>&, std::int64_t scale)> expression;
  Shape output_chunks;
  bool tight = true;
  std::uint64_t budget = 2048 * kMiB;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

Array call(const std::string& function, const std::vector<std::variant<Array, Scalar>>& args, Params params = {},
           std::size_t output = 0) {
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
  return apply(resolve_kernel({&builtin_kernels()}, spec), inputs).at(output);
}

Shape scaled(Shape shape, std::int64_t scale) {
  for (std::int64_t& extent : shape) extent = std::max<std::int64_t>(1, extent / scale);
  return shape;
}

// Random bytes: no codec makes them smaller, so that encoded bounds are reached. Seeded, small exponents for floats.
void write_random(const ZarrArray& zarr) {
  const Grid grid(zarr.shape(), zarr.metadata().chunks);
  std::mt19937_64 random(20240229);
  MemoryAccount account;
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const Box box = grid.box(i);
    const Buffer memory = account.acquire(byte_count(box.shape, zarr.dtype()));
    auto* words = reinterpret_cast<std::uint64_t*>(memory.data());
    const bool doubles = zarr.dtype() == kFloat64;
    for (std::size_t w = 0; w < memory.size() / 8; ++w) {
      words[w] = doubles ? (random() & 0x800fffffffffffffu) | 0x3ff0000000000000u : random();
    }
    zarr.write_chunk(grid.index(i), make_view(memory.data(), zarr.dtype(), box.shape), account);
  }
  zarr.publish();
}

struct Measured {
  std::uint64_t rise = 0, account_peak = 0;
  double seconds = 0;
  std::int64_t heap_violations = 0;
};

Measured probe(const std::string& warm_dir, const std::string& run_dir) {
  const std::string command = std::string(MEMORY_PROBE) + " '" + warm_dir + "' '" + run_dir + "'";
  FILE* output = popen(command.c_str(), "r");
  if (!output) throw std::runtime_error("cannot start " + command);
  Measured measured;
  unsigned long long rise = 0, peak = 0;
  long long violations = 0;
  const int fields = fscanf(output, "%llu %llu %lf %lld", &rise, &peak, &measured.seconds, &violations);
  if (pclose(output) != 0 || fields != 4) throw std::runtime_error("failed: " + command);
  measured.rise = rise, measured.account_peak = peak, measured.heap_violations = violations;
  return measured;
}

void save(const Plan& plan, const std::vector<protocol::Task>& tasks, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "plan.json") << plan_to_json(plan);
  std::ofstream file(folder / "tasks.bin", std::ios::binary);
  for (const protocol::Task& task : tasks) file << protocol::encode(task);
}

// Runs all tasks of a stage here; what it produces of ragged arrays is added to `pieces`.
void run_stage(const Plan& plan, int stage, Pieces& pieces) {
  std::map<int, PieceList> made;
  for (std::int64_t block = 0; block < plan.stages[static_cast<std::size_t>(stage)].grid.size(); ++block) {
    MemoryAccount account;
    TaskMonitor monitor;
    const TaskResult result = run_task(plan, {stage, block, 1, MemoryAccount::kUnlimited, 0}, account, monitor, pieces);
    for (const WrittenChunk& written : result.written) {
      if (written.piece.empty()) continue;
      PieceList& list = made[written.array];
      if (list.offsets.empty()) list.offsets = {0};
      list.pieces.push_back({written.piece, written.extents, written.chunk});
      list.offsets.push_back(list.offsets.back() + written.extents[0]);
    }
  }
  for (auto& [array, list] : made) pieces[array] = std::make_shared<const PieceList>(std::move(list));
}

// Of pieces, those that a stage reads.
Pieces read_by(const Plan& plan, int stage, const Pieces& pieces) {
  Pieces needed;
  for (int input : plan.stages[static_cast<std::size_t>(stage)].inputs)
    if (const auto found = pieces.find(input); found != pieces.end()) needed.insert(*found);
  return needed;
}

// The block that meets most: in the middle, so that it is uncut and has neighbours.
std::int64_t middle_block(const Grid& grid) {
  Shape index = grid.counts();
  for (std::int64_t& at : index) at = (at - 1) / 2;
  return grid.linear(index);
}

class MemoryTest : public ::testing::TestWithParam<Case> {
 protected:
  static Plan plan_of(const Case& of, std::int64_t scale, const std::filesystem::path& folder) {
    std::vector<Array> inputs;
    for (const Input& input : of.inputs) {
      ArrayMetadata metadata;
      metadata.shape = scaled(input.shape, scale);
      metadata.chunks = scaled(input.chunks, scale);
      metadata.dtype = input.dtype;
      metadata.fill.resize(input.dtype.size);
      metadata.codecs = codecs_by_name("blosc-lz4", input.dtype);
      const std::string name = "in" + std::to_string(inputs.size());
      write_random(ZarrArray::prepare(make_file_store((folder / name).string()), "", metadata));
      inputs.push_back(source(ZarrArray::open((folder / name).string()), name));
    }
    PlanRequest request;
    request.options.budget = of.budget;
    request.options.run_dir = (folder / "run").string();
    OutputRequest output{
        of.expression(inputs, scale), (folder / "out").string(), {}, {}, 3, "blosc-lz4", false, "", {}};
    if (!of.output_chunks.empty()) output.chunks = scaled(of.output_chunks, scale);
    request.outputs.push_back(std::move(output));
    return make_plan(request, {&builtin_kernels()});
  }

  static void check(const std::string& what, const Measured& measured, std::uint64_t projected, bool tight) {
    std::printf("%-28s projected %8.2f MiB, measured %8.2f, account %8.2f\n", what.c_str(),
                static_cast<double>(projected) / kMiB, static_cast<double>(measured.rise) / kMiB,
                static_cast<double>(measured.account_peak) / kMiB);
    EXPECT_LE(measured.account_peak, projected);
    EXPECT_LE(measured.rise, projected + kTolerated) << what;
    EXPECT_EQ(measured.heap_violations, 0) << what << ": heap allocations of 64 KiB or more that nothing declares";
    if (tight && projected >= kTightFrom) {
      EXPECT_LE(static_cast<double>(projected), kTight * static_cast<double>(measured.rise)) << what;
    }
  }

  testing::TemporaryFolder folder;
};

TEST_P(MemoryTest, a_task_takes_what_was_projected) {
  const Case& of = GetParam();
  const std::filesystem::path warm_folder = folder.path() / "warm", real_folder = folder.path() / "real";
  const Plan warm = plan_of(of, 8, warm_folder);
  std::vector<protocol::Task> warm_tasks;
  Pieces warm_pieces;
  for (std::size_t stage = 0; stage < warm.stages.size(); ++stage) {
    const int index = static_cast<int>(stage);
    run_stage(warm, index, warm_pieces);
    for (std::int64_t block = 0; block < warm.stages[stage].grid.size(); ++block) {
      warm_tasks.push_back({{index, block, 1, MemoryAccount::kUnlimited, 0}, 0, read_by(warm, index, warm_pieces)});
    }
  }
  save(warm, warm_tasks, warm_folder);

  const Plan plan = plan_of(of, 1, real_folder);
  ASSERT_FALSE(plan.refused.has_value()) << plan.refused->hint;
  Pieces pieces;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const auto run_dir = folder.path() / ("probe" + std::to_string(i));
    const std::uint64_t projected = stage.projection.peak;
    const int index = static_cast<int>(i);
    save(plan, {{{index, middle_block(stage.grid), 1, projected, 0}, 0, read_by(plan, index, pieces)}}, run_dir);
    const Measured measured = probe(warm_folder.string(), run_dir.string());
    check(of.name + ": " + stage.name, measured, projected, of.tight);
    if (i + 1 < plan.stages.size()) run_stage(plan, index, pieces);
  }
}

const Input kSquare{{4096, 2048}, {2048, 1024}};  // four chunks of 16 MiB

std::vector<Case> cases() {
  return {
      {"copy_aligned",
       {kSquare},
       [](const auto& in, std::int64_t scale) {
         return call("rechunk", {in[0]}, {{"chunks", scaled({2048, 1024}, scale)}});
       },
       {2048, 1024}},
      {"copy_unaligned",
       {kSquare},
       [](const auto& in, std::int64_t scale) {
         return call("rechunk", {in[0]}, {{"chunks", scaled({1536, 1280}, scale)}});
       },
       {1536, 1280}},
      {"add",
       {kSquare, kSquare},
       [](const auto& in, std::int64_t) {
         return call("add", {in[0], in[1]});
       },
       {}},
      {"chain",
       {kSquare, kSquare},
       [](const auto& in, std::int64_t) {
         const Array twice = call("multiply", {call("add", {in[0], in[1]}), Scalar{2.0}});
         return call("subtract", {call("negative", {twice}), in[0]});
       },
       {}},
      {"mean_axis_0",
       {kSquare},
       [](const auto& in, std::int64_t) {
         return call("mean", {in[0]}, {{"axis", std::int64_t{0}}});
       },
       {}},
      {"sum_of_all", {kSquare}, [](const auto& in, std::int64_t) { return call("sum", {in[0]}); }, {}},
      {"variance_of_int8",
       {{{8192, 4096}, {4096, 2048}, kInt8}},
       [](const auto& in, std::int64_t) {
         return call("var", {call("astype", {in[0]}, {{"dtype", std::string("float32")}})});
       },
       {}},
      {"small_to_large",
       {{{2048, 2048}, {128, 128}}},
       [](const auto& in, std::int64_t scale) {
         return call("rechunk", {in[0]}, {{"chunks", scaled({1024, 2048}, scale)}});
       },
       {1024, 2048}},
      {"large_to_small",
       {{{2048, 2048}, {1024, 2048}}},
       [](const auto& in, std::int64_t scale) {
         return call("rechunk", {in[0]}, {{"chunks", scaled({128, 128}, scale)}});
       },
       {128, 128}},
      {"rows_to_columns",
       {{{4096, 4096}, {64, 4096}}},
       [](const auto& in, std::int64_t scale) {
         return call("rechunk", {in[0]}, {{"chunks", scaled({4096, 64}, scale)}});
       },
       {4096, 64},
       true,
       160 * kMiB},
      {"stack_of_50",
       {{{2048, 1024}, {2048, 1024}}},
       [](const auto& in, std::int64_t) { return call("stack", std::vector<std::variant<Array, Scalar>>(50, in[0])); },
       {}},
      {"concat_of_computed",
       {kSquare},
       [](const auto& in, std::int64_t) {
         const Array negative = call("negative", {in[0]});
         return call("concat", {negative, in[0], negative}, {{"axis", std::int64_t{1}}});
       },
       {},
       false},  // parts might lie across chunk borders and be read aside: these do not
      {"unstack",
       {{{3, 2048, 1024}, {1, 2048, 1024}}},
       [](const auto& in, std::int64_t) { return call("unstack", {in[0]}); },
       {}},
      // Each block reads the halves of two chunks: a halo of half a chunk.
      {"half_chunk_halo",
       {{{8192, 1024}, {2048, 1024}}},
       [](const auto& in, std::int64_t scale) {
         return call("roll", {in[0]}, {{"shift", std::int64_t{1024 / scale}}, {"axis", std::int64_t{0}}});
       },
       {}},
      {"variance_of_int8_alone",
       {{{8192, 8192}, {4096, 4096}, kInt8}},
       [](const auto& in, std::int64_t) {
         return call("var", {in[0]}, {{"axis", std::int64_t{0}}});
       },
       {}},
      {"merged_axes",
       {{{64, 512, 512}, {16, 512, 512}}},
       [](const auto& in, std::int64_t scale) {
         return call("reshape", {in[0]}, {{"shape", Shape{64 / scale, (512 / scale) * (512 / scale)}}});
       },
       {}},
      {"cumulative_sum",
       {kSquare},
       [](const auto& in, std::int64_t) {
         return call("cumulative_sum", {in[0]}, {{"axis", std::int64_t{0}}});
       },
       {}},
      {"histogram",
       {kSquare},
       [](const auto& in, std::int64_t) {
         return call("histogram", {in[0]}, {{"bins", std::int64_t{1000}}});
       },
       {}},
      // All elements are chosen: the worst case.
      {"nonzero",
       {{{8 << 20}, {2 << 20}, kInt64}},
       [](const auto& in, std::int64_t) { return call("nonzero", {in[0]}); },
       {},
       false},  // pieces might be read aside, too
      {"select",
       {{{8 << 20}, {2 << 20}}},
       [](const auto& in, std::int64_t) {
         return call("select", {in[0], call("less", {in[0], Scalar{2.0}})});
       },
       {},
       false},
      {"unique_all",
       {{{1 << 21}, {1 << 19}}},
       [](const auto& in, std::int64_t) { return call("unique_all", {in[0]}, {}, 2); },
       {},
       false},  // what is sorted compresses well
      {"quantile_of_all",
       {{{1 << 21}, {1 << 19}}},
       [](const auto& in, std::int64_t) {
         return call("quantile", {in[0]}, {{"q", 0.25}});
       },
       {},
       false},
  };
}

INSTANTIATE_TEST_SUITE_P(Each, MemoryTest, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

// Pieces that are put together: one chunk of the result and one piece at a time.
TEST_F(MemoryTest, compacting_takes_a_chunk_and_a_piece) {
  const auto build = [](std::int64_t rows, std::int64_t columns, const std::filesystem::path& at) {
    std::filesystem::create_directories(at);
    const std::int64_t produced = rows - rows / 8;
    const auto producer =
        testing::make_fake_plan({{"fake.short", produced, 0, {4 * rows, columns}, {rows, columns}}}, at);
    PieceList list;
    list.offsets = {0};
    for (std::int64_t block = 0; block < 4; ++block) {
      MemoryAccount account;
      TaskMonitor monitor;
      const TaskResult result = run_task(*producer, {0, block, 1, MemoryAccount::kUnlimited, 0}, account, monitor);
      const WrittenChunk& piece = result.written.at(0);
      list.pieces.push_back({piece.piece, piece.extents, block});
      list.offsets.push_back(list.offsets.back() + produced);
    }
    Plan plan = *producer;
    ArrayMetadata metadata;
    metadata.shape = {4 * produced, columns};
    metadata.chunks = {rows, columns};
    metadata.dtype = kFloat64;
    metadata.fill.resize(8);
    metadata.codecs = codecs_by_name("blosc-lz4", kFloat64);
    PlanArray dense;
    dense.name = "dense";
    dense.role = PlanArray::Role::output;
    dense.spec = ArraySpec(kFloat64, metadata.shape);
    dense.zarr = ZarrArray::prepare(make_file_store((at / "dense").string()), "", metadata);
    plan.arrays.push_back(dense);
    Stage stage;
    stage.name = "compact";
    stage.grid = Grid(metadata.shape, metadata.chunks);
    stage.program = passes::move_program(dense.spec, metadata.chunks, 0, 1, passes::Move::gather);
    stage.projection = project(stage.program, metadata.chunks, passes::PlanIo(plan));
    plan.stages.push_back(stage);
    save(plan, {{{1, 1, 1, stage.projection.peak, 0}, 0, {{0, std::make_shared<const PieceList>(list)}}}}, at);
    return stage.projection.peak;
  };
  build(64, 64, folder.path() / "warm");
  const std::uint64_t projected = build(2048, 1024, folder.path() / "real");
  const Measured measured = probe((folder.path() / "warm").string(), (folder.path() / "real").string());
  check("compact", measured, projected, false);  // what fake.short writes compresses well
}

}  // namespace
}  // namespace cuboid
