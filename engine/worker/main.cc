// cuboid-worker: runs the tasks of stages that call foreign code, apart from the coordinator.
#include <filesystem>
#include <limits>
#include <memory>

#include "engine/check/question.h"
#include "engine/plugin/host_heap.h"
#include "engine/plugin/plugin_host.h"
#include "engine/plugin/plugin_questions.h"
#include "engine/worker/counted_malloc.h"
#include "engine/worker/worker.h"
#include "storage/error.h"

namespace {

// A function that is linked into the coordinating program and runs only there: a plan that names it can be read here,
// so that its other stages run.
class AbsentKernel : public cuboid::Kernel {
 public:
  explicit AbsentKernel(cuboid::KernelSpec spec) : Kernel(std::move(spec)) { outputs_.resize(1); }
  std::string identity() const override { return "absent " + spec_.function; }
  cuboid::Shape preferred_block(const std::vector<cuboid::Shape>&) const override { fail(); }
  cuboid::Box input_box(std::size_t, const cuboid::Box&) const override { fail(); }
  cuboid::Shape input_extents(std::size_t, const cuboid::Shape&) const override { fail(); }
  cuboid::CallMemory memory(cuboid::Phase, const cuboid::Shape&) const override { fail(); }
  void run(cuboid::KernelCall&) const override { fail(); }

 private:
  [[noreturn]] void fail() const {
    throw cuboid::Error(cuboid::ErrorKind::plugin,
                        spec_.function +
                            " is not in any library that this worker was given: it can run only in the program "
                            "that it is linked into (isolation: thread)");
  }
};

class AbsentFunctions : public cuboid::KernelResolver {
 public:
  std::shared_ptr<const cuboid::Kernel> resolve(const cuboid::KernelSpec& spec) const override {
    return std::make_shared<AbsentKernel>(spec);
  }
  std::vector<cuboid::FunctionDoc> functions() const override { return {}; }
};

cuboid::Resolvers load_plugins(const std::vector<std::string>& paths) {
  const std::vector<std::filesystem::path> libraries(paths.begin(), paths.end());
  static std::unique_ptr<const cuboid::PluginResolver> plugins;
  static const AbsentFunctions absent;
  plugins = std::make_unique<const cuboid::PluginResolver>(cuboid::find_plugins(libraries, {}).found,
                                                           cuboid::local_inference());
  plugins->load();
  return {&cuboid::builtin_kernels(), plugins.get(), &absent};
}

// Counts what trial calls take by malloc, and refuses nothing.
class OpenGate final : public cuboid::counted_malloc::Gate {
  bool extend(std::int64_t) noexcept override { return true; }
  void shrink(std::int64_t) noexcept override {}
  void system_refused(std::int64_t) noexcept override {}
  bool extend_mappings(std::size_t) noexcept override { return false; }
};

cuboid::check::HeapMeter heap_meter() {
  if (!cuboid::counted_malloc::active()) return {};
  static OpenGate gate;
  return {[] { cuboid::counted_malloc::set_gate(gate, std::numeric_limits<std::int64_t>::max()); },
          [] { return cuboid::counted_malloc::remove_gate(); }};
}

std::string answer(const std::string& question, const std::function<void(const std::string&)>& say) {
  return cuboid::check::answer(question, heap_meter(), say);
}

}  // namespace

int main(int argc, char** argv) {
  cuboid::set_host_heap({cuboid::counted_malloc::uncounted_memalign, cuboid::counted_malloc::uncounted_free});
  return cuboid::worker_main(argc, argv, load_plugins, answer);
}
