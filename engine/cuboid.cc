// The C++ face: values of cuboid.h around the engine's own. Both sides use the plain names; the engine's are given the
// prefix `engine` here, before the face is declared.
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/plan/memory_model.h"
#include "engine/plan/plan.h"
#include "engine/plugin/plugin_host.h"
#include "engine/plugin/plugin_questions.h"
#include "engine/report/plan_table.h"
#include "engine/run/run.h"
#include "engine/run/worker_questions.h"

namespace cuboid::engine {
using Array = cuboid::Array;
using ExceedAction = cuboid::ExceedAction;
using Isolation = cuboid::Isolation;
using Params = cuboid::Params;
using Plan = cuboid::Plan;
using PlanOptions = cuboid::PlanOptions;
using Question = cuboid::Question;
using RunOptions = cuboid::RunOptions;
using RunResult = cuboid::RunResult;
}  // namespace cuboid::engine

#include <cuboid/cuboid.h>

namespace cuboid {
inline namespace face {
namespace {

namespace fs = std::filesystem;

// The folder of this library (of the program, where it is linked statically): what was installed with it is found from
// there.
fs::path own_folder() {
  Dl_info info{};
  static const char here = 0;
  if (::dladdr(&here, &info) == 0 || !info.dli_fname) return {};
  std::error_code ignored;
  return fs::weakly_canonical(info.dli_fname, ignored).parent_path();
}

std::vector<fs::path> search_folders() {
  std::vector<fs::path> folders = plugin_folders();
  if (std::getenv("CUBOID_PLUGIN_PATH")) return folders;
  for (const char* below : {"plugins", "cuboid/plugins"}) folders.push_back(own_folder() / below);
  return folders;
}

std::string installed_worker() {
  std::error_code ignored;
  for (const char* below : {"cuboid-worker", "../libexec/cuboid/cuboid-worker", "../../libexec/cuboid/cuboid-worker"})
    if (const fs::path path = own_folder() / below; fs::exists(path, ignored)) return path.lexically_normal().string();
  return "";
}

// The functions that this process knows. Resolvers live as long as the process: kernels may refer to them.
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  Resolvers resolvers() {
    const std::scoped_lock lock(mutex_);
    if (!current_) {
      std::vector<std::shared_ptr<const PluginLibrary>> libraries = linked_;
      for (Manifest& manifest : find_plugins(libraries_, search_folders()).found)
        libraries.push_back(std::make_shared<PluginLibrary>(std::move(manifest)));
      kept_.push_back(std::make_unique<PluginResolver>(std::move(libraries), inference()));
      current_ = kept_.back().get();
    }
    return {&builtin_kernels(), current_};
  }
  void add(const std::string& library) {
    const fs::path path = find_library(library, fs::current_path(), search_folders());
    read_manifest(path);
    const std::scoped_lock lock(mutex_);
    libraries_.push_back(path);
    current_ = nullptr;
  }
  void add(cuboid_plugin_v1_fn entry) {
    Manifest manifest = read_manifest("/proc/self/exe");
    const std::scoped_lock lock(mutex_);
    linked_.push_back(std::make_shared<PluginLibrary>(std::move(manifest), entry));
    current_ = nullptr;
  }
  // True where a function is linked into the program.
  bool is_linked(const std::string& function) {
    const Resolvers all = resolvers();
    const std::scoped_lock lock(mutex_);
    const Recipe* recipe = current_->recipe(function);
    const PluginResolver::Found found = current_->find(recipe ? recipe->parts.front().function : function);
    return found.library && std::find(linked_.begin(), linked_.end(), found.library) != linked_.end();
  }
  // The library that has a foreign function, as a file that a worker can load; "" where it is linked into the program.
  std::string file_of(const std::string& function) {
    resolvers();
    const std::scoped_lock lock(mutex_);
    const PluginResolver::Found found = current_->find(function);
    if (!found.library) return "";
    for (const auto& linked : linked_)
      if (linked == found.library) return "";
    return found.library->manifest().path.string();
  }

 private:
  // Code that is linked into the program is asked here, that of libraries in a worker process.
  Inference inference() {
    const Inference remote = remote_inference([this](const std::string& question) {
      const std::scoped_lock lock(asking_);
      if (!worker_) {
        const char* named = std::getenv("CUBOID_WORKER");
        worker_ = std::make_unique<WorkerQuestions>(worker_program(named && *named ? "" : installed_worker()));
      }
      return worker_->ask(question, std::chrono::minutes(1));
    });
    return {
        [remote](const PluginLibrary& library, std::size_t function, const InferAsk& ask) {
          return library.linked() ? call_infer(library, function, ask) : remote.infer(library, function, ask);
        },
        [remote](const PluginLibrary& library, std::size_t function, const InferAsk& ask, const RegionsAsk& wanted) {
          return library.linked() ? call_regions(library, function, ask, wanted)
                                  : remote.regions(library, function, ask, wanted);
        }};
  }

  std::mutex mutex_;
  std::mutex asking_;
  std::unique_ptr<WorkerQuestions> worker_;
  std::vector<fs::path> libraries_;
  std::vector<std::shared_ptr<const PluginLibrary>> linked_;
  std::vector<std::unique_ptr<PluginResolver>> kept_;
  const PluginResolver* current_ = nullptr;
};

}  // namespace

struct Array::State {
  engine::Array array;
};
struct Plan::State {
  PlanRequest request;
  engine::Plan plan;
};

namespace {

Array wrap(engine::Array array) { return Array(std::make_shared<Array::State>(Array::State{std::move(array)})); }

ExceedPolicy policy_of(const Policy& policy) {
  ExceedPolicy result;
  if (policy.action) result.action = static_cast<engine::ExceedAction>(*policy.action);
  result.factor = policy.factor;
  result.max_task_memory = policy.max_task_memory;
  result.max_attempts = policy.max_attempts;
  return result;
}
static_assert(static_cast<int>(ExceedAction::ask) == static_cast<int>(engine::ExceedAction::ask) &&
              static_cast<int>(ExceedAction::grow) == static_cast<int>(engine::ExceedAction::grow) &&
              static_cast<int>(ExceedAction::park) == static_cast<int>(engine::ExceedAction::park) &&
              static_cast<int>(ExceedAction::fail) == static_cast<int>(engine::ExceedAction::fail));
static_assert(static_cast<int>(Isolation::process) == static_cast<int>(engine::Isolation::process) &&
              static_cast<int>(Isolation::thread) == static_cast<int>(engine::Isolation::thread));

template <class Number>
engine::Array small_array(const std::vector<Number>& numbers) {
  KernelSpec spec;
  spec.function = "asarray";
  spec.params["data"] = numbers;
  spec.params["shape"] = std::vector<std::int64_t>{static_cast<std::int64_t>(numbers.size())};
  spec.params["dtype"] = std::string(std::is_same_v<Number, double> ? "float64" : "int64");
  return apply(resolve_kernel(Registry::instance().resolvers(), spec), {})[0];
}

void add_argument(const Argument& argument, KernelSpec& spec, std::vector<engine::Array>& inputs) {
  const auto add_array = [&](engine::Array array) {
    spec.args.push_back(array.spec());
    inputs.push_back(std::move(array));
  };
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Array>) {
          add_array(value.state().array);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> || std::is_same_v<T, std::vector<double>>) {
          add_array(small_array(value));
        } else {
          spec.args.push_back(Scalar(value));
        }
      },
      argument.value);
}

Array reduce(const char* function, const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  Params params;
  if (!axes.empty()) params.emplace("axis", axes);
  if (keepdims) params.emplace("keepdims", true);
  return call(function, {x}, params);
}

int cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::vector<std::string> libraries_of(const PlanRequest& request) {
  std::vector<std::string> libraries;
  std::vector<const Node*> open;
  std::vector<const Node*> seen;
  for (const OutputRequest& output : request.outputs) open.push_back(&output.array.node());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
    seen.push_back(node);
    for (const engine::Array& input : node->inputs) open.push_back(&input.node());
    if (!node->kernel || !node->kernel->foreign()) continue;
    const std::string file = Registry::instance().file_of(node->kernel->spec().function);
    if (!file.empty() && std::find(libraries.begin(), libraries.end(), file) == libraries.end())
      libraries.push_back(file);
  }
  return libraries;
}

const char* name_of(RunEvent::What what) {
  using What = RunEvent::What;
  switch (what) {
    case What::planned:
      return "planned";
    case What::resumed:
      return "resumed";
    case What::stage_started:
      return "stage_started";
    case What::task_started:
      return "task_started";
    case What::task_done:
      return "task_done";
    case What::task_grown:
      return "task_grown";
    case What::task_retried:
      return "task_retried";
    case What::task_parked:
      return "task_parked";
    case What::stage_done:
      return "stage_done";
    case What::facts:
      return "facts";
    case What::log:
      return "log";
    case What::notice:
      return "notice";
  }
  return "?";
}

class FunctionObserver : public Observer {
 public:
  explicit FunctionObserver(const std::function<void(const Event&)>& observer) : observer_(observer) {}
  void on_event(const RunEvent& event) override {
    if (event.plan) {
      stages_.clear();
      for (const Stage& stage : event.plan->stages) stages_.push_back(stage.name);
    }
    const auto stage = static_cast<std::size_t>(event.stage);
    observer_({name_of(event.what), event.stage >= 0 && stage < stages_.size() ? stages_[stage] : "", event.block,
               event.count, event.bytes, event.text});
  }

 private:
  const std::function<void(const Event&)>& observer_;
  std::vector<std::string> stages_;
};

// Asks when it is asked and hands the answer over at the next look.
class FunctionDecider : public Decider {
 public:
  explicit FunctionDecider(const std::function<face::Answer(const Question&)>& decider) : decider_(decider) {}
  void ask(const engine::Question& asked) override {
    Question question;
    question.stage = asked.stage;
    question.function = asked.function;
    question.block = asked.block;
    question.allowed = asked.allowed;
    question.peak = asked.peak;
    question.needed = asked.needed;
    question.attempt = asked.attempt;
    question.max_attempts = asked.max_attempts;
    const auto proposal = std::find_if(asked.choices.begin(), asked.choices.end(),
                                       [](const Choice& choice) { return choice.what == Choice::What::grow; });
    if (proposal != asked.choices.end()) question.proposed = proposal->bytes;
    const face::Answer given = decider_(question);
    Choice choice = given.what == face::Answer::What::grow && proposal != asked.choices.end() ? *proposal : Choice{};
    choice.what = given.what == face::Answer::What::grow    ? Choice::What::grow
                  : given.what == face::Answer::What::alone ? Choice::What::alone
                  : given.what == face::Answer::What::stop  ? Choice::What::stop
                                                            : Choice::What::park;
    if (given.bytes > 0) choice.bytes = given.bytes;
    choice.always = given.always;
    answers_.push_back({asked.id, choice});
  }
  void withdraw(int id) override {
    std::erase_if(answers_, [id](const Decider::Answer& answer) { return answer.id == id; });
  }
  std::vector<Decider::Answer> answers() override { return std::exchange(answers_, {}); }

 private:
  const std::function<face::Answer(const Question&)>& decider_;
  std::vector<Decider::Answer> answers_;
};

}  // namespace

DType Array::dtype() const { return state_->array.spec().dtype; }
Shape Array::shape() const { return state_->array.spec().max_shape(); }
bool Array::exact_shape() const { return state_->array.spec().exact(); }

Array open_array(const std::string& path_or_url) {
  fs::path path(path_or_url);
  if (!path.has_filename()) path = path.parent_path();
  return wrap(source(ZarrArray::open(path_or_url), path.stem().string()));
}

std::vector<Array> call_all(const std::string& function, const std::vector<Argument>& args, const Params& params,
                            const CallOptions& options) {
  KernelSpec spec;
  std::vector<engine::Array> inputs;
  spec.function = function;
  for (const Argument& argument : args) add_argument(argument, spec, inputs);
  for (const auto& [name, param] : params) spec.params.emplace(name, param.value);
  if (options.max_shape) spec.max_shape[0] = *options.max_shape;
  spec.extra_memory = options.extra_memory;
  StepOptions step{options.chunks, options.timeout, static_cast<engine::Isolation>(options.isolation),
                   policy_of(options.on_exceed)};
  if (Registry::instance().is_linked(function)) step.isolation = engine::Isolation::thread;  // no file to load
  std::vector<Array> outputs;
  for (engine::Array& output :
       apply_function(Registry::instance().resolvers(), spec, std::move(inputs), options.name, step))
    outputs.push_back(wrap(std::move(output)));
  return outputs;
}

Array call(const std::string& function, const std::vector<Argument>& args, const Params& params,
           const CallOptions& options) {
  return call_all(function, args, params, options).at(0);
}

void load_plugin(const std::string& library) { Registry::instance().add(library); }
void register_plugin(cuboid_plugin_v1_fn entry) { Registry::instance().add(entry); }

Array sum(const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  return reduce("sum", x, axes, keepdims);
}
Array prod(const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  return reduce("prod", x, axes, keepdims);
}
Array mean(const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  return reduce("mean", x, axes, keepdims);
}
Array min(const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  return reduce("min", x, axes, keepdims);
}
Array max(const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  return reduce("max", x, axes, keepdims);
}
Array any(const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  return reduce("any", x, axes, keepdims);
}
Array all(const Array& x, const std::vector<std::int64_t>& axes, bool keepdims) {
  return reduce("all", x, axes, keepdims);
}
Array astype(const Array& x, DType dtype) { return call("astype", {x}, {{"dtype", to_string(dtype)}}); }
Array rechunk(const Array& x, const Shape& chunks) { return call("rechunk", {x}, {{"chunks", chunks}}); }

std::vector<StageInfo> Plan::stages() const {
  std::vector<StageInfo> stages;
  for (const Stage& stage : state_->plan.stages)
    stages.push_back({stage.name, stage.function, to_string(stage.confidence), stage.steps, stage.numbers.tasks,
                      stage.numbers.projected, stage.numbers.concurrency, stage.numbers.bytes_read,
                      stage.numbers.bytes_written});
  return stages;
}
std::int64_t Plan::tasks() const { return state_->plan.tasks; }
std::string Plan::table() const { return plan_table(state_->plan, {}); }
std::string Plan::json() const { return plan_report(state_->plan).dump(); }

Plan make_plan(const std::vector<Output>& outputs, const PlanOptions& options) {
  if (outputs.empty()) throw Error(ErrorKind::invalid, "a plan needs an output: an array and a path");
  PlanRequest request;
  for (const Output& output : outputs)
    request.outputs.push_back({.array = output.array.state().array,
                               .path = output.path,
                               .chunks = output.chunks,
                               .shards = output.shards,
                               .zarr_format = output.format,
                               .codecs = output.codecs,
                               .overwrite = output.overwrite,
                               .attributes = {},
                               .like = {}});
  request.options.budget = options.memory > 0 ? options.memory : default_budget();
  request.options.workers = options.workers > 0 ? options.workers : cores();
  request.options.durable = options.durable;
  request.options.run_dir = outputs[0].path + ".run";
  // Whether an output that exists is ours to write is known to the run directory, which run() is told.
  for (const Output& output : outputs) request.options.own_outputs.push_back(output.path);
  engine::Plan plan = cuboid::make_plan(request, Registry::instance().resolvers());
  if (plan.refused)
    throw Error(ErrorKind::over_budget, refusal_text(plan),
                plan.refused->stage ? Error::Context{{"stage", *plan.refused->stage}} : Error::Context{});
  return Plan(std::make_shared<Plan::State>(Plan::State{std::move(request), std::move(plan)}));
}

RunResult run(const Plan& plan, const RunOptions& options) {
  PlanRequest request = plan.state().request;
  if (!options.run_dir.empty()) request.options.run_dir = options.run_dir;
  request.options.keep = options.keep;
  request.options.own_outputs.clear();
  FunctionObserver observer(options.observer);
  FunctionDecider decider(options.decider);
  engine::RunOptions settings;
  settings.on_exceed = policy_of(options.on_exceed);
  if (!settings.on_exceed.action) settings.on_exceed.action = engine::ExceedAction::grow;
  settings.fresh = options.fresh;
  settings.worker = !options.worker.empty() || std::getenv("CUBOID_WORKER") ? options.worker : installed_worker();
  settings.plugins = libraries_of(request);
  if (options.observer) settings.observer = &observer;
  if (options.decider) settings.decider = &decider;

  const engine::RunResult done = cuboid::run(request, Registry::instance().resolvers(), settings);
  RunResult result;
  result.status = to_string(done.status);
  result.exit_code = done.exit_code;
  result.nothing_to_do = done.nothing_to_do;
  result.wall_seconds = done.wall_seconds;
  result.peak_rss_bytes = done.peak_rss_bytes;
  result.error = done.error;
  result.run_dir = request.options.run_dir;
  for (std::size_t k = 0; k < done.stages.size() && k < done.plan.stages.size(); ++k) {
    const StageResult& stage = done.stages[k];
    result.stages.push_back({done.plan.stages[k].name, stage.tasks_done, stage.tasks_reused, stage.tasks_retried,
                             stage.tasks_grown, stage.attempts, stage.parked, stage.peak_bytes, stage.allowed_bytes});
  }
  for (const PlanArray& array : done.plan.arrays)
    if (array.role == PlanArray::Role::output && done.status == RunStatus::done)
      result.outputs.push_back({array.name, array.location, array.spec.dtype, array.spec.max_shape()});
  return result;
}

}  // namespace face
}  // namespace cuboid
