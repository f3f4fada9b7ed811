"""What the host offers to plugins, as their results show it."""
import collections
import hashlib
import shutil
import subprocess

import numpy as np
import pytest

import arrays
import pipelines
from program import BUILD, MIB, ROOT, cuboid


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libservices.so"
    subprocess.run(["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{ROOT}/sdk/include",
                    f"-Wl,--version-script={ROOT}/sdk/cmake/plugin.map", f'-DLOG="{tmp_path}/log"', "-pthread",
                    ROOT / "tests/acceptance/plugins/services.cc", "-o", path], check=True)
    return path


def pipeline(folder, library, function, x, chunk, params=None, **top):
    arrays.write(folder / "x.zarr", x, (chunk,))
    return pipelines.write(folder, arrays={"x": "x.zarr"}, plugins=[str(library)], store={"y": "out/y.zarr"},
                           steps={"y": {"call": f"services.{function}", "args": ["x"], "params": params or {}}}, **top)


def test_the_plugin_keeps_its_promises(library):
    assert cuboid("plugin", "check", library, "--json").json["passed"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_is_opened_once_in_a_worker_and_closed(tmp_path, library, workers):
    x = np.arange(20000.0)
    path = pipeline(tmp_path, library, "stateful", x, 500)
    cuboid("run", path, "--workers", workers)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), 2 * x)
    lines = [tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines()]
    opened = collections.Counter(process for what, process in lines if what == "open")
    closed = collections.Counter(process for what, process in lines if what == "close")
    assert 1 <= len(opened) <= workers and set(opened.values()) == {1} and closed == opened


@pytest.mark.parametrize("workers,lanes", [(1, 1), (4, 4)])
def test_idle_cores_go_to_the_running_call(tmp_path, library, workers, lanes):
    path = pipeline(tmp_path, library, "lanes", np.zeros(100), 100)
    cuboid("run", path, "--workers", workers)
    offered, used = arrays.read(tmp_path / "out/y.zarr")
    assert offered == lanes and (used == 1 if lanes == 1 else 2 <= used <= lanes)


def test_charged_memory_is_counted_once(tmp_path, library):
    x = np.arange(1000.0)
    told = cuboid("run", pipeline(tmp_path, library, "charged", x, 500), "--workers", 1, "--on-exceed", "fail",
                  "--json").json
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), x + 1)
    stage = told["stages"][0]
    assert stage["attempts"] == stage["tasks"] == 2 and 38 * MIB < stage["peak_bytes"] < 50 * MIB


def test_infer_is_asked_in_another_process(tmp_path, library):
    x = np.arange(1000.0)
    path = pipeline(tmp_path, library, "inferred", x, 128)
    plan = cuboid("plan", path, "--json").json
    assert plan["stages"][0]["outputs"][0]["shape"] == [{"max": 8 * (128 // 3 + 1)}]
    assert plan["stages"][0]["confidence"] == "bounded"
    cuboid("run", path)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), x[::3])


@pytest.mark.parametrize("step,words", [(13, "thirteen brings bad luck"), (99, "signal 6")])
def test_infer_that_refuses_or_dies_is_an_error_of_the_plan(tmp_path, library, step, words):
    path = pipeline(tmp_path, library, "inferred", np.arange(10.0), 10, {"step": step})
    message = cuboid("plan", path, "--json", expect=2).json["error"]["message"]
    assert words in message and "y" in message


@pytest.mark.parametrize("n,chunk", [(1000, 128), (1000, 1000), (7, 2), (1, 1)])
def test_regions_of_the_plugins_own(tmp_path, library, n, chunk):
    x = np.random.default_rng(12).normal(size=n)
    path = pipeline(tmp_path, library, "reversed", x, chunk)
    assert cuboid("plan", path, "--json").json["stages"][0]["confidence"] == "exact"
    cuboid("run", path, "--memory", "128MiB")
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), x[::-1])


def test_only_plugins_that_are_allowed(tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name in ("sky", "filter"):
        shutil.copy(BUILD / f"plugins/lib{name}.so", folder)
    (tmp_path / "allowed").write_text("# what we looked at\n" + "".join(
        f"{hashlib.sha256((folder / f'lib{name}.so').read_bytes()).hexdigest()}  lib{name}.so\n" for name in ["sky"]))
    env = {"CUBOID_PLUGIN_PATH": str(folder)}
    listed = cuboid("plugin", "list", "--allow-plugins", tmp_path / "allowed", "--json", env=env).json
    assert [plugin["name"] for plugin in listed["plugins"]] == ["sky"]
    assert "not on the list" in listed["skipped"][0]["reason"] and "libfilter.so" in listed["skipped"][0]["path"]
    arrays.write(tmp_path / "x.zarr", np.random.default_rng(1).random((20, 20)))
    steps = {"s": {"call": "sky.sources", "args": ["x"], "params": {"threshold": 0.5}},
             "g": {"call": "filter.gaussian", "args": ["x"], "params": {"sigma": 1}}}
    for step, code in (("s", 0), ("g", 2)):
        path = pipelines.write(tmp_path, name=f"{step}.yaml", arrays={"x": "x.zarr"}, steps={step: steps[step]},
                               store={step: f"{step}.zarr"})
        outcome = cuboid("run", path, "--allow-plugins", tmp_path / "allowed", "--json", env=env, expect=code)
        if code:
            assert "filter.gaussian" in outcome.json["error"]["message"]
    message = cuboid("plan", path, "--allow-plugins", tmp_path / "allowed", "--plugin", folder / "libfilter.so", "--json",
                     env=env, expect=2).json["error"]["message"]
    assert "not on the list" in message
    (tmp_path / "allowed").write_text("nonsense\n")
    assert "line 1" in cuboid("plugin", "list", "--allow-plugins", tmp_path / "allowed", expect=2, env=env).err


def test_who_made_it_stands_in_the_attributes(tmp_path, library):
    path = pipeline(tmp_path, library, "inferred", np.arange(10.0), 10, {"step": 2})
    cuboid("run", path)
    made = cuboid("array", "info", tmp_path / "out/y.zarr", "--json").json["attributes"]["cuboid"]
    assert made["function"] == "services.inferred/1"
    assert made["identity"].endswith(hashlib.sha256(library.read_bytes()).hexdigest())
    assert "step" in str(made["params"])
