// The validator: one check for each promise that a plugin makes, each run in a process of its own (engine/worker), since
// a plugin that breaks a promise may take the process with it. Reproducible by its seed.
//
// A check answers for its own promise alone: where a function does not even compute twice the same, or fails on every
// sample, the checks that would compare results pass with "not examined", and the check of that promise fails.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/check/trial.h"

namespace cuboid::check {

struct CheckRequest {
  std::string check;    // a name of check_list()
  std::string library;  // path
  SampleOptions samples;
  HeapMeter heap;
  std::function<void(const std::string&)> at;  // told what is tried next, so that a crash can be placed
};
struct CheckResult {
  bool passed = true;
  std::string detail;  // why not; or what was done
  bool ended = false;  // by the end of its process
};

struct CheckDoc {
  const char* name;
  const char* promise;
  // Where the process ends during the check: what that says; "" where it says nothing in particular.
  const char* on_crash;
  // When the checks behind it have nothing to look at.
  enum class Gate : std::uint8_t { none, ended, failed } gate = Gate::none;

  bool stops(const CheckResult& result) const {
    return !result.passed && (gate == Gate::failed || (gate == Gate::ended && result.ended));
  }
};
// In the order in which they are run. The first, `manifest`, reads the file without loading it.
const std::vector<CheckDoc>& check_list();

// Runs one check here. Throws Error{invalid} for a name that is none; all else is a result.
CheckResult run_check(const CheckRequest& request);

}  // namespace cuboid::check
