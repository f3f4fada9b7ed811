#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/catalog.h"
#include "engine/cli/command.h"
#include "engine/cli/pipeline.h"
#include "engine/cli/settings.h"
#include "engine/report/plan_table.h"
#include "engine/run/journal.h"
#include "engine/run/run_files.h"

namespace cuboid {
namespace {

struct WhatIf {
  std::optional<std::string> memory;
  std::optional<Shape> chunks;
};

// "memory=64MiB,chunks=100,100": a comma starts a new entry where a key and '=' follow.
WhatIf parse_what_if(const std::string& text) {
  WhatIf what_if;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t equals = text.find('=', start);
    const std::string key = text.substr(start, equals == std::string::npos ? std::string::npos : equals - start);
    if (equals == std::string::npos || (key != "memory" && key != "chunks")) {
      const auto near = nearest_name(key, {"memory", "chunks"});
      throw Error(ErrorKind::invalid, "--what-if: unknown change '" + key + "'" +
                                          (near ? ", did you mean '" + *near + "'?" : "") +
                                          "; expected memory=SIZE and chunks=N,N");
    }
    const std::size_t next = text.find('=', equals + 1);
    std::size_t end = text.size();
    if (next != std::string::npos) {
      end = text.rfind(',', next);
      if (end == std::string::npos || end <= equals) end = text.size();
    }
    const std::string value = text.substr(equals + 1, end - equals - 1);
    if (key == "memory") {
      what_if.memory = value;
    } else {
      what_if.chunks = parse_extents(value, "--what-if chunks");
    }
    start = end + 1;
  }
  return what_if;
}

// What an earlier run in this directory made may be there, and fixes the plan's shape.
void remember_earlier_run(PlanRequest& request, const Resolvers& resolvers) {
  const std::string& run_dir = request.options.run_dir;
  try {
    for (const JournalOutput& output : Journal(run_dir, Journal::Mode::read).outputs())
      request.options.own_outputs.push_back(output.location);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_found) return;
    throw Error(ErrorKind::invalid, error.message(), error.context());
  }
  request.earlier = read_plan(run_dir, resolvers);
}

}  // namespace

int plan_command(const PlanCommand& command) {
  CommonFlags flags = command.common;
  PipelineOverrides overrides;
  if (!command.what_if.empty()) {
    const WhatIf what_if = parse_what_if(command.what_if);
    if (what_if.memory) flags.memory = *what_if.memory;
    overrides.chunks = what_if.chunks;
  }
  PluginCatalog catalog(flags);
  Pipeline pipeline = load_pipeline(command.file, catalog, overrides);
  complete_options(pipeline.request.options, flags, command.file, pipeline.memory);

  remember_earlier_run(pipeline.request, catalog.resolvers());
  const Plan plan = [&] {
    try {
      return make_plan(pipeline.request, catalog.resolvers());
    } catch (const Error& error) {
      throw with_place(error, pipeline);
    }
  }();
  if (command.common.json) {
    print_json(plan_report(plan));
  } else if (command.dot) {
    std::cout << plan_dot(plan);
  } else {
    std::cout << plan_table(plan, style_for(1));
  }
  std::cout.flush();
  if (!plan.refused) return kExitDone;
  if (!command.common.json) std::cerr << paint(style_for(2), Ink::red, "cuboid:") << " " << refusal_text(plan) << "\n";
  return kExitRefused;
}

}  // namespace cuboid
