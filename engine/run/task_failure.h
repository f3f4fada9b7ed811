// From what a task threw to what the coordinator is told: one place, so that threads and workers say the same.
#pragma once
#include "engine/run/executor.h"

namespace cuboid {

// Fills what, error, evidence, needed and bound_*. An error that bears evidence ("evidence", "needed_uncertain",
// "bound_needed", "bound_output" in its context: see run_task()) says that memory or a bound was exceeded; any other is a failure.
void describe_failure(TaskEvent& event, Error error);
// True where a function wrote into memory that is not its own: nothing in its process is to be trusted any more.
bool overwrote_memory(const Error& error);
// The inverse of to_string(Evidence), underscores read as hyphens; Evidence::unknown for any other text.
Evidence evidence_from(std::string_view text);

}  // namespace cuboid
