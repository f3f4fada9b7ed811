// How much memory this machine has to give at the moment.
#pragma once
#include <cstdint>
#include <string>

namespace cuboid {

// Bytes: what is available, as far as the limits of this process's control groups (version 1 or 2) and of those above
// them leave it. `root`: the folder that proc and sys are looked for in.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace cuboid
