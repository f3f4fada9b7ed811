// Opens what a command line names.
#pragma once
#include <string>
#include <variant>

#include "storage/string_array.h"
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

// The same where strings of any length will do, too.
inline std::variant<ZarrArray, StringArray> open_any_array_at(const std::string& path) {
  try {
    return open_array_at(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    if (auto strings = StringArray::open(open_store(path))) return *std::move(strings);
    throw;
  }
}

}  // namespace cuboid
