// What is fed to the readers of untrusted bytes. Each target takes any bytes, and must end without a crash, a leak, a
// large allocation or any exception but Error. libFuzzer drives them (CUBOID_FUZZ, needs clang); the ordinary tests
// replay the corpora and mutants of them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuboid {

struct FuzzTarget {
  const char* name;  // and of the folder of its corpus
  void (*run)(const std::uint8_t* data, std::size_t size);
};

void fuzz_metadata_v2(const std::uint8_t* data, std::size_t size);
void fuzz_metadata_v3(const std::uint8_t* data, std::size_t size);
// The first byte chooses the codecs.
void fuzz_codecs(const std::uint8_t* data, std::size_t size);
// A whole shard; the first byte chooses where its index is.
void fuzz_shard(const std::uint8_t* data, std::size_t size);
// A chunk of strings; the first byte chooses the codecs.
void fuzz_strings(const std::uint8_t* data, std::size_t size);
void fuzz_zip(const std::uint8_t* data, std::size_t size);

inline constexpr FuzzTarget kFuzzTargets[] = {{"metadata_v2", fuzz_metadata_v2}, {"metadata_v3", fuzz_metadata_v3},
                                              {"codecs", fuzz_codecs},           {"shard", fuzz_shard},
                                              {"strings", fuzz_strings},         {"zip", fuzz_zip}};

}  // namespace cuboid
