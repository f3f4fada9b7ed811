// What a plugin promises, read from its file without running any of it: docs/plugin-manifest.md as plain structs.
//
// The file is hostile until proven otherwise: sizes are checked before anything is read or reserved, every field is
// validated, and nothing waits (a FIFO, a device or a directory in a library's place is an error at once).
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/expr/kernel.h"
#include "engine/plugin/expression.h"
#include "engine/plugin/signature.h"

namespace cuboid {

enum class ParamType : std::uint8_t { boolean, integer, floating, string, integers, floats, strings };
std::string_view to_string(ParamType type);  // "bool", "int", "float", "string", "int[]", ...

struct ParamManifest {
  std::string name, doc;
  ParamType type = ParamType::floating;
  std::optional<ParamValue> default_value;  // of the type; none: required
  std::optional<ParamValue> min, max;       // int64 or double; inclusive; hold for each element of a list
  std::vector<ParamValue> choices;          // int64, double or string; empty: any
  std::optional<std::int64_t> min_items, max_items;
};

enum class BoundaryMode : std::uint8_t { reflect, nearest, constant, wrap, clip };
std::string_view to_string(BoundaryMode mode);

// How a block of an output depends on the inputs.
struct RegionManifest {
  enum class Kind : std::uint8_t { same, halo, all, callback } kind = Kind::same;
  std::map<std::string, Expression> halo;  // by axis, elements on either side; over parameters
  std::vector<BoundaryMode> modes;         // of a halo: what the function accepts at the border of the array
  BoundaryMode default_mode = BoundaryMode::clip;
  std::vector<std::string> core;  // axes that are handed over whole
};

// How the plugin hands an output over.
enum class Delivery : std::uint8_t { fill, trim, emit, grow, push };

struct OutputManifest {
  Delivery delivery = Delivery::fill;
  std::optional<Expression> slab;    // of `push`: the largest first extent of one slab
  std::optional<Expression> likely;  // the first extent to expect
  std::string doc;
};

struct BytesManifest {
  enum class Source : std::uint8_t { formula, unknown, callback } source = Source::formula;
  Expression formula;
  Trust trust = Trust::exact;  // `unknown` exactly where nobody knows
};

struct FunctionFlags {
  bool pure = false, reentrant = false, state_local = false, threads = false, in_place = false, fork_safe = false;
};

// A small array of a golden example; elements in C order, native byte order.
struct ExampleArray {
  DType dtype;
  Shape shape;
  std::vector<std::byte> data;
};
struct ExampleManifest {
  std::string doc;
  Params params;
  std::vector<ExampleArray> in, out;
  double tolerance = 0;
};

struct FunctionManifest {
  std::string id;    // "vendor.name/revision"
  std::string name;  // "vendor.name"
  std::int64_t revision = 1;
  std::string doc;
  Signature signature;
  std::map<std::string, std::vector<DType>> types;  // variable -> what it may stand for
  std::vector<ParamManifest> params;                // the function's own, in the order the plugin sees them
  RegionManifest regions;
  std::vector<OutputManifest> outputs;  // parallel to signature.outputs
  BytesManifest call_bytes, state_bytes, outside_bytes;
  FunctionFlags flags;
  std::vector<std::string> splittable;  // axes
  std::vector<ArrayPattern> partial;    // of `combine`; empty: no reduction
  std::vector<ExampleManifest> examples;
};

// A function made of others of the same library (Recipe).
struct RecipeManifest {
  std::string id, name;
  std::int64_t revision = 1;
  std::string doc;
  Signature signature;                // for people; the parts check types and extents
  std::vector<ParamManifest> params;  // those that its parts take
  Recipe recipe;
};

struct Manifest {
  std::filesystem::path path;  // of the library
  std::string content_hash;    // SHA-256 of the library (and of its sidecar, where that was read), 64 hex digits
  std::string name, version, doc;
  std::uint32_t needs_minor = 0;
  std::vector<FunctionManifest> functions;
  std::vector<RecipeManifest> recipes;
  std::string json;  // as the author wrote it, compact
};

// The largest manifest that is read, and the deepest nesting of its JSON.
inline constexpr std::size_t kMaxManifestBytes = 1 << 20;
inline constexpr int kMaxManifestDepth = 16;

// Reads the section `.cuboid` of an ELF library of this machine's kind, else NAME.cuboid.json beside it. Loads no code.
// Throws Error: not_found, io, or plugin with the path, the field and what was expected there.
Manifest read_manifest(const std::filesystem::path& library);

// The same from the JSON text alone (path and content_hash stay empty). Throws Error{plugin}.
Manifest parse_manifest(std::string_view json);

// For `plugin show --json`: {"name","version","functions":[{"id","signature",...}]}, indented.
std::string manifest_to_json(const Manifest& manifest);

// SHA-256 of a regular file, 64 hex digits. Throws Error{not_found, io, plugin}.
std::string content_hash(const std::filesystem::path& file);

}  // namespace cuboid
