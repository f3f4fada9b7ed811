// Checks of the library as a whole: its file, what loading it does, and what its calls leave behind in the process.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include "engine/check/checks.h"
#include "engine/plugin/infer.h"
#include "engine/plugin/library_file.h"

namespace cuboid::check {
namespace {

constexpr std::int64_t kLoadingSlack = 64 << 10;  // the loader's own tables

std::int64_t entries_in(const char* folder) {
  std::error_code failed;
  std::int64_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    ++count;
  return count;
}

// What belongs to the whole process and may not be changed in passing.
std::map<std::string, std::string> surroundings() {
  std::map<std::string, std::string> state;
  const char* locale = std::setlocale(LC_ALL, nullptr);
  state["the locale"] = locale ? locale : "";
  std::error_code failed;
  state["the working directory"] = std::filesystem::current_path(failed).string();
  state["the number of threads"] = std::to_string(entries_in("/proc/self/task"));
  state["the number of open files"] = std::to_string(entries_in("/proc/self/fd"));
  state["the rounding mode"] = std::to_string(std::fegetround());
  const mode_t mask = ::umask(0);
  ::umask(mask);
  state["the umask"] = std::to_string(mask);
  for (int number = 1; number < 32; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0) continue;
    state["the handler of signal " + std::to_string(number)] =
        std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler));
  }
  return state;
}

void compare(const std::map<std::string, std::string>& before, const std::string& who) {
  auto after = surroundings();
  // A thread that was joined is gone from /proc a moment later.
  for (int tries = 0; tries < 20 && after != before; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    after = surroundings();
  }
  for (const auto& [what, value] : before)
    if (after[what] != value) throw Failed{who + " changed " + what + " from " + value + " to " + after[what]};
}

bool falls(const CallMemory& small, const CallMemory& large) {
  return large.sure < small.sure || large.uncertain < small.uncertain || large.outside < small.outside;
}

void check_growth(const PluginKernel& kernel, const std::string& name) {
  const Shape domain = kernel.domain();
  for (std::size_t a = 0; a < domain.size(); ++a) {
    if (kernel.whole_axes()[a]) continue;
    Shape block = domain;
    for (block[a] = 1; block[a] < domain[a]; ++block[a]) {
      Shape next = block;
      ++next[a];
      const std::string where = name + ": from blocks of " + to_string(block) + " to " + to_string(next) + " ";
      if (falls(kernel.memory(Phase::map, block), kernel.memory(Phase::map, next)))
        throw Failed{where + "the bytes of a call fall; formulas must never fall when an axis grows"};
      for (std::size_t k = 0; k < kernel.outputs().size(); ++k) {
        const auto& axis = kernel.outputs()[k].ragged_axis;
        if (axis && kernel.output_extents(k, next)[*axis] < kernel.output_extents(k, block)[*axis])
          throw Failed{where + "the bound of output " + kernel.outputs()[k].name + " falls"};
      }
    }
  }
}

// Calls `body` with every function's kernel for every sample that it takes; `ask` answers for `infer`.
void for_each_binding(const Subject& subject, const Inference& ask,
                      const std::function<void(const PluginKernel&, const std::string&)>& body) {
  for (std::size_t index = 0; index < subject.manifest().functions.size(); ++index) {
    const FunctionManifest& function = subject.manifest().functions[index];
    for (const Sample& sample : make_samples(function, subject.request.samples)) {
      const std::string name = function.id + ", " + sample.name;
      subject.request.at(name);
      try {
        body(PluginKernel(sample.spec, subject.library, index, ask), name);
      } catch (const Error& error) {
        // Arguments that it does not take are `calls`' matter; what needs infer is `infer`'s.
        if (error.kind() != ErrorKind::invalid && error.kind() != ErrorKind::unsupported) throw;
      }
    }
  }
}

Shape halved(Shape shape) {
  for (std::int64_t& extent : shape) extent /= 2;
  return shape;
}

void check_answer(const InferAsk& ask, const std::function<InferAnswer(const InferAsk&)>& infer) {
  const InferAnswer large = infer(ask), again = infer(ask);
  InferAsk half = ask;
  for (Shape& shape : half.interior) shape = halved(shape);
  const InferAnswer small = infer(half);
  const auto bytes = [](const InferAnswer& answer) {
    return std::array{answer.call.bytes, answer.state.bytes, answer.outside.bytes};
  };
  if (bytes(large) != bytes(again)) throw Failed{"infer gives other bytes when it is asked again"};
  for (std::size_t k = 0; k < 3; ++k)
    if (bytes(small)[k] > bytes(large)[k])
      throw Failed{"infer asks for " + std::to_string(bytes(small)[k]) + " bytes for half of a block and for " +
                   std::to_string(bytes(large)[k]) + " for all of it"};
  for (std::size_t k = 0; k < large.outputs.size(); ++k) {
    if (large.outputs[k].max_shape != again.outputs[k].max_shape)
      throw Failed{"infer gives other extents when it is asked again"};
    for (std::size_t a = 0; a < large.outputs[k].max_shape.size(); ++a)
      if (small.outputs[k].max_shape[a] > large.outputs[k].max_shape[a])
        throw Failed{"infer gives a larger extent for half of a block than for all of it"};
  }
}

}  // namespace

std::string check_manifest(const Subject& subject) {
  for_each_binding(subject, nullptr, check_growth);
  return std::to_string(subject.manifest().functions.size()) + " functions";
}

std::string check_loads(const Subject& subject) {
  subject.library->load();
  return "";
}

std::string check_exports(const Subject& subject) {
  const std::vector<std::string> names = exported_symbols(LibraryFile(subject.manifest().path));
  std::string others;
  for (const std::string& name : names)
    if (name != CUBOID_ENTRY) others += (others.empty() ? "" : ", ") + name;
  if (names.size() != 1)
    throw Failed{"exports " + std::to_string(names.size()) + " symbols, expected " CUBOID_ENTRY " alone; beside it: " +
                 others + ". Build with hidden visibility and sdk/cmake/plugin.map (cuboid_add_plugin does)"};
  return CUBOID_ENTRY;
}

std::string check_loading(const Subject& subject) {
  const auto before = surroundings();
  if (subject.request.heap) subject.request.heap.begin();
  void* handle = ::dlopen(subject.manifest().path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const std::int64_t taken = subject.request.heap ? subject.request.heap.end() : 0;
  if (!handle) throw Failed{std::string("cannot be loaded: ") + ::dlerror()};
  if (taken > kLoadingSlack)
    throw Failed{"its static initialisers took " + format_size(static_cast<std::uint64_t>(taken)) +
                 " by malloc: take memory in `open` or `run`, where it is counted"};
  subject.library->load();
  compare(before, "loading it");
  return "";
}

std::string check_infer(const Subject& subject) {
  std::size_t questions = 0;
  for (std::size_t index = 0; index < subject.manifest().functions.size(); ++index) {
    if (!subject.library->function(index).infer) continue;
    const std::string id = subject.manifest().functions[index].id;
    const auto infer = [&](const InferAsk& ask) {
      ++questions;
      std::int64_t taken = 0;
      const InferAnswer answer =
          call_infer_watched(*subject.library, index, ask, [&](const std::function<void()>& run) {
            if (subject.request.heap) subject.request.heap.begin();
            run();
            if (subject.request.heap) taken = subject.request.heap.end();
          });
      if (taken > 0) throw Failed{id + ": infer allocates memory"};
      return answer;
    };
    std::vector<InferAsk> asked;
    const Inference ask(
        [&](const PluginLibrary&, std::size_t, const InferAsk& question) {
          asked.push_back(question);
          return infer(question);
        },
        call_regions);
    for (const Sample& sample : make_samples(subject.manifest().functions[index], subject.request.samples)) {
      subject.request.at(id + ", " + sample.name);
      check_growth(PluginKernel(sample.spec, subject.library, index, ask), id + ", " + sample.name);
    }
    for (const InferAsk& question : asked) check_answer(question, infer);
  }
  return questions == 0 ? "there is no infer" : std::to_string(questions) + " questions";
}

std::string check_surroundings(const Subject& subject) {
  subject.library->load();
  const auto before = surroundings();
  return for_each_case(subject, false, [&](const Case& one) {
    const auto changed = one.reference.broken.find(CallProbe::Promise::surroundings);
    if (changed != one.reference.broken.end()) throw Failed{one.name + ": it " + changed->second};
    compare(before, one.name + ": a call");
  });
}

}  // namespace cuboid::check
