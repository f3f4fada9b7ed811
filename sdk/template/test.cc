#include <cuboid/test_host.h>

#include "above.h"
namespace host = cuboid::test_host;

int main() {
  const auto x = host::Array::of<double>({4}, {1, 5, 2, 7});
  const auto report = host::run<Above>({x}, {{"t", 3.0}}, host::blocks({{"n", 3}}));
  const bool right = report.status == CUBOID_OK && report.peak <= report.declared &&
                     report.out[0].values<double>() == std::vector<double>{5, 7};
  return right ? 0 : 1;
}
