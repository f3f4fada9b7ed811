// Arguments for trial calls of a plugin's function: small arrays of every element type that it takes, with several kinds
// of contents, and parameters within their ranges. A pure function of the manifest and a seed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plugin/manifest.h"

namespace cuboid::check {

struct Sample {
  std::string name;  // "float64 noise"
  KernelSpec spec;
  std::vector<std::vector<std::byte>> in;  // per argument, C order
};

// Elements that a user gave for the first argument, C order.
struct UserData {
  DType dtype;
  Shape shape;
  std::vector<std::byte> elements;
};

struct SampleOptions {
  std::uint64_t seed = 1;
  std::optional<UserData> data;        // takes the place of the first argument where type and rank suit
  std::optional<Shape> first_extents;  // of the first argument; default: small, all different
  std::optional<Params> params;        // default: the manifest's defaults, and what its examples use
};

// Per element type noise; of the first type also constant, ascending and alternating contents, and the parameters of
// each example. Empty only where the manifest requires a parameter that no number within its range can be guessed for.
std::vector<Sample> make_samples(const FunctionManifest& function, const SampleOptions& options);

}  // namespace cuboid::check
