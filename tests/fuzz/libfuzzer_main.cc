// One target as libFuzzer calls it: TARGET is its function.
#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cuboid::TARGET(data, size);
  return 0;
}
