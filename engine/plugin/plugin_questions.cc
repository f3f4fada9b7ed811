#include "engine/plugin/plugin_questions.h"

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "storage/error.h"

namespace cuboid {
namespace {

using Json = nlohmann::json;

Json to_json(const ParamValue& value) {
  return std::visit(
      [](const auto& typed) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(typed)>, std::monostate>)
          return nullptr;
        else
          return {{"v", typed}};
      },
      value);
}

ParamValue param_from_json(const Json& json, ParamType type) {
  if (json.is_null()) return {};
  const Json& value = json.at("v");
  switch (type) {
    case ParamType::boolean:
      return value.get<bool>();
    case ParamType::integer:
      return value.get<std::int64_t>();
    case ParamType::floating:
      return value.get<double>();
    case ParamType::string:
      return value.get<std::string>();
    case ParamType::integers:
      return value.get<std::vector<std::int64_t>>();
    case ParamType::floats:
      return value.get<std::vector<double>>();
    case ParamType::strings:
      break;
  }
  return value.get<std::vector<std::string>>();
}

Json ask_to_json(const PluginLibrary& library, std::size_t function, const InferAsk& ask) {
  Json dtypes = Json::array(), params = Json::array();
  for (const DType dtype : ask.dtypes) dtypes.push_back(dtype_code(dtype));
  for (const ParamValue& value : ask.params) params.push_back(to_json(value));
  return {{"library", library.manifest().path.string()},
          {"hash", library.manifest().content_hash},
          {"function", function},
          {"dtypes", dtypes},
          {"interior", ask.interior},
          {"halo", ask.halo},
          {"whole", ask.whole},
          {"params", params},
          {"output_ranks", ask.output_ranks}};
}

InferAsk ask_from_json(const Json& json, const FunctionManifest& function) {
  InferAsk ask;
  for (const Json& code : json.at("dtypes")) ask.dtypes.push_back(*dtype_from_code(code.get<std::string>()));
  json.at("interior").get_to(ask.interior);
  json.at("halo").get_to(ask.halo);
  json.at("whole").get_to(ask.whole);
  for (std::size_t k = 0; k < function.params.size(); ++k)
    ask.params.push_back(param_from_json(json.at("params").at(k), function.params[k].type));
  json.at("output_ranks").get_to(ask.output_ranks);
  return ask;
}

Json to_json(const InferAnswer& answer) {
  const auto bytes = [](const InferAnswer::Bytes& one) { return Json{one.bytes, static_cast<int>(one.trust)}; };
  Json outputs = Json::array();
  for (const InferAnswer::Output& output : answer.outputs)
    outputs.push_back(
        {dtype_code(output.dtype), static_cast<int>(output.trust), output.max_shape, output.likely_shape});
  return {{"outputs", outputs},
          {"call", bytes(answer.call)},
          {"state", bytes(answer.state)},
          {"outside", bytes(answer.outside)}};
}

Json to_json(const std::vector<Box>& boxes) {
  Json json = Json::array();
  for (const Box& box : boxes) json.push_back(Json::array({box.origin, box.shape}));
  return json;
}
std::vector<Box> boxes_from_json(const Json& json) {
  std::vector<Box> boxes;
  for (const Json& box : json) boxes.push_back({box.at(0).get<Shape>(), box.at(1).get<Shape>()});
  return boxes;
}

// Libraries that questions were about, by path: loaded once. Of a process that does nothing else.
std::shared_ptr<const PluginLibrary> library_of(const Json& question) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const PluginLibrary>> libraries;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const PluginLibrary>& library = libraries[question.at("library").get<std::string>()];
  const std::string hash = question.at("hash").get<std::string>();
  if (!library) {
    Manifest manifest = read_manifest(question.at("library").get<std::string>());
    if (manifest.content_hash != hash)
      throw Error(ErrorKind::plugin, "plugin " + manifest.path.string() + " has changed meanwhile: plan again");
    library = std::make_shared<PluginLibrary>(std::move(manifest));
  }
  return library;
}

Json answer(const Json& question) {
  const auto library = library_of(question);
  const auto function = question.at("function").get<std::size_t>();
  const InferAsk ask = ask_from_json(question, library->manifest().functions.at(function));
  if (question.at("ask") == "infer") return to_json(call_infer(*library, function, ask));
  RegionsAsk wanted;
  for (const Json& boxes : question.at("wanted")) wanted.push_back(boxes_from_json(boxes));
  Json answers = Json::array();
  for (const std::vector<Box>& needed : call_regions(*library, function, ask, wanted))
    answers.push_back(to_json(needed));
  return {{"needed", answers}};
}

Json parsed(const std::string& text) {
  const Json json = Json::parse(text);
  if (json.contains("error")) {
    const bool refused = json.at("error").at("kind") == "invalid";
    throw Error(refused ? ErrorKind::invalid : ErrorKind::plugin, json.at("error").at("message").get<std::string>());
  }
  return json;
}

}  // namespace

std::string question_of(const PluginLibrary& library, std::size_t function, const InferAsk& ask) {
  Json question = ask_to_json(library, function, ask);
  question["ask"] = "infer";
  return question.dump();
}

std::string question_of(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                        const RegionsAsk& wanted) {
  Json question = ask_to_json(library, function, ask);
  question["ask"] = "regions";
  question["wanted"] = Json::array();
  for (const std::vector<Box>& boxes : wanted) question["wanted"].push_back(to_json(boxes));
  return question.dump();
}

InferAnswer infer_answer(const std::string& text) {
  const Json json = parsed(text);
  const auto bytes = [](const Json& one) {
    return InferAnswer::Bytes{one.at(0).get<std::uint64_t>(), static_cast<Trust>(one.at(1).get<int>())};
  };
  InferAnswer answer;
  for (const Json& output : json.at("outputs"))
    answer.outputs.push_back({*dtype_from_code(output.at(0).get<std::string>()),
                              static_cast<Trust>(output.at(1).get<int>()), output.at(2).get<Shape>(),
                              output.at(3).get<Shape>()});
  answer.call = bytes(json.at("call"));
  answer.state = bytes(json.at("state"));
  answer.outside = bytes(json.at("outside"));
  return answer;
}

RegionsAnswer regions_answer(const std::string& text) {
  RegionsAnswer answer;
  const Json json = parsed(text);
  for (const Json& boxes : json.at("needed")) answer.push_back(boxes_from_json(boxes));
  return answer;
}

std::string answer_plugin_question(const std::string& question) {
  try {
    return answer(Json::parse(question)).dump();
  } catch (const Error& error) {
    const Json told = {{"error", {{"kind", to_string(error.kind())}, {"message", error.message()}}}};
    return told.dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const Json::exception& error) {
    return Json{{"error", {{"kind", "invalid"}, {"message", std::string("a damaged question: ") + error.what()}}}}
        .dump();
  }
}

Inference remote_inference(CarryQuestion carry) {
  return {[carry](const PluginLibrary& library, std::size_t function, const InferAsk& ask) {
            return infer_answer(carry(question_of(library, function, ask)));
          },
          [carry](const PluginLibrary& library, std::size_t function, const InferAsk& ask, const RegionsAsk& wanted) {
            return regions_answer(carry(question_of(library, function, ask, wanted)));
          }};
}

Inference local_inference() { return {call_infer, call_regions}; }

}  // namespace cuboid
