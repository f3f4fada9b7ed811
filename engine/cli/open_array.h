// Opens what a command line names.
#pragma once
#include <string>

#include "storage/zarr.h"

namespace cuboid {

// Metadata that is there but wrong is a fault of the input (Error{invalid}), unlike a chunk that cannot be read.
inline ZarrArray open_array_at(const std::string& path) {
  try {
    return ZarrArray::open(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt) throw;
    throw Error(ErrorKind::invalid, error.message(), error.context());
  }
}

}  // namespace cuboid
