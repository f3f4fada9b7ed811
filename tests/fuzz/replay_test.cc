// Every input of the corpora, and mutants of each made by a fixed seed: the readers refuse or read, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/targets.h"

namespace cuboid {
namespace {

constexpr unsigned kSeed = 20261130;
constexpr int kMutants = 200;  // of each input

using Bytes = std::vector<std::uint8_t>;

Bytes mutant(const Bytes& input, std::mt19937& random) {
  Bytes bytes = input;
  const auto at = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t change = 1 + random() % 4; change-- > 0;) {
    switch (random() % 5) {
      case 0:
        if (!bytes.empty()) bytes[at(bytes.size())] ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        if (!bytes.empty()) bytes[at(bytes.size())] = static_cast<std::uint8_t>(random());
        break;
      case 2:
        bytes.resize(at(bytes.size() + 1));
        break;
      case 3:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at(bytes.size() + 1)), 1 + random() % 8,
                     static_cast<std::uint8_t>(random()));
        break;
      default:  // a number at its limits
        for (std::size_t k = at(bytes.size()), n = 0; k < bytes.size() && n < 8; ++k, ++n)
          bytes[k] = random() % 2 ? 0xff : 0x7f;
    }
  }
  return bytes;
}

class Replay : public testing::TestWithParam<FuzzTarget> {};

TEST_P(Replay, CorpusAndMutants) {
  const auto folder = std::filesystem::path(CUBOID_SOURCE_DIR) / "tests/fuzz/corpus" / GetParam().name;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 3u) << folder;
  RecordProperty("seed", static_cast<int>(kSeed));
  std::mt19937 random(kSeed);
  for (const auto& file : files) {
    SCOPED_TRACE(file);
    std::ifstream in(file, std::ios::binary);
    const Bytes input((std::istreambuf_iterator<char>(in)), {});
    EXPECT_NO_THROW(GetParam().run(input.data(), input.size()));
    for (int k = 0; k < kMutants; ++k) {
      const Bytes changed = mutant(input, random);
      EXPECT_NO_THROW(GetParam().run(changed.data(), changed.size())) << "mutant " << k << " of seed " << kSeed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, Replay, testing::ValuesIn(kFuzzTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace cuboid
