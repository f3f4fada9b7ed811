// What the two formats' metadata share. Private to storage/.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "storage/zarr.h"

namespace cuboid {

// Checks what holds in any format and needs no store: ranks, extents, overflow, fill, names, codecs. Error{invalid}.
void check_metadata(const ArrayMetadata& metadata);

// A list of codecs as it is written: zarr-python 3.1 does not read names alone.
nlohmann::json in_full(const nlohmann::json& v3_codecs);

// The documents of one format; format_metadata() chooses.
std::vector<std::pair<std::string, std::string>> format_metadata_v2(const ArrayMetadata& metadata);
std::vector<std::pair<std::string, std::string>> format_metadata_v3(const ArrayMetadata& metadata);

}  // namespace cuboid
