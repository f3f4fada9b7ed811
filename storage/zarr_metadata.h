// What the two formats' metadata share. Private to storage/.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "storage/zarr.h"

namespace cuboid {

// Checks what holds in any format and needs no store: ranks, extents, overflow, fill, names, codecs. Error{invalid}.
void check_metadata(const ArrayMetadata& metadata);

// Whether a zarr.json speaks of a group.
bool is_group_document(const std::string& zarr_json);

// The documents of one format; format_metadata() chooses.
std::vector<std::pair<std::string, std::string>> format_metadata_v2(const ArrayMetadata& metadata);
std::vector<std::pair<std::string, std::string>> format_metadata_v3(const ArrayMetadata& metadata);

}  // namespace cuboid
