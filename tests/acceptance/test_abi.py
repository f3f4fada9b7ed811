"""Plugins that this program did not know when it was built: an old one, ones in other languages, one from the future."""
import shutil
import subprocess

import numpy as np
import pytest

import arrays
import pipelines
from program import ROOT, cuboid

FROZEN = ROOT / "tests/sdk/frozen"
EXAMPLES = ROOT / "examples/plugins"
SHARED = ["-fPIC", "-shared", "-fvisibility=hidden"]


def build_frozen(folder, compiler="gcc", source=None):
    library = folder / "libfrozen.so"
    subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", *SHARED, f"-I{FROZEN}", "-x", "c",
                    source or FROZEN / "frozen.c", "-o", library], check=True)
    return library


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_plugin_of_minor_0_works_in_todays_host(tmp_path, compiler):
    library = build_frozen(tmp_path, compiler)
    checks = cuboid("plugin", "check", library, "--json").json["checks"]
    assert all(one["passed"] for one in checks)
    x = np.random.default_rng(8).normal(size=1000) * 3
    arrays.write(tmp_path / "x.zarr", x, (150,))
    params = {"scale": 3, "offset": 4, "mode": "twice", "weights": [2, 5]}
    steps = {"w": {"call": "frozen.weigh", "args": ["x"], "params": params}, "a": {"call": "frozen.above", "args": ["x"]},
             "p": {"call": "frozen.pushed", "args": ["x"]}, "t": {"call": "frozen.total", "args": ["x"]}}
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, plugins=[str(library)], steps=steps,
                           store={name: f"out/{name}.zarr" for name in steps})
    cuboid("run", path)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/w.zarr"), (x + 4) * (3 * 2 * (2.0 * 5 / 10)))
    for name in ("a", "p"):
        np.testing.assert_array_equal(arrays.read(tmp_path / f"out/{name}.zarr"), x[x > 2])
    np.testing.assert_allclose(arrays.read(tmp_path / "out/t.zarr"), x.sum(), rtol=1e-12)


def test_a_plugin_that_needs_a_newer_minor_is_refused_before_its_code_runs(tmp_path):
    """Its initialiser would leave a file behind."""
    trace = tmp_path / "it_ran"
    text = (FROZEN / "frozen.c").read_text().replace('\\"needs_minor\\":0', '\\"needs_minor\\":9')
    source = tmp_path / "newer.c"
    source.write_text("#define CUBOID_NEEDS_MINOR 9u\n#include <stdio.h>\n" + text + "\n__attribute__((constructor)) static "
                      f'void trace(void) {{ FILE* f = fopen("{trace}", "w"); if (f) fclose(f); }}\n')
    library = build_frozen(tmp_path, source=source)
    arrays.write(tmp_path / "x.zarr", np.arange(5.0))
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, plugins=[str(library)], store={"a": "a.zarr"},
                           steps={"a": {"call": "frozen.above", "args": ["x"]}})
    for verb in ("plan", "run"):
        message = cuboid(verb, path, "--json", expect=2).json["error"]["message"]
        assert "needs minor 9" in message and "libfrozen.so" in message
    listed = cuboid("plugin", "list", "--json", env={"CUBOID_PLUGIN_PATH": str(tmp_path)}).json
    assert listed["plugins"] == [] and "needs minor 9" in listed["skipped"][0]["reason"]
    assert not trace.exists()
    subprocess.run(["python3", "-c", f"import ctypes; ctypes.CDLL('{library}')"], check=True)
    assert trace.exists()  # loading it would have shown


BUILDS = {
    "scale.cc": ["g++", "-std=c++17", "-O2", *SHARED, f"-Wl,--version-script={ROOT}/sdk/cmake/plugin.map",
                 f"-I{ROOT}/sdk/include"],
    "scale.c": ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", *SHARED, f"-I{ROOT}/sdk/include"],
    "scale.rs": ["rustc", "-O", "--crate-type", "cdylib", "-C", "panic=abort"],
}


@pytest.mark.parametrize("source", BUILDS)
def test_one_function_in_three_languages(tmp_path, source):
    if not shutil.which(BUILDS[source][0]):
        pytest.skip(f"there is no {BUILDS[source][0]}")
    library = tmp_path / "libscale.so"
    subprocess.run([*BUILDS[source], EXAMPLES / source, "-o", library], check=True)
    told = cuboid("plugin", "check", library, "--json").json
    assert told["passed"], told
    x = np.random.default_rng(9).normal(size=100)
    arrays.write(tmp_path / "x.zarr", x, (30,))
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, plugins=[str(library)], store={"y": "y.zarr"},
                           steps={"y": {"call": "demo.scale", "args": ["x"], "params": {"factor": -1.5}}})
    cuboid("run", path)
    np.testing.assert_array_equal(arrays.read(tmp_path / "y.zarr"), x * -1.5)
