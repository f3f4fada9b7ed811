#include "engine/check/measure.h"

#include <algorithm>
#include <cmath>

#include "engine/plugin/parameters.h"
#include "engine/plugin/plugin_questions.h"
#include "storage/error.h"

namespace cuboid::check {
namespace {

double as_number(const ParamValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return 0;
}

bool is_numeric(const ParamManifest& param) {
  return param.type == ParamType::integer || param.type == ParamType::floating;
}

std::vector<Shape> combinations(std::size_t rank, const std::vector<std::int64_t>& extents) {
  std::vector<Shape> shapes{{}};
  for (std::size_t a = 0; a < rank; ++a) {
    std::vector<Shape> longer;
    for (const Shape& shape : shapes)
      for (const std::int64_t extent : extents) {
        longer.push_back(shape);
        longer.back().push_back(extent);
      }
    shapes = std::move(longer);
  }
  return shapes;
}

// Extents, halos, parameters and element sizes of a call, as the manifest's formulas see them.
Expression::Variables names_of(const PluginKernel& kernel) {
  const FunctionManifest& function = kernel.function();
  Expression::Variables names = kernel.binding().params().numbers(function);
  for (std::size_t k = 0; k < function.signature.inputs.size(); ++k) {
    const ArrayPattern& pattern = function.signature.inputs[k];
    const ArraySpec& input = kernel.binding().inputs()[k];
    if (!pattern.variable.empty()) names["size_" + pattern.variable] = input.dtype.size;
    for (std::size_t a = 0; a < pattern.extents.size(); ++a) {
      const std::string& axis = pattern.extents[a].axis;
      if (axis.empty()) continue;
      names[axis] = static_cast<double>(input.extents[a].value);
      names["halo_" + axis] = static_cast<double>(kernel.binding().halo(axis));
    }
  }
  return names;
}

// Solves the normal equations of a small least-squares problem; nullopt where they are singular or a coefficient is
// negative.
std::optional<std::vector<double>> solve(const std::vector<std::vector<double>>& columns,
                                         const std::vector<double>& right) {
  const std::size_t n = columns.size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1, 0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t r = 0; r < right.size(); ++r) a[i][j] += columns[i][r] * columns[j][r];
    for (std::size_t r = 0; r < right.size(); ++r) a[i][n] += columns[i][r] * right[r];
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    if (std::abs(a[i][i]) < 1e-12) return std::nullopt;
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c <= n; ++c) a[r][c] -= factor * a[i][c];
    }
  }
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = a[i][n] / a[i][i];
    if (x[i] < 0) return std::nullopt;
  }
  return x;
}

// Three significant digits, rounded up.
std::string rounded_up(double value) {
  const double step = std::pow(10.0, std::floor(std::log10(value)) - 2);
  const double up = std::ceil(value / step - 1e-9) * step;
  char text[32];
  std::snprintf(text, sizeof text, up >= 100 ? "%.0f" : "%.6g", up);
  return text;
}

struct Candidate {
  std::vector<std::size_t> terms;
  std::vector<double> factors;  // the last is the constant
  double cost = 0;
};

}  // namespace

std::vector<Shape> training_shapes(std::size_t rank) {
  if (rank == 0) return {{}};
  if (rank == 1) return combinations(1, {500, 2000, 8000, 32000, 128000});
  if (rank == 2) return combinations(2, {20, 60, 180, 400});
  if (rank == 3) return combinations(3, {8, 20, 48});
  return combinations(rank, {3, 7});
}

std::vector<Shape> held_out_shapes(std::size_t rank) {
  if (rank == 0) return {{}};
  if (rank == 1) return combinations(1, {1234, 50000, 300000});
  if (rank == 2) return {{37, 350}, {350, 37}, {111, 99}, {600, 500}, {700, 30}};
  if (rank == 3) return {{9, 40, 33}, {60, 15, 10}, {55, 50, 45}};
  return combinations(rank, {5, 8});
}

std::vector<Params> parameter_variants(const FunctionManifest& function, const Params& given) {
  SampleOptions options;
  std::vector<Sample> samples = make_samples(function, options);
  Params base = samples.empty() ? Params{} : samples[0].spec.params;
  for (const auto& [name, value] : given) base[name] = value;
  std::vector<Params> variants{base};
  for (const ParamManifest& param : function.params) {
    if (!is_numeric(param) || given.count(param.name)) continue;
    const auto own = base.find(param.name);
    const double value = as_number(own != base.end() ? own->second : *param.default_value);
    for (const double larger : {value > 0 ? 2 * value : value + 2, value > 0 ? 4 * value : value + 5}) {
      if (param.max && larger > as_number(*param.max)) continue;
      Params more = base;
      if (param.type == ParamType::integer)
        more[param.name] = static_cast<std::int64_t>(larger);
      else
        more[param.name] = larger;
      variants.push_back(std::move(more));
    }
  }
  return variants;
}

Measurement measure(const MeasureRequest& request) {
  const auto library = std::make_shared<PluginLibrary>(read_manifest(request.library));
  const auto& functions = library->manifest().functions;
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const FunctionManifest& one) { return one.id == request.function; });
  if (found == functions.end())
    throw Error(ErrorKind::invalid, request.library + " has no function " + request.function);
  SampleOptions options = request.samples;
  library->load();  // not in the middle of a call that is measured
  options.params = request.params;
  if (!options.data) options.first_extents = request.shape;
  Measurement result;
  std::optional<Error> failed;
  bool any = false;
  // The widest of the element types takes the most.
  std::vector<Sample> samples = make_samples(*found, options);
  const auto width = [](const Sample& sample) {
    return sample.spec.inputs().empty() ? 0u : sample.spec.inputs()[0].dtype.size;
  };
  std::uint32_t widest = 0;
  for (const Sample& sample : samples) widest = std::max(widest, width(sample));
  for (const Sample& sample : samples) {
    const bool varied = sample.name.find("noise") == std::string::npos;  // contents are varied for the first type only
    if (width(sample) != widest && !varied) continue;
    const PluginKernel kernel(sample.spec, library, static_cast<std::size_t>(found - functions.begin()),
                              local_inference());
    TrialOptions trial;
    if (&sample == &samples.front()) run_trial(kernel, sample, trial);  // what only a first call takes is no call's
    trial.heap = request.heap;
    TrialReport report = run_trial(kernel, sample, trial);
    if (report.error) failed = std::move(report.error);
    if (failed) continue;
    any = true;
    if (width(sample) == widest) result.names = names_of(kernel);
    result.call_bytes = std::max(result.call_bytes, report.call_bytes);
    result.state_bytes = std::max(result.state_bytes, report.state_bytes);
    const auto heap = static_cast<std::uint64_t>(std::max<std::int64_t>(report.heap_bytes, 0));
    result.outside_bytes = std::max({result.outside_bytes, report.outside_bytes, heap});
  }
  if (!any)
    throw failed ? *failed : Error(ErrorKind::invalid, request.function + ": no arguments could be made for it");
  return result;
}

std::vector<std::string> fit_terms(const FunctionManifest& function) {
  std::vector<std::string> sizes;  // of axes
  std::string product, padded;
  if (!function.signature.inputs.empty()) {
    for (const ExtentPattern& extent : function.signature.inputs[0].extents) {
      if (extent.axis.empty()) continue;
      const bool halo = function.regions.halo.count(extent.axis) > 0;
      const std::string grown = "(" + extent.axis + "+2*halo_" + extent.axis + ")";
      sizes.push_back(extent.axis);
      if (halo) sizes.push_back(grown);
      product += (product.empty() ? "" : "*") + extent.axis;
      padded += (padded.empty() ? "" : "*") + (halo ? grown : extent.axis);
    }
  }
  if (product.find('*') != std::string::npos) sizes.push_back(product);
  if (padded != product && padded.find('*') != std::string::npos) sizes.push_back(padded);
  std::vector<std::string> terms = sizes;
  for (const ParamManifest& param : function.params) {
    if (!is_numeric(param) || !param.min || as_number(*param.min) < 0) continue;
    terms.push_back(param.name);
    terms.push_back(param.name + "*" + param.name);
    for (const std::string& size : sizes) terms.push_back(param.name + "*" + size);
  }
  return terms;
}

Fit fit(const std::vector<std::string>& terms, const std::vector<FitPoint>& training,
        const std::vector<FitPoint>& held_out) {
  const bool nothing = std::all_of(training.begin(), training.end(), [](const FitPoint& p) { return p.bytes == 0; });
  if (training.empty() || nothing) {
    const bool still = std::all_of(held_out.begin(), held_out.end(), [](const FitPoint& p) { return p.bytes == 0; });
    return {"0", 1, still ? 0.0 : HUGE_VAL, 1};
  }
  std::vector<double> weight, ones(training.size(), 1);  // relative errors count
  for (const FitPoint& point : training) weight.push_back(1 / std::max(point.bytes, 64.0));
  std::vector<std::vector<double>> columns;
  for (const std::string& term : terms) {
    const Expression expression(term);
    std::vector<double>& column = columns.emplace_back();
    for (std::size_t r = 0; r < training.size(); ++r) column.push_back(expression.value(training[r].names) * weight[r]);
  }
  std::vector<double> right;
  for (std::size_t r = 0; r < training.size(); ++r) right.push_back(training[r].bytes * weight[r]);
  std::optional<Candidate> best;
  const auto consider = [&](const std::vector<std::size_t>& chosen, bool constant) {
    std::vector<std::vector<double>> used;
    for (const std::size_t t : chosen) used.push_back(columns[t]);
    if (constant) used.push_back(weight);
    if (used.empty()) return;
    const auto factors = solve(used, right);
    if (!factors) return;
    double worst = 0, sum = 0;
    std::vector<double> predicted(training.size(), 0);
    for (std::size_t r = 0; r < training.size(); ++r) {
      for (std::size_t c = 0; c < used.size(); ++c) predicted[r] += (*factors)[c] * used[c][r];
      worst = std::max(worst, predicted[r] > 0 ? right[r] / predicted[r] : HUGE_VAL);
    }
    if (!std::isfinite(worst)) return;
    for (std::size_t r = 0; r < training.size(); ++r) sum += worst * predicted[r] / std::max(right[r], 1e-6);
    // A further term must earn its place.
    const double cost = sum / static_cast<double>(training.size()) * (1 + 0.03 * static_cast<double>(used.size()));
    if (best && best->cost <= cost) return;
    best = Candidate{chosen, *factors, cost};
    if (!constant) best->factors.push_back(0);
    for (double& factor : best->factors) factor *= worst * kMeasureMargin;
  };
  for (const bool constant : {true, false}) {
    consider({}, constant);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      consider({i}, constant);
      for (std::size_t j = i + 1; j < terms.size(); ++j) consider({i, j}, constant);
    }
  }
  if (!best) throw Error(ErrorKind::invalid, "no formula of these terms covers what was measured");
  Fit result;
  result.formula.clear();
  for (std::size_t t = 0; t < best->terms.size(); ++t) {
    if (best->factors[t] <= 0) continue;
    result.formula +=
        (result.formula.empty() ? "" : " + ") + rounded_up(best->factors[t]) + "*" + terms[best->terms[t]];
  }
  if (best->factors.back() > 0)
    result.formula += (result.formula.empty() ? "" : " + ") +
                      std::to_string(static_cast<std::int64_t>(std::ceil(best->factors.back() / 64)) * 64);
  const Expression formula(result.formula);
  double sum = 0, counted = 0;
  result.margin = HUGE_VAL;
  for (const FitPoint& point : training) {
    if (point.bytes <= 0) continue;
    const double ratio = formula.value(point.names) / point.bytes;
    result.margin = std::min(result.margin, ratio);
    sum += ratio, counted += 1;
  }
  result.typical = sum / counted;
  for (const FitPoint& point : held_out)
    result.held_out = std::max(result.held_out, point.bytes / std::max(formula.value(point.names), 1.0));
  return result;
}

}  // namespace cuboid::check
