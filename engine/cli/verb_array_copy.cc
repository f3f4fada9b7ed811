#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/cli/open_array.h"
#include "engine/cli/run_display.h"
#include "engine/cli/settings.h"
#include "engine/plan/memory_model.h"
#include "engine/plan/places.h"
#include "engine/report/table.h"
#include "engine/run/run_files.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

Shape extents_of_rank(const std::string& text, const char* flag, const Shape& shape) {
  Shape extents = parse_extents(text, flag);
  if (extents.size() != shape.size())
    throw Error(ErrorKind::invalid, std::string(flag) + ": expected " + std::to_string(shape.size()) +
                                        " extents, one per axis of " + to_string(shape) + ", got " + text);
  return extents;
}

nlohmann::json codecs_of(const ArrayCommand& command, DType dtype) {
  try {
    return codecs_by_name(command.codecs, dtype);
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid, "--codecs: " + error.message());
  }
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
  if (!metadata.edges.empty() && command.chunks.empty())
    throw Error(ErrorKind::unsupported,
                command.path + ": its chunk grid is rectilinear, which is read only: state --chunks, of one shape");
  output.chunks = command.chunks.empty() ? metadata.chunks : extents_of_rank(command.chunks, "--chunks", array.shape());
  output.zarr_format = command.format == 0 ? metadata.zarr_format : command.format;
  if (command.shards.empty()) {
    if (output.zarr_format == 3) output.shards = metadata.shards;
  } else if (command.shards != "none") {
    if (output.zarr_format == 2)
      throw Error(ErrorKind::invalid, "--shards: Zarr format 2 has no shards; add --format 3");
    output.shards = extents_of_rank(command.shards, "--shards", array.shape());
  }
  for (std::size_t axis = 0; output.shards && axis < output.shards->size(); ++axis)
    if ((*output.shards)[axis] % (*output.chunks)[axis] != 0)
      throw Error(ErrorKind::invalid, std::string(command.shards.empty() ? "the source's" : "--shards:") + " shards " +
                                          to_string(*output.shards) + " are no multiples of the chunks " +
                                          to_string(*output.chunks) +
                                          ": state --shards that are, or --shards none to store each chunk by itself");
  output.codecs = command.codecs.empty() ? metadata.codecs.dump() : command.codecs;
  if (!command.codecs.empty()) codecs_of(command, metadata.dtype);
  output.overwrite = command.overwrite;
  return output;
}

// Strings of any length: no tasks, and nothing to go on from.
int copy_strings(const ArrayCommand& command, const StringArray& array) {
  if (command.shards.empty() ? array.metadata().shards.has_value() : command.shards != "none")
    throw Error(ErrorKind::unsupported,
                "strings and bytes of any length are not written in shards: add --shards none to store each chunk by "
                "itself");
  const auto store = open_store(command.destination);
  const ArrayMetadata& metadata = array.metadata();
  const StringArray copy = array.prepare_copy(
      store, command.chunks.empty() ? metadata.chunks : extents_of_rank(command.chunks, "--chunks", array.shape()),
      command.format == 0 ? metadata.zarr_format : command.format,
      command.codecs.empty() ? array.codecs() : codecs_of(command, kUint8));
  check_apart(command.destination, command.path, command.path);
  if (!command.overwrite) check_nothing_there(command.destination);
  check_overwritable(*store, "", command.destination);
  const std::uint64_t budget = memory_budget(command.common);
  const std::uint64_t process = baselines_of({command.path, command.destination}).coordinator;
  MemoryAccount account(budget > process ? budget - process : 1);
  pool::set_held_limit(account.limit());
  if (is_visible(*store, "")) erase_array(*store, "");
  StringArray::Copied copied;
  try {
    copied = copy.write_all(array, account);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::over_budget) throw;
    throw Error(ErrorKind::over_budget,
                "chunks of strings do not fit " + format_size(budget) + ": " + error.message() +
                    ". Allow more --memory, or smaller --chunks",
                error.context());
  }
  if (command.common.json) {
    print_json({{"status", "done"},
                {"path", command.destination},
                {"shape", copy.shape()},
                {"chunks_stored", copied.chunks},
                {"bytes_stored", copied.bytes}});
  } else if (!command.common.quiet) {
    std::cout << printable(command.destination) << ": " << to_string(copy.shape()) << " " << copy.type() << ", "
              << format_size(copied.bytes) << " in " << copied.chunks << " chunks\n";
  }
  return kExitDone;
}

}  // namespace

int array_copy_command(const ArrayCommand& command) {
  const CommonFlags& flags = command.common;
  const auto any = open_any_array_at(command.path);
  if (const auto* strings = std::get_if<StringArray>(&any)) return copy_strings(command, *strings);
  const auto& array = std::get<ZarrArray>(any);
  PlanRequest request;
  request.outputs.push_back(destination_of(command, array));
  std::string destination = command.destination;
  while (destination.size() > 1 && destination.back() == '/') destination.pop_back();
  CommonFlags copy_flags = flags;
  // A run directory is a folder of this machine, also where the copy is not.
  const std::size_t start = destination.find("://") == std::string::npos ? 0 : destination.find_last_of('/') + 1;
  if (copy_flags.run_dir.empty()) copy_flags.run_dir = destination.substr(start) + ".run";
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
