"""Every way of taking the SDK into another project, with both compilers, both standards, with and without optimisation: the
plugin is built outside the tree, exports exactly one symbol, and works."""
import itertools
import os
import shutil
import subprocess

import pytest

from program import BUILD, ROOT
from test_install import CMAKE, PLUGIN, shell, try_plugin

COMPILERS, STANDARDS, LEVELS = ["g++", "clang++"], [17, 20], ["-O0", "-O3"]
WAYS = ["copy", "add_subdirectory", "find_package", "pkg-config"]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("vendoring") / "usr"
    shell("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def by_hand(folder, compiler, standard, level, *flags):
    shell(compiler, f"-std=c++{standard}", level, "-Wall", "-Wextra", "-Werror", "-fPIC", folder / "outside.cc",
          "-o", folder / "liboutside.so", *flags)
    return folder / "liboutside.so"


def by_cmake(folder, sdk, compiler, standard, level, *flags):
    (folder / "CMakeLists.txt").write_text(CMAKE.format(sdk=sdk))
    shell("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
          f"-DCMAKE_CXX_STANDARD={standard}", f"-DCMAKE_CXX_FLAGS={level}", *flags)
    shell("cmake", "--build", folder / "build")
    return folder / "build/liboutside.so"


def exported(library):
    table = subprocess.run(["nm", "-D", "--defined-only", "-P", library], check=True, stdout=subprocess.PIPE, text=True)
    return [line.split()[0] for line in table.stdout.splitlines()]


@pytest.mark.parametrize("compiler,standard,level", itertools.product(COMPILERS, STANDARDS, LEVELS))
@pytest.mark.parametrize("way", WAYS)
def test_vendoring(prefix, tmp_path, way, compiler, standard, level):
    assert shutil.which(compiler), f"{compiler} is in scripts/packages.txt"
    (tmp_path / "outside.cc").write_text(PLUGIN)
    if way == "copy":
        (tmp_path / "cuboid").mkdir()
        for name in ("plugin.h", "plugin.hpp"):
            shutil.copy(ROOT / "sdk/include/cuboid" / name, tmp_path / "cuboid")
        (tmp_path / "plugin.map").write_text("{ global: cuboid_plugin_v1; local: *; };\n")  # as the guide says
        library = by_hand(tmp_path, compiler, standard, level, f"-I{tmp_path}", "-shared", "-fvisibility=hidden",
                          f"-Wl,--version-script={tmp_path}/plugin.map")
    elif way == "pkg-config":
        folders = os.pathsep.join({str(path.parent) for path in prefix.rglob("*.pc")})
        flags = shell("pkg-config", "--cflags", "--libs", "cuboid-sdk", PKG_CONFIG_PATH=folders).split()
        library = by_hand(tmp_path, compiler, standard, level, *flags)
    elif way == "add_subdirectory":
        shutil.copytree(ROOT / "sdk", tmp_path / "sdk")
        library = by_cmake(tmp_path, "add_subdirectory(sdk)", compiler, standard, level)
    else:
        library = by_cmake(tmp_path, "find_package(cuboid REQUIRED)", compiler, standard, level,
                           f"-DCMAKE_PREFIX_PATH={prefix}")
    assert exported(library) == ["cuboid_plugin_v1"]
    try_plugin(prefix, library, tmp_path)
