// Hostile files in a library's place: reading the manifest section and the exported symbols ends in an Error or in values.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/plugin/library_file.h"
#include "storage/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = ::memfd_create("library", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) return 0;
  try {
    const cuboid::LibraryFile library("/proc/self/fd/" + std::to_string(file));
    try {
      cuboid::read_manifest_section(library);
    } catch (const cuboid::Error&) {
    }
    cuboid::exported_symbols(library);
  } catch (const cuboid::Error&) {
  }
  ::close(file);
  return 0;
}
