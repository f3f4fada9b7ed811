// The checks themselves, by what they look at. Each throws Failed with why the promise does not hold, or returns what was
// done.
#pragma once
#include <memory>
#include <string>

#include "engine/check/check.h"
#include "engine/plugin/plugin_library.h"

namespace cuboid::check {

struct Failed {
  std::string why;
};

struct Subject {
  std::shared_ptr<const PluginLibrary> library;
  const CheckRequest& request;
  const Manifest& manifest() const { return library->manifest(); }
};

using Check = std::string (*)(const Subject&);

// --- the library as a whole (library_checks.cc)
std::string check_manifest(const Subject& subject);
std::string check_loads(const Subject& subject);
std::string check_exports(const Subject& subject);
std::string check_loading(const Subject& subject);
std::string check_infer(const Subject& subject);
std::string check_surroundings(const Subject& subject);

// --- results (result_checks.cc)
std::string check_examples(const Subject& subject);
std::string check_calls(const Subject& subject);
std::string check_repeats(const Subject& subject);
std::string check_blocks(const Subject& subject);
std::string check_strides(const Subject& subject);
std::string check_threads(const Subject& subject);
std::string check_filled(const Subject& subject);

// --- memory (memory_checks.cc)
std::string check_reads(const Subject& subject);
std::string check_writes(const Subject& subject);
std::string check_inputs(const Subject& subject);
std::string check_rows(const Subject& subject);
std::string check_capacity(const Subject& subject);
std::string check_call_bytes(const Subject& subject);
std::string check_state_bytes(const Subject& subject);
std::string check_outside_bytes(const Subject& subject);
std::string check_release(const Subject& subject);
std::string check_refusal(const Subject& subject);
std::string check_cancel(const Subject& subject);

// --- what they share (check.cc)
std::shared_ptr<const PluginKernel> bind(const Subject& subject, std::size_t function, const Sample& sample);

// A function with a sample on which it works, and the result of the uncut call.
struct Case {
  std::string name;  // "demo.above/1, float64 noise"
  std::shared_ptr<const PluginKernel> kernel;
  Sample sample;
  TrialReport reference;
  const FunctionManifest& function() const { return kernel->function(); }
};
// Calls `body` with every case that works; `repeatable`: only with those that give the same twice. Returns how many
// there were, as text.
std::string for_each_case(const Subject& subject, bool repeatable, const std::function<void(const Case&)>& body);

// Where two results differ, or "".
std::string difference(const Case& which, const TrialReport& a, const TrialReport& b);
// "it failed: TEXT" for a trial that should have worked.
std::string failure(const TrialReport& report);

}  // namespace cuboid::check
