#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/check/measure.h"
#include "engine/cli/command.h"
#include "engine/plan/plan_json.h"
#include "engine/plugin/plugin_host.h"
#include "engine/report/table.h"
#include "engine/run/run.h"
#include "engine/run/worker_questions.h"

namespace cuboid {
namespace {

using nlohmann::json;

constexpr std::chrono::minutes kMeasurePatience{5};  // for one shape

constexpr const char* kNumbers[] = {"call_bytes", "state_bytes", "outside_bytes"};

// What trial calls of a function took, by number of the manifest.
struct Points {
  std::vector<check::FitPoint> of[3];
};

class Measuring {
 public:
  Measuring(const PluginCommand& command, const std::string& library, const FunctionManifest& function)
      : command_(command), library_(library), function_(function), worker_(worker_program("")) {}

  Points points(const std::vector<Shape>& shapes, const std::vector<Params>& variants) {
    Points points;
    for (const Params& params : variants)
      for (const Shape& shape : shapes) {
        json question = {{"ask", "measure"}, {"library", library_},   {"function", function_.id},
                         {"shape", shape},   {"seed", command_.seed}, {"params", params_to_json(params)}};
        if (!command_.data.empty()) question["data"] = command_.data;
        const json told = json::parse(questions().ask(question.dump(), kMeasurePatience));
        if (told.contains("error"))
          throw Error(ErrorKind::plugin, function_.id + " in a block of " + to_string(shape) + ": " +
                                             told.at("error").at("message").get<std::string>());
        const auto names = told.at("names").get<std::map<std::string, double>>();
        for (std::size_t k = 0; k < 3; ++k)
          points.of[k].push_back(
              {Expression::Variables(names.begin(), names.end()), told.at(kNumbers[k]).get<double>()});
      }
    return points;
  }

 private:
  WorkerQuestions& questions() {
    if (!questions_) questions_.emplace(worker_);
    return *questions_;
  }

  const PluginCommand& command_;
  const std::string& library_;
  const FunctionManifest& function_;
  std::string worker_;
  std::optional<WorkerQuestions> questions_;
};

// "sigma=1.5" as the parameter's type says.
Params given_params(const FunctionManifest& function, const std::vector<std::string>& texts) {
  Params params;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto found = std::find_if(function.params.begin(), function.params.end(),
                                    [&](const ParamManifest& param) { return param.name == name; });
    if (equals == std::string::npos || found == function.params.end())
      throw Error(ErrorKind::invalid, "--param " + text + ": expected NAME=VALUE with a parameter of " + function.id);
    json value = json::parse(text.substr(equals + 1), nullptr, false);
    if (value.is_discarded() || found->type == ParamType::string) value = text.substr(equals + 1);
    const Params one = params_from_json(json{{name, value}});
    params[name] = checked_value(*found, one.at(name));
  }
  return params;
}

json fitted(const FunctionManifest& function, Points training, Points held_out) {
  const auto quiet = [](const check::FitPoint& point) { return point.bytes <= check::kHeapNoise; };
  if (std::all_of(training.of[2].begin(), training.of[2].end(), quiet) &&
      std::all_of(held_out.of[2].begin(), held_out.of[2].end(), quiet))
    for (auto* points : {&training.of[2], &held_out.of[2]})
      for (check::FitPoint& point : *points) point.bytes = 0;
  json told = {{"function", function.id}, {"calls", training.of[0].size()}, {"calls_held_out", held_out.of[0].size()}};
  for (std::size_t k = 0; k < 3; ++k) {
    const check::Fit fit = check::fit(check::fit_terms(function), training.of[k], held_out.of[k]);
    double largest = 0;
    for (const check::FitPoint& point : training.of[k]) largest = std::max(largest, point.bytes);
    told[kNumbers[k]] = {{"expr", fit.formula},    {"trust", "guess"},         {"margin", fit.margin},
                         {"typical", fit.typical}, {"held_out", fit.held_out}, {"largest_measured", largest}};
  }
  return told;
}

void print(const json& told) {
  const TextStyle style = style_for(1);
  std::cout << paint(style, Ink::bold, told.at("function").get<std::string>()) << ": " << told.at("calls")
            << " calls measured, " << told.at("calls_held_out") << " held out\n";
  for (const char* number : kNumbers) {
    const json& fit = told.at(number);
    std::cout << "  " << std::left << std::setw(14) << number << fit.at("expr").get<std::string>() << "\n";
    if (fit.at("expr") == "0") continue;
    std::cout << std::fixed << std::setprecision(2) << "                at least " << fit.at("margin").get<double>()
              << " times what was measured (" << fit.at("typical").get<double>()
              << " times on average); of calls held out the largest took " << std::setprecision(0)
              << 100 * fit.at("held_out").get<double>() << " % of it\n";
  }
  json memory;
  std::string cpp;
  for (const char* number : kNumbers) {
    const std::string formula = told.at(number).at("expr").get<std::string>();
    memory[number] = {{"expr", formula}, {"trust", "guess"}};
    cpp += std::string("  .") + number + "(\"" + formula + "\", cuboid::sdk::guess)\n";
  }
  std::cout << "\n" << cpp << "\n  \"memory\": " << memory.dump() << "\n";
}

}  // namespace

int plugin_measure_command(const PluginCommand& command) {
  const auto path =
      std::filesystem::absolute(find_library(command.library, std::filesystem::current_path(), plugin_folders()));
  const Manifest manifest = read_manifest(path);
  json all = json::array();
  for (const FunctionManifest& function : manifest.functions) {
    if (!command.function.empty() && command.function != function.id && command.function != function.name) continue;
    const Params given = given_params(function, command.params);
    const std::vector<Params> variants = check::parameter_variants(function, given);
    const std::size_t rank = function.signature.inputs.empty() ? 0 : function.signature.inputs[0].extents.size();
    const std::string library = path.string();
    Measuring measuring(command, library, function);
    const Points training = measuring.points(check::training_shapes(rank), variants);
    const Points held_out = measuring.points(check::held_out_shapes(rank), {variants.front(), variants.back()});
    all.push_back(fitted(function, training, held_out));
    if (!command.common.json) print(all.back());
  }
  if (all.empty()) {
    std::vector<std::string> names;
    for (const FunctionManifest& function : manifest.functions) names.push_back(function.name);
    const auto near = nearest_name(command.function, names);
    throw Error(ErrorKind::invalid, path.string() + " has no function '" + command.function + "'" +
                                        (near ? ", did you mean '" + *near + "'?" : ""));
  }
  if (command.common.json) print_json({{"functions", all}, {"seed", command.seed}});
  return kExitDone;
}

}  // namespace cuboid
