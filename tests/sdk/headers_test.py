"""The SDK's headers compile as C99, C11, C++17 and C++20 with GCC and Clang, without a warning; mistakes in a declaration
are compile errors that say what is wrong."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-I", str(ROOT / "sdk/include")]

FUNCTION = """
#include <cuboid/plugin.hpp>
using namespace cuboid::sdk;
struct F {
  static constexpr auto meta = decl("demo.f/1", "x:T[n] -> y:T[<=n]", "doc").types("T=f4|f8").param(real("t", 0))
      .call_bytes("8*n", exact).outside_bytes("0", exact).splittable("n");
  template <class T> static void run(Call& c) { c.rows<T>(0).finish(); }
};
CUBOID_PLUGIN("demo", "1.0.0", F)
"""
# What is changed in FUNCTION, and words that the compiler's message must hold.
MISTAKES = {
    "no memory stated": ('.call_bytes("8*n", exact)', "", "call_bytes and outside_bytes have no default"),
    "no trust": ('.call_bytes("8*n", exact)', '.call_bytes("8*n")', "a formula needs a trust"),
    "unknown name": ('"8*n"', '"8*m"', "a name that is not visible here"),
    "broken formula": ('"8*n"', '"8*(n"', "a closing parenthesis is missing"),
    "no output": ('-> y:T[<=n]', '', "no output"),
    "no such type": ('x:T[n]', 'x:f7[n]', "an element type"),
    "variable without types": ('.types("T=f4|f8")', '', "a type variable that `types` does not list"),
    "bad id": ('demo.f/1', 'demo.f', "vendor.name/revision"),
    "revision 0": ('demo.f/1', 'demo.f/0', "a revision of 1 to 999999"),
    "parameter like an axis": ('real("t", 0)', 'real("n", 0)', "that of an axis"),
    "data-dependent input": ('x:T[n]', 'x:T[<=n]', "only the first extent of an output may depend on data"),
    "split along nothing": ('.splittable("n")', '.splittable("k")', "an axis that no input has"),
}


def compilers(language):
    names = {"c": ("gcc", "clang"), "c++": ("g++", "clang++")}[language]
    return [name for name in names if shutil.which(name)]


def compile_text(compiler, standard, text, suffix, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=suffix) as source:
        source.write(text)
        source.flush()
        return subprocess.run([compiler, f"-std={standard}", "-fsyntax-only", *WARNINGS, *flags, source.name],
                              stderr=subprocess.PIPE, text=True)


class Headers(unittest.TestCase):
    def compiles(self, compiler, standard, text, suffix, *flags):
        with self.subTest(compiler=compiler, standard=standard):
            done = compile_text(compiler, standard, text, suffix, *flags)
            self.assertEqual(done.returncode, 0, done.stderr[:4000])

    def test_both_compilers_are_there(self):
        self.assertEqual(compilers("c++"), ["g++", "clang++"])

    def test_c_header(self):
        plugin = (ROOT / "tests/sdk/c_plugin.c").read_text()
        for compiler in compilers("c"):
            for standard in ("c99", "c11"):
                self.compiles(compiler, standard, plugin, ".c")
        twice = "#include <cuboid/plugin.h>\n" * 2 + "int unused(void);\n"
        for compiler in compilers("c++"):
            for standard in ("c++17", "c++20"):
                self.compiles(compiler, standard, twice, ".cc")

    def test_cpp_headers(self):
        host = FUNCTION + "#include <cuboid/test_host.h>\n"
        for compiler in compilers("c++"):
            for standard in ("c++17", "c++20"):
                self.compiles(compiler, standard, host, ".cc")

    def test_xtensor_adaptor(self):
        text = "#include <cuboid/xtensor.hpp>\n"
        self.compiles("clang++", "c++20", text, ".cc")
        self.compiles("g++", "c++17", text, ".cc")
        self.compiles("g++", "c++20", text, ".cc", "-fno-new-ttp-matching")
        refused = compile_text("g++", "c++20", text, ".cc")
        self.assertIn("-fno-new-ttp-matching", refused.stderr)

    def test_mistakes_are_compile_errors_with_a_reason(self):
        for name, (old, new, words) in MISTAKES.items():
            self.assertIn(old, FUNCTION)
            for compiler in compilers("c++"):
                with self.subTest(mistake=name, compiler=compiler):
                    done = compile_text(compiler, "c++17", FUNCTION.replace(old, new, 1), ".cc")
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
