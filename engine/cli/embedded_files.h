// Files that are part of the program itself, so that they can be written wherever it runs.
#pragma once
#include <string_view>
#include <vector>

namespace cuboid {

struct EmbeddedFile {
  std::string_view path;  // "include/cuboid/plugin.h"
  std::string_view bytes;
};

// The folder sdk/ of the source tree.
const std::vector<EmbeddedFile>& sdk_files();

}  // namespace cuboid
