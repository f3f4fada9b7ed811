#include "tests/engine/run/fake_run.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "engine/run/fingerprint.h"

namespace cuboid::fake {
namespace {

std::int64_t number(const KernelSpec& spec, const std::string& name, std::int64_t otherwise) {
  const auto found = spec.params.find(name);
  return found == spec.params.end() ? otherwise : std::get<std::int64_t>(found->second);
}

class FakeKernel final : public Kernel {
 public:
  explicit FakeKernel(KernelSpec spec) : Kernel(std::move(spec)) {
    const ArraySpec input = spec_.inputs().at(0);
    OutputSpec output{"0", input, std::nullopt};
    if (spec_.function == "fake.rows") {
      ArraySpec rows(kFloat64, {0, 2});
      const auto bound = spec_.max_shape.find(0);
      rows_ = bound == spec_.max_shape.end() ? number(spec_, "rows", 100) : bound->second[0];
      rows.extents[0] = {rows_, Trust::guess};
      output = {"0", rows, 0};
    }
    outputs_.push_back(std::move(output));
  }
  std::string identity() const override { return spec_.function + "#1"; }
  bool foreign() const override { return spec_.function != "fake.exact" && spec_.function != "fake.halo"; }
  Shape domain() const override { return spec_.inputs()[0].max_shape(); }
  Shape preferred_block(const std::vector<Shape>& chunks) const override { return chunks.at(0); }
  std::vector<bool> splittable_axes() const override {
    return std::vector<bool>(domain().size(), number(spec_, "splittable", 0) != 0);
  }
  Box input_box(std::size_t, const Box& block) const override {
    if (spec_.function != "fake.halo") return block;
    Box wider = block;
    for (std::size_t axis = 0; axis < block.shape.size(); ++axis) --wider.origin[axis], wider.shape[axis] += 2;
    return intersect(wider, Box::whole(domain()));
  }
  Shape input_extents(std::size_t, const Shape& block) const override {
    Shape extents = block;
    if (spec_.function == "fake.halo")
      for (std::size_t axis = 0; axis < block.size(); ++axis)
        extents[axis] = std::min(extents[axis] + 2, domain()[axis]);
    return extents;
  }
  Shape output_extents(std::size_t, const Shape& block) const override {
    return spec_.function == "fake.rows" ? Shape{rows_, 2} : block;
  }
  CallMemory memory(Phase, const Shape&) const override {
    CallMemory memory;
    if (spec_.function == "fake.guess") memory.uncertain = static_cast<std::uint64_t>(number(spec_, "mib", 8)) * MiB;
    memory.unknown = spec_.function == "fake.unknown";
    return memory;
  }
  void run(KernelCall&) const override { throw Error(ErrorKind::unsupported, "a fake computes nothing"); }

 private:
  std::int64_t rows_ = 0;
};

class FakeResolver final : public KernelResolver {
 public:
  std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const override {
    if (!spec.function.starts_with("fake.")) return nullptr;
    return std::make_shared<FakeKernel>(spec);
  }
  std::vector<FunctionDoc> functions() const override { return {}; }
};

class FakeExecutor final : public Executor {
 public:
  FakeExecutor(Script& script, std::shared_ptr<const Plan> plan, int slots, int queue)
      : script_(script),
        plan_(std::move(plan)),
        slots_(slots),
        queue_(queue),
        fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~FakeExecutor() override {
    for (const auto& [key, order] : mine_) script_.running.erase(key);
    close(fd_);
  }
  int slots() const override { return slots_; }
  int running() const override { return static_cast<int>(mine_.size()); }
  int queue() const override { return queue_; }
  void submit(const TaskOrder& order) override {
    if (running() >= slots_ + queue_) script_.faults.push_back("more orders than slots");
    check_readiness(order);
    script_.submitted.push_back(order);
    mine_[{order.stage, order.block}] = order;
    script_.running[{order.stage, order.block}] = order;
    account();
    // The outcome comes about when it is collected: nothing is stored before.
    post([this, order, plan = plan_] {
      return script_.outcome ? script_.outcome(*plan, order) : done(*plan, order, script_.rows);
    });
  }
  std::vector<int> descriptors() const override { return {fd_}; }
  std::vector<TaskEvent> collect() override {
    if (script_.before_collect && !events_.empty()) script_.before_collect();
    std::uint64_t ignored;
    [[maybe_unused]] const ssize_t got = read(fd_, &ignored, sizeof ignored);
    std::vector<TaskEvent> result;
    // The oldest first; one at a time unless told otherwise, so that orders overlap.
    while (!events_.empty() && result.size() < script_.told) {
      result.push_back(events_.front()());
      events_.pop_front();
      finish(result.back());
    }
    if (!events_.empty()) wake();
    return result;
  }
  void grow(const TaskOrder& order, std::uint64_t limit, std::uint64_t allowance) override {
    TaskOrder& held = mine_.at({order.stage, order.block});
    held.limit = limit, held.allowance = allowance;
    script_.running[{order.stage, order.block}] = held;
    account();
    post([this, held, plan = plan_] { return done(*plan, held, script_.rows); });
  }
  void refuse(const TaskOrder& order) override {
    const TaskOrder held = mine_.at({order.stage, order.block});
    post([held, needed = wanted_[{order.stage, order.block}]] { return exceeded(held, needed); });
  }
  void replan(std::shared_ptr<const Plan> plan, int, const Pieces&) override {
    plan_ = std::move(plan);
    ++script_.replans;
  }
  void cancel() override {}
  std::uint64_t baseline() const override { return 0; }
  void trim() override {}

 private:
  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = write(fd_, &one, sizeof one);
  }
  void post(std::function<TaskEvent()> event) {
    events_.push_back(std::move(event));
    wake();
  }
  void account() {
    std::uint64_t sum = 0;
    for (const auto& [key, order] : script_.running) sum += order.limit;
    script_.most_running_bytes = std::max(script_.most_running_bytes, sum);
    script_.most_running = std::max(script_.most_running, script_.running.size());
  }
  void finish(TaskEvent& event) {
    if (event.what == TaskEvent::What::wants_growth) wanted_[{event.order.stage, event.order.block}] = event.needed;
    if (event.what == TaskEvent::What::wants_growth || event.what == TaskEvent::What::log) return;
    const std::pair key{event.order.stage, event.order.block};
    mine_.erase(key);
    script_.running.erase(key);
    if (event.what == TaskEvent::What::done)
      script_.finished.emplace(plan_->stages[static_cast<std::size_t>(event.order.stage)].name, event.order.block);
  }
  // Whatever the task reads of other stages must be stored.
  void check_readiness(const TaskOrder& order) {
    const Stage& stage = plan_->stages[static_cast<std::size_t>(order.stage)];
    for (const TaskBox& read : task_reads(*plan_, stage, order.block)) {
      const PlanArray& array = plan_->arrays[static_cast<std::size_t>(read.array)];
      if (array.producer < 0 || array.role == PlanArray::Role::pieces) continue;
      const Grid grid(array.zarr->shape(), array.zarr->metadata().write_chunks());
      const Box chunks = grid.blocks_meeting(read.box);
      const Grid inner(chunks.shape, Shape(chunks.shape.size(), 1));
      for (std::int64_t k = 0; k < inner.size(); ++k) {
        Shape index = inner.index(k);
        for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] += chunks.origin[axis];
        if (!array.zarr->store().stamp(array.zarr->key_of(index)))
          script_.faults.push_back(stage.name + " block " + std::to_string(order.block) + " began before chunk " +
                                   to_string(index) + " of " + array.name);
      }
    }
  }

  Script& script_;
  std::shared_ptr<const Plan> plan_;
  const int slots_, queue_;
  const int fd_;
  std::map<std::pair<int, std::int64_t>, TaskOrder> mine_;
  std::map<std::pair<int, std::int64_t>, std::uint64_t> wanted_;
  std::deque<std::function<TaskEvent()>> events_;
};

void store_bytes(Store& store, const std::string& key, std::size_t count) {
  const std::string text(count, 'x');
  store.put(key, std::as_bytes(std::span(text)));
}

}  // namespace

const KernelResolver& kernels() {
  static const FakeResolver resolver;
  return resolver;
}

Array call(const std::string& function, const Array& input, const std::string& name, Params params,
           StepOptions options) {
  KernelSpec spec;
  spec.function = function;
  spec.args = {input.spec()};
  spec.params = std::move(params);
  return apply(kernels().resolve(spec), {input}, name, std::move(options)).at(0);
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "cuboid-run-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

Array Folder::source(const Shape& shape, const Shape& chunks, const std::string& name) const {
  ArrayMetadata metadata;
  metadata.shape = shape;
  metadata.chunks = chunks;
  metadata.dtype = kFloat64;
  metadata.fill.assign(8, std::byte{0});
  metadata.codecs = codecs_by_name("none", kFloat64);
  const ZarrArray array = ZarrArray::prepare(make_file_store(path_ + "/" + name + ".zarr"), "", std::move(metadata));
  const Grid grid(shape, chunks);
  for (std::int64_t k = 0; k < grid.size(); ++k)
    if (!array.store().stamp(array.key_of(grid.index(k))))
      store_bytes(array.mutable_store(), array.key_of(grid.index(k)), 8);
  array.publish();
  return cuboid::source(ZarrArray::open(path_ + "/" + name + ".zarr"), name);
}

std::int64_t Script::count(const Plan& plan, const std::string& stage) const {
  const int index = plan.stage_index(stage);
  return std::count_if(submitted.begin(), submitted.end(),
                       [&](const TaskOrder& order) { return order.stage == index; });
}

void Decisions::ask(const Question& question) {
  asked.push_back(question);
  if (const auto choice = reply(question)) answers_.push_back({question.id, *choice});
}

std::int64_t Watch::count(RunEvent::What what) const {
  return std::count_if(events.begin(), events.end(), [&](const RunEvent& event) { return event.what == what; });
}

ExecutorFactory factory(Script& script) {
  const auto make = [&script](int queue) {
    return [&script, queue](std::shared_ptr<const Plan> plan, int count, int = -1) {
      return std::make_unique<FakeExecutor>(script, std::move(plan), count, queue);
    };
  };
  return {make(script.queue), make(0)};
}

PlanRequest request(const Folder& folder, const Array& array, std::uint64_t budget, int workers) {
  PlanRequest request;
  OutputRequest output{array, folder / "out.zarr", {}, {}, 3, "none", false, "", {}};
  request.outputs.push_back(std::move(output));
  request.options.budget = budget;
  request.options.workers = workers;
  request.options.run_dir = folder / "run";
  return request;
}

RunResult run(const PlanRequest& request, Script& script, const RunOptions& options) {
  RunResult result = run_with(request, {&kernels()}, options, factory(script));
  for (const std::string& fault : script.faults) ADD_FAILURE() << fault;
  EXPECT_TRUE(script.running.empty());
  return result;
}

TaskEvent done(const Plan& plan, const TaskOrder& order, std::int64_t rows) {
  TaskEvent event;
  event.order = order;
  event.peak = order.limit / 2;
  event.seconds = 0.01;
  event.result.call_peak = order.allowance / 2;
  const Stage& stage = plan.stages[static_cast<std::size_t>(order.stage)];
  for (const TaskBox& write : task_writes(plan, stage, order.block)) {
    const ZarrArray& array = *plan.arrays[static_cast<std::size_t>(write.array)].zarr;
    const Grid grid(array.shape(), array.metadata().write_chunks());
    const Box chunks = grid.blocks_meeting(write.box);
    const Grid inner(chunks.shape, Shape(chunks.shape.size(), 1));
    for (std::int64_t k = 0; k < inner.size(); ++k) {
      Shape index = inner.index(k);
      for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] += chunks.origin[axis];
      store_bytes(array.mutable_store(), array.key_of(index), 16);
      event.result.written.push_back({write.array, grid.linear(index), {16, 7}, "", {}});
    }
  }
  for (const Step& step : stage.program.steps) {
    if (step.what != Step::What::write_piece) continue;
    const PlanArray& pieces = plan.arrays[static_cast<std::size_t>(step.array)];
    const std::string key = "b" + std::to_string(order.block) + "-a" + std::to_string(order.attempt);
    if (rows > 0) store_bytes(*open_store(pieces.location), key, 24);
    event.result.written.push_back({step.array, order.block, {rows > 0 ? 24u : 0u, 9}, rows > 0 ? key : "", {rows, 2}});
  }
  return event;
}

TaskEvent exceeded(const TaskOrder& order, std::uint64_t needed_u, Evidence evidence) {
  TaskEvent event;
  event.what = TaskEvent::What::exceeded;
  event.order = order;
  event.evidence = evidence;
  event.needed = needed_u;
  event.peak = order.limit;
  event.seconds = 0.02;
  event.error = Error(ErrorKind::over_budget, "needs more");
  return event;
}

TaskEvent died(const TaskOrder& order, Evidence evidence) {
  TaskEvent event;
  event.what = TaskEvent::What::died;
  event.order = order;
  event.evidence = evidence;
  event.error = Error(ErrorKind::plugin, "killed by signal 9");
  return event;
}

TaskEvent failed(const TaskOrder& order, ErrorKind kind) {
  TaskEvent event;
  event.what = TaskEvent::What::failed;
  event.order = order;
  event.error = Error(kind, "it failed");
  return event;
}

TaskEvent wants_growth(const TaskOrder& order, std::uint64_t needed_u) {
  TaskEvent event;
  event.what = TaskEvent::What::wants_growth;
  event.order = order;
  event.needed = needed_u;
  return event;
}

std::string stage_name(const Plan& plan, const TaskOrder& order) {
  return plan.stages[static_cast<std::size_t>(order.stage)].name;
}

const StageResult& stage_of(const RunResult& result, const std::string& name) {
  return result.stages.at(static_cast<std::size_t>(result.plan.stage_index(name)));
}

RunOptions with_policy(ExceedAction action) {
  RunOptions options;
  options.on_exceed.action = action;
  return options;
}

}  // namespace cuboid::fake
