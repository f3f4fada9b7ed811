#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/cli/command.h"
#include "engine/report/run_record.h"
#include "storage/store.h"

namespace cuboid {

int report_command(const ReportCommand& command) {
  const RunRecord record = read_run_record(command.run_dir);
  const std::filesystem::path output = command.output.empty() ? std::filesystem::path(command.run_dir) / "report.html"
                                                              : std::filesystem::path(command.output);
  const std::string html = html_report(record);
  const std::filesystem::path folder = output.has_parent_path() ? output.parent_path() : std::filesystem::path(".");
  make_file_store(folder.string())->put(output.filename().string(), std::as_bytes(std::span(html)));
  if (command.common.json) {
    print_json({{"report", output.string()},
                {"status", record.status()},
                {"tasks", record.tasks},
                {"tasks_done", record.tasks_done()}});
  } else {
    std::cout << output.string() << "\n";
  }
  return kExitDone;
}

}  // namespace cuboid
