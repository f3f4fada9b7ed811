// Plans of expressions over arrays in memory: built-in kernels, and fakes for functions of somebody else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/plan/memory_model.h"
#include "engine/plan/places.h"
#include "engine/plan/plan.h"
#include "fake_kernel.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t MiB = 1u << 20;

Array input(const std::string& name, const Shape& shape, const Shape& chunks, DType dtype = kFloat64) {
  ArrayMetadata metadata;
  metadata.shape = shape;
  metadata.chunks = chunks;
  metadata.dtype = dtype;
  metadata.fill.assign(dtype.size, std::byte{0});
  metadata.codecs = codecs_by_name("none", dtype);
  return source(ZarrArray::prepare(make_memory_store(), name, std::move(metadata)), name);
}

Array call(const std::string& function, std::vector<Array> inputs, Params params = {}, std::string name = "",
           StepOptions options = {}) {
  KernelSpec spec{function, {}, std::move(params), {}, {}};
  for (const Array& array : inputs) spec.args.emplace_back(array.spec());
  return apply(resolve_kernel({&builtin_kernels()}, spec), std::move(inputs), std::move(name), std::move(options))[0];
}

// Knows the fakes it was given, by function name.
class FakeResolver final : public KernelResolver {
 public:
  std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const override {
    for (const auto& kernel : kernels)
      if (kernel->spec().function == spec.function) return kernel;
    return nullptr;
  }
  std::vector<FunctionDoc> functions() const override { return {}; }
  std::vector<std::shared_ptr<FakeKernel>> kernels;
};

class Planner : public ::testing::Test {
 protected:
  Planner() {
    folder_ = std::filesystem::temp_directory_path() / ("cuboid_plan_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    request_.options = {1024 * MiB, 2, (folder_ / "run").string(), false, false, {}};
  }
  ~Planner() override { std::filesystem::remove_all(folder_); }

  OutputRequest& store(const Array& array, const std::string& name) {
    return request_.outputs.emplace_back(
        OutputRequest{array, (folder_ / name).string(), {}, {}, 3, "blosc-lz4", false, "", {}});
  }
  Plan plan(const Facts& facts = {}) const { return make_plan(request_, resolvers_, facts); }
  Array foreign(const std::string& name, const Array& array, std::shared_ptr<FakeKernel> kernel) {
    fakes_.kernels.push_back(kernel);
    return apply(kernel, {array}, name)[0];
  }
  static std::vector<std::string> names(const Plan& plan) {
    std::vector<std::string> out;
    for (const Stage& stage : plan.stages) out.push_back(stage.name);
    return out;
  }

  std::filesystem::path folder_;
  PlanRequest request_;
  FakeResolver fakes_;
  Resolvers resolvers_{&builtin_kernels(), &fakes_};
};

TEST_F(Planner, ComputesElementwiseChainsInOneStage) {
  const Array a = input("a", {100, 80}, {10, 80}), b = input("b", {100, 80}, {10, 80});
  store(call("multiply", {call("add", {a, b}, {}, "sum"), b}, {}, "product"), "out.zarr");
  const Plan p = plan();
  ASSERT_THAT(names(p), ElementsAre("product"));
  EXPECT_THAT(p.stages[0].steps, ElementsAre("sum", "product"));
  EXPECT_EQ(p.stages[0].numbers.tasks, 10);
  EXPECT_EQ(p.stages[0].confidence, Confidence::exact);
  EXPECT_EQ(p.stages[0].numbers.bytes_read, 3u * 100 * 80 * 8);  // a, b for the sum, and b for the product
  EXPECT_EQ(p.stages[0].numbers.bytes_written, 100u * 80 * 8);
}

TEST_F(Planner, ReadsAnOperandThatStandsTwiceOnce) {
  const Array a = input("a", {100, 80}, {10, 80});
  store(call("multiply", {a, a}), "out.zarr");
  EXPECT_EQ(plan().stages[0].numbers.bytes_read, 100u * 80 * 8);
}

TEST_F(Planner, StoresWhatSeveralStepsNeed) {
  const Array a = input("a", {100}, {10});
  const Array shared = call("negative", {a}, {}, "shared");
  store(call("add", {shared, a}, {}, "left"), "left.zarr");
  store(call("subtract", {shared, a}, {}, "right"), "right.zarr");
  EXPECT_THAT(names(plan()), ElementsAre("shared", "left", "right"));
}

TEST_F(Planner, InlinesUnderAHaloOnlyWhereLittleIsComputedTwice) {
  for (const auto& [halo, stages] : {std::pair{1, 1u}, std::pair{5, 2u}}) {
    request_.outputs.clear();
    const Array a = input("a", {1000}, {20});
    auto kernel = std::make_shared<FakeKernel>("halo" + std::to_string(halo), Shape{1000}, 1);
    kernel->halo = halo;
    kernel->is_foreign = true;
    store(foreign("smooth", call("negative", {a}, {}, "before"), kernel), "out.zarr");
    EXPECT_EQ(plan().stages.size(), stages) << "halo " << halo;
  }
}

// 16 x 16 chunks of 8 KiB and a halo of one element: each block alone decodes nine chunks, of which three differ in
// columns alone; the rows above and below need not be decoded whole.
TEST_F(Planner, CoversSeveralChunksWithATaskSoThatHalosAreDecodedLessOften) {
  const auto blocks = [this](std::vector<bool> splittable, std::uint64_t budget, int workers,
                             StepOptions options = {}) {
    request_.outputs.clear();
    request_.options.budget = budget, request_.options.workers = workers;
    fakes_.kernels.clear();
    const Array a = input("a", {512, 512}, {32, 32});
    auto kernel = std::make_shared<FakeKernel>("demo.smooth", Shape{512, 512}, 1);
    kernel->halo = 1;
    kernel->is_foreign = true;
    kernel->splittable = std::move(splittable);
    fakes_.kernels.push_back(kernel);
    store(apply(kernel, {a}, "smooth", std::move(options))[0], "out.zarr");
    const Plan p = plan();
    EXPECT_FALSE(p.refused);
    EXPECT_EQ(p.arrays.back().chunks, Shape({32, 32})) << "chunks do not follow the tasks";
    return p.stages.at(0).grid.block();
  };
  EXPECT_EQ(blocks({true, true}, 1024 * MiB, 2), Shape({32, 256})) << "18/16 times along rows, 1.06 along columns";
  EXPECT_EQ(blocks({true, false}, 1024 * MiB, 2), Shape({32, 32})) << "columns may not be joined, rows save nothing";
  EXPECT_EQ(blocks({}, 1024 * MiB, 2), Shape({32, 32})) << "results might change";
  EXPECT_EQ(blocks({true, true}, 1024 * MiB, 32), Shape({32, 64})) << "at least four tasks a worker";
  StepOptions chosen;
  chosen.chunks = Shape{32, 32};
  EXPECT_EQ(blocks({true, true}, 1024 * MiB, 2, chosen), Shape({32, 32})) << "the user's word";
  // A run that goes on keeps its blocks, whatever it may use now.
  request_.earlier = std::make_shared<Plan>(plan());
  EXPECT_EQ(blocks({true, true}, 1024 * MiB, 32), request_.earlier->stages[0].grid.block());
}

TEST_F(Planner, DoesNotWidenTasksThatRestOnAnEstimate) {
  const Array a = input("a", {512, 512}, {32, 32});
  auto kernel = std::make_shared<FakeKernel>("demo.smooth", Shape{512, 512}, 1);
  kernel->halo = 1;
  kernel->splittable = {true, true};
  kernel->call.uncertain = 1 * MiB;
  store(foreign("smooth", a, kernel), "out.zarr");
  EXPECT_EQ(plan().stages.at(0).grid.block(), Shape({32, 32}));
}

TEST_F(Planner, PutsPiecesTogetherUnderABoundUntilFactsArrive) {
  const Array a = input("a", {100, 100}, {50, 50});
  auto kernel = std::make_shared<FakeKernel>("demo.find", Shape{100, 100}, 1);
  kernel->is_foreign = true;
  kernel->make_ragged(500, 6, Trust::bound);
  const Array found = foreign("found", a, kernel);
  store(found, "found.zarr");
  const Plan p = plan();
  ASSERT_THAT(names(p), ElementsAre("found", "found.compact"));
  EXPECT_EQ(p.stages[0].confidence, Confidence::bounded);
  EXPECT_TRUE(p.stages[0].isolated);
  EXPECT_FALSE(p.stages[1].isolated);
  const nlohmann::json report = plan_report(p);
  EXPECT_EQ(report["stages"][1]["outputs"][0]["shape"], nlohmann::json({{{"max", 2000}}, 6}));  // four blocks of 500
  EXPECT_EQ(report["stages"][1]["outputs"][0]["chunks"], nlohmann::json({500, 6}));
  EXPECT_EQ(p.stages[1].numbers.tasks, 4);

  Facts facts;
  facts.shapes["found"] = {501, 6};
  const Plan known = plan(facts);
  EXPECT_EQ(plan_report(known)["stages"][1]["outputs"][0]["shape"], nlohmann::json({501, 6}));
  EXPECT_EQ(known.stages[1].numbers.tasks, 2);
  EXPECT_EQ(known.stages[1].outputs.size(), 1u);
  EXPECT_EQ(known.arrays[known.stages[1].outputs[0]].chunks, (Shape{500, 6}));
}

TEST_F(Planner, CallsAGuessUnsafeAndWhatFollowsApproximate) {
  const Array a = input("a", {100, 100}, {50, 50});
  auto kernel = std::make_shared<FakeKernel>("demo.guess", Shape{100, 100}, 1);
  kernel->is_foreign = true;
  kernel->make_ragged(500, 6, Trust::guess);
  store(call("negative", {foreign("found", a, kernel)}, {}, "after"), "after.zarr");
  const Plan p = plan();
  EXPECT_EQ(p.stages[0].confidence, Confidence::unsafe);
  EXPECT_TRUE(p.stages.back().approximate);
}

TEST_F(Planner, UncertainBytesMakeAStageUnsafe) {
  auto kernel = std::make_shared<FakeKernel>("demo.hungry", Shape{100}, 1);
  kernel->is_foreign = true;
  kernel->call.uncertain = 3 * MiB;
  store(foreign("hungry", input("a", {100}, {10}), kernel), "out.zarr");
  const Plan p = plan();
  EXPECT_EQ(p.stages[0].confidence, Confidence::unsafe);
  EXPECT_EQ(p.stages[0].projection.uncertain, 3 * MiB);
  EXPECT_GE(p.stages[0].numbers.projected, 3 * MiB);
}

TEST_F(Planner, UnknownBytesTakeTheWholeCapAlone) {
  auto kernel = std::make_shared<FakeKernel>("demo.unknown", Shape{100}, 1);
  kernel->is_foreign = true;
  kernel->call.unknown = true;
  store(foreign("who_knows", input("a", {100}, {10}), kernel), "out.zarr");
  const Plan p = plan();
  EXPECT_EQ(p.stages[0].numbers.concurrency, 1);
  EXPECT_EQ(smallest_budget({}, p.stages[0].numbers.projected, true), 1024 * MiB);
}

TEST_F(Planner, ReducesAsATreeOverTheBlockGrid) {
  const Array a = input("a", {800, 800}, {100, 100});
  store(call("mean", {a}, {}, "m"), "m.zarr");
  const Plan p = plan();
  ASSERT_THAT(names(p), ElementsAre("m.partial", "m"));
  EXPECT_EQ(p.stages[0].numbers.tasks, 32);
  EXPECT_EQ(p.stages[1].numbers.tasks, 1);
  EXPECT_EQ(p.stages[0].numbers.bytes_read, 800u * 800 * 8);
  EXPECT_EQ(p.arrays[p.stages[1].outputs[0]].spec.max_shape(), Shape{});
}

TEST_F(Planner, ReducesWithinABlockInOneStage) {
  const Array image = input("image", {872, 1000, 3}, {256, 256, 3}, kUint8);
  store(call("mean", {image}, {{"axis", std::int64_t{2}}}, "grey"), "grey.zarr");
  const Plan p = plan();
  ASSERT_THAT(names(p), ElementsAre("grey"));
  EXPECT_EQ(p.stages[0].numbers.tasks, 16);
  EXPECT_EQ(p.arrays[p.stages[0].outputs[0]].chunks, (Shape{256, 256}));
}

TEST_F(Planner, TakesChunksOfAReductionForItsDomainOrItsResult) {
  const Array image = input("image", {872, 1000, 3}, {256, 256, 3}, kUint8);
  for (const Shape& chunks : {Shape{100, 333}, Shape{100, 333, 3}}) {
    request_.outputs.clear();
    StepOptions options;
    options.chunks = chunks;
    store(call("mean", {image}, {{"axis", std::int64_t{2}}}, "grey", options), "grey.zarr");
    EXPECT_EQ(plan().stages[0].grid.block(), (Shape{100, 333, 3}));
  }
  StepOptions options;
  options.chunks = Shape{100};
  request_.outputs.clear();
  store(call("mean", {image}, {{"axis", std::int64_t{2}}}, "grey", options), "grey.zarr");
  EXPECT_THAT([&] { plan(); }, ::testing::ThrowsMessage<Error>(HasSubstr("do not suit mean")));
}

TEST_F(Planner, WritesOutputsDirectlyWhereBlocksHoldTheirChunks) {
  const Array a = input("a", {100, 100}, {50, 50});
  store(call("negative", {a}, {}, "n"), "fits.zarr").chunks = Shape{25, 10};
  EXPECT_THAT(names(plan()), ElementsAre("n"));
  request_.outputs[0].chunks = Shape{30, 30};
  EXPECT_THAT(names(plan()), ElementsAre("n", "n.rechunk"));
}

TEST_F(Planner, RefusesWhatCannotFitAndNamesAChunkShapeThatDoes) {
  request_.options.budget = 64 * MiB;
  const Array a = input("a", {20000, 20000}, {5000, 4000});
  StepOptions options;
  store(call("negative", {a}, {}, "n"), "out.zarr");
  const Plan p = plan();
  ASSERT_TRUE(p.refused);
  EXPECT_EQ(p.refused->resource, "memory");
  EXPECT_EQ(p.refused->stage, "n");
  EXPECT_GT(p.refused->projected, 64 * MiB);
  EXPECT_THAT(p.refused->hint, HasSubstr("run with --memory"));
  // The budget that it names is enough, and so would no less be.
  const std::string hint = p.refused->hint;
  request_.options.budget = parse_size(hint.substr(hint.rfind(' ') + 1));
  EXPECT_FALSE(plan().refused);
  request_.options.budget -= MiB;
  EXPECT_TRUE(plan().refused);
}

TEST_F(Planner, RefusesAnOutputThatExists) {
  store(call("negative", {input("a", {10}, {5})}), "there.zarr");
  std::filesystem::create_directories(folder_ / "there.zarr");
  std::ofstream(folder_ / "there.zarr" / "zarr.json") << "{}";
  EXPECT_THAT([&] { plan(); }, ::testing::ThrowsMessage<Error>(HasSubstr("exists already")));
  request_.options.own_outputs = {(folder_ / "x" / ".." / "there.zarr").string()};
  EXPECT_FALSE(plan().refused);
  request_.options.own_outputs.clear();
  request_.outputs[0].overwrite = true;
  EXPECT_FALSE(plan().refused);
}

TEST_F(Planner, RefusesTwoOutputsInOnePlace) {
  const Array a = input("a", {10}, {5});
  store(call("negative", {a}, {}, "n"), "x.zarr");
  store(call("positive", {a}, {}, "m"), "x.zarr/inner");
  EXPECT_THAT([&] { plan(); }, ::testing::ThrowsMessage<Error>(HasSubstr("one place")));
}

TEST(Place, IsOneSpellingWhetherOrNotItIsThere) {
  namespace fs = std::filesystem;
  const fs::path here = fs::canonical(fs::current_path());
  const std::string expected = (here / "missing/x").string();
  for (const char* spelling :
       {"missing/x", "./missing/x", "missing/../missing/x/", "./missing/./x", "gone/../missing//x"})
    EXPECT_EQ(place(spelling), expected) << spelling;
  EXPECT_EQ(place(expected), expected);
  EXPECT_EQ(place("s3://bucket/a"), "s3://bucket/a");
  const fs::path folder = fs::path(::testing::TempDir()) / "place";
  fs::remove_all(folder);
  fs::create_directories(folder / "real");
  fs::create_directory_symlink("real", folder / "link");
  EXPECT_EQ(place((folder / "gone/../link/x").string()), (fs::canonical(folder) / "real/x").string());
}

TEST_F(Planner, SavesPlansWithoutLoss) {
  const Array a = input("a", {100, 100}, {30, 50});
  auto kernel = std::make_shared<FakeKernel>("demo.find", Shape{100, 100}, 1);
  kernel->is_foreign = true;
  kernel->make_ragged(500, 6, Trust::bound);
  const Array sum =
      call("add", {a, call("mean", {a}, {{"axis", std::int64_t{0}}, {"keepdims", true}}, "m")}, {}, "sum");
  store(sum, "sum.zarr").chunks = Shape{7, 7};
  store(foreign("found", sum, kernel), "found.zarr");
  const Plan p = plan();
  const nlohmann::json saved = plan_to_json(p);
  EXPECT_EQ(nlohmann::json::diff(saved, plan_to_json(plan_from_json(saved, resolvers_))).dump(), "[]");
  EXPECT_EQ(nlohmann::json::diff(plan_report(p), plan_report(plan_from_json(saved, resolvers_))).dump(), "[]");
}

TEST_F(Planner, CostsNoMoreForAMillionChunks) {
  const auto size_for = [&](std::int64_t extent) {
    request_.outputs.clear();
    store(call("mean", {call("add", {input("a", {extent}, {1000}), input("b", {extent}, {1000})}, {}, "s")}, {}, "m"),
          "m.zarr");
    return plan_to_json(plan()).dump().size();
  };
  const std::size_t few = size_for(10'000);
  EXPECT_LT(size_for(1'000'000'000), few * 3);  // a level more in the tree, and longer numbers
}

// What the plan answers without looking at every task equals what looking at every task gives.
TEST_F(Planner, AgreesWithItsTasksOneByOne) {
  const Array a = input("a", {103, 57}, {10, 9}), b = input("b", {57}, {20});
  const Array sum = call("add", {a, b}, {}, "sum");
  store(sum, "sum.zarr");
  store(call("mean", {sum}, {{"axis", std::int64_t{0}}}, "m"), "m.zarr");
  store(sum, "other.zarr").chunks = Shape{11, 13};
  const Plan p = plan();
  for (const Stage& stage : p.stages) {
    std::uint64_t read = 0, written = 0;
    for (std::int64_t block = 0; block < stage.grid.size(); ++block) {
      for (const TaskBox& r : task_reads(p, stage, block)) {
        read += byte_count(r.box.shape, p.arrays[r.array].spec.dtype);
        if (p.arrays[r.array].producer < 0) continue;
        const Stage& producer = p.stages[p.arrays[r.array].producer];
        std::vector<std::int64_t> expected;
        for (std::int64_t other = 0; other < producer.grid.size(); ++other)
          for (const TaskBox& w : task_writes(p, producer, other))
            if (w.array == r.array && !intersect(w.box, r.box).empty()) expected.push_back(other);
        EXPECT_EQ(producing_blocks(p, r.array, r.box), expected) << stage.name << " block " << block;
      }
      for (const TaskBox& w : task_writes(p, stage, block))
        written += byte_count(w.box.shape, p.arrays[w.array].spec.dtype);
    }
    EXPECT_EQ(stage.numbers.bytes_read, read) << stage.name;
    EXPECT_EQ(stage.numbers.bytes_written, written) << stage.name;
  }
}

}  // namespace
}  // namespace cuboid
