"""`cuboid plugin check`: a plugin that breaks one promise fails exactly the check of that promise; good ones pass all."""
import os
import re
import subprocess

import numpy as np
import pytest

import arrays
import libraries
from program import BUILD, ROOT, cuboid

SOURCE = ROOT / "tests/cli/plugins/broken.c"
# What the plugin does: the one check that must notice.
BREACHES = {
    "falling": "manifest", "other_table": "loads", "exporting": "exports", "loading": "loading", "inferring": "infer",
    "example": "examples", "failing": "calls", "aborting": "calls", "counting": "repeats", "cutting": "blocks", "striding": "strides",
    "sharing": "threads", "reading": "reads", "writing": "writes", "scribbling": "inputs", "leaving": "filled",
    "overfull": "rows", "silent": "capacity", "taking": "call_bytes", "keeping": "state_bytes",
    "mallocing": "outside_bytes", "leaking": "release", "ignoring": "refusal", "refusal_kills": "refusal",
    "dying": "cancel", "changing": "surroundings", "rounding": "surroundings", "moving": "surroundings",
}
# Words that the complaint must have.
WORDS = {"reading": "signal 11", "scribbling": "signal 11", "writing": "output", "loading": "static initialisers",
         "taking": "call_bytes", "exporting": "cuboid_another_symbol", "rounding": "rounding", "changing": "umask", "moving": "working directory",
         "falling": "fall", "refusal_kills": "signal 11", "ignoring": "OK all the same", "dying": "signal 6",
         "aborting": "signal 6"}


def build(folder, breach):
    return libraries.build(SOURCE, folder / f"lib{breach}.so", f"-DBREAK={breach}", f"-DBREAK_{breach}", compiler="gcc")


def check(library, *flags, expect):
    told = cuboid("plugin", "check", library, "--json", *flags, expect=expect).json
    assert told["passed"] == (expect == 0)
    for one in told["checks"]:
        assert set(one) == {"name", "passed", "detail"}
    return {one["name"]: one for one in told["checks"]}


def test_the_plugin_without_a_breach_passes_all(tmp_path):
    checks = check(build(tmp_path, "nothing"), expect=0)
    assert set(BREACHES.values()) <= set(checks)
    # Nothing was left out: every sample of the plugin was looked at.
    for name in ("repeats", "blocks", "strides", "filled", "capacity", "reads", "writes", "refusal"):
        assert re.fullmatch(r"\d+ cases", checks[name]["detail"]), checks[name]


@pytest.mark.parametrize("breach", BREACHES)
def test_exactly_the_broken_promise_is_noticed(tmp_path, breach):
    checks = check(build(tmp_path, breach), expect=5)
    failed = {name: one["detail"] for name, one in checks.items() if not one["passed"]}
    assert list(failed) == [BREACHES[breach]], failed
    assert WORDS.get(breach, "").lower() in failed[BREACHES[breach]].lower(), failed


@pytest.mark.parametrize("plugin", sorted(path.name for path in (BUILD / "plugins").glob("lib*.so")
                                          if path.name != "libcrowded.so"))
def test_bundled_plugins_pass_all(plugin):
    check(BUILD / "plugins" / plugin, "--seed", "20261130", expect=0)


def test_a_file_that_is_no_plugin(tmp_path):
    (tmp_path / "libnone.so").write_bytes(b"\x7fELF" + bytes(100))
    checks = check(tmp_path / "libnone.so", expect=5)
    assert list(checks) == ["manifest"] and "libnone.so" in checks["manifest"]["detail"]
    outcome = cuboid("plugin", "check", tmp_path / "absent.so", "--json", expect=2)
    assert "absent.so" in outcome.json["error"]["message"]


def test_text(tmp_path):
    library = build(tmp_path, "taking")
    outcome = cuboid("plugin", "check", library, "--seed", "7", expect=5)
    lines = outcome.out.splitlines()
    assert any(re.match(r"FAIL +call_bytes +broken.twice/1, float64 noise: it took ", line) for line in lines), outcome.out
    assert re.search(r"1 of \d+ checks failed \(seed 7\)", lines[-1])


def test_a_users_data(tmp_path):
    """Values that sample data does not have: 1e6 and more make 'large' longer than it is allowed to be."""
    x = np.where(np.arange(5000) % 5 == 0, 0.0, 1e6)
    arrays.write(tmp_path / "x.zarr", x, (1000,))
    checks = check(build(tmp_path, "overfull"), "--data", str(tmp_path / "x.zarr"), expect=5)
    assert "float64 data" in checks["rows"]["detail"] and "4000" in checks["rows"]["detail"]


def test_new_project_is_small_builds_and_passes(tmp_path):
    told = cuboid("plugin", "new", "demo", "--json", cwd=tmp_path).json
    assert told["name"] == "demo"
    lines = sum(len((tmp_path / "demo" / file).read_text().splitlines()) for file in told["files"])
    assert 0 < lines <= 60
    folder = tmp_path / "demo"
    for words in (["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja"], ["cmake", "--build", folder / "build"],
                  ["ctest", "--test-dir", folder / "build", "--output-on-failure"]):
        subprocess.run(words, check=True, stdout=subprocess.PIPE)
    check(folder / "build/libdemo.so", expect=0)


def test_new_refuses_what_is_there_and_bad_names(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    assert "not empty" in cuboid("plugin", "new", tmp_path / "full", expect=2).err
    assert "name" in cuboid("plugin", "new", tmp_path / "My-Plugin", expect=2).err
    assert not (tmp_path / "My-Plugin").exists()


MEASURED = """\
#include <cuboid/plugin.hpp>
#include <vector>
using namespace cuboid::sdk;
struct Wide {
  static constexpr auto meta = decl("guess.wide/1", "x:f8[y,x] -> z:f8[y,x]", "Takes memory by a rule nobody wrote down.")
      .param(integer("k", 2).min(1).max(64)).halo("y", "k").halo("x", "k").modes("reflect")
      .call_bytes("unknown").outside_bytes("unknown").flags(pure | reentrant);
  static void run(Call& c) {
    const auto x = c.in<double, 2>(0);
    auto z = c.out<double, 2>(0);
    auto rows = c.scratch<double>(3 * x.extent(1) * c.integer("k"));
    std::vector<double> mine(std::size_t(z.extent(0) * z.extent(1)));
    rows[0] = mine[0] = 1;
    for (std::int64_t i = 0; i < z.extent(0); ++i)
      for (std::int64_t j = 0; j < z.extent(1); ++j) z(i, j) = x(i, j) * rows[0] * mine[0];
  }
};
CUBOID_PLUGIN("guess", "1", Wide)
"""


def test_measure_finds_a_formula_that_holds(tmp_path):
    (tmp_path / "guess.cc").write_text(MEASURED)
    library = libraries.build(tmp_path / "guess.cc", tmp_path / "libguess.so")
    told = cuboid("plugin", "measure", library, "--json").json["functions"][0]
    for number in ("call_bytes", "outside_bytes"):
        fit = told[number]
        assert fit["margin"] > 1.0999 and fit["typical"] < 2 and 0.5 < fit["held_out"] < 1, (number, fit)
    # The rule itself, at a place where nothing was measured.
    scope = {"y": 700, "x": 900, "k": 5, "halo_y": 5, "halo_x": 5, "size_T": 8}
    calls = eval(told["call_bytes"]["expr"], {}, scope)
    assert 1.09 * 3 * (900 + 10) * 5 * 8 <= calls <= 1.5 * 3 * (900 + 10) * 5 * 8
    outside = eval(told["outside_bytes"]["expr"], {}, scope)
    assert 1.09 * 700 * 900 * 8 <= outside <= 1.5 * 700 * 900 * 8
    # What it prints can be pasted: the plugin with these formulas passes the check.
    text = cuboid("plugin", "measure", library).out
    for number in ("call_bytes", "outside_bytes"):
        pasted = f'.{number}("{told[number]["expr"]}", cuboid::sdk::guess)'
        assert pasted in text
        (tmp_path / "guess.cc").write_text(
            (tmp_path / "guess.cc").read_text().replace(f'.{number}("unknown")', pasted.replace("guess)", "bound)")))
    libraries.build(tmp_path / "guess.cc", library, f"-Wl,--version-script,{ROOT}/sdk/cmake/plugin.map")
    check(library, expect=0)


def test_measure_with_a_parameter_held_and_a_wrong_name():
    told = cuboid("plugin", "measure", "filter", "--function", "filter.median", "--param", "size=5", "--json").json
    assert [one["function"].split("/")[0] for one in told["functions"]] == ["filter.median"]
    outcome = cuboid("plugin", "measure", "filter", "--function", "filter.medain", "--json", expect=2)
    assert "filter.median" in outcome.json["error"]["message"]
