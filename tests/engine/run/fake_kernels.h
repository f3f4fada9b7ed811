// Kernels that behave, and misbehave, on demand; plans of one stage around them. Shared by the tests of tasks and
// executors and by the worker program that those tests start.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace cuboid::testing {

// Functions, all with the parameters `shape` (of the one output, float64) and `n`:
//   fake.fill      writes the index in C order of each element in the whole array, plus n
//   fake.take      acquires n bytes through its account, 1 MiB at a time, of which `declared` are estimated
//   fake.known     the same, with `declared` bytes exact
//   fake.malloc    takes n bytes by malloc, 1 MiB at a time; throws bad_alloc where it is refused
//   fake.abort     takes n bytes by malloc; aborts where it is refused
//   fake.map       maps n bytes by itself and touches them
//   fake.throw     throws Error{plugin}
//   fake.crash     aborts      fake.exit  exits with n      fake.kill  raises signal n
//   fake.wait      waits until it is cancelled, n ms at most (0: for ever), without progress
//   fake.deaf      sleeps n ms without looking
//   fake.chatty    logs "hello from fake.chatty" and prints to standard output
//   fake.report    reports progress n times, 50 ms apart
//   fake.short     ragged along axis 0: produces n rows, each row filled with its index + 10 x block
//   fake.narrow    ragged along axis 1: produces n columns, element (r, c) filled with 100 r + c + first column
//   fake.less      claims to have produced one row
class FakeResolver : public KernelResolver {
 public:
  std::shared_ptr<const Kernel> resolve(const KernelSpec& spec) const override;
  std::vector<FunctionDoc> functions() const override { return {}; }
};
const FakeResolver& fake_kernels();

struct FakeStage {
  std::string function;
  std::int64_t n = 0;
  std::int64_t declared = 0;  // estimated bytes
  Shape shape{4, 6};
  Shape block{2, 3};
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
};
// One stage a function, each writing an array of its own ("out0", "out1", ...) in `folder`; also saved there as
// plan.json.
std::shared_ptr<const Plan> make_fake_plan(const std::vector<FakeStage>& stages, const std::filesystem::path& folder);

// A fresh folder, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cuboid::testing
