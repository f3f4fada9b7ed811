// What a plugin's own code says while a plan is made, as text: so that another process can be asked
// (engine/run/worker_questions.h) and a plan runs none of it here.
#pragma once
#include <string>

#include "engine/plugin/infer.h"

namespace cuboid {

// JSON in, JSON out; see infer.h for what the numbers mean.
std::string question_of(const PluginLibrary& library, std::size_t function, const InferAsk& ask);
std::string question_of(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                        const RegionsAsk& wanted);
// Throws the Error that the other side met.
InferAnswer infer_answer(const std::string& text);
RegionsAnswer regions_answer(const std::string& text);

// The other side: loads the library, unless it did before, and asks it. Answers with {"error": ...} where that fails.
std::string answer_plugin_question(const std::string& question);

// How a planner asks, given somebody who carries text to and fro.
using CarryQuestion = std::function<std::string(const std::string& question)>;
Inference remote_inference(CarryQuestion carry);
// Asks in this process.
Inference local_inference();

}  // namespace cuboid
