// Checks of what is touched and taken.
#include <algorithm>

#include "engine/check/checks.h"

namespace cuboid::check {
namespace {

constexpr std::int64_t kHeapSlack = 64 << 10;  // below it outside_bytes may be stated as 0
constexpr std::int64_t kMostRefusals = 64;     // requests of one call that are refused in turn

// Fails with the first breach of the promise, by an uncut call or by smaller blocks: a formula may hold for one block
// shape and not for another.
std::string broken(const Subject& subject, CallProbe::Promise promise) {
  return for_each_case(subject, false, [&](const Case& one) {
    const auto complain = [&](const TrialReport& report, const std::string& where) {
      const auto found = report.broken.find(promise);
      if (found != report.broken.end()) throw Failed{one.name + where + ": it " + found->second};
    };
    complain(one.reference, "");
    const std::vector<bool> whole = one.kernel->whole_axes();
    TrialOptions options;
    options.block = one.kernel->domain();
    for (std::size_t a = 0; a < options.block.size(); ++a)
      options.block[a] = std::max<std::int64_t>(1, whole[a] ? options.block[a] : options.block[a] / 3);
    if (!options.block.empty())
      complain(run_trial(*one.kernel, one.sample, options), ", in blocks of " + to_string(options.block));
  });
}

}  // namespace

std::string check_reads(const Subject& subject) {
  return for_each_case(subject, false, [&](const Case& one) {
    for (const Fence fence : {Fence::before, Fence::behind}) {
      subject.request.at(one.name);
      TrialOptions options;
      options.in_fence = fence;
      run_trial(*one.kernel, one.sample, options);
    }
  });
}

std::string check_writes(const Subject& subject) {
  return for_each_case(subject, false, [&](const Case& one) {
    for (const Fence fence : {Fence::before, Fence::behind}) {
      subject.request.at(one.name);
      TrialOptions options;
      options.out_fence = fence;
      if (!run_trial(*one.kernel, one.sample, options).outputs_intact)
        throw Failed{one.name + ": it wrote beyond an output"};
    }
    TrialOptions gaps;
    gaps.out = Layout::padded;
    if (!run_trial(*one.kernel, one.sample, gaps).outputs_intact)
      throw Failed{one.name + ": it wrote into the gaps between the rows of an output"};
  });
}

std::string check_inputs(const Subject& subject) {
  return for_each_case(subject, false, [&](const Case& one) {
    subject.request.at(one.name);
    TrialOptions options;
    options.protect_inputs = true;
    run_trial(*one.kernel, one.sample, options);
  });
}

std::string check_rows(const Subject& subject) {
  broken(subject, CallProbe::Promise::slab);
  return broken(subject, CallProbe::Promise::rows);
}

std::string check_capacity(const Subject& subject) {
  return for_each_case(subject, true, [](const Case& one) {
    for (std::size_t k = 0; k < one.kernel->outputs().size(); ++k) {
      const auto& axis = one.kernel->outputs()[k].ragged_axis;
      const std::int64_t rows = axis ? one.reference.shapes[k][*axis] : 0;
      if (rows == 0) continue;
      for (const std::int64_t room : {std::int64_t{0}, rows - 1}) {
        TrialOptions options;
        options.capacity = room;
        const TrialReport report = run_trial(*one.kernel, one.sample, options);
        const std::string where = one.name + ", with room for " + std::to_string(room) + " of " + std::to_string(rows) +
                                  " rows of output " + one.function().signature.outputs[k].name + ": ";
        if (report.ok()) throw Failed{where + "it succeeded"};
        std::string needed;
        for (const auto& [key, value] : report.error->context())
          if (key == "bound_needed") needed = value;
        if (needed.empty()) throw Failed{where + "it did not tell the extent that it needs: " + failure(report)};
        if (report.status != CUBOID_E_BOUND)
          throw Failed{where + "it ended with status " + std::to_string(report.status) + ", expected E_BOUND"};
      }
    }
  });
}

std::string check_call_bytes(const Subject& subject) { return broken(subject, CallProbe::Promise::call_bytes); }
std::string check_state_bytes(const Subject& subject) { return broken(subject, CallProbe::Promise::state_bytes); }
std::string check_release(const Subject& subject) { return broken(subject, CallProbe::Promise::release); }

std::string check_outside_bytes(const Subject& subject) {
  std::string detail = broken(subject, CallProbe::Promise::outside_bytes);
  if (!subject.request.heap) return detail + "; this program does not count malloc";
  subject.library->load();
  return for_each_case(subject, false, [&](const Case& one) {
    const auto promised = one.kernel->binding().promised_bytes(one.function().outside_bytes, one.kernel->domain());
    if (!promised) return;
    TrialOptions options;
    options.heap = subject.request.heap;
    const TrialReport report = run_trial(*one.kernel, one.sample, options);
    if (report.heap_bytes > static_cast<std::int64_t>(*promised) + kHeapSlack)
      throw Failed{one.name + ": it took " + format_size(static_cast<std::uint64_t>(report.heap_bytes)) +
                   " by malloc, its manifest promises at most " + format_size(*promised) + " of outside_bytes"};
  });
}

std::string check_refusal(const Subject& subject) {
  return for_each_case(subject, false, [&](const Case& one) {
    const std::int64_t requests = std::min(one.reference.requests, kMostRefusals);
    for (std::int64_t n = 0; n < requests; ++n) {
      const std::string where = one.name + ", request " + std::to_string(n) + " refused: ";
      subject.request.at(one.name + ", request " + std::to_string(n) + " refused");
      TrialOptions options;
      options.refuse = n;
      const TrialReport report = run_trial(*one.kernel, one.sample, options);
      if (report.ok()) throw Failed{where + "it succeeded, but another call made more requests"};
      if (report.status == 0) throw Failed{where + "it returned OK all the same"};
      if (report.status != CUBOID_E_BUDGET)
        throw Failed{where + "it ended with status " + std::to_string(report.status) + ", expected E_BUDGET (" +
                     std::to_string(CUBOID_E_BUDGET) + "): " + failure(report)};
      const auto leak = report.broken.find(CallProbe::Promise::release);
      if (leak != report.broken.end() && !one.reference.broken.count(CallProbe::Promise::release))
        throw Failed{where + "it " + leak->second};
    }
  });
}

std::string check_cancel(const Subject& subject) {
  return for_each_case(subject, true, [&](const Case& one) {
    for (const std::int64_t from : {std::int64_t{0}, one.reference.questions / 2}) {
      subject.request.at(one.name + ", cancelled");
      TrialOptions options;
      options.cancel_at = from;
      const TrialReport report = run_trial(*one.kernel, one.sample, options);
      if (report.status == CUBOID_E_CANCELLED) continue;
      if (!report.ok()) throw Failed{one.name + ", cancelled: " + failure(report)};
      const std::string what = difference(one, one.reference, report);
      if (!what.empty()) throw Failed{one.name + ", cancelled, it succeeded with another result: " + what};
    }
  });
}

}  // namespace cuboid::check
