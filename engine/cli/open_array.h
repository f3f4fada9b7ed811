// Opens what a command line names.
#pragma once
#include <string>
#include <variant>

#include "storage/string_array.h"
#include "storage/zarr.h"

namespace cuboid {

// Metadata that is there but wrong is a fault of the input (Error{invalid}), unlike a chunk that cannot be read.
template <class Open>
auto with_metadata_as_input(const Open& open) {
  try {
    return open();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt) throw;
    throw Error(ErrorKind::invalid, error.message(), error.context());
  }
}

inline ZarrArray open_array_at(const std::string& path) {
  return with_metadata_as_input([&] { return ZarrArray::open(path); });
}

// The same where strings of any length will do, too.
inline std::variant<ZarrArray, StringArray> open_any_array_at(const std::string& path) {
  try {
    return open_array_at(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    auto strings = with_metadata_as_input([&] { return StringArray::open(open_store(path)); });
    if (strings) return *std::move(strings);
    throw;
  }
}

}  // namespace cuboid
