#include "tests/engine/run/fake_kernels.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/plan/task_program.h"
#include "storage/error.h"

namespace cuboid::testing {
namespace {

constexpr std::size_t kStep = 1u << 20;

std::int64_t integer(const KernelSpec& spec, const std::string& name) {
  const auto found = spec.params.find(name);
  return found == spec.params.end() ? 0 : std::get<std::int64_t>(found->second);
}

// On the worker's socket, as a plugin may that closes descriptors and takes what comes for its own.
void speak_rubbish() {
  const char frame[] = {1, 0, 0, 0, 99};
  if (write(3, frame, sizeof frame) != sizeof frame) std::abort();
  std::this_thread::sleep_for(std::chrono::minutes(1));
}

void leave_a_copy_and_die() {
  if (fork() == 0) {
    alarm(60);
    for (;;) pause();
  }
  std::abort();
}

class FakeKernel final : public Kernel {
 public:
  explicit FakeKernel(KernelSpec spec) : Kernel(std::move(spec)), n_(integer(spec_, "n")) {
    name_ = spec_.function.substr(5);
    OutputSpec output{"0", ArraySpec(kFloat64, std::get<std::vector<std::int64_t>>(spec_.params.at("shape"))), {}};
    if (name_ == "short") output.ragged_axis = 0;
    if (name_ == "narrow") output.ragged_axis = 1;
    outputs_ = {output};
  }
  std::string identity() const override { return spec_.function; }
  bool foreign() const override { return name_ != "fill" && name_ != "known"; }
  Shape preferred_block(const std::vector<Shape>&) const override { return domain(); }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  CallMemory memory(Phase, const Shape&) const override {
    CallMemory memory;
    const auto declared = static_cast<std::uint64_t>(integer(spec_, "declared"));
    (name_ == "known" ? memory.sure : memory.uncertain) = declared;
    return memory;
  }
  void run(KernelCall& call) const override {
    if (name_ == "throw") throw Error(ErrorKind::plugin, "fake.throw always throws");
    if (name_ == "crash") std::abort();
    if (name_ == "exit") _exit(static_cast<int>(n_));
    if (name_ == "kill") raise(static_cast<int>(n_));
    if (name_ == "take" || name_ == "known") return take(call);
    if (name_ == "malloc" || name_ == "abort") return take_by_malloc(call);
    if (name_ == "map") return map(call);
    if (name_ == "wait") return wait(call);
    if (name_ == "deaf") std::this_thread::sleep_for(std::chrono::milliseconds(n_));
    if (name_ == "chatty") {
      call.monitor->log(1, "hello from fake.chatty");
      std::printf("a line that must not disturb anybody\n");
      std::fflush(stdout);
    }
    if (name_ == "flood") {
      while (!call.monitor->cancelled()) call.monitor->log(1, "still here");
    }
    if (name_ == "rubbish") speak_rubbish();
    if (name_ == "fork") leave_a_copy_and_die();
    for (std::int64_t i = 0; name_ == "report" && i < n_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      call.monitor->progress(0.5);
    }
    if (name_ == "short") return produce_short(call);
    if (name_ == "narrow") return produce_narrow(call);
    fill(call);
    if (name_ == "less") call.produced[0][0] = 1;
  }

 private:
  void fill(KernelCall& call) const {
    const View& out = call.out[0];
    const Shape whole = contiguous_strides(outputs_[0].spec.max_shape(), 1);
    const Grid elements(out.shape, Shape(out.shape.size(), 1));
    for (std::int64_t i = 0; i < elements.size(); ++i) {
      const Shape at = elements.index(i);
      double value = static_cast<double>(n_);
      std::byte* to = out.data;
      for (std::size_t axis = 0; axis < at.size(); ++axis) {
        value += static_cast<double>((call.block.origin[axis] + at[axis]) * whole[axis]);
        to += at[axis] * out.strides[axis];
      }
      std::memcpy(to, &value, sizeof value);
    }
  }

  void produce_short(KernelCall& call) const {
    const View& out = call.out[0];
    for (std::int64_t row = 0; row < n_ && row < out.shape[0]; ++row) {
      for (std::int64_t column = 0; column < out.shape[1]; ++column) {
        const double value = static_cast<double>(row + 10 * call.block.origin[0]);
        std::memcpy(out.data + row * out.strides[0] + column * out.strides[1], &value, sizeof value);
      }
    }
    call.produced[0][0] = std::min(n_, out.shape[0]);
  }

  void produce_narrow(KernelCall& call) const {
    const View& out = call.out[0];
    for (std::int64_t row = 0; row < out.shape[0]; ++row) {
      for (std::int64_t column = 0; column < n_ && column < out.shape[1]; ++column) {
        const double value = static_cast<double>(100 * row + column + call.block.origin[1]);
        std::memcpy(out.data + row * out.strides[0] + column * out.strides[1], &value, sizeof value);
      }
    }
    call.produced[0][1] = std::min(n_, out.shape[1]);
  }

  void take(KernelCall& call) const {
    std::vector<Buffer> held;
    for (std::int64_t got = 0; got < n_; got += kStep) {
      held.push_back(call.memory->acquire(kStep));
      std::memset(held.back().data(), 1, kStep);
    }
    fill(call);
  }

  void take_by_malloc(KernelCall& call) const {
    std::vector<void*> held;
    held.reserve(static_cast<std::size_t>(n_) / kStep + 1);
    bool refused = false;
    for (std::int64_t got = 0; got < n_ && !refused; got += kStep) {
      void* memory = std::malloc(kStep);
      refused = !memory;
      if (refused && name_ == "abort") std::abort();
      if (!refused) held.push_back(std::memset(memory, 1, kStep));
    }
    for (void* memory : held) std::free(memory);
    if (refused) throw std::bad_alloc();
    fill(call);
  }

  void map(KernelCall& call) const {
    const auto bytes = static_cast<std::size_t>(n_);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(ErrorKind::plugin, "fake.map was refused a mapping");
    std::memset(memory, 1, bytes);
    munmap(memory, bytes);
    fill(call);
  }

  void wait(KernelCall& call) const {
    const auto begin = std::chrono::steady_clock::now();
    while (!call.monitor->cancelled()) {
      if (n_ > 0 && std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(n_)) return fill(call);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    throw Error(ErrorKind::cancelled, "fake.wait was cancelled");
  }

  std::string name_;
  std::int64_t n_;
};

bool is_ragged(const std::string& function) { return function == "fake.short" || function == "fake.narrow"; }

PlanArray output_array(const FakeStage& stage, int index, const std::filesystem::path& folder) {
  const bool pieces = is_ragged(stage.function);
  PlanArray array;
  array.name = "out" + std::to_string(index);
  array.role = pieces ? PlanArray::Role::pieces : PlanArray::Role::output;
  array.spec = ArraySpec(kFloat64, stage.shape);
  array.chunks = stage.block;
  array.producer = index;
  array.ragged_axis = stage.function == "fake.narrow" ? 1 : 0;
  array.location = (folder / array.name).string();
  if (pieces) return array;
  ArrayMetadata metadata;
  metadata.shape = stage.shape;
  metadata.chunks = stage.block;
  metadata.dtype = kFloat64;
  metadata.fill.resize(8);
  metadata.codecs = codecs_by_name("none", kFloat64);
  array.zarr = ZarrArray::prepare(make_file_store(array.location), "", metadata);
  return array;
}

Stage stage_around(const FakeStage& fake, int index) {
  KernelSpec spec;
  spec.function = fake.function;
  spec.params = {{"shape", fake.shape}, {"n", fake.n}, {"declared", fake.declared}};
  Stage stage;
  stage.name = "stage" + std::to_string(index);
  stage.function = fake.function;
  stage.grid = Grid(fake.shape, fake.block);
  stage.options.timeout = fake.timeout;
  stage.outputs = {index};
  stage.program.ops = {{fake_kernels().resolve(spec), -1, 0, false}};
  stage.program.buffers = {{BufferDecl::Operand::output, 0, 0, kFloat64, fake.block}};
  const auto last = is_ragged(fake.function) ? Step::What::write_piece : Step::What::write;
  stage.program.steps = {{Step::What::acquire, 0, -1, -1, Phase::map, {}, {}},
                         {Step::What::call, -1, -1, 0, Phase::map, {}, {0}},
                         {last, 0, index, -1, Phase::map, {}, {}},
                         {Step::What::release, 0, -1, -1, Phase::map, {}, {}}};
  return stage;
}

}  // namespace

std::shared_ptr<const Kernel> FakeResolver::resolve(const KernelSpec& spec) const {
  return spec.function.starts_with("fake.") ? std::make_shared<FakeKernel>(spec) : nullptr;
}

const FakeResolver& fake_kernels() {
  static const FakeResolver resolver;
  return resolver;
}

std::shared_ptr<const Plan> make_fake_plan(const std::vector<FakeStage>& stages, const std::filesystem::path& folder) {
  auto plan = std::make_shared<Plan>();
  plan->options.run_dir = folder.string();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    plan->arrays.push_back(output_array(stages[i], static_cast<int>(i), folder));
    plan->stages.push_back(stage_around(stages[i], static_cast<int>(i)));
  }
  std::ofstream(folder / "plan.json") << plan_to_json(*plan);
  return plan;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "cuboid-run-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder");
  path_ = pattern;
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

}  // namespace cuboid::testing
