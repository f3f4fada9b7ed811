"""What is installed works by itself: the program finds its worker and plugins, and others build against it."""
import os
import shutil
import subprocess

import numpy as np
import pytest

import arrays
from program import BUILD, DATA, ROOT, environment

PLUGIN = """\
#include <cuboid/plugin.hpp>
using namespace cuboid::sdk;
struct Twice {
  static constexpr auto meta = decl("outside.twice/1", "x:T[n] -> y:T[n]", "Twice the input.")
                                   .types("T=f4|f8").call_bytes("0", exact).outside_bytes("0", exact)
                                   .flags(pure | reentrant).splittable("n");
  template <class T> static void run(Call& c) {
    const auto x = c.in<T, 1>(0);
    auto y = c.out<T, 1>(0);
    for (int64_t i = 0; i < x.extent(0); ++i) y(i) = 2 * x(i);
  }
};
CUBOID_PLUGIN("outside", "1.0.0", Twice)
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(outside LANGUAGES CXX)
{sdk}
cuboid_add_plugin(outside outside.cc)
"""
PROGRAM = """\
#include <cuboid/cuboid.h>
#include <cstdio>
using namespace cuboid;
int main(int, char** words) {
  try {
    const auto image = open_array(words[1]);
    const auto smooth = call("filter.gaussian", {mean(image, {2})}, {{"sigma", 1.5}});
    const auto plan = make_plan({{smooth > 128.0, words[2]}}, {.memory = 256_MiB});
    const auto result = run(plan);
    std::puts("done");
    try {
      make_plan({{smooth > 128.0, std::string(words[2]) + "2"}}, {.memory = 16_MiB});
    } catch (const Error& error) {
      std::puts(error.kind() == ErrorKind::over_budget ? "refused" : error.what());
    }
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
"""
EMBEDDING = """\
cmake_minimum_required(VERSION 3.16)
project(embedding LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(cuboid REQUIRED)
add_executable(embedding main.cc)
target_link_libraries(embedding PRIVATE cuboid::cuboid)
"""


def shell(*words, cwd=None, expect=0, **extra):
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environment(**extra), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == expect, f"{' '.join(map(str, words))}\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation, moved after it was made: nothing in it may depend on where it was."""
    made = tmp_path_factory.mktemp("made") / "usr"
    shell("cmake", "--install", BUILD, "--prefix", made)
    moved = tmp_path_factory.mktemp("moved") / "cuboid"
    shutil.move(made, moved)
    return moved


def library_folder(prefix):
    return next(path.parent for path in prefix.rglob("libcuboid.so"))


def build(folder, *flags):
    shell("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *flags)
    shell("cmake", "--build", folder / "build")


def try_plugin(prefix, library, folder):
    program = prefix / "bin/cuboid"
    assert "outside.twice/1" in shell(program, "plugin", "show", library)
    arrays.write(folder / "x.zarr", np.arange(100.0), (30,))
    (folder / "p.yaml").write_text(f"plugins: [{library}]\narrays: {{x: x.zarr}}\n"
                                   "steps: {y: {call: outside.twice, args: [x]}}\nstore: {y: y.zarr}\n")
    shell(program, "run", "p.yaml", cwd=folder)
    np.testing.assert_array_equal(arrays.read(folder / "y.zarr"), 2 * np.arange(100.0))


def test_installed_program_finds_what_belongs_to_it(prefix, tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    text = (ROOT / "examples/hubble.yaml").read_text()
    (tmp_path / "hubble.yaml").write_text(text)
    shell(prefix / "bin/cuboid", "run", "hubble.yaml", cwd=tmp_path)
    assert len(arrays.read(tmp_path / "out/hubble/sources.zarr")) > 500
    assert "sky.sources/1" in shell(prefix / "bin/cuboid", "plugin", "list", cwd=tmp_path)


def test_nothing_installed_names_the_build_tree(prefix):
    for path in prefix.rglob("*"):
        if path.is_file() and path.suffix in (".cmake", ".pc", ".h", ".hpp"):
            assert str(ROOT) not in path.read_text(), path


@pytest.mark.parametrize("sdk", ["find_package(cuboid REQUIRED)", f"add_subdirectory({ROOT}/sdk sdk)"],
                         ids=["find_package", "add_subdirectory"])
def test_plugin_from_outside(prefix, tmp_path, sdk):
    (tmp_path / "outside.cc").write_text(PLUGIN)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(sdk=sdk))
    build(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}" if "find" in sdk else "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF")
    try_plugin(prefix, tmp_path / "build/liboutside.so", tmp_path)


def test_plugin_with_pkg_config(prefix, tmp_path):
    (tmp_path / "outside.cc").write_text(PLUGIN)
    folders = {str(path.parent) for path in prefix.rglob("*.pc")}
    flags = shell("pkg-config", "--cflags", "--libs", "cuboid-sdk", PKG_CONFIG_PATH=os.pathsep.join(folders)).split()
    shell("g++", "-std=c++17", "-O2", "-fPIC", "outside.cc", "-o", "liboutside.so", *flags, cwd=tmp_path)
    try_plugin(prefix, tmp_path / "liboutside.so", tmp_path)


@pytest.mark.parametrize("how", ["find_package", "pkg-config"])
def test_program_that_embeds_the_engine(prefix, tmp_path, how):
    (tmp_path / "main.cc").write_text(PROGRAM)
    if how == "find_package":
        (tmp_path / "CMakeLists.txt").write_text(EMBEDDING)
        build(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
        program = tmp_path / "build/embedding"
    else:
        folders = {str(path.parent) for path in prefix.rglob("*.pc")}
        flags = shell("pkg-config", "--cflags", "--libs", "cuboid", PKG_CONFIG_PATH=os.pathsep.join(folders)).split()
        program = tmp_path / "embedding"
        shell("g++", "-std=c++20", "main.cc", "-o", program, *flags, cwd=tmp_path)
    told = shell(program, DATA / "hubble_deep_field.zarr", tmp_path / "bright.zarr",
                 LD_LIBRARY_PATH=str(library_folder(prefix))).split()
    assert told == ["done", "refused"], told
    bright = arrays.read(tmp_path / "bright.zarr")
    assert bright.dtype == bool and bright.shape == (872, 1000) and 100 < bright.sum() < 400000
