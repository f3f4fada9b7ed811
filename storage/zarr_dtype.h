// Element types as the two formats' metadata (and NumPy's files) write them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "storage/types.h"

namespace cuboid {

// A NumPy type as format 2 and numcodecs write it ("<i2", "<M8[ns]", [["x", "<f4"]]), and its byte order as the bytes
// codec says it (nullptr where it does not matter). Throws Error{invalid | unsupported} naming `key`.
struct StoredDType {
  DType dtype;
  const char* endian;
};
StoredDType numpy_dtype(const nlohmann::json& json, const char* key);
// The inverse; `endian` as above.
nlohmann::json numpy_dtype_to_json(DType dtype, const std::string& endian);

// The "data_type" of format 3: a name, or a name with its configuration.
DType data_type_from_json(const nlohmann::json& json);
nlohmann::json data_type_to_json(DType dtype);

}  // namespace cuboid
