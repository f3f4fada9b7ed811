#include "engine/cli/yaml_tree.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace cuboid {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

YamlScalar scalar_of(const std::string& text) {
  return parse_yaml("v: " + text + "\n", "f.yaml")->entries[0].second->scalar;
}

std::string fault_of(const std::string& text, const YamlLimits& limits = {}) {
  try {
    parse_yaml(text, "f.yaml", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    return error.message();
  }
  return "no error";
}

// The table of the YAML 1.2.2 specification, section 10.3.2, and what 1.1 made of other words.
TEST(CoreSchema, ResolvesPlainScalars) {
  for (const char* word : {"", "~", "null", "Null", "NULL"})
    EXPECT_TRUE(std::holds_alternative<std::monostate>(scalar_of(word))) << word;
  for (const char* word : {"true", "True", "TRUE"}) EXPECT_EQ(scalar_of(word), YamlScalar(true)) << word;
  for (const char* word : {"false", "False", "FALSE"}) EXPECT_EQ(scalar_of(word), YamlScalar(false)) << word;
  const std::pair<const char*, std::int64_t> integers[] = {{"0", 0},
                                                           {"010", 10},
                                                           {"-19", -19},
                                                           {"+12", 12},
                                                           {"0o14", 12},
                                                           {"0xC", 12},
                                                           {"0xfF", 255},
                                                           {"9223372036854775807", INT64_MAX},
                                                           {"-9223372036854775808", INT64_MIN}};
  for (const auto& [word, value] : integers) EXPECT_EQ(scalar_of(word), YamlScalar(value)) << word;
  const std::pair<const char*, double> floats[] = {{"0.", 0.0},         {"-0.0", -0.0},       {".5", 0.5},
                                                   {"+12e03", 12000.0}, {"-2E+05", -2e5},     {"1.5", 1.5},
                                                   {".inf", INFINITY},  {"-.Inf", -INFINITY}, {"+.INF", INFINITY}};
  for (const auto& [word, value] : floats) {
    EXPECT_EQ(scalar_of(word), YamlScalar(value)) << word;
    EXPECT_EQ(std::signbit(std::get<double>(scalar_of(word))), std::signbit(value)) << word;
  }
  EXPECT_TRUE(std::isnan(std::get<double>(scalar_of(".NaN"))));
  for (const char* word :
       {"y", "n", "yes",  "no",  "on",  "off", "True1", "1_000", "0b1",        "0o8", "0xg",   "1e",   "e5",
        ".", "-", "1:30", "nan", "inf", "NaN", "tRUE",  "-0x1",  "2001-01-01", "--5", "1.2.3", "-.nan"})
    EXPECT_EQ(scalar_of(word == std::string("-") ? "'-'" : word), YamlScalar(std::string(word))) << word;
}

TEST(CoreSchema, QuotedScalarsAreStrings) {
  for (const char* word : {"\"1\"", "'1'", "\"true\"", "'null'", "'~'", "\".inf\""})
    EXPECT_TRUE(std::holds_alternative<std::string>(scalar_of(word))) << word;
  EXPECT_EQ(scalar_of("''"), YamlScalar(std::string()));
  EXPECT_EQ(scalar_of("|\n  12\n"), YamlScalar(std::string("12\n")));
}

TEST(CoreSchema, TagsOfTheSchemaAreKeptToOthersRefused) {
  EXPECT_EQ(scalar_of("!!str 12"), YamlScalar(std::string("12")));
  EXPECT_EQ(scalar_of("!!float 12"), YamlScalar(12.0));
  EXPECT_EQ(scalar_of("!!int 12"), YamlScalar(std::int64_t{12}));
  EXPECT_THAT(fault_of("v: !!int x\n"), HasSubstr("'x' is not an integer"));
  EXPECT_THAT(fault_of("v: !!binary aGk=\n"), HasSubstr("not of the core schema"));
  EXPECT_THAT(fault_of("v: !mine {a: 1}\n"), HasSubstr("not of the core schema"));
}

TEST(YamlTree, IntegersBeyondInt64AreRefused) {
  EXPECT_THAT(fault_of("v: 9223372036854775808\n"), StartsWith("f.yaml:1:4: the integer 9223372036854775808"));
  EXPECT_THAT(fault_of("v: -9223372036854775809\n"), HasSubstr("outside the range of int64"));
  EXPECT_THAT(fault_of("v: 0x10000000000000000\n"), HasSubstr("outside the range of int64"));
}

TEST(YamlTree, KeysAreStringsWhateverTheyLookLike) {
  const auto root = parse_yaml("y: 1\nno: 2\non: 3\n010: 4\ntrue: 5\n", "f.yaml");
  ASSERT_EQ(root->entries.size(), 5u);
  const char* names[] = {"y", "no", "on", "010", "true"};
  for (std::size_t k = 0; k < 5; ++k) EXPECT_EQ(root->entries[k].first->text, names[k]);
}

TEST(YamlTree, PlacesCountCharacters) {
  const auto root = parse_yaml("a: 1\nsteps:\n  söme: {call: 'grün', x: 5}\n", "f.yaml");
  const auto& step = root->entries[1].second->entries[0];
  EXPECT_EQ(step.first->where(), "f.yaml:3:3");
  EXPECT_EQ(step.second->where(), "f.yaml:3:9");
  EXPECT_EQ(step.second->entries[1].first->where(), "f.yaml:3:24");
}

TEST(YamlTree, DuplicateKeysAreRefusedWhereTheyStand) {
  EXPECT_THAT(fault_of("a: 1\nb: 2\na: 3\n"), StartsWith("f.yaml:3:1: the key 'a' appears twice"));
  EXPECT_THAT(fault_of("a: {b: 1, 'b': 2}\n"), StartsWith("f.yaml:1:11: the key 'b' appears twice"));
}

TEST(YamlTree, FaultsNameThePlace) {
  EXPECT_THAT(fault_of("a: [1, 2\n"), StartsWith("f.yaml:"));
  EXPECT_THAT(fault_of("a: 1\n---\nb: 2\n"), HasSubstr("second document"));
  EXPECT_THAT(fault_of("? [a]\n: 1\n"), HasSubstr("a key must be"));
  EXPECT_THAT(fault_of("a: *nothing\n"), StartsWith("f.yaml:1:"));
  EXPECT_THAT(fault_of(""), StartsWith("f.yaml:1:1: the file is empty"));
  EXPECT_THAT(fault_of("# only a remark\n"), HasSubstr("empty"));
  EXPECT_THAT(fault_of("a: b\nc: d\xff"
                       "e\n"),
              StartsWith("f.yaml:2:5: a byte that is not UTF-8"));
  EXPECT_THAT(fault_of(std::string("a: b\0c\n", 7)), StartsWith("f.yaml:1:5: a byte"));
}

TEST(YamlTree, AliasesAreExpandedWithinLimits) {
  const auto root = parse_yaml("a: &x {k: 1}\nb: *x\nc: [*x, *x]\n", "f.yaml");
  EXPECT_EQ(root->entries[1].second->entries[0].first->text, "k");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int k = 1; k < 10; ++k) {
    bomb += "a" + std::to_string(k) + ": &a" + std::to_string(k) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j ? ", *a" : "*a") + std::to_string(k - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(fault_of(bomb), HasSubstr("values, aliases counted in full"));
  EXPECT_THAT(fault_of("a: &a [*a]\n"), StartsWith("f.yaml:1:"));
}

TEST(YamlTree, DepthAndSizeAreBounded) {
  EXPECT_THAT(fault_of("a: " + std::string(100, '[') + std::string(100, ']') + "\n"),
              HasSubstr("nested deeper than 64"));
  EXPECT_THAT(fault_of("a: " + std::string(200000, '[')), StartsWith("f.yaml:1:"));
  EXPECT_THAT(fault_of("a: " + std::string(200000, '{')), StartsWith("f.yaml:1:"));
  std::string dashes;
  for (int k = 0; k < 100000; ++k) dashes += "- ";
  EXPECT_THAT(fault_of(dashes), StartsWith("f.yaml:1:"));
  std::string nested;
  for (int k = 0; k < 1000; ++k) nested += std::string(static_cast<std::size_t>(k), ' ') + "a:\n";
  EXPECT_THAT(fault_of(nested), StartsWith("f.yaml:"));
  EXPECT_THAT(fault_of(std::string(100, 'x'), {.bytes = 99}), HasSubstr("larger than 99 bytes"));
}

TEST(YamlTree, AcceptsJson) {
  const auto root = parse_yaml(
      "{\n\t\"a\": [1, 2.5, true, null, \"x\\u00e9\\ud83d\\ude00\\\\u0041\"],\n\t\"b\":{\"c\" : {}}\n}\n", "f.json");
  const auto& list = root->entries[0].second->items;
  EXPECT_EQ(list[0]->scalar, YamlScalar(std::int64_t{1}));
  EXPECT_EQ(list[1]->scalar, YamlScalar(2.5));
  EXPECT_EQ(list[2]->scalar, YamlScalar(true));
  EXPECT_TRUE(list[3]->is_null());
  EXPECT_EQ(list[4]->text, "x\u00e9\U0001F600\\u0041");
  EXPECT_EQ(root->entries[1].second->entries[0].second->type, YamlNode::Type::map);
  EXPECT_EQ(root->entries[1].first->where(), "f.json:3:2");
}

// Damaged files give an error or a tree, never a crash or a hang.
TEST(YamlTree, SurvivesDamage) {
  const std::string good =
      "arrays: {a: x.zarr}\nsteps:\n  s: &s {call: mean, args: [a, 1.5, [1, 2]], params: {axis: \"y\\n\"}}\n  t: "
      "*s\nstore: |\n  text\n";
  std::uint32_t state = 12345;
  const auto next = [&state] { return state = state * 1664525u + 1013904223u, state >> 8; };
  constexpr std::string_view kBytes = "{}[]:,&*!|>'\"%@`#-? \n\t~x0.";
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (unsigned k = next() % 4 + 1; k > 0; --k) {
      const std::size_t at = next() % text.size();
      switch (next() % 3) {
        case 0:
          text[at] = kBytes[next() % kBytes.size()];
          break;
        case 1:
          text.erase(at, next() % 5 + 1);
          break;
        default:
          text.insert(at, 1, static_cast<char>(next() % 256));
          break;
      }
      if (text.empty()) break;
    }
    try {
      parse_yaml(text, "f.yaml");
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::invalid) << round;
    }
  }
}

TEST(ReadFile, TakesRegularFilesOnly) {
  const auto folder = std::filesystem::temp_directory_path() / ("cuboid_read_file_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "f") << "text";
  EXPECT_EQ(read_file(folder / "f", 4), "text");
  EXPECT_THROW(read_file(folder / "f", 3), Error);
  EXPECT_THROW(read_file(folder, 10), Error);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(read_file(folder / "pipe", 10), Error);
  try {
    read_file(folder / "none", 10);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_THAT(error.message(), HasSubstr("No such file"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cuboid
