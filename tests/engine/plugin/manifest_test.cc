#include "engine/plugin/manifest.h"

#include <cuboid/plugin.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/plugin/manifest_rules.h"
#include "manifest_text.h"
#include "storage/error.h"

namespace cuboid {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "cuboid_manifest_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return path / name;
  }
  fs::path path;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string complaint(const std::string& json) {
  try {
    parse_manifest(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::plugin);
    return error.message();
  }
  return "accepted";
}

const fs::path kPlugins = TEST_PLUGINS;

TEST(Manifest, ReadsEveryField) {
  FunctionText text;
  text.signature = "x:T[y,x], w:f8[k] -> rows:T[<=y*x, 6], labels:i4[y,x]";
  text.params = R"([{"name": "sigma", "type": "float", "default": 1.5, "min": 0, "max": 9, "doc": "Width."},
                    {"name": "mode", "type": "string", "default": "a", "choices": ["a", "b"]},
                    {"name": "sizes", "type": "int[]", "required": true, "min_items": 1, "max_items": 3}])";
  text.regions =
      R"-({"kind": "halo", "halo": {"y": "ceil(3*sigma)"}, "modes": ["clip", "reflect"], "default": "reflect"})-";
  text.memory = R"-({"call_bytes": {"expr": "size_T*(y+2*halo_y)*x", "trust": "guess"},
                     "state_bytes": {"expr": "k*8", "trust": "exact"}, "outside_bytes": {"expr": "unknown"}})-";
  text.more = R"-(, "flags": ["pure", "state_local"], "splittable": ["x"], "outputs": {"rows": {"delivery": "push",
                  "slab": "x", "likely": "y", "doc": "The rows."}})-";
  const Manifest manifest = parse_manifest(manifest_text(text));
  EXPECT_EQ(manifest.name, "demo");
  EXPECT_EQ(manifest.version, "1.0");
  const FunctionManifest& f = manifest.functions.at(0);
  EXPECT_EQ(f.id, "demo.above/1");
  EXPECT_EQ(f.name, "demo.above");
  EXPECT_EQ(f.revision, 1);
  EXPECT_THAT(f.types.at("T"), testing::ElementsAre(kFloat32, kFloat64));
  ASSERT_EQ(f.params.size(), 3u);
  EXPECT_EQ(f.params[0].default_value, ParamValue(1.5));
  EXPECT_EQ(f.params[0].min, ParamValue(0.0));
  EXPECT_EQ(f.params[1].choices.size(), 2u);
  EXPECT_FALSE(f.params[2].default_value);
  EXPECT_EQ(f.params[2].max_items, 3);
  EXPECT_EQ(f.regions.halo.at("y").text(), "ceil(3*sigma)");
  EXPECT_EQ(f.regions.default_mode, BoundaryMode::reflect);
  EXPECT_EQ(f.call_bytes.trust, Trust::guess);
  EXPECT_EQ(f.state_bytes.trust, Trust::exact);
  EXPECT_EQ(f.outside_bytes.source, BytesManifest::Source::unknown);
  EXPECT_EQ(f.outside_bytes.trust, Trust::unknown);
  EXPECT_TRUE(f.flags.pure && f.flags.state_local && !f.flags.reentrant);
  EXPECT_EQ(f.outputs[0].delivery, Delivery::push);
  EXPECT_EQ(f.outputs[0].slab->text(), "x");
  EXPECT_EQ(f.outputs[1].delivery, Delivery::fill);
  EXPECT_THAT(cut_axes(f), testing::ElementsAre("y", "x"));
}

TEST(Manifest, ReadsExamplesAsElements) {
  FunctionText text;
  text.more = R"(, "examples": [{"params": {"t": 1}, "in": [{"dtype": "f4", "shape": [2], "data": ["NaN", 2]}],
                                 "out": [{"dtype": "f4", "shape": [1], "data": [2]}], "tolerance": 0.5}])";
  const Manifest manifest = parse_manifest(manifest_text(text));
  const ExampleManifest& example = manifest.functions[0].examples.at(0);
  float values[2];
  ASSERT_EQ(example.in[0].data.size(), sizeof values);
  std::memcpy(values, example.in[0].data.data(), sizeof values);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(example.tolerance, 0.5);
}

TEST(Manifest, ShowsWhatItRead) {
  const auto shown = nlohmann::json::parse(manifest_to_json(parse_manifest(manifest_text(FunctionText{}))));
  EXPECT_EQ(shown["name"], "demo");
  EXPECT_EQ(shown["version"], "1.0");
  EXPECT_EQ(shown["functions"][0]["id"], "demo.above/1");
  EXPECT_EQ(shown["functions"][0]["signature"], "x:T[n] -> y:T[<=n]");
}

TEST(Manifest, AnAxisIsCutOnlyWhereResultsCanBeJoined) {
  const auto cut = [](const std::string& signature, const std::string& regions = R"({"kind": "same"})") {
    FunctionText text;
    text.signature = signature;
    text.types = "{}";
    text.regions = regions;
    text.memory =
        R"({"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}})";
    return cut_axes(parse_manifest(manifest_text(text)).functions[0]);
  };
  using testing::ElementsAre;
  using testing::IsEmpty;
  EXPECT_THAT(cut("x:f8[y,x] -> o:f8[y,x]"), ElementsAre("y", "x"));
  EXPECT_THAT(cut("x:f8[y,x] -> o:f8[x]"), ElementsAre("x"));  // y is reduced: whole
  EXPECT_THAT(cut("x:f8[y,x] -> o:f8[y,x], m:f8[y]"), ElementsAre("y"));
  EXPECT_THAT(cut("x:f8[n] -> o:f8[ceil(n/2)]"), IsEmpty());
  EXPECT_THAT(cut("x:f8[n,n] -> o:f8[n]"), IsEmpty());
  EXPECT_THAT(cut("x:f8[y,x] -> o:f8[<=y*x, 3]"), ElementsAre("y", "x"));
  EXPECT_THAT(cut("x:f8[y,x] -> o:f8[y,x]", R"({"kind": "all"})"), IsEmpty());
  EXPECT_THAT(cut("x:f8[y,x] -> o:f8[y,x]", R"({"kind": "same", "core": ["x"]})"), ElementsAre("y"));
  EXPECT_THAT(cut("-> o:f8[3]"), IsEmpty());
}

struct Bad {
  const char* what;
  std::string json;
  const char* complaint;
};

FunctionText with(std::string FunctionText::*field, const std::string& value) {
  FunctionText text;
  text.*field = value;
  return text;
}

std::string with_param(const std::string& param) {
  return manifest_text(with(&FunctionText::params, "[" + param + "]"));
}
std::string with_memory(const std::string& memory) { return manifest_text(with(&FunctionText::memory, memory)); }

TEST(Manifest, HostileManifestsAreRefusedNamingTheField) {
  const std::string valid = manifest_text(FunctionText{});
  const std::string exact = R"({"expr": "0", "trust": "exact"})";
  const std::string deep(2000, '[');
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = valid;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const Bad table[] = {
      {"empty", "", "no valid JSON"},
      {"no object", "[]", "manifest: is array of 0 entries, expected an object"},
      {"cut off", valid.substr(0, valid.size() - 1), "no valid JSON"},
      {"more behind", valid + "x", "no valid JSON"},
      {"comment", "/* */" + valid, "no valid JSON"},
      {"bad UTF-8", replaced("Values", "\xff\xfe"), "no valid JSON"},
      {"overlong UTF-8", replaced("Values", "\xc0\x80"), "no valid JSON"},
      {"deep", R"({"schema": )" + deep, "nested deeper than 16"},
      {"too long", std::string(kMaxManifestBytes, ' ') + valid, "at most 1048576"},
      {"duplicate key", replaced("\"name\"", "\"schema\": 1, \"name\""), "key \"schema\" occurs twice"},
      {"duplicate key inside", replaced("\"doc\"", "\"id\": \"demo.above/1\", \"doc\""), "key \"id\" occurs twice"},
      {"unknown field", replaced("\"version\"", "\"verson\": 1, \"version\""), "\"verson\", did you mean version?"},
      {"no name", replaced("\"name\": \"demo\", ", ""), "lacks the field name"},
      {"name", replaced("\"demo\"", "\"Demo\""), "name: is \"Demo\", expected a name"},
      {"schema", replaced("1,", "2,"), "schema: is 2"},
      {"schema as text", replaced("1,", "\"1\","), "schema: is \"1\""},
      {"schema as real", replaced("1,", "1.0,"), "schema: is 1.0"},
      {"abi", replaced("\"name\"", "\"abi\": {\"major\": 2, \"needs_minor\": 0}, \"name\""), "abi.major: is 2"},
      {"no functions", R"({"schema": 1, "name": "d", "version": "1", "functions": []})", "functions: is array of 0"},
      {"two of one id", manifest_text(FunctionText{}.json() + "," + FunctionText{}.json()),
       "two functions have the id"},
      {"id", manifest_text(with(&FunctionText::id, "above/1")),
       "functions[0].id: is \"above/1\", expected vendor.name"},
      {"id revision", manifest_text(with(&FunctionText::id, "demo.above/0")), "functions[0].id"},
      {"id revision long", manifest_text(with(&FunctionText::id, "demo.above/99999999999999999999")),
       "functions[0].id"},
      {"id two dots", manifest_text(with(&FunctionText::id, "demo.a.b/1")), "functions[0].id"},
      {"signature", manifest_text(with(&FunctionText::signature, "x:T[n]")), "functions[0].signature"},
      {"type missing", manifest_text(with(&FunctionText::types, "{}")), "types: lacks the type variable T"},
      {"type unused", manifest_text(with(&FunctionText::types, R"({"T": ["f8"], "U": ["f8"]})")),
       "types: the signature has no type variable U"},
      {"type unknown", manifest_text(with(&FunctionText::types, R"({"T": ["f3"]})")), "types.T[0]: is \"f3\""},
      {"type twice", manifest_text(with(&FunctionText::types, R"({"T": ["f8", "f8"]})")), "types.T[1]: occurs twice"},
      {"param without default", with_param(R"({"name": "t", "type": "int"})"), "params[0]: needs either a default"},
      {"param default type", with_param(R"({"name": "t", "type": "int", "default": 1.5})"),
       "params[0].default: parameter t is 1.5, expected int"},
      {"param default range", with_param(R"({"name": "t", "type": "int", "default": 5, "max": 4})"), "default"},
      {"param min above max", with_param(R"({"name": "t", "type": "int", "default": 5, "min": 6, "max": 4})"),
       "below min"},
      {"param huge", with_param(R"({"name": "t", "type": "int", "default": 18446744073709551615})"), "default"},
      {"param reserved", with_param(R"({"name": "halo_n", "type": "int", "default": 5})"), "not reserved"},
      {"param is axis", with_param(R"({"name": "n", "type": "int", "default": 5})"), "n is an axis too"},
      {"param twice",
       with_param(R"({"name": "a", "type": "int", "default": 5}, {"name": "a", "type": "int", "default": 5})"),
       "two parameters are named a"},
      {"param choices", with_param(R"({"name": "t", "type": "string", "default": "c", "choices": ["a", "b"]})"),
       "default"},
      {"param type", with_param(R"({"name": "t", "type": "double", "default": 1})"), "params[0].type: is \"double\""},
      {"min of a string", with_param(R"({"name": "t", "type": "string", "default": "c", "min": 1})"), "min"},
      {"memory missing", with_memory("{}"), "memory: lacks the field call_bytes"},
      {"outside missing", with_memory(R"({"call_bytes": )" + exact + "}"), "memory: lacks the field outside_bytes"},
      {"call missing", with_memory(R"({"outside_bytes": )" + exact + "}"), "memory: lacks the field call_bytes"},
      {"no trust", with_memory(R"({"call_bytes": {"expr": "0"}, "outside_bytes": )" + exact + "}"),
       "functions[0].memory.call_bytes: lacks the field trust"},
      {"trust", with_memory(R"({"call_bytes": {"expr": "0", "trust": "sure"}, "outside_bytes": )" + exact + "}"),
       "memory.call_bytes.trust: is \"sure\", expected one of exact, bound, guess"},
      {"unknown with trust",
       with_memory(R"({"call_bytes": {"expr": "unknown", "trust": "exact"}, "outside_bytes": )" + exact + "}"),
       "has no meaning with unknown"},
      {"number for a formula", with_memory(R"({"call_bytes": 0, "outside_bytes": )" + exact + "}"), "call_bytes: is 0"},
      {"bad formula",
       with_memory(R"({"call_bytes": {"expr": "8*", "trust": "exact"}, "outside_bytes": )" + exact + "}"),
       "memory.call_bytes.expr: formula '8*'"},
      {"unknown name",
       with_memory(R"({"call_bytes": {"expr": "8*m", "trust": "exact"}, "outside_bytes": )" + exact + "}"),
       "memory.call_bytes: the formula mentions \"m\""},
      {"halo sees no axis",
       manifest_text(with(&FunctionText::regions,
                          R"({"kind": "halo", "halo": {"n": "n"}, "modes": ["clip"], "default": "clip"})")),
       "regions.halo.n: the formula mentions \"n\""},
      {"halo without modes", manifest_text(with(&FunctionText::regions, R"({"kind": "halo", "halo": {"n": "1"}})")),
       "regions: lacks the field modes"},
      {"halo of no axis",
       manifest_text(with(&FunctionText::regions,
                          R"({"kind": "halo", "halo": {"q": "1"}, "modes": ["clip"], "default": "clip"})")),
       "\"q\" is no axis"},
      {"default no mode",
       manifest_text(with(&FunctionText::regions,
                          R"({"kind": "halo", "halo": {"n": "1"}, "modes": ["clip"], "default": "wrap"})")),
       "default: is \"wrap\", expected one of the modes"},
      {"halo with kind same", manifest_text(with(&FunctionText::regions, R"({"kind": "same", "halo": {"n": "1"}})")),
       "is for kind halo only"},
      {"core of no axis", manifest_text(with(&FunctionText::regions, R"({"kind": "same", "core": ["q"]})")),
       "regions.core"},
      {"extent of a cut axis", manifest_text(with(&FunctionText::signature, "x:T[n] -> y:T[n], z:T[<=n, n]")),
       "depends on the axis n"},
      {"flag", manifest_text(with(&FunctionText::more, R"(, "flags": ["fast"])")), "flags[0]: is \"fast\""},
      {"flag twice", manifest_text(with(&FunctionText::more, R"(, "flags": ["pure", "pure"])")),
       "flags[1]: occurs twice"},
      {"split", manifest_text(with(&FunctionText::more, R"(, "splittable": ["q"])")), "splittable: \"q\""},
      {"output unknown", manifest_text(with(&FunctionText::more, R"(, "outputs": {"q": {}})")),
       "no output of this name"},
      {"fill of a bound", manifest_text(with(&FunctionText::more, R"(, "outputs": {"y": {"delivery": "fill"}})")),
       "delivery"},
      {"push without slab", manifest_text(with(&FunctionText::more, R"(, "outputs": {"y": {"delivery": "push"}})")),
       "slab"},
      {"example shape",
       manifest_text(with(&FunctionText::more,
                          R"(, "examples": [{"in": [{"dtype": "f8", "shape": [2], "data": [1]}], "out": []}])")),
       "examples[0].in[0].data: is array of 1 entries"},
      {"example huge",
       manifest_text(
           with(&FunctionText::more,
                R"(, "examples": [{"in": [{"dtype": "f8", "shape": [9007199254740993], "data": []}], "out": []}])")),
       "shape[0]"},
      {"example param",
       manifest_text(with(&FunctionText::more, R"(, "examples": [{"params": {"q": 1}, "in": [], "out": []}])")),
       "no parameter \"q\""},
      {"combine with rows", manifest_text(with(&FunctionText::more, R"(, "combine": {"partial": "s:f8[1]"})")),
       "combine"},
  };
  EXPECT_EQ(complaint(valid), "accepted");
  std::string keys = R"({"schema": 1)";
  for (int k = 0; k < 300; ++k) keys += ", \"k" + std::to_string(k) + "\": 0";
  EXPECT_THAT(complaint(keys + "}"), HasSubstr("more than 256 keys"));
  for (const Bad& bad : table) EXPECT_THAT(complaint(bad.json), HasSubstr(bad.complaint)) << bad.what;
}

std::string with_recipe(const std::string& step, const std::string& id = "demo.twice/1") {
  const std::string text = manifest_text(FunctionText{});
  return text.substr(0, text.size() - 1) + R"(, "recipes": [{"id": ")" + id +
         R"(", "doc": "d", "signature": "x:f8[n] -> y:f8[<=n]", "steps": [)" + step + "]}]}";
}

TEST(Manifest, RecipesNameFunctionsInputsAndParametersThatExist) {
  const std::string first = R"({"name": "a", "call": "demo.above/1", "args": ["x"], "params": ["t"]})";
  const Manifest manifest =
      parse_manifest(with_recipe(first + R"(, {"name": "b", "call": "demo.above/1", "args": ["a.y"]})"));
  ASSERT_EQ(manifest.recipes.size(), 1u);
  EXPECT_EQ(manifest.recipes[0].recipe.parts[1].args, std::vector<std::string>{"a.y"});
  EXPECT_EQ(manifest.recipes[0].params.at(0).name, "t");
  const std::vector<std::pair<std::string, std::string>> wrong{
      {with_recipe(""), "recipes[0].steps"},
      {with_recipe(first, "demo.above/1"), "two functions have the id demo.above/1"},
      {with_recipe(R"({"name": "a", "call": "demo.other/1", "args": ["x"]})"), "a function of this manifest"},
      {with_recipe(R"({"name": "a", "call": "demo.above/1", "args": []})"), "1 names"},
      {with_recipe(R"({"name": "a", "call": "demo.above/1", "args": ["a"]})"), "neither an input nor an earlier step"},
      {with_recipe(R"({"name": "a", "call": "demo.above/1", "args": ["x"], "params": ["q"]})"), "no parameter of"},
      {with_recipe(first + ", " + first), "is taken"},
      {with_recipe(R"({"name": "min", "call": "demo.above/1", "args": ["x"]})"), "not reserved"},
  };
  for (const auto& [text, words] : wrong) EXPECT_THAT(complaint(text), HasSubstr(words));
}

TEST(Manifest, CutAtEveryLengthIsRefused) {
  const std::string valid = manifest_text(FunctionText{});
  for (std::size_t length = 0; length < valid.size(); ++length)
    EXPECT_THROW(parse_manifest(valid.substr(0, length)), Error) << length;
}

// Random damage gives a manifest or an Error, never more.
TEST(Manifest, RandomDamageIsStood) {
  const unsigned seed = 20240608;
  std::mt19937 random(seed);
  FunctionText text;
  text.more = R"(, "examples": [{"params": {"t": 1}, "in": [{"dtype": "f4", "shape": [2], "data": ["NaN", 2]}],
                                 "out": [{"dtype": "f4", "shape": [1], "data": [2]}], "tolerance": 0.5}])";
  const std::string valid = manifest_text(text);
  const std::string alphabet = "{}[]\":,0123456789-+.eE truefalsn\\u\xc3\xff<=>~?*/()_xyT";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = valid;
    for (int times = 1 + static_cast<int>(random() % 3); times > 0; --times) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 24));
      }
    }
    try {
      parse_manifest(damaged);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::plugin) << "seed " << seed << ": " << damaged;
    }
  }
  EXPECT_GT(accepted, 100) << "seed " << seed;
  EXPECT_LT(accepted, 15000) << "seed " << seed;
}

TEST(ManifestFile, ReadsASharedLibraryWithoutLoadingIt) {
  const fs::path library = kPlugins / "libbehave.so";
  const Manifest manifest = read_manifest(library);
  EXPECT_EQ(manifest.name, "behave");
  EXPECT_EQ(manifest.path, library);
  EXPECT_EQ(manifest.functions.front().id, "test.twice/1");
  EXPECT_EQ(manifest.content_hash.size(), 64u);
  EXPECT_EQ(manifest.content_hash, content_hash(library));
  EXPECT_THAT(read_file("/proc/self/maps"), testing::Not(HasSubstr("libbehave")));
}

TEST(ManifestFile, HashesAsSha256Does) {
  const Folder folder;  // FIPS 180-2, appendix B.1
  EXPECT_EQ(content_hash(folder.write("abc", "abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(content_hash(folder.write("none", "")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(ManifestFile, CutAtEveryLengthIsRefusedInPeace) {
  const Folder folder;
  const std::string whole = read_file(kPlugins / "libbroken_none.so");
  ASSERT_GT(whole.size(), 1000u);
  const fs::path path = folder.write("libcut.so", whole);
  // The section table is at the end of the file, so every cut is seen.
  for (std::size_t length = whole.size(); length-- > 0;) {
    fs::resize_file(path, length);
    EXPECT_THROW(read_manifest(path), Error) << length;
  }
}

// Every byte of the headers, every value of interest: the answer is a manifest or an Error, never more.
TEST(ManifestFile, DamagedHeadersAreStood) {
  const Folder folder;
  const std::string whole = read_file(kPlugins / "libbroken_none.so");
  Elf64_Ehdr header{};
  std::memcpy(&header, whole.data(), sizeof header);
  const fs::path path = folder.write("libdamaged.so", whole);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto attempt = [&](std::size_t at) {
    for (const char value : {'\x00', '\x01', '\x7f', '\x80', '\xff'}) {
      file.seekp(static_cast<std::streamoff>(at)).put(value).flush();
      try {
        read_manifest(path);
      } catch (const Error&) {
      }
    }
    file.seekp(static_cast<std::streamoff>(at)).put(whole[at]).flush();
  };
  for (std::size_t at = 0; at < sizeof header; ++at) attempt(at);
  for (std::size_t at = header.e_shoff; at < whole.size(); ++at) attempt(at);
  EXPECT_EQ(read_manifest(path).name, "broken");
}

struct Header {
  const char* what;
  std::size_t at;
  unsigned char value;
  const char* complaint;
};

TEST(ManifestFile, SaysWhatKindOfFileItIs) {
  const Folder folder;
  const std::string whole = read_file(kPlugins / "libbroken_none.so");
  const Header table[] = {
      {"class", EI_CLASS, ELFCLASS32, "expected a 64-bit library"},
      {"byte order", EI_DATA, ELFDATA2MSB, "other byte order"},
      {"machine", offsetof(Elf64_Ehdr, e_machine), EM_AARCH64 == 183 ? 21 : 0, "build the plugin for this"},
      {"type", offsetof(Elf64_Ehdr, e_type), ET_REL, "expected a shared library"},
      {"entries", offsetof(Elf64_Ehdr, e_shentsize), 40, "sections of 40 bytes"}};
  for (const Header& one : table) {
    std::string bytes = whole;
    bytes[one.at] = static_cast<char>(one.value);
    const fs::path path = folder.write("libother.so", bytes);
    try {
      read_manifest(path);
      ADD_FAILURE() << one.what;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(one.complaint));
      EXPECT_THAT(error.message(), HasSubstr("libother.so"));
    }
  }
}

TEST(ManifestFile, RefusesADamagedSection) {
  const Folder folder;
  const std::string whole = read_file(kPlugins / "libbroken_none.so");
  const std::size_t at = whole.find("CUBOIDM1");
  ASSERT_NE(at, std::string::npos);
  const auto complaint_with = [&](std::size_t offset, std::uint32_t value) -> std::string {
    std::string bytes = whole;
    std::memcpy(&bytes[at + offset], &value, sizeof value);
    try {
      read_manifest(folder.write("libdamaged.so", bytes));
    } catch (const Error& error) {
      return error.message();
    }
    return "accepted";
  };
  EXPECT_THAT(complaint_with(0, 0), HasSubstr("does not begin with CUBOIDM1"));
  EXPECT_THAT(complaint_with(offsetof(cuboid_blob_head, head_bytes), 0xffffffff), HasSubstr("damaged section"));
  EXPECT_THAT(complaint_with(offsetof(cuboid_blob_head, head_bytes), 8), HasSubstr("damaged section"));
  EXPECT_THAT(complaint_with(offsetof(cuboid_blob_head, major), 2), HasSubstr("major 2 of the plugin ABI"));
  EXPECT_THAT(complaint_with(offsetof(cuboid_blob_head, json_bytes), 0xfffffff0), HasSubstr("damaged section"));
  EXPECT_THAT(complaint_with(offsetof(cuboid_blob_head, json_bytes), 3), HasSubstr("more than one manifest"));
  EXPECT_THAT(complaint_with(offsetof(cuboid_blob_head, needs_minor), 3), HasSubstr("the head of the section says 3"));
}

TEST(ManifestFile, NothingThatIsNoFileMakesItWait) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder.path / "libpipe.so").c_str(), 0600), 0);
  fs::create_directory(folder.path / "libdir.so");
  for (const fs::path& path : {folder.path / "libpipe.so", folder.path / "libdir.so", fs::path("/dev/zero")}) {
    try {
      read_manifest(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("no regular file"));
    }
  }
  try {
    read_manifest(folder.path / "libnone.so");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
  }
}

TEST(ManifestFile, ReadsTheFileBesideALibraryWithoutSection) {
  const Folder folder;
  const fs::path library = folder.write("libforeign.so", "MZ another format");
  EXPECT_THROW(read_manifest(library), Error);
  folder.write("libforeign.cuboid.json", manifest_text(FunctionText{}));
  const Manifest manifest = read_manifest(library);
  EXPECT_EQ(manifest.functions[0].id, "demo.above/1");
  EXPECT_NE(manifest.content_hash, content_hash(library));  // another manifest is another plugin
  folder.write("libforeign.cuboid.json", std::string(kMaxManifestBytes + 1, ' '));
  EXPECT_THROW(read_manifest(library), Error);
}

}  // namespace
}  // namespace cuboid
