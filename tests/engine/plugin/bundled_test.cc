// The plugins that come with Cuboid, as the host sees them: found without any setting, loaded, and their golden
// examples computed through the C ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/plugin/plugin_host.h"
#include "engine/plugin/plugin_kernel.h"
#include "storage/error.h"

namespace cuboid {
namespace {

double element(const ExampleArray& array, std::size_t k) {
  const std::byte* at = array.data.data() + k * array.dtype.size;
  if (array.dtype == kFloat32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  if (array.dtype == kFloat64) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::int64_t value = 0;
  std::memcpy(&value, at, array.dtype.size);
  return static_cast<double>(value);
}

bool near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) / std::max(1.0, std::abs(b)) <= tolerance;
}

void check_example(const PluginResolver& resolver, const FunctionManifest& function, const ExampleManifest& example) {
  KernelSpec spec;
  spec.function = function.id;
  spec.params = example.params;
  for (const ExampleArray& array : example.in) spec.args.emplace_back(ArraySpec(array.dtype, array.shape));
  const auto kernel = resolver.resolve(spec);
  const CallMemory memory = kernel->memory(Phase::map, kernel->domain());
  MemoryAccount account(static_cast<std::size_t>(memory.sure + memory.uncertain));
  CallMonitor monitor;
  KernelCall call;
  call.block = Box::whole(kernel->domain());
  call.memory = &account;
  call.monitor = &monitor;
  for (std::size_t k = 0; k < example.in.size(); ++k) {
    call.in_box.push_back(kernel->input_box(k, call.block));
    call.in.push_back(make_view(example.in[k].data.data(), example.in[k].dtype, example.in[k].shape));
  }
  std::vector<std::vector<std::byte>> out;
  for (std::size_t k = 0; k < kernel->outputs().size(); ++k) {
    const Shape capacity = kernel->output_extents(k, call.block.shape);
    const DType dtype = kernel->outputs()[k].spec.dtype;
    out.emplace_back(byte_count(capacity, dtype) + 1);
    call.out.push_back(make_view(out.back().data(), dtype, capacity));
    call.produced.push_back(capacity);
  }
  kernel->run(call);
  for (std::size_t k = 0; k < example.out.size(); ++k) {
    ASSERT_EQ(call.produced[k], example.out[k].shape) << function.id;
    ExampleArray got = example.out[k];
    std::copy_n(out[k].begin(), got.data.size(), got.data.begin());
    for (std::int64_t e = 0; e < element_count(got.shape); ++e) {
      const auto at = static_cast<std::size_t>(e);
      EXPECT_TRUE(near(element(got, at), element(example.out[k], at), example.tolerance))
          << function.id << " output " << k << " element " << e << ": " << element(got, at) << " instead of "
          << element(example.out[k], at);
    }
  }
}

TEST(BundledPlugins, AreFoundAndComputeTheirExamples) {
  PluginReport report = find_plugins({}, plugin_folders());
  std::vector<std::string> names;
  for (const Manifest& manifest : report.found) names.push_back(manifest.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"filter", "sky", "terrain"}));
  for (const SkippedLibrary& skipped : report.skipped) ADD_FAILURE() << skipped.reason;
  const PluginResolver resolver(std::move(report.found));
  resolver.load();
  int examples = 0;
  for (const auto& library : resolver.libraries())
    for (const FunctionManifest& function : library->manifest().functions)
      for (const ExampleManifest& example : function.examples) {
        SCOPED_TRACE(function.id);
        check_example(resolver, function, example);
        ++examples;
      }
  EXPECT_GT(examples, 0);
}

}  // namespace
}  // namespace cuboid
