// A valid manifest, to be changed in one place by a test.
#pragma once
#include <string>

namespace cuboid {

struct FunctionText {
  std::string id = "demo.above/1";
  std::string signature = "x:T[n] -> y:T[<=n]";
  std::string types = R"({"T": ["f4", "f8"]})";
  std::string params = R"([{"name": "t", "type": "float", "default": 0}])";
  std::string regions = R"({"kind": "same"})";
  std::string memory =
      R"({"call_bytes": {"expr": "8*n", "trust": "bound"}, "outside_bytes": {"expr": "0", "trust": "exact"}})";
  std::string more;  // `, "key": value`

  std::string json() const {
    return R"({"id": ")" + id + R"(", "doc": "Values above t.", "signature": ")" + signature + R"(", "types": )" +
           types + R"(, "params": )" + params + R"(, "regions": )" + regions + R"(, "memory": )" + memory + more + "}";
  }
};

inline std::string manifest_text(const std::string& functions) {
  return R"({"schema": 1, "name": "demo", "version": "1.0", "functions": [)" + functions + "]}";
}
inline std::string manifest_text(const FunctionText& function) { return manifest_text(function.json()); }

}  // namespace cuboid
