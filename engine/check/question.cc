#include "engine/check/question.h"

#include <nlohmann/json.hpp>

#include "engine/check/check.h"
#include "engine/check/measure.h"
#include "engine/plan/plan_json.h"
#include "engine/plugin/plugin_questions.h"
#include "storage/error.h"
#include "storage/zarr.h"

namespace cuboid::check {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostElements = 1 << 16;  // of a user's array that checks look at

// The middle of a user's array, of at most these extents, or as much of it as suits trial calls.
UserData read_data(const std::string& path, const std::optional<Shape>& most) {
  const ZarrArray array = ZarrArray::open(path);
  Shape extents = array.metadata().shape;
  for (std::size_t a = 0; a < extents.size(); ++a)
    if (most) extents[a] = std::min(extents[a], most->at(a));
  while (!most && element_count(extents) > kMostElements) {
    auto longest = std::max_element(extents.begin(), extents.end());
    *longest = (*longest + 1) / 2;
  }
  Box box{Shape(extents.size(), 0), extents};
  for (std::size_t a = 0; a < extents.size(); ++a) box.origin[a] = (array.metadata().shape[a] - extents[a]) / 2;
  UserData data{array.metadata().dtype, extents, {}};
  data.elements.resize(byte_count(extents, data.dtype));
  MemoryAccount account;
  array.read(box, make_view(data.elements.data(), data.dtype, extents), account);
  return data;
}

SampleOptions samples_of(const Json& question, const std::optional<Shape>& most) {
  SampleOptions options;
  options.seed = question.value("seed", std::uint64_t{1});
  if (question.contains("data")) options.data = read_data(question.at("data").get<std::string>(), most);
  return options;
}

Json answer_check(const Json& question, const HeapMeter& heap, const std::function<void(const std::string&)>& say) {
  const CheckResult result =
      run_check({question.at("check").get<std::string>(), question.at("library").get<std::string>(),
                 samples_of(question, {}), heap, say});
  return {{"passed", result.passed}, {"detail", result.detail}};
}

Json answer_measure(const Json& question, const HeapMeter& heap) {
  const auto shape = question.at("shape").get<Shape>();
  const Measurement taken =
      measure({question.at("library").get<std::string>(), question.at("function").get<std::string>(),
               params_from_json(question.at("params")), shape, samples_of(question, shape), heap});
  return {{"names", taken.names},
          {"call_bytes", taken.call_bytes},
          {"state_bytes", taken.state_bytes},
          {"outside_bytes", taken.outside_bytes}};
}

}  // namespace

std::string answer(const std::string& question, const HeapMeter& heap,
                   const std::function<void(const std::string&)>& say) {
  Json told;
  try {
    const Json asked = Json::parse(question);
    const std::string what = asked.at("ask").get<std::string>();
    if (what == "infer" || what == "regions") return answer_plugin_question(question);
    if (what == "check")
      told = answer_check(asked, heap, say);
    else if (what == "measure")
      told = answer_measure(asked, heap);
    else
      throw Error(ErrorKind::invalid, "a worker process does not know the question '" + what + "'");
  } catch (const Error& error) {
    told = {{"error", {{"kind", to_string(error.kind())}, {"message", error.message()}}}};
  } catch (const Json::exception& error) {
    told = {{"error", {{"kind", "invalid"}, {"message", std::string("a damaged question: ") + error.what()}}}};
  }
  return told.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cuboid::check
