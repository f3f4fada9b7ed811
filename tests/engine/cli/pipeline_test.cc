// Pipeline files: what they come to, and where each fault is found.
#include "engine/cli/pipeline.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace cuboid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

// Built-in functions and one of somebody else's, with two outputs.
class PairKernel : public Kernel {
 public:
  explicit PairKernel(KernelSpec spec) : Kernel(std::move(spec)) {
    outputs_ = {{"rows", spec_.inputs()[0], {}}, {"labels", spec_.inputs()[0], {}}};
    if (spec_.max_shape.contains(1)) outputs_[1].spec = ArraySpec(kInt32, spec_.max_shape.at(1));
  }
  std::string identity() const override { return "pair"; }
  Shape preferred_block(const std::vector<Shape>& chunks) const override { return chunks[0]; }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }
  void run(KernelCall&) const override {}
};

class PairResolver : public KernelResolver {
 public:
  std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const override {
    if (spec.function != "test.pair" && spec.function != "test.pair/2") return nullptr;
    if (const auto found = spec.params.find("level");
        found != spec.params.end() && std::holds_alternative<std::string>(found->second))
      throw Error(ErrorKind::invalid, "test.pair: 'level' must be a number");
    return std::make_shared<PairKernel>(spec);
  }
  std::vector<FunctionDoc> functions() const override {
    return {{"test.pair/2",
             "plugin",
             "x -> rows, labels",
             "Two at once.",
             "0",
             {{"level", "float", "a level", ParamValue(1.0)}}}};
  }
};

class TestCatalog : public FunctionCatalog {
 public:
  void add_plugin(const std::string& library) override {
    if (library.find("bad") != std::string::npos) throw Error(ErrorKind::plugin, "is no plugin");
    plugins.push_back(library);
  }
  Resolvers resolvers() const override { return {&builtin_kernels(), &pair_}; }
  std::vector<std::string> plugins;

 private:
  PairResolver pair_;
};

class PipelineFile : public ::testing::Test {
 protected:
  PipelineFile() : folder_(fs::temp_directory_path() / ("cuboid_pipeline_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "image.zarr");
    std::ofstream(folder_ / "image.zarr/zarr.json")
        << R"({"zarr_format": 3, "node_type": "array", "shape": [40, 30, 3], "data_type": "uint8",
               "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 16, 3]}},
               "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
               "codecs": [{"name": "bytes"}], "dimension_names": ["y", "x", "colour"]})";
  }
  ~PipelineFile() override { fs::remove_all(folder_); }

  Pipeline load(const std::string& text, const PipelineOverrides& overrides = {}) {
    std::ofstream(folder_ / "p.yaml") << text;
    return load_pipeline((folder_ / "p.yaml").string(), catalog_, overrides);
  }
  // The message without the folder; "no error" where the file is fine.
  std::string fault(const std::string& text) {
    try {
      load(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid) << error.message();
      std::string message = error.message();
      for (std::size_t at; (at = message.find(folder_.string() + "/")) != std::string::npos;)
        message.erase(at, folder_.string().size() + 1);
      return message;
    }
    return "no error";
  }
  static std::string with_step(const std::string& step) {
    return "arrays: {image: image.zarr}\nsteps:\n  s: " + step + "\nstore: {s: out/s.zarr}\n";
  }
  static std::string with_store(const std::string& store) {
    return "arrays: {image: image.zarr}\nsteps: {s: {call: add, args: [image, 1]}}\nstore:\n  s: " + store + "\n";
  }

  fs::path folder_;
  TestCatalog catalog_;
};

TEST_F(PipelineFile, EveryKeyOfTheContractArrives) {
  const Pipeline pipeline = load(R"(memory: 1GiB
plugins: [build/libsky.so, sky]
arrays:
  image: image.zarr
steps:
  grey: {call: mean, args: [image], params: {axis: 2}}
  pair:
    call: test.pair/2
    args: [grey]
    params: {level: 30}
    max_shape: {labels: [5, 6]}
    extra_memory: 64MiB
    chunks: [8, 8]
    timeout: 1.5s
    isolation: thread
    on_exceed: {action: park, factor: 3, max_task_memory: 512MiB, max_attempts: 2}
  bright: {call: greater, args: [grey, 128]}
  unused: {call: add, args: [grey, [[2.5]]]}
store:
  pair.labels: out/labels.zarr
  bright:
    path: /abs/bright.zarr
    chunks: [20, 10]
    format: 2
    codecs: blosc-zstd
    overwrite: true
  grey: {path: out/grey.zarr, shards: [20, 10], codecs: [{name: bytes}, {name: zstd, configuration: {level: 1, checksum: false}}]}
durable: true
on_exceed: {action: grow, factor: 2.5}
)");
  EXPECT_EQ(pipeline.memory, 1u << 30);
  EXPECT_THAT(catalog_.plugins, ElementsAre((folder_ / "build/libsky.so").string(), "sky"));
  EXPECT_TRUE(pipeline.request.options.durable);
  EXPECT_EQ(pipeline.on_exceed.action, ExceedAction::grow);
  EXPECT_EQ(pipeline.on_exceed.factor, 2.5);
  const auto& outputs = pipeline.request.outputs;
  ASSERT_EQ(outputs.size(), 3u);

  EXPECT_EQ(outputs[0].path, (folder_ / "out/labels.zarr").string());
  EXPECT_EQ(outputs[0].array.output(), 1u);
  EXPECT_EQ(outputs[0].codecs, "blosc-lz4");
  EXPECT_EQ(outputs[0].zarr_format, 3);
  const Node& pair = outputs[0].array.node();
  EXPECT_EQ(pair.name, "pair");
  EXPECT_EQ(pair.kernel->spec().params.at("level"), ParamValue(std::int64_t{30}));
  EXPECT_EQ(pair.kernel->spec().max_shape.at(1), (Shape{5, 6}));
  EXPECT_EQ(pair.kernel->spec().extra_memory, 64u << 20);
  EXPECT_EQ(pair.options.chunks, (Shape{8, 8}));
  EXPECT_EQ(pair.options.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(pair.options.isolation, Isolation::thread);
  EXPECT_EQ(pair.options.on_exceed.action, ExceedAction::park);
  EXPECT_EQ(pair.options.on_exceed.max_task_memory, 512u << 20);
  EXPECT_EQ(pair.options.on_exceed.max_attempts, 2);

  EXPECT_EQ(outputs[1].path, "/abs/bright.zarr");
  EXPECT_EQ(outputs[1].chunks, (Shape{20, 10}));
  EXPECT_EQ(outputs[1].zarr_format, 2);
  EXPECT_EQ(outputs[1].codecs, "blosc-zstd");
  EXPECT_TRUE(outputs[1].overwrite);
  EXPECT_EQ(std::get<Scalar>(outputs[1].array.node().kernel->spec().args[1]), Scalar(std::int64_t{128}));
  EXPECT_EQ(outputs[2].shards, (Shape{20, 10}));
  EXPECT_EQ(outputs[2].codecs, R"([{"name":"bytes"},{"configuration":{"checksum":false,"level":1},"name":"zstd"}])");

  ASSERT_EQ(pipeline.request.unused.size(), 1u);
  const Node& unused = pipeline.request.unused[0].node();
  EXPECT_EQ(unused.name, "unused");
  EXPECT_EQ(unused.inputs[1].spec(), ArraySpec(kFloat64, {1, 1}));
  EXPECT_EQ(pipeline.step_places.at("pair"), (folder_ / "p.yaml").string() + ":7:3");
  EXPECT_EQ(pipeline.output_places.at("/abs/bright.zarr"), (folder_ / "p.yaml").string() + ":22:11");
}

TEST_F(PipelineFile, AxesMayBeGivenByName) {
  const Pipeline pipeline = load(R"(arrays: {image: image.zarr}
steps:
  more: {call: add, args: [1, image]}
  grey: {call: mean, args: [more], params: {axis: colour}}
  row: {call: sum, args: [grey], params: {axis: [x]}}
store: {grey: g.zarr, row: r.zarr}
)");
  EXPECT_EQ(pipeline.request.outputs[0].array.spec().max_shape(), (Shape{40, 30}));
  EXPECT_EQ(pipeline.request.outputs[1].array.spec().max_shape(), Shape{40});
}

TEST_F(PipelineFile, SmallArraysHaveTheTypesNumpyGivesThem) {
  const Pipeline pipeline = load(R"(arrays: {image: image.zarr}
steps:
  a: {call: add, args: [image, [1, 2, 3]]}
  b: {call: logical_or, args: [[true, false], true]}
  c: {call: add, args: [[[1, 2], [3, 4.5]], 0x10]}
store: {a: a.zarr, b: b.zarr, c: c.zarr}
)");
  const auto input = [&](std::size_t k, std::size_t n) {
    return pipeline.request.outputs[k].array.node().inputs[n].spec();
  };
  EXPECT_EQ(input(0, 1), ArraySpec(kInt64, {3}));
  EXPECT_EQ(input(1, 0), ArraySpec(kBool, {2}));
  EXPECT_EQ(input(2, 0), ArraySpec(kFloat64, {2, 2}));
}

TEST_F(PipelineFile, JsonIsAPipelineFileToo) {
  const Pipeline pipeline = load(R"({"arrays": {"image": "image.zarr"},
	"steps": {"s": {"call": "add", "args": ["image", 1]}},
	"store": {"s": "s.zarr"}})");
  EXPECT_EQ(pipeline.request.outputs.size(), 1u);
}

TEST_F(PipelineFile, ChunksCanBeOverriddenForStepsOfThatRank) {
  const Pipeline pipeline = load(R"(arrays: {image: image.zarr}
steps:
  grey: {call: mean, args: [image], params: {axis: 2}}
  more: {call: add, args: [grey, 1], chunks: [16, 16]}
store: {more: m.zarr}
)",
                                 {.chunks = Shape{10, 10}});
  const Node& more = pipeline.request.outputs[0].array.node();
  EXPECT_EQ(more.options.chunks, (Shape{10, 10}));
  EXPECT_FALSE(more.inputs[0].node().options.chunks);
}

struct FaultCase {
  const char* text;
  const char* expected;  // the message begins so
};

TEST_F(PipelineFile, FaultsOfStepsNamePlaceWordAndRemedy) {
  const FaultCase cases[] = {
      {"{cal: add}", "p.yaml:3:7: step 's': unknown key 'cal', did you mean 'call'?"},
      {"{args: [image]}", "p.yaml:3:3: step 's': the key 'call' is missing"},
      {"{call: 5}", "p.yaml:3:13: step 's': call: expected text, got 5"},
      {"[add]", "p.yaml:3:6: step 's': expected a map with the keys call, args,"},
      {"{call: ad, args: [image, 1]}", "p.yaml:3:13: step 's': unknown function 'ad', did you mean 'add'?"},
      {"{call: test.pear, args: [image]}",
       "p.yaml:3:13: step 's': unknown function 'test.pear', did you mean 'test.pair'?"},
      {"{call: test.pair/7, args: [image]}", "p.yaml:3:13: step 's': unknown function 'test.pair/7'"},
      {"{call: zzzzzz, args: [image]}", "p.yaml:3:13: step 's': unknown function 'zzzzzz'; `cuboid functions`"},
      {"{call: add, args: image}", "p.yaml:3:24: step 's': args: expected a list of arrays and numbers, got 'image'"},
      {"{call: add, args: [imag, 1]}",
       "p.yaml:3:25: step 's': no array or step is named 'imag', did you mean 'image'?"},
      {"{call: add, args: [image, ~]}", "p.yaml:3:32: step 's': args: expected the name of an array, a number"},
      {"{call: add, args: [image, {a: 1}]}", "p.yaml:3:32: step 's': args: expected the name of an array"},
      {"{call: add, args: [image, \"1\"]}", "p.yaml:3:32: step 's': no array or step is named '1'"},
      {"{call: add, args: [image, [1, [2]]]}", "p.yaml:3:36: step 's': args: expected a number, got a list"},
      {"{call: add, args: [image, [[1, 2], [3]]]}",
       "p.yaml:3:41: step 's': args: rows of a small array must have one length"},
      {"{call: add, args: [image, [1, true]]}", "p.yaml:3:36: step 's': args: a list holds numbers or true and false"},
      {"{call: add, args: [image, s]}", "p.yaml:3:32: step 's': 's' is not computed before this step"},
      {"{call: mean, args: [image], params: {axes: 2}}",
       "p.yaml:3:43: step 's': unknown parameter 'axes' of mean, did you mean 'axis'?"},
      {"{call: mean, args: [image], params: {axis: 7}}", "p.yaml:3:49: step 's': "},
      {"{call: mean, args: [image], params: {axis: colours}}",
       "p.yaml:3:49: step 's': no axis is named 'colours', did you mean 'colour'?"},
      {"{call: mean, args: [image], params: [2]}", "p.yaml:3:42: step 's': params: expected a map"},
      {"{call: test.pair, args: [image], params: {level: {a: 1}}}",
       "p.yaml:3:55: step 's': level: expected a value or a list, got a map"},
      {"{call: test.pair, args: [image], params: {level: \"1\"}}",
       "p.yaml:3:55: step 's': test.pair: 'level' must be a number"},
      {"{call: add, args: [image, 1], chunks: [8, 8]}", "p.yaml:3:44: step 's': chunks: expected 3 extents"},
      {"{call: add, args: [image, 1], chunks: [8, 0, 3]}",
       "p.yaml:3:44: step 's': chunks: expected integers of at least 1"},
      {"{call: add, args: [image, 1], timeout: 5}",
       "p.yaml:3:45: step 's': timeout: expected a duration such as 500ms"},
      {"{call: add, args: [image, 1], timeout: 5 parsecs}", "p.yaml:3:45: step 's': timeout: expected a duration"},
      {"{call: add, args: [image, 1], isolation: proces}",
       "p.yaml:3:47: step 's': isolation: unknown word 'proces', did you mean 'process'?"},
      {"{call: add, args: [image, 1], extra_memory: 12parsecs}", "p.yaml:3:50: step 's': extra_memory: "},
      {"{call: add, args: [image, 1], on_exceed: {actoin: park}}",
       "p.yaml:3:48: step 's': on_exceed: unknown key 'actoin', did you mean 'action'?"},
      {"{call: add, args: [image, 1], on_exceed: {action: explode}}",
       "p.yaml:3:56: step 's': on_exceed: action: unknown action 'explode'; expected ask, grow, park or fail"},
      {"{call: add, args: [image, 1], on_exceed: {factor: 1}}",
       "p.yaml:3:56: step 's': on_exceed: factor: expected a number above 1, got 1"},
      {"{call: add, args: [image, 1], on_exceed: {max_attempts: 0}}",
       "p.yaml:3:62: step 's': on_exceed: max_attempts: expected an integer from 1"},
      {"{call: test.pair, args: [image], max_shape: [1, 2]}",
       "p.yaml:3:50: step 's': max_shape: expected 3 extents for output 'rows', got 2"},
      {"{call: test.pair, args: [image], max_shape: {label: [1, 2, 3]}}",
       "p.yaml:3:51: step 's': max_shape: unknown output 'label', did you mean 'labels'?"},
      {"{call: add, args: [image, 1], call: add}", "p.yaml:3:36: the key 'call' appears twice"},
  };
  for (const FaultCase& row : cases) EXPECT_THAT(fault(with_step(row.text)), StartsWith(row.expected)) << row.text;
}

TEST_F(PipelineFile, FaultsOfOutputsNamePlaceWordAndRemedy) {
  const FaultCase cases[] = {
      {"5", "p.yaml:4:6: store 's': expected a path, or a map with the key path, got 5"},
      {"{format: 3}", "p.yaml:4:6: store 's': the key 'path' is missing"},
      {"{path: o.zarr, chunk: [1]}", "p.yaml:4:21: store 's': unknown key 'chunk', did you mean 'chunks'?"},
      {"{path: o.zarr, chunks: [1]}", "p.yaml:4:29: store 's': chunks: expected 3 extents, one per axis, got 1"},
      {"{path: o.zarr, format: 4}", "p.yaml:4:29: store 's': format: expected 2 or 3, got 4"},
      {"{path: o.zarr, format: \"3\"}", "p.yaml:4:29: store 's': format: expected 2 or 3, got '3'"},
      {"{path: o.zarr, format: 2, shards: [16, 16, 3]}", "p.yaml:4:40: store 's': shards: Zarr format 2 has none"},
      {"{path: o.zarr, codecs: blosc-lz5}", "p.yaml:4:29: store 's': codecs: "},
      {"{path: o.zarr, overwrite: yes}", "p.yaml:4:32: store 's': overwrite: expected true or false, got 'yes'"},
      {"o.zarr\n  image: o.zarr", "p.yaml:5:10: store 'image': "},
      {"o.zarr\n  t: t.zarr", "p.yaml:5:3: store: no array or step is named 't'"},
      {"o.zarr\n  s.values: t.zarr", "p.yaml:5:3: store: no output 's.values': unknown output 'values'"},
  };
  for (const FaultCase& row : cases) EXPECT_THAT(fault(with_store(row.text)), StartsWith(row.expected)) << row.text;
}

TEST_F(PipelineFile, FaultsOfTheFileNamePlaceWordAndRemedy) {
  const std::string rest =
      "arrays: {image: image.zarr}\nsteps: {s: {call: add, args: [image, 1]}}\nstore: {s: s.zarr}\n";
  const std::pair<std::string, const char*> cases[] = {
      {"memry: 1GiB\n" + rest, "p.yaml:1:1: the pipeline file: unknown key 'memry', did you mean 'memory'?"},
      {"memory: -5\n" + rest, "p.yaml:1:9: memory: expected a size of at least one byte, got -5"},
      {"memory: 12parsecs\n" + rest, "p.yaml:1:9: memory: "},
      {"durable: on\n" + rest, "p.yaml:1:10: durable: expected true or false, got 'on'"},
      {"plugins: libsky.so\n" + rest, "p.yaml:1:10: plugins: expected a list"},
      {"plugins: [libbad.so]\n" + rest, "p.yaml:1:11: plugin 'libbad.so': is no plugin"},
      {"arrays: {image: none.zarr}\nstore: {image: s.zarr}\n", "p.yaml:1:17: array 'image'"},
      {"arrays: {im.age: image.zarr}\nstore: {image: s.zarr}\n", "p.yaml:1:10: array name 'im.age': expected"},
      {"arrays: {a: image.zarr}\nsteps: {a: {call: add, args: [a, 1]}}\nstore: {a: s.zarr}\n",
       "p.yaml:2:9: step 'a': an array of that name"},
      {"arrays: {a: image.zarr}\nsteps: {../x: {call: add, args: [a, 1]}}\nstore: {a: s.zarr}\n",
       "p.yaml:2:9: step name '../x'"},
      {"arrays: {a: image.zarr}\nsteps: [s]\nstore: {a: s.zarr}\n", "p.yaml:2:8: steps: expected a map"},
      {"arrays: {a: image.zarr}\nsteps: {s: {call: add, args: [t, 1]}, t: {call: add, args: [a, 1]}}\nstore: {s: "
       "s.zarr}\n",
       "p.yaml:2:31: step 's': 't' is not computed before this step (it stands in line 2)"},
      {"arrays: {a: image.zarr}\nsteps: {s: {call: test.pair, args: [a]}, t: {call: add, args: [s, 1]}}\nstore: {t: "
       "s.zarr}\n",
       "p.yaml:2:64: step 't': 's' has several outputs; expected s.rows or s.labels"},
      {"arrays: {a: image.zarr}\n", "p.yaml:1:1: the pipeline file: the key 'store' is missing"},
      {"arrays: {a: image.zarr}\nstore: {}\n",
       "p.yaml:2:8: store: expected a map from steps to the paths of their results, got an empty one"},
      {"- a\n", "p.yaml:1:1: the pipeline file: expected a map with the keys memory, plugins,"},
  };
  for (const auto& [text, expected] : cases) EXPECT_THAT(fault(text), StartsWith(expected)) << text;
}

TEST_F(PipelineFile, FaultsThatThePlannerFindsGetTheirPlace) {
  const Pipeline pipeline = load(with_store("out/o.zarr"));
  const std::string path = (folder_ / "out/o.zarr").string();
  EXPECT_THAT(with_place(Error(ErrorKind::invalid, "the output " + path + " exists already"), pipeline).message(),
              HasSubstr("p.yaml:4:6: the output "));
  EXPECT_THAT(with_place(Error(ErrorKind::invalid, "too large", {{"step", "s"}}), pipeline).message(),
              HasSubstr("p.yaml:2:9: step 's': too large"));
  EXPECT_EQ(with_place(Error(ErrorKind::invalid, "else"), pipeline).message(), "else");
}

}  // namespace
}  // namespace cuboid
