#include "cases.h"
#include "plugins/terrain/peaks.h"
#include "plugins/terrain/relief.h"

namespace cuboid::plugin_tests {
namespace {

TEST(TerrainPlugin, SlopeEqualsNumpy) { check_function<terrain::Slope>("terrain.slope", false); }
TEST(TerrainPlugin, HillshadeEqualsNumpy) { check_function<terrain::Hillshade>("terrain.hillshade", false); }
TEST(TerrainPlugin, PeaksEqualTheirDefinition) { check_function<terrain::Peaks>("terrain.peaks", true); }

}  // namespace
}  // namespace cuboid::plugin_tests
