"""The SDK from outside: installed, as a subdirectory, and as two copied files; one exported symbol; a manifest that
survives strip; the project template."""
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk"


def shell(*words, expect=0, cwd=None):
    done = subprocess.run([str(w) for w in words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if (done.returncode != 0) != (expect != 0):
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def exports(library):
    return [line.split()[0] for line in shell("nm", "-D", "--defined-only", "-P", library).splitlines()]


def manifest(library, folder):
    shell("objcopy", "-O", "binary", "--only-section=.cuboid", library, folder / "section")
    section = (folder / "section").read_bytes()
    magic, head, major, minor, length = struct.unpack("<8sIIII", section[:24])
    assert magic == b"CUBOIDM1" and (head, major, minor) == (24, 1, 0)
    return json.loads(section[head:head + length])


def new_project(folder, name):
    """What `cuboid plugin new` makes."""
    folder.mkdir()
    for file in (SDK / "template").iterdir():
        (folder / file.name).write_text(file.read_text().replace("@NAME@", name))
    return folder


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.scratch.name)
        shell("cmake", "-S", SDK, "-B", cls.at / "sdk_build", "-G", "Ninja")
        shell("cmake", "--install", cls.at / "sdk_build", "--prefix", cls.at / "prefix")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def build(self, project, *flags, expect=0):
        shell("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", *flags)
        return shell("cmake", "--build", project / "build", expect=expect)

    def check_library(self, project, name):
        library = project / f"build/lib{name}.so"
        self.assertEqual(exports(library), ["cuboid_plugin_v1"])
        shell("strip", library)
        self.assertEqual(manifest(library, self.at)["functions"][0]["id"], f"{name}.above/1")
        shell("ctest", "--test-dir", project / "build")

    def test_template_is_small(self):
        lines = sum(len(file.read_text().splitlines()) for file in (SDK / "template").iterdir())
        self.assertLessEqual(lines, 60)

    def test_template_with_the_installed_package(self):
        project = new_project(self.at / "installed", "fresh")
        self.build(project, f"-DCMAKE_PREFIX_PATH={self.at / 'prefix'}")
        self.check_library(project, "fresh")

    def test_template_with_a_copied_folder(self):
        project = new_project(self.at / "copied", "other")
        shutil.copytree(SDK, project / "sdk")
        self.build(project)
        self.check_library(project, "other")

    def test_two_copied_files_and_a_compiler(self):
        folder = self.at / "two"
        (folder / "cuboid").mkdir(parents=True)
        for name in ("plugin.h", "plugin.hpp"):
            shutil.copy(SDK / "include/cuboid" / name, folder / "cuboid")
        new_project(self.at / "source", "bare")
        shell("g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-I", folder,
              self.at / "source/plugin.cc", "-o", folder / "libbare.so")
        self.assertEqual(manifest(folder / "libbare.so", self.at)["name"], "bare")

    def test_library_without_an_entry_does_not_build(self):
        project = new_project(self.at / "empty", "empty")
        (project / "plugin.cc").write_text('#include "above.h"\n')
        said = self.build(project, f"-DCMAKE_PREFIX_PATH={self.at / 'prefix'}", expect=1)
        self.assertIn("expected exactly cuboid_plugin_v1", " ".join(said.split()))
        self.assertFalse((project / "build/libempty.so").exists())

    def test_undefined_symbols_do_not_link(self):
        project = new_project(self.at / "undefined", "undefined")
        with open(project / "plugin.cc", "a") as source:
            source.write("int nowhere(int);\nint used = nowhere(1);\n")
        self.assertIn("nowhere", self.build(project, f"-DCMAKE_PREFIX_PATH={self.at / 'prefix'}", expect=1))

    def test_pkg_config(self):
        done = subprocess.run(["pkg-config", "--cflags", "cuboid-sdk"], stdout=subprocess.PIPE, text=True,
                              env={"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(self.at / "prefix/share/pkgconfig")})
        self.assertIn(str(self.at / "prefix"), str(pathlib.Path(done.stdout.split("-I")[1].strip()).resolve()))


if __name__ == "__main__":
    unittest.main()
