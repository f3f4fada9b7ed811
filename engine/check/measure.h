// For authors who have no idea how much memory their function takes: trial calls over several block shapes and
// parameters, and the formula that covers what was measured.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/check/trial.h"

namespace cuboid::check {

// What a library's malloc takes in passing: where no call took more, outside_bytes may be stated as 0.
inline constexpr double kHeapNoise = 64 << 10;

// What one call took, largest over several kinds of contents.
struct Measurement {
  Expression::Variables names;  // what a formula of the manifest may mention: axes, halos, parameters, element sizes
  std::uint64_t call_bytes = 0, state_bytes = 0, outside_bytes = 0;
};

// Shapes of the first input to measure on, and others to test the formula with; a pure function of its rank.
std::vector<Shape> training_shapes(std::size_t rank);
std::vector<Shape> held_out_shapes(std::size_t rank);
// Values of parameters to measure with: the defaults (and `given`), then each numeric parameter larger in turn.
std::vector<Params> parameter_variants(const FunctionManifest& function, const Params& given);

struct MeasureRequest {
  std::string library, function;  // path; "vendor.name/1"
  Params params;
  Shape shape;
  SampleOptions samples;
  HeapMeter heap;
};
// Throws Error where every call fails.
Measurement measure(const MeasureRequest& request);

// A formula for bytes: the sum of at most two terms and a constant, never falling along an axis, that is at least
// `margin` times every training value.
struct Fit {
  std::string formula;
  double margin = 1;    // formula over measurement, at least, in training
  double held_out = 0;  // largest measurement over formula among those held out: below 1, the formula held
  double typical = 1;   // mean of formula over measurement in training
};
struct FitPoint {
  Expression::Variables names;
  double bytes = 0;
};
// `terms`: formulas to combine (fit_terms).
Fit fit(const std::vector<std::string>& terms, const std::vector<FitPoint>& training,
        const std::vector<FitPoint>& held_out);
// The terms that a function's formula may be made of: its axes and their product, with and without halo, and numeric
// parameters that cannot be negative, alone, squared, and times these.
std::vector<std::string> fit_terms(const FunctionManifest& function);

inline constexpr double kMeasureMargin = 1.1;

}  // namespace cuboid::check
