#include "engine/run/run_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/plan/places.h"
#include "storage/error.h"

namespace cuboid {
namespace {

namespace fs = std::filesystem;

std::string plan_name(int generation) {
  return generation == 0 ? "plan.json" : "plan." + std::to_string(generation) + ".json";
}

std::string below(const std::string& path, const std::string& key) { return path.empty() ? key : path + "/" + key; }

void erase_metadata(Store& store, const std::string& path) {
  for (const char* key : {"zarr.json", ".zarray", ".zattrs", ".zmetadata"}) store.erase(below(path, key));
}

std::optional<JournalOutput> row_of(const Journal& journal, const std::string& location) {
  const std::string here = place(location);
  for (JournalOutput& output : journal.outputs())
    if (output.location == here) return std::move(output);
  return std::nullopt;
}

// Every output carries what made it (PlanArray of role output). Metadata that cannot be read is what a store leaves of ours
// when it fails in the middle.
bool made_by_cuboid(const std::string& location) {
  try {
    return ZarrArray::open(location).metadata().attributes.contains("cuboid");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::io) throw;
    return error.kind() != ErrorKind::not_found && error.kind() != ErrorKind::unsupported;  // a group, or strings
  }
}

bool is_visible(const PlanArray& array) { return is_visible(array.zarr->store(), array.zarr->path()); }

void commit(Journal& journal) { journal.commit(true); }

}  // namespace

void write_plan(const Plan& plan, const std::string& run_dir, int generation) {
  const std::string text = plan_to_json(plan).dump(1) + "\n";
  const auto store = make_file_store(run_dir);
  store->put(plan_name(generation), std::as_bytes(std::span(text)), plan.options.durable);
}

std::shared_ptr<const Plan> read_plan(const std::string& run_dir, const Resolvers& resolvers) {
  try {
    const auto text = read_text(*make_file_store(run_dir), plan_name(0));
    if (!text) return nullptr;
    return std::make_shared<const Plan>(plan_from_json(nlohmann::json::parse(*text), resolvers));
  } catch (const std::exception&) {
    return nullptr;  // another version's, or of plugins that are gone: the shape is planned anew
  }
}

void remove_plan_files(const std::string& run_dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("plan.") && name.ends_with(".json")) fs::remove(entry.path(), error);
  }
}

void check_run_dir(const std::string& run_dir) {
  std::error_code ignored;
  if (fs::exists(Journal::path_in(run_dir), ignored)) return;
  for (const char* name : {"data", "plan.json"})
    if (fs::exists(fs::symlink_status(run_dir + "/" + name, ignored)))
      throw Error(ErrorKind::invalid, "the run directory " + run_dir + " holds '" + name +
                                          "', but no run's journal: a run would replace and remove it. Choose another "
                                          "--run-dir, or move it away");
}

std::vector<std::string> own_outputs(const std::vector<JournalOutput>& outputs) {
  std::vector<std::string> own;
  for (const JournalOutput& output : outputs)
    if (!is_visible(*open_store(output.location), "") || made_by_cuboid(output.location))
      own.push_back(output.location);
  return own;
}

void remove_run(const std::string& run_dir, const std::vector<JournalOutput>& outputs) {
  for (const std::string& location : own_outputs(outputs)) erase_array(*open_store(location), "");
  make_file_store(run_dir)->erase_prefix("data");
  remove_plan_files(run_dir);
  std::error_code error;
  for (const char* suffix : {"-journal", ""}) fs::remove(Journal::path_in(run_dir) + suffix, error);
  if (error) throw Error(ErrorKind::io, "cannot remove " + Journal::path_in(run_dir) + ": " + error.message());
}

void check_overwritable(const Plan& plan) {
  for (const PlanArray& array : plan.arrays)
    if (array.role == PlanArray::Role::output && array.overwrite)
      check_overwritable(array.zarr->store(), array.zarr->path(), array.location);
}

void check_overwritable(const Store& store, const std::string& path, const std::string& location) {
  bool group = store.stamp(below(path, ".zgroup")).has_value();
  if (const auto text = read_text(store, below(path, "zarr.json"))) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    group |= json.is_object() && json.value("node_type", nlohmann::json()) == "group";
  }
  if (group)
    throw Error(ErrorKind::invalid, "the output " + location +
                                        " is a group there, which overwrite: true would destroy with all its "
                                        "arrays; choose another path or remove it yourself");
}

bool is_visible(const Store& store, const std::string& path) {
  return store.stamp(below(path, "zarr.json")) || store.stamp(below(path, ".zarray"));
}

void erase_array(Store& store, const std::string& path) {
  erase_metadata(store, path);
  store.erase_prefix(path);
}

void prepare_output(const PlanArray& array, Journal& journal) {
  Store& store = array.zarr->mutable_store();
  const std::string& path = array.zarr->path();
  const Fingerprint metadata = metadata_fingerprint(array.zarr->metadata());
  const auto row = row_of(journal, array.location);
  const bool same = row && row->metadata == metadata;
  // While chunks are written, readers find no array rather than half of one.
  const bool visible = is_visible(array);
  if (same) {
    if (!row->published && !visible) return;
    journal.set_output({array.location, metadata, false});
    commit(journal);
    erase_metadata(store, path);
    return;
  }
  // Ours in another shape, or somebody's array that is to be overwritten: it goes as a whole. Anything else there is
  // left alone.
  if (row || visible) erase_array(store, path);
  journal.set_output({array.location, metadata, false});
  commit(journal);
}

void publish_output(const PlanArray& array, Journal& journal, bool durable) {
  // A worker, or an earlier run, may have been killed in the middle of a chunk.
  array.zarr->mutable_store().erase_unfinished(array.zarr->path());
  array.zarr->publish(durable);
  journal.set_output({array.location, metadata_fingerprint(array.zarr->metadata()), true});
  commit(journal);
}

bool is_published(const PlanArray& array, const Journal& journal) {
  const auto row = row_of(journal, array.location);
  return row && row->published && row->metadata == metadata_fingerprint(array.zarr->metadata()) && is_visible(array);
}

void remove_intermediate(const PlanArray& array) {
  if (array.zarr)
    array.zarr->mutable_store().erase_prefix(array.zarr->path());
  else
    open_store(array.location)->erase_prefix("");
}

}  // namespace cuboid
