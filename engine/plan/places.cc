#include "engine/plan/places.h"

#include <filesystem>

#include "storage/error.h"
#include "storage/store.h"

namespace cuboid {

std::string place(const std::string& location) {
  if (location.find("://") != std::string::npos) return location;
  namespace fs = std::filesystem;
  std::error_code error;
  // Absolute first: of a path whose first folder is missing weakly_canonical makes nothing but a shorter relative one.
  // Twice: after a missing folder `..` only goes when it has been read, and a link may stand behind it.
  fs::path path = fs::absolute(location, error);
  for (int pass = 0; pass < 2 && !error; ++pass) path = fs::weakly_canonical(path, error);
  std::string text = error ? location : path.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

bool inside(const std::string& inner, const std::string& outer) {
  return inner == outer || (inner.starts_with(outer) && inner[outer.size()] == '/');
}

void check_apart(const std::string& output, const std::string& input_name, const std::string& input) {
  const std::string here = place(output), there = place(input);
  if (inside(here, there) || inside(there, here))
    throw Error(ErrorKind::invalid,
                "the output " + here + " would be written into the input " + input_name + "; choose another path");
}

void check_nothing_there(const std::string& output) {
  const auto store = open_store(output);
  for (const char* key : {"zarr.json", ".zarray", ".zgroup"})
    if (store->stamp(key))
      throw Error(ErrorKind::invalid, "the output " + output +
                                          " exists already and this run did not make it; choose another path or say "
                                          "overwrite: true");
}

}  // namespace cuboid
