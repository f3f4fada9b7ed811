// Questions about plugins as text, so that they can be asked of another process (engine/run/worker_questions.h) that
// loads the plugin's code: JSON in, JSON out.
#pragma once
#include <functional>
#include <string>

#include "engine/check/trial.h"

namespace cuboid::check {

// {"ask": "check", "check": NAME, "library": PATH, "seed": N, "data": PATH or absent}
//    -> {"passed": bool, "detail": text}
// {"ask": "measure", "library": PATH, "function": ID, "seed": N, "data": ..., "params": {...}}
//    -> {"runs": [...]}, see measure.h
// and those of engine/plugin/plugin_questions.h.
// `say` is told what is tried. A question that makes no sense, or whose answer is an Error, gives
// {"error": {"kind", "message"}}.
std::string answer(const std::string& question, const HeapMeter& heap,
                   const std::function<void(const std::string&)>& say);

}  // namespace cuboid::check
