// What a run leaves on storage beside chunks and the journal: plan files, and outputs that appear and disappear whole.
#pragma once
#include <memory>
#include <string>

#include "engine/run/journal.h"
#include "engine/run/run.h"

namespace cuboid {

// plan.json, plan.1.json, ...: by generation. Atomic. Throws Error{io}.
void write_plan(const Plan& plan, const std::string& run_dir, int generation);
// The plan that fixed this directory's shape; nullptr where there is none that can be read.
std::shared_ptr<const Plan> read_plan(const std::string& run_dir, const Resolvers& resolvers);

// Throws Error{invalid} where a run would take somebody's files for its own: `data` or plan.json without a journal.
void check_run_dir(const std::string& run_dir);

// Removes the outputs that the journal names, the journal, plan files and intermediates: nothing else, since a run
// directory may be shared.
void remove_run(const std::string& run_dir, const std::vector<JournalOutput>& outputs);
void remove_plan_files(const std::string& run_dir);

// Where outputs that a journal names are still this run's to write: nothing is visible there, or what is says that Cuboid
// made it. What somebody else put there meanwhile is an output that exists.
std::vector<std::string> own_outputs(const std::vector<JournalOutput>& outputs);

// Throws Error{invalid} where an output that is to be overwritten is a group.
void check_overwritable(const Plan& plan);
void check_overwritable(const Store& store, const std::string& path, const std::string& location);
// Whether there is metadata of an array or a group of format 3.
bool is_visible(const Store& store, const std::string& path);
// An array and all below it, metadata first: readers find no array rather than half of one.
void erase_array(Store& store, const std::string& path);
// Called before the first write to an output: what is there and will not be kept goes, metadata first; the journal
// learns that the output is this run's before anything is written to it.
void prepare_output(const PlanArray& array, Journal& journal);
// Makes a complete output visible; its rows are committed.
void publish_output(const PlanArray& array, Journal& journal, bool durable);
// True where the journal says so and the output's metadata object is in place.
bool is_published(const PlanArray& array, const Journal& journal);
// Everything stored of an intermediate or of pieces.
void remove_intermediate(const PlanArray& array);

}  // namespace cuboid
