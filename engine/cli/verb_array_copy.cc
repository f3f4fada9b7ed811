#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/cli/open_array.h"
#include "engine/cli/run_display.h"
#include "engine/cli/settings.h"
#include "engine/run/run_files.h"

namespace cuboid {
namespace {

Shape extents_of_rank(const std::string& text, const char* flag, const ZarrArray& array) {
  Shape extents = parse_extents(text, flag);
  if (extents.size() != array.shape().size())
    throw Error(ErrorKind::invalid, std::string(flag) + ": expected " + std::to_string(array.shape().size()) +
                                        " extents, one per axis of " + to_string(array.shape()) + ", got " + text);
  return extents;
}

// All that is not stated is the source's.
OutputRequest destination_of(const ArrayCommand& command, const ZarrArray& array) {
  const ArrayMetadata& metadata = array.metadata();
  OutputRequest output{.array = source(array, "source"),
                       .path = command.destination,
                       .chunks = {},
                       .shards = {},
                       .attributes = {},
                       .like = metadata};
  output.chunks = command.chunks.empty() ? metadata.chunks : extents_of_rank(command.chunks, "--chunks", array);
  if (!command.shards.empty()) {
    output.shards = extents_of_rank(command.shards, "--shards", array);
  } else if (metadata.shards && command.format != 2) {
    output.shards = metadata.shards;
  }
  output.zarr_format = command.format == 0 ? metadata.zarr_format : command.format;
  if (output.shards && output.zarr_format == 2)
    throw Error(ErrorKind::invalid, "--shards: Zarr format 2 has no shards; add --format 3");
  output.codecs = command.codecs.empty() ? metadata.codecs.dump() : command.codecs;
  if (!command.codecs.empty()) {
    try {
      codecs_by_name(command.codecs, metadata.dtype);
    } catch (const Error& error) {
      throw Error(ErrorKind::invalid, "--codecs: " + error.message());
    }
  }
  output.overwrite = command.overwrite;
  return output;
}

}  // namespace

int array_copy_command(const ArrayCommand& command) {
  const CommonFlags& flags = command.common;
  const ZarrArray array = open_array_at(command.path);
  PlanRequest request;
  request.outputs.push_back(destination_of(command, array));
  std::string destination = command.destination;
  while (destination.size() > 1 && destination.back() == '/') destination.pop_back();
  CommonFlags copy_flags = flags;
  if (copy_flags.run_dir.empty()) copy_flags.run_dir = destination + ".run";
  complete_options(request.options, copy_flags, destination, std::nullopt);

  PluginCatalog catalog(CommonFlags{});
  const RunResult result = run_with_display(request, catalog, copy_flags, {});
  if (result.status == RunStatus::done) {
    // The copy is complete: nothing to go on from. The folder may hold what is not ours.
    remove_run(copy_flags.run_dir, {});
    std::error_code ignored;
    std::filesystem::remove(copy_flags.run_dir + "/coordinator.lock", ignored);
    std::filesystem::remove(copy_flags.run_dir, ignored);
  }
  return report_result(result, copy_flags);
}

}  // namespace cuboid
