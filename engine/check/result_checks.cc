// Checks that compare results.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <thread>

#include "engine/check/checks.h"

namespace cuboid::check {
namespace {

// The k-th real number of an array: complex elements count as two.
double number(const std::vector<std::byte>& elements, DType dtype, std::size_t k) {
  const std::size_t size = dtype.kind == Kind::complex_float ? dtype.size / 2 : dtype.size;
  const std::byte* at = elements.data() + k * size;
  const bool floating = dtype.kind == Kind::floating || dtype.kind == Kind::complex_float;
  if (floating && size == 4) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  if (floating) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::int64_t value = 0;
  std::memcpy(&value, at, size);
  if (dtype.kind == Kind::signed_int && size < 8) {
    const int unused = 64 - 8 * static_cast<int>(size);
    value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused) >> unused;
  }
  return static_cast<double>(value);
}

bool near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) / std::max(1.0, std::abs(b)) <= tolerance;
}

void compare_example(const Case& one, const ExampleManifest& example) {
  const TrialReport& got = one.reference;
  for (std::size_t k = 0; k < example.out.size(); ++k) {
    const ExampleArray& expected = example.out[k];
    const std::string name = one.name + ": output " + one.function().signature.outputs[k].name;
    if (got.shapes[k] != expected.shape)
      throw Failed{name + " has the extents " + to_string(got.shapes[k]) + ", expected " + to_string(expected.shape)};
    const std::size_t parts = expected.dtype.kind == Kind::complex_float ? 2 : 1;
    for (std::size_t e = 0; e < static_cast<std::size_t>(element_count(expected.shape)) * parts; ++e) {
      const double is = number(got.out[k], expected.dtype, e), should = number(expected.data, expected.dtype, e);
      if (!near(is, should, example.tolerance))
        throw Failed{name + ", element " + std::to_string(e / parts) + ", is " + std::to_string(is) + ", expected " +
                     std::to_string(should) + " within " + std::to_string(example.tolerance)};
    }
  }
}

// Where two results differ by more than rounding does.
std::string rounding_difference(const Case& which, const TrialReport& a, const TrialReport& b) {
  constexpr double kTolerance = 1e-5;
  for (std::size_t k = 0; k < a.out.size(); ++k) {
    const DType dtype = which.kernel->outputs()[k].spec.dtype;
    const bool floating = dtype.kind == Kind::floating || dtype.kind == Kind::complex_float;
    const std::size_t parts = dtype.kind == Kind::complex_float ? 2 : 1;
    for (std::size_t e = 0; e < static_cast<std::size_t>(element_count(a.shapes[k])) * parts; ++e)
      if (!near(number(b.out[k], dtype, e), number(a.out[k], dtype, e), floating ? kTolerance : 0))
        return "output " + which.function().signature.outputs[k].name + " differs at element " +
               std::to_string(e / parts);
  }
  return "";
}

// Blocks that cut the given axes of the domain in different places.
std::vector<Shape> cuts(const Shape& domain, const std::vector<bool>& may_cut, bool one_axis_at_a_time) {
  std::vector<Shape> blocks;
  Shape whole = domain;
  for (std::int64_t& extent : whole) extent = std::max<std::int64_t>(extent, 1);
  for (const std::int64_t parts : {2, 3, 5}) {
    Shape all = whole;
    for (std::size_t a = 0; a < domain.size(); ++a) {
      if (!may_cut[a]) continue;
      all[a] = std::max<std::int64_t>(1, domain[a] / parts);
      Shape one = whole;
      one[a] = all[a];
      blocks.push_back(one);
    }
    if (!one_axis_at_a_time) blocks.push_back(all);
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  std::erase(blocks, whole);
  return blocks;
}

}  // namespace

std::string check_examples(const Subject& subject) {
  std::size_t count = 0;
  for (std::size_t index = 0; index < subject.manifest().functions.size(); ++index) {
    const FunctionManifest& function = subject.manifest().functions[index];
    for (std::size_t k = 0; k < function.examples.size(); ++k, ++count) {
      const ExampleManifest& example = function.examples[k];
      Sample sample;
      sample.name = "example " + std::to_string(k);
      sample.spec.function = function.id;
      sample.spec.params = example.params;
      for (const ExampleArray& array : example.in) {
        sample.spec.args.emplace_back(ArraySpec(array.dtype, array.shape));
        sample.in.push_back(array.data);
      }
      const std::string name = function.id + ", " + sample.name;
      subject.request.at(name);
      Case one{name, bind(subject, index, sample), sample, {}};
      one.reference = run_trial(*one.kernel, one.sample);
      if (!one.reference.ok()) throw Failed{name + ": " + failure(one.reference)};
      compare_example(one, example);
    }
  }
  return std::to_string(count) + (count == 1 ? " example" : " examples");
}

// Arbitrary data may be refused for good reasons (a singular matrix), but a function that takes none of it is broken.
std::string check_calls(const Subject& subject) {
  std::string detail;
  for (std::size_t index = 0; index < subject.manifest().functions.size(); ++index) {
    const FunctionManifest& function = subject.manifest().functions[index];
    std::string why = "no arguments could be made for it: give it a golden example";
    bool works = false;
    for (const Sample& sample : make_samples(function, subject.request.samples)) {
      subject.request.at(function.id + ", " + sample.name);
      try {
        const TrialReport report = run_trial(*bind(subject, index, sample), sample);
        if (report.ok()) works = true;
        if (report.error) why = report.error->message();
      } catch (const Error& error) {
        why = error.message();
      }
    }
    if (!works) throw Failed{function.id + ": every call on sample data failed, the last one so: " + why};
  }
  return std::to_string(subject.manifest().functions.size()) + " functions";
}

std::string check_repeats(const Subject& subject) {
  return for_each_case(subject, false, [](const Case& one) {
    if (!one.function().flags.pure) return;
    for (int again = 0; again < 3; ++again) {
      const std::string where = difference(one, one.reference, run_trial(*one.kernel, one.sample));
      if (!where.empty()) throw Failed{one.name + ": a second call on the same data: " + where};
    }
  });
}

std::string check_blocks(const Subject& subject) {
  return for_each_case(subject, true, [](const Case& one) {
    const FunctionManifest& function = one.function();
    // Merging partial sums in another order may round otherwise; that their tree is fixed is the engine's part.
    const bool reduces = !function.partial.empty();
    const bool joined = std::any_of(one.kernel->outputs().begin(), one.kernel->outputs().end(),
                                    [](const OutputSpec& output) { return output.ragged_axis.has_value(); });
    std::vector<bool> may_cut = one.kernel->whole_axes();
    may_cut.flip();
    if (joined) may_cut = one.kernel->splittable_axes();
    for (const Shape& block : cuts(one.kernel->domain(), may_cut, joined)) {
      TrialOptions options;
      options.block = block;
      const TrialReport report = run_trial(*one.kernel, one.sample, options);
      const std::string where = one.name + ", in blocks of " + to_string(block) + ": ";
      if (!report.ok()) throw Failed{where + failure(report)};
      const std::string what =
          reduces ? rounding_difference(one, one.reference, report) : difference(one, one.reference, report);
      if (!what.empty()) throw Failed{where + what};
    }
  });
}

std::string check_strides(const Subject& subject) {
  return for_each_case(subject, true, [](const Case& one) {
    static constexpr std::array kLayouts{Layout::contiguous, Layout::padded, Layout::reversed};
    static constexpr std::array<const char*, 3> kNames{"contiguous", "padded", "reversed"};
    for (const Layout in : kLayouts)
      for (const Layout out : kLayouts) {
        TrialOptions options;
        options.in = in;
        options.out = out;
        const TrialReport report = run_trial(*one.kernel, one.sample, options);
        const std::string where = one.name + ", inputs " + kNames[static_cast<std::size_t>(in)] + ", outputs " +
                                  kNames[static_cast<std::size_t>(out)] + ": ";
        if (!report.ok()) throw Failed{where + failure(report)};
        const std::string what = difference(one, one.reference, report);
        if (!what.empty()) throw Failed{where + what};
      }
  });
}

// Two cases that differ run on four threads at once: what they share shows.
std::string check_threads(const Subject& subject) {
  std::vector<Case> cases;
  for_each_case(subject, true, [&](const Case& one) {
    if (one.function().flags.reentrant || one.function().flags.state_local) cases.push_back(one);
  });
  constexpr int kThreads = 4, kRounds = 12;
  for (const Case& first : cases) {
    const auto other = std::find_if(cases.rbegin(), cases.rend(), [&](const Case& one) {
      return one.function().id == first.function().id && one.sample.spec.params == first.sample.spec.params;
    });
    subject.request.at(first.name);
    std::atomic<int> waiting{kThreads};
    std::array<std::string, kThreads> faults;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        const Case& one = t % 2 == 0 ? first : *other;
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        for (int round = 0; round < kRounds && faults[static_cast<std::size_t>(t)].empty(); ++round) {
          const TrialReport report = run_trial(*one.kernel, one.sample);
          faults[static_cast<std::size_t>(t)] = report.ok() ? difference(one, one.reference, report) : failure(report);
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& fault : faults)
      if (!fault.empty()) throw Failed{first.name + ": while other calls run, " + fault};
  }
  return std::to_string(cases.size()) + " cases on " + std::to_string(kThreads) + " threads";
}

std::string check_filled(const Subject& subject) {
  return for_each_case(subject, true, [](const Case& one) {
    for (const std::byte filler : {std::byte{0}, std::byte{0x7F}}) {
      TrialOptions options;
      options.filler = filler;
      const TrialReport report = run_trial(*one.kernel, one.sample, options);
      const std::string what = report.ok() ? difference(one, one.reference, report) : failure(report);
      if (!what.empty())
        throw Failed{one.name + ": the result depends on what was in the output's memory before: " + what};
    }
  });
}

}  // namespace cuboid::check
