#include "engine/worker/worker.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/run/protocol.h"
#include "engine/run/task_failure.h"
#include "engine/worker/channel.h"
#include "engine/worker/counted_malloc.h"
#include "engine/worker/process_memory.h"
#include "engine/worker/worker_task.h"
#include "storage/inject.h"

namespace cuboid {
namespace {

using protocol::Type;

class Worker {
 public:
  Worker(int socket, const LoadPlugins& load_plugins, const AnswerQuestion& answer)
      : channel_(socket), load_plugins_(load_plugins), answer_(answer) {}

  int serve() {
    while (auto frame = channel_.receive()) {
      if (frame->type == Type::setup && !set_up(protocol::decode_setup(frame->payload))) return 1;
      if (frame->type == Type::task) channel_.send(protocol::encode(run(protocol::decode_task(frame->payload))));
      if (frame->type == Type::trim) give_back();
      if (frame->type == Type::ask) answer(protocol::decode_text(frame->payload));
    }
    return 0;
  }

 private:
  bool set_up(protocol::Setup setup) {
    setup_ = std::move(setup);
    protocol::Hello hello;
    try {
      resolvers_ = load_plugins_(setup_.plugins);
    } catch (const Error& error) {
      hello.error = error;
    }
    first_resident_ = process_memory::status().resident;
    first_baseline_ = process_memory::proportional();
    hello.baseline = first_baseline_;
    const bool loaded = !hello.error;
    channel_.send(protocol::encode(hello));
    return loaded;
  }

  void answer(const std::string& question) {
    const auto say = [this](const std::string& text) { channel_.send(protocol::encode_text(Type::log, text)); };
    channel_.send(protocol::encode_text(Type::told, answer_(question, say)));
  }

  const Plan& plan_of(int generation) {
    if (plan_ && generation_ == generation) return *plan_;
    plan_.reset();
    const std::string path =
        setup_.run_dir + (generation == 0 ? "/plan.json" : "/plan." + std::to_string(generation) + ".json");
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file)
      throw Error(ErrorKind::io, "cannot read the plan " + path + ": expected the coordinator to have saved it");
    try {
      plan_ = plan_from_json(nlohmann::json::parse(text), resolvers_);
    } catch (const nlohmann::json::exception& error) {
      throw Error(ErrorKind::corrupt, "the plan " + path + " is damaged: " + error.what());
    }
    generation_ = generation;
    return *plan_;
  }

  protocol::Finished run(const protocol::Task& task) {
    protocol::Finished finished;
    const auto begin = std::chrono::steady_clock::now();
    die_where_injected();
    try {
      const Plan& plan = plan_of(task.generation);
      run_on(plan, task, finished.event);
    } catch (Error& error) {
      describe_failure(finished.event, std::move(error));
    } catch (const std::exception& error) {
      describe_failure(finished.event, Error(ErrorKind::invalid, std::string("internal error: ") + error.what()));
    }
    finished.event.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    finished.kept = pool::free_bytes();
    finished.baseline = baseline();
    die_where_injected();
    return finished;
  }

  static void die_where_injected() {
    if (inject::due(inject::Fault::worker)) std::raise(SIGKILL);
  }

  void run_on(const Plan& plan, const protocol::Task& task, TaskEvent& event) {
    process_memory::reset_peak();
    const process_memory::Status before = process_memory::status();
    const std::uint64_t kept = pool::resident_free_bytes();
    // What of the pool is in use now are states of plugins, kept from call to call: no task's.
    const std::uint64_t floor = before.data - std::min<std::uint64_t>(before.data, pool::free_bytes());
    WorkerTask surroundings(channel_, task.order, floor);
    try {
      event.result = run_task(plan, task.order, surroundings.account(), surroundings, task.pieces);
    } catch (Error& error) {
      describe_failure(event, std::move(error));
      if (channel_.cancelled()) {
        event.what = TaskEvent::What::failed;
        event.error = Error(ErrorKind::cancelled, "the task was cancelled", event.error->context());
      } else if (surroundings.refused() && (event.what == TaskEvent::What::failed ||
                                            event.evidence == Evidence::unknown || event.evidence == Evidence::host)) {
        event.what = TaskEvent::What::exceeded;
        event.evidence = Evidence::own_limit;
        event.needed = *surroundings.refused();
      }
    }
    event.peak = peak_above(before, kept, surroundings.account());
  }

  // The rise of the process's peak above what it takes without tasks: what the pool had kept before is the task's. What
  // the pool kept from earlier tasks and this one never used is no part of it: this account never held as much as the
  // pool does. Nor are pages of code that the task was the first to run: they are the process's, shared with the other
  // workers. Of the pool only pages count that were really given.
  static std::uint64_t peak_above(const process_memory::Status& before, std::uint64_t kept,
                                  const MemoryAccount& account) {
    const std::uint64_t held = pool::resident_free_bytes();
    const std::uint64_t unused = held - std::min(held, account.peak());
    const process_memory::Status after = process_memory::status();
    const std::uint64_t code = after.mapped - std::min(after.mapped, before.mapped);
    const std::uint64_t floor = before.resident - std::min(before.resident, kept);
    return after.peak_resident - std::min(after.peak_resident, floor + unused + code);
  }

  std::uint64_t baseline() const {
    const std::uint64_t resident = process_memory::status().resident;
    const std::uint64_t beside = resident - std::min<std::uint64_t>(resident, pool::resident_free_bytes());
    return first_baseline_ + (beside - std::min(beside, first_resident_));
  }

  void give_back() {
    pool::trim(0);
    malloc_trim(0);
  }

  Channel channel_;
  const LoadPlugins& load_plugins_;
  const AnswerQuestion& answer_;
  protocol::Setup setup_;
  Resolvers resolvers_;
  std::optional<Plan> plan_;
  int generation_ = -1;
  std::uint64_t first_baseline_ = 0, first_resident_ = 0;
};

std::optional<int> number_after(int argc, char** argv, std::string_view name) {
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string_view value = argv[i + 1];
    int number = 0;
    if (argv[i] == name && std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc{})
      return number;
  }
  return std::nullopt;
}

int socket_of_worker = -1;

// Programs and processes that a plugin starts must not hold the socket: where it stayed open, the coordinator would never
// hear of this process's end.
void keep_socket_to_this_process(int socket) {
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  socket_of_worker = socket;
  pthread_atfork(nullptr, nullptr, [] { close(socket_of_worker); });
}

// One arena, and a threshold that stays: memory that a call freed goes back at once.
void keep_malloc_quiet() {
  if (!counted_malloc::active()) return;
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

}  // namespace

int worker_main(int argc, char** argv, const LoadPlugins& load_plugins, const AnswerQuestion& answer) {
  const auto socket = number_after(argc, argv, "--socket");
  const auto parent = number_after(argc, argv, "--parent");
  if (!socket || !parent) {
    std::fputs("cuboid-worker is started by cuboid, not by hand: it runs tasks for a coordinator\n", stderr);
    return 2;
  }
  // Whatever a plugin does, this process ends with its coordinator; one that is gone already sends no signal.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != *parent) return 0;
  std::signal(SIGINT, SIG_IGN);  // the terminal sends it to both; the coordinator decides
  keep_socket_to_this_process(*socket);
  keep_malloc_quiet();
  try {
    return Worker(*socket, load_plugins, answer).serve();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuboid-worker: %s\n", error.what());
    return 1;
  }
}

}  // namespace cuboid
