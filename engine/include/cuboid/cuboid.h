// Cuboid for programs that embed it: lazy arrays, plans with known memory, runs. The only engine header that is
// installed.
//
//   auto image  = open_array("data/hubble_deep_field.zarr");
//   auto smooth = call("filter.gaussian", {mean(image, {2})}, {{"sigma", 1.5}});
//   auto plan   = make_plan({{smooth > 128.0, "out/bright.zarr"}}, {.memory = 1_GiB});
//   auto result = run(plan, {.on_exceed = grow_to(512_MiB)});
//
// Nothing is read but metadata, and nothing written, before run(). Everything throws Error (storage/error.h): invalid
// for wrong requests, over_budget for a plan that cannot fit. All values are cheap to copy and immutable; functions may
// be called from any thread, but only one run() at a time in a process.
#pragma once
#include <cuboid/plugin.h>

#include <chrono>
#include <complex>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "storage/error.h"
#include "storage/types.h"

namespace cuboid {
inline namespace face {

inline namespace literals {
constexpr std::uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr std::uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr std::uint64_t operator""_GiB(unsigned long long n) { return n << 30; }
}  // namespace literals

// --- Arrays ----------------------------------------------------------------------------------------------------------

// Where elements come from, not the elements.
class Array {
 public:
  struct State;
  explicit Array(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  DType dtype() const;
  Shape shape() const;       // upper bounds where an extent depends on data
  bool exact_shape() const;  // no extent does
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

// A positional argument: an array; a number, which takes part in type promotion as a Python scalar does; a small array.
class Argument {
 public:
  using Value = std::variant<Array, bool, std::int64_t, double, std::complex<double>, std::vector<std::int64_t>,
                             std::vector<double>>;
  Argument(Array array) : value(std::move(array)) {}
  Argument(bool flag) : value(flag) {}
  Argument(int number) : value(std::int64_t{number}) {}
  Argument(long number) : value(std::int64_t{number}) {}
  Argument(long long number) : value(std::int64_t{number}) {}
  Argument(double number) : value(number) {}
  Argument(std::complex<double> number) : value(number) {}
  Argument(std::vector<std::int64_t> numbers) : value(std::move(numbers)) {}
  Argument(std::vector<double> numbers) : value(std::move(numbers)) {}
  Value value;
};

// A keyword argument.
class Param {
 public:
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                             std::vector<double>, std::vector<std::string>>;
  Param(std::nullptr_t) {}
  Param(bool flag) : value(flag) {}
  Param(int number) : value(std::int64_t{number}) {}
  Param(long number) : value(std::int64_t{number}) {}
  Param(long long number) : value(std::int64_t{number}) {}
  Param(double number) : value(number) {}
  Param(const char* text) : value(std::string(text)) {}
  Param(std::string text) : value(std::move(text)) {}
  Param(std::vector<std::int64_t> numbers) : value(std::move(numbers)) {}
  Param(std::vector<double> numbers) : value(std::move(numbers)) {}
  Param(std::vector<std::string> texts) : value(std::move(texts)) {}
  Value value;
};
using Params = std::map<std::string, Param>;

// What may be said of one call beside its arguments; as the keys of a step in a pipeline file.
enum class ExceedAction : std::uint8_t { ask, grow, park, fail };
struct Policy {
  std::optional<ExceedAction> action = {};  // default of a run: grow
  std::optional<double> factor = {};
  std::optional<std::uint64_t> max_task_memory = {};  // bytes
  std::optional<int> max_attempts = {};
};
enum class Isolation : std::uint8_t { automatic, process, thread };
struct CallOptions {
  std::optional<Shape> max_shape = {};             // the caller's own bound for output 0
  std::optional<std::uint64_t> extra_memory = {};  // the caller's own estimate of one call's extra memory, bytes
  std::optional<Shape> chunks = {};                // block shape
  std::optional<std::chrono::milliseconds> timeout = {};
  Isolation isolation = Isolation::automatic;
  Policy on_exceed = {};
  std::string name = {};  // in plans and messages; default: the function's
};

// The array at a path or URL. Reads its metadata.
Array open_array(const std::string& path_or_url);
// Any function by its name, built-in or of a plugin: "add", "sky.sources", "sky.sources/1". The first output.
Array call(const std::string& function, const std::vector<Argument>& args, const Params& params = {},
           const CallOptions& options = {});
// All outputs of one call.
std::vector<Array> call_all(const std::string& function, const std::vector<Argument>& args, const Params& params = {},
                            const CallOptions& options = {});

// Makes the functions of a plugin library known, by path or by a name on the search path. Reads its manifest only.
void load_plugin(const std::string& library);
// Makes functions that are linked into this program known; their manifest is read from the program's own file. They run
// on threads of this process. Throws Error{plugin}.
void register_plugin(cuboid_plugin_v1_fn entry);

// No `axes`: over all of them.
Array sum(const Array& x, const std::vector<std::int64_t>& axes = {}, bool keepdims = false);
Array prod(const Array& x, const std::vector<std::int64_t>& axes = {}, bool keepdims = false);
Array mean(const Array& x, const std::vector<std::int64_t>& axes = {}, bool keepdims = false);
Array min(const Array& x, const std::vector<std::int64_t>& axes = {}, bool keepdims = false);
Array max(const Array& x, const std::vector<std::int64_t>& axes = {}, bool keepdims = false);
Array any(const Array& x, const std::vector<std::int64_t>& axes = {}, bool keepdims = false);
Array all(const Array& x, const std::vector<std::int64_t>& axes = {}, bool keepdims = false);
inline Array abs(const Array& x) { return call("abs", {x}); }
inline Array sqrt(const Array& x) { return call("sqrt", {x}); }
inline Array exp(const Array& x) { return call("exp", {x}); }
inline Array log(const Array& x) { return call("log", {x}); }
inline Array where(const Array& condition, const Argument& x, const Argument& y) {
  return call("where", {condition, x, y});
}
inline Array minimum(const Argument& x, const Argument& y) { return call("minimum", {x, y}); }
inline Array maximum(const Argument& x, const Argument& y) { return call("maximum", {x, y}); }
Array astype(const Array& x, DType dtype);
Array rechunk(const Array& x, const Shape& chunks);

inline Array operator+(const Argument& a, const Argument& b) { return call("add", {a, b}); }
inline Array operator-(const Argument& a, const Argument& b) { return call("subtract", {a, b}); }
inline Array operator*(const Argument& a, const Argument& b) { return call("multiply", {a, b}); }
inline Array operator/(const Argument& a, const Argument& b) { return call("divide", {a, b}); }
inline Array operator%(const Argument& a, const Argument& b) { return call("remainder", {a, b}); }
inline Array operator<(const Argument& a, const Argument& b) { return call("less", {a, b}); }
inline Array operator<=(const Argument& a, const Argument& b) { return call("less_equal", {a, b}); }
inline Array operator>(const Argument& a, const Argument& b) { return call("greater", {a, b}); }
inline Array operator>=(const Argument& a, const Argument& b) { return call("greater_equal", {a, b}); }
inline Array operator==(const Argument& a, const Argument& b) { return call("equal", {a, b}); }
inline Array operator!=(const Argument& a, const Argument& b) { return call("not_equal", {a, b}); }
inline Array operator&(const Argument& a, const Argument& b) { return call("bitwise_and", {a, b}); }
inline Array operator|(const Argument& a, const Argument& b) { return call("bitwise_or", {a, b}); }
inline Array operator^(const Argument& a, const Argument& b) { return call("bitwise_xor", {a, b}); }
inline Array operator-(const Array& x) { return call("negative", {x}); }
inline Array operator~(const Array& x) { return call("bitwise_invert", {x}); }

// --- Plans -----------------------------------------------------------------------------------------------------------

struct Output {
  Array array;
  std::string path = {};             // where the Zarr array is written
  std::optional<Shape> chunks = {};  // default: those of the last step's blocks
  std::optional<Shape> shards = {};
  int format = 3;  // Zarr format, 2 or 3
  std::string codecs = "blosc-lz4";
  bool overwrite = false;
};
struct PlanOptions {
  std::uint64_t memory = 0;  // bytes of the whole run on this machine; 0: 80 % of what is available
  int workers = 0;           // tasks at once, at most; 0: the number of cores
  bool durable = false;      // results survive loss of power
};
struct StageInfo {
  std::string name = {}, function = {}, confidence = {};
  std::vector<std::string> steps = {};
  std::int64_t tasks = 0;
  std::uint64_t projected_bytes = 0;  // of one task
  int concurrency = 1;
  std::uint64_t bytes_read = 0, bytes_written = 0;
};
// A plan that fits.
class Plan {
 public:
  struct State;
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::vector<StageInfo> stages() const;
  std::int64_t tasks() const;
  std::string table() const;  // as `cuboid plan` prints it
  std::string json() const;   // as `cuboid plan --json` prints it
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};
// Throws Error{over_budget} naming the stage, the number and what would fit; Error{invalid} for a wrong request.
Plan make_plan(const std::vector<Output>& outputs, const PlanOptions& options = {});

// --- Runs ------------------------------------------------------------------------------------------------------------

inline Policy grow_to(std::uint64_t max_task_memory) {
  return {.action = ExceedAction::grow, .max_task_memory = max_task_memory};
}
inline Policy park() { return {.action = ExceedAction::park}; }
inline Policy fail() { return {.action = ExceedAction::fail}; }
inline Policy ask() { return {.action = ExceedAction::ask}; }

struct Event {
  std::string
      what;  // "planned", "resumed", "stage_started", "task_started", "task_done", "task_grown", "task_retried", ...
  std::string stage = {};
  std::int64_t block = -1, count = 0;
  std::uint64_t bytes = 0;
  std::string text = {};
};
// A block's estimate was too low.
struct Question {
  std::string stage = {}, function = {};
  std::int64_t block = 0;
  std::uint64_t allowed = 0, peak = 0, needed = 0, proposed = 0;  // bytes; 0: not known
  int attempt = 1, max_attempts = 1;
};
struct Answer {
  enum class What : std::uint8_t { grow, alone, park, stop } what = What::park;
  std::uint64_t bytes = 0;  // of grow; 0: as proposed
  bool always = false;      // for the rest of this step's failures too
};
struct RunOptions {
  Policy on_exceed = {};
  std::string worker = {};                              // the worker program; "": $CUBOID_WORKER, else as installed
  std::function<void(const Event&)> observer = {};      // on the thread of run(); must return soon
  std::function<Answer(const Question&)> decider = {};  // likewise; none: `ask` acts as `park`
  std::string run_dir = {};                             // default: the first output's path + ".run"
  bool fresh = false;                                   // start anew
  bool keep = false;                                    // keep intermediates
};
struct StageOutcome {
  std::string name = {};
  std::int64_t tasks_done = 0, tasks_reused = 0, tasks_retried = 0, tasks_grown = 0, attempts = 0, parked = 0;
  std::optional<std::uint64_t> peak_bytes = {};  // largest measured
  std::uint64_t allowed_bytes = 0;               // largest grant
};
struct StoredArray {
  std::string name = {}, path = {};
  DType dtype = {};
  Shape shape = {};
};
// What `cuboid run --json` prints.
struct RunResult {
  std::string status = {};  // "done", "refused", "exceeded", "failed", "interrupted"
  int exit_code = 0;        // as `cuboid run` would end
  bool nothing_to_do = false;
  double wall_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::optional<Error> error = {};
  std::string run_dir = {};
  std::vector<StageOutcome> stages = {};
  std::vector<StoredArray> outputs = {};  // where done
};
// Goes on from where an earlier run in the same directory stopped. Throws what is found before the run; everything
// later is in the result.
RunResult run(const Plan& plan, const RunOptions& options = {});

}  // namespace face
}  // namespace cuboid
