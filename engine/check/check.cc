#include "engine/check/check.h"

#include <algorithm>
#include <cstring>

#include "engine/check/checks.h"
#include "engine/plugin/plugin_questions.h"

namespace cuboid::check {
namespace {

struct Entry {
  CheckDoc doc;
  Check run;
};

using Gate = CheckDoc::Gate;

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list{
      {{"manifest", "The manifest is valid, and its numbers never fall when an axis grows.", "", Gate::failed},
       check_manifest},
      {{"loads", "It can be loaded, and its table of functions is the manifest's.", "loading it ends the process",
        Gate::failed},
       check_loads},
      {{"exports", "Exactly one symbol is exported.", ""}, check_exports},
      {{"loading", "Loading takes next to no memory, starts no thread, and changes nothing in the process.", ""},
       check_loading},
      {{"infer", "`infer` says what the manifest says, never less for a larger block, and allocates nothing.", ""},
       check_infer},
      {{"calls", "Calls on sample data succeed.", "a call on sample data ends the process", Gate::ended}, check_calls},
      {{"examples", "The manifest's golden examples come out as stated.", ""}, check_examples},
      {{"repeats", "The same call gives the same bits again (pure).", ""}, check_repeats},
      {{"blocks", "Results do not depend on how the array is cut into blocks.", ""}, check_blocks},
      {{"strides", "Results do not depend on strides: rows with gaps, reversed axes, weakly aligned elements.", ""},
       check_strides},
      {{"threads", "Calls that may overlap (reentrant, state_local) give the same bits when they do.", ""},
       check_threads},
      {{"reads", "Nothing is read beyond the inputs.", "it reads beyond an input"}, check_reads},
      {{"writes", "Nothing is written beyond the outputs.", "it writes beyond an output"}, check_writes},
      {{"inputs", "Inputs are not written to.", "it writes to an input"}, check_inputs},
      {{"filled", "Every element of a preallocated output is written.", ""}, check_filled},
      {{"rows", "Results and slabs are no longer than their bounds.", ""}, check_rows},
      {{"capacity", "With less room for a result, the call says how much it needs.", ""}, check_capacity},
      {{"call_bytes", "No call takes more through the host than call_bytes.", ""}, check_call_bytes},
      {{"state_bytes", "No state keeps more than state_bytes.", ""}, check_state_bytes},
      {{"outside_bytes", "No call takes more past the host than outside_bytes.", ""}, check_outside_bytes},
      {{"release", "What a call acquires it releases.", ""}, check_release},
      {{"refusal", "Refused memory ends in CUBOID_E_BUDGET, without a crash or a leak.",
        "refused memory ends the process"},
       check_refusal},
      {{"cancel", "A cancelled call ends with its result or with CUBOID_E_CANCELLED.",
        "a cancelled call ends the process"},
       check_cancel},
      {{"surroundings",
        "A call leaves the process as it was: rounding, locale, working directory, signals, threads, files.", ""},
       check_surroundings},
  };
  return list;
}

std::string counted(std::int64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

const std::vector<CheckDoc>& check_list() {
  static const std::vector<CheckDoc> docs = [] {
    std::vector<CheckDoc> list;
    for (const Entry& entry : entries()) list.push_back(entry.doc);
    return list;
  }();
  return docs;
}

CheckResult run_check(const CheckRequest& request) {
  const auto found = std::find_if(entries().begin(), entries().end(),
                                  [&](const Entry& entry) { return request.check == entry.doc.name; });
  if (found == entries().end()) throw Error(ErrorKind::invalid, "there is no check '" + request.check + "'");
  try {
    const Subject subject{std::make_shared<PluginLibrary>(read_manifest(request.library)), request};
    return {true, found->run(subject)};
  } catch (const Failed& failed) {
    return {false, failed.why};
  } catch (const Error& error) {
    return {false, error.message()};
  }
}

std::shared_ptr<const PluginKernel> bind(const Subject& subject, std::size_t function, const Sample& sample) {
  return std::make_shared<PluginKernel>(sample.spec, subject.library, function, local_inference());
}

std::string failure(const TrialReport& report) {
  return report.error ? "it failed: " + report.error->message() : "it succeeded";
}

std::string difference(const Case& which, const TrialReport& a, const TrialReport& b) {
  for (std::size_t k = 0; k < a.out.size(); ++k) {
    const std::string name = "output " + which.function().signature.outputs[k].name;
    if (a.shapes[k] != b.shapes[k])
      return name + " has the extents " + to_string(b.shapes[k]) + " instead of " + to_string(a.shapes[k]);
    const auto [at, other] = std::mismatch(a.out[k].begin(), a.out[k].end(), b.out[k].begin());
    if (at == a.out[k].end()) continue;
    const std::size_t item = which.kernel->outputs()[k].spec.dtype.size;
    Shape index;
    std::int64_t rest = (at - a.out[k].begin()) / static_cast<std::int64_t>(item);
    for (std::size_t axis = a.shapes[k].size(); axis-- > 0; rest /= a.shapes[k][axis])
      index.insert(index.begin(), rest % a.shapes[k][axis]);
    return name + " differs, first at the index " + to_string(index);
  }
  return "";
}

std::string for_each_case(const Subject& subject, bool repeatable, const std::function<void(const Case&)>& body) {
  std::int64_t cases = 0, left_out = 0;
  for (std::size_t index = 0; index < subject.manifest().functions.size(); ++index) {
    const FunctionManifest& function = subject.manifest().functions[index];
    for (Sample& sample : make_samples(function, subject.request.samples)) {
      const std::string name = function.id + ", " + sample.name;
      subject.request.at(name);
      try {
        Case one{name, bind(subject, index, sample), std::move(sample), {}};
        one.reference = run_trial(*one.kernel, one.sample);
        const bool works = one.reference.ok();
        const bool usable =
            works && (!repeatable || difference(one, one.reference, run_trial(*one.kernel, one.sample)).empty());
        usable ? ++cases : ++left_out;
        if (usable) body(one);
      } catch (const Error&) {
        ++left_out;  // the function does not take these arguments
      }
    }
  }
  return counted(cases, "case") + (left_out > 0 ? ", " + counted(left_out, "other") + " not examined" : std::string());
}

}  // namespace cuboid::check
