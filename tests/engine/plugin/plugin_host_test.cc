#include "engine/plugin/plugin_host.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "engine/plugin/plugin_kernel.h"
#include "storage/error.h"

namespace cuboid {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kPlugins = TEST_PLUGINS;

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    if (old) old_ = old;
    if (value)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  ~Environment() {
    if (old_)
      ::setenv(name_, old_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

std::string load_complaint(const std::string& file) {
  const PluginResolver resolver({read_manifest(kPlugins / file)});
  try {
    resolver.load();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::plugin);
    EXPECT_THAT(error.message(), HasSubstr(file));
    return error.message();
  }
  return "loaded";
}

TEST(PluginFolders, AreReplacedAndAddedTo) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  {
    const Environment path("CUBOID_PLUGIN_PATH", nullptr), add("CUBOID_PLUGIN_PATH_ADD", nullptr);
    const std::vector<fs::path> folders = plugin_folders();
    ASSERT_EQ(folders.size(), 2u);
    EXPECT_EQ(folders[0], program / "plugins");
    EXPECT_EQ(folders[1].parent_path().filename(), "cuboid");
    EXPECT_EQ(folders[1].filename(), "plugins");
  }
  const Environment path("CUBOID_PLUGIN_PATH", "/a::/b"), add("CUBOID_PLUGIN_PATH_ADD", "/c");
  EXPECT_THAT(plugin_folders(), testing::ElementsAre("/c", "/a", "/b"));
}

TEST(FindPlugins, ReportsWhatItFoundAndWhatItSkipped) {
  const PluginReport report = find_plugins({}, {kPlugins, "/nowhere"});
  std::vector<std::string> found, skipped;
  for (const Manifest& manifest : report.found) found.push_back(manifest.path.filename());
  for (const SkippedLibrary& library : report.skipped) skipped.push_back(library.path.filename());
  // Of the libraries that give broken.copy/1, the first by name counts; the others are skipped, each with its reason.
  EXPECT_THAT(found, testing::ElementsAre("libbehave.so", "libbroken_count.so"));
  EXPECT_THAT(skipped, testing::Contains("libbroken_none.so"));
  for (const SkippedLibrary& library : report.skipped) {
    const char* expected =
        library.path.filename() == "libbroken_newer.so" ? "needs minor 7 of the plugin ABI" : "was found first";
    EXPECT_THAT(library.reason, HasSubstr(expected)) << library.path;
  }
}

TEST(FindPlugins, ALibraryNamedTwiceIsFoundOnce) {
  const PluginReport report = find_plugins({kPlugins / "libbehave.so", kPlugins / "../plugins/libbehave.so"}, {});
  EXPECT_EQ(report.found.size(), 1u);
  EXPECT_TRUE(report.skipped.empty());
}

TEST(FindPlugins, ANamedLibraryMustBeAPlugin) {
  EXPECT_THROW(find_plugins({"/proc/self/exe"}, {}), Error);
  EXPECT_THROW(find_plugins({kPlugins / "libbroken_newer.so"}, {}), Error);
}

TEST(FindLibrary, TakesPathsAndNames) {
  EXPECT_EQ(find_library("libbehave.so", kPlugins, {}), kPlugins / "libbehave.so");
  EXPECT_EQ(find_library("behave", "/", {"/nowhere", kPlugins}), kPlugins / "libbehave.so");
  EXPECT_EQ(find_library("libbehave.so", "/", {kPlugins}), kPlugins / "libbehave.so");
  try {
    find_library("nobody", "/", {kPlugins});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_THAT(error.message(), HasSubstr(kPlugins.string()));
  }
}

TEST(PluginResolver, FindsFunctionsByNameAndRevision) {
  const PluginResolver resolver({read_manifest(kPlugins / "libbehave.so")});
  KernelSpec spec;
  spec.args.emplace_back(ArraySpec(kFloat64, {10}));
  spec.function = "test.twice";
  EXPECT_EQ(resolver.resolve(spec)->spec().function, "test.twice/2");  // the newest
  spec.function = "test.twice/1";
  const auto kernel = resolver.resolve(spec);
  EXPECT_EQ(kernel->spec().function, "test.twice/1");
  EXPECT_EQ(kernel->identity(), "test.twice/1#" + content_hash(kPlugins / "libbehave.so"));
  EXPECT_TRUE(kernel->foreign());
  spec.function = "add";
  EXPECT_EQ(resolver.resolve(spec), nullptr);
  spec.function = "test.twice/3";
  try {
    resolver.resolve(spec);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.message(), HasSubstr("test.twice/1, test.twice/2"));
  }
}

TEST(PluginResolver, DocumentsFunctions) {
  const PluginResolver resolver({read_manifest(kPlugins / "libbehave.so")});
  const std::vector<FunctionDoc> docs = resolver.functions();
  const auto window =
      std::find_if(docs.begin(), docs.end(), [](const auto& doc) { return doc.name == "test.window/1"; });
  ASSERT_NE(window, docs.end());
  EXPECT_EQ(window->kind, "plugin");
  EXPECT_EQ(window->signature, "x:f8[y,x] -> s:f8[y,x]");
  EXPECT_THAT(window->memory, HasSubstr("8*(y + 2*halo_y)*x + 64 (bound)"));
  ASSERT_EQ(window->params.size(), 3u);
  EXPECT_EQ(window->params[1].name, "boundary");
}

TEST(PluginKernel, PrefersChunksAndLargerBlocksWhereTheHaloIsLarge) {
  const PluginResolver resolver({read_manifest(kPlugins / "libbehave.so")});
  KernelSpec spec;
  spec.function = "test.window";
  spec.args.emplace_back(ArraySpec(kFloat64, {4000, 4000}));
  spec.params["radius"] = std::int64_t{2};
  EXPECT_EQ(resolver.resolve(spec)->preferred_block({{100, 100}}), (Shape{100, 100}));  // reads 1.08 times
  spec.params["radius"] = std::int64_t{20};
  const Shape block = resolver.resolve(spec)->preferred_block({{100, 100}});
  const double factor = (static_cast<double>(block[0]) + 40) * (static_cast<double>(block[1]) + 40) /
                        static_cast<double>(block[0] * block[1]);
  EXPECT_LE(factor, 1.25);
  EXPECT_EQ(block[0] % 100, 0);
  spec.args[0] = ArraySpec(kFloat64, {30, 0});
  EXPECT_EQ(resolver.resolve(spec)->preferred_block({{100, 100}}), (Shape{30, 1}));
}

TEST(PluginLibrary, LoadsWhatIsAsItsManifestSays) {
  EXPECT_EQ(load_complaint("libbehave.so"), "loaded");
  EXPECT_EQ(load_complaint("libbroken_none.so"), "loaded");
}

TEST(PluginLibrary, StaysLoadedAndKeepsItsNamesToItself) {
  const std::string path = (kPlugins / "libbroken_none.so").string();
  PluginResolver({read_manifest(path)}).load();
  EXPECT_NE(::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);  // although its owner is gone
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, "cuboid_plugin_v1"), nullptr);       // no plugin can take another one's place
}

TEST(PluginLibrary, TakesAPluginThatIsLinkedIntoTheProgram) {
  static const cuboid_plugin another{sizeof(cuboid_plugin), 0, "another", "1", 0, 0, nullptr, nullptr};
  const auto entry = [](const cuboid_hello*, const char**) -> const cuboid_plugin* { return &another; };
  const PluginLibrary library(read_manifest(kPlugins / "libbroken_none.so"), entry);
  try {
    library.load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("calls itself \"another\", its manifest says \"broken\""));
  }
}

TEST(PluginLibrary, SaysWhyALibraryCannotBeLoaded) {
  EXPECT_THAT(load_complaint("libbroken_symbol.so"), HasSubstr("undefined symbol: cuboid_plugin_v1"));
  EXPECT_THAT(load_complaint("libbroken_undefined.so"), HasSubstr("undefined symbol: nobody_defines_this"));
  EXPECT_THAT(load_complaint("libbroken_id.so"), HasSubstr("\"broken.other/1\" where its manifest says broken.copy/1"));
  EXPECT_THAT(load_complaint("libbroken_count.so"), HasSubstr("2 inputs, its manifest says 1"));
  EXPECT_THAT(load_complaint("libbroken_newer.so"), HasSubstr("needs minor 7"));
  EXPECT_THAT(load_complaint("libbroken_declines.so"), HasSubstr("declined to be loaded: \"no licence\""));
}

TEST(PluginLibrary, RefusesAFileThatChangedSincePlanning) {
  std::string name = (fs::temp_directory_path() / "cuboid_plugin_XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  const fs::path path = folder / "libbroken_none.so";
  fs::copy_file(kPlugins / "libbroken_none.so", path);
  const PluginLibrary library(read_manifest(path));
  std::ofstream(path, std::ios::binary | std::ios::app) << "more";
  try {
    library.load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("has changed since the plan was made"));
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace cuboid
