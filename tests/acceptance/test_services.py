"""What the host offers to plugins, as their results show it."""
import collections
import hashlib
import json
import os
import shutil
import signal

import numpy as np
import pytest

import arrays
import pipelines
from libraries import PLUGINS, build
from program import BUILD, MIB, ROOT, cuboid, finish, start, tree, workers_of


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("services")
    return build(PLUGINS / "services.cc", folder / "libservices.so", f"-Wl,--version-script={ROOT}/sdk/cmake/plugin.map",
                 f'-DLOG="{folder}/log"', "-pthread")


@pytest.fixture
def library(built):
    """It writes a log beside itself, of this test alone."""
    (built.parent / "log").unlink(missing_ok=True)
    return built


def pipeline(folder, library, function, x, chunk, params=None, outputs=(), step=None, **top):
    arrays.write(folder / "x.zarr", x, (chunk,))
    return pipelines.write(folder, arrays={"x": "x.zarr"}, plugins=[str(library)],
                           store={f"y.{name}": f"out/{name}.zarr" for name in outputs} or {"y": "out/y.zarr"},
                           steps={"y": {"call": f"services.{function}", "args": ["x"], "params": params or {},
                                        **(step or {})}}, **top)


def test_the_plugin_keeps_its_promises(library):
    assert cuboid("plugin", "check", library, "--json").json["passed"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_is_opened_once_in_a_worker_and_closed(tmp_path, library, workers):
    x = np.arange(20000.0)
    path = pipeline(tmp_path, library, "stateful", x, 500)
    cuboid("run", path, "--workers", workers)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), 2 * x)
    lines = [tuple(line.split()) for line in (library.parent / "log").read_text().splitlines()]
    opened = collections.Counter(process for what, process in lines if what == "open")
    closed = collections.Counter(process for what, process in lines if what == "close")
    assert 1 <= len(opened) <= workers and set(opened.values()) == {1} and closed == opened


@pytest.mark.parametrize("workers,lanes", [(1, 1), (4, 4)])
def test_idle_cores_go_to_the_running_call(tmp_path, library, workers, lanes):
    path = pipeline(tmp_path, library, "lanes", np.zeros(100), 100)
    cuboid("run", path, "--workers", workers)
    offered, used = arrays.read(tmp_path / "out/y.zarr")
    assert offered == lanes and (used == 1 if lanes == 1 else 2 <= used <= lanes)


@pytest.mark.parametrize("memory,at_once", [("64MiB", 1), ("256MiB", 2)])
def test_memory_that_admits_one_call_gives_it_all_cores(tmp_path, library, memory, at_once):
    path = pipeline(tmp_path, library, "tight", np.zeros(8), 2, memory=memory)
    told = cuboid("run", path, "--workers", 2, "--json").json
    assert told["stages"][0]["concurrency"] == at_once
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), np.full(8, 3 - at_once))


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


def poured(x, rows):
    kept = np.flatnonzero(x >= 0)
    numbers = (kept[:, None] * rows + np.arange(rows)).astype(float)
    return np.stack([numbers, x[kept][:, None] * np.arange(rows)], axis=2).reshape(-1, 2)


@pytest.mark.parametrize("isolation", ["process", "thread"])
def test_one_call_emits_more_than_fits_in_memory(tmp_path, library, isolation):
    """Slabs are stored as they come: 200 MiB from one call that holds 1 MiB of them, under a budget of 64 MiB."""
    x, rows = np.array([1.5, -1, 2.5]), 200 * MIB // 16 // 2
    path = pipeline(tmp_path, library, "pours", x, 3, {"rows": rows}, ["y", "skipped"], memory="64MiB",
                    step={"isolation": isolation})
    plan = cuboid("plan", path, "--json").json
    stage = plan["stages"][0]
    assert stage["tasks"] == 1 and stage["projected_bytes"] < 8 * MIB and stage["bytes_written"] >= 3 * rows * 16
    told = cuboid("run", path, "--json").json
    stage = told["stages"][0]
    assert stage["peak_bytes"] <= stage["projected_bytes"] and told["peak_rss_bytes"] <= 64 * MIB
    y = arrays.read(tmp_path / "out/y.zarr")
    assert y.nbytes >= 200 * MIB - 64
    np.testing.assert_array_equal(y, poured(x, rows))
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/skipped.zarr"), [1])


@pytest.mark.parametrize("rows,chunk", [(0, 100), (1, 7), (7000, 13), (65536, 3), (70000, 100)])
def test_slabs_are_put_together_in_order(tmp_path, library, rows, chunk):
    """Slabs that fill objects exactly, span them, or never fill one; blocks that give none."""
    x = np.random.default_rng(3).normal(size=20)
    cuboid("run", pipeline(tmp_path, library, "pours", x, chunk, {"rows": rows}, ["y", "skipped"]))
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), poured(x, rows))
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/skipped.zarr"), np.flatnonzero(x < 0))


def test_what_a_failed_call_pushed_is_taken_back(tmp_path, library):
    x = np.abs(np.random.default_rng(3).normal(size=100))
    path = pipeline(tmp_path, library, "pours", x, 100, {"rows": 4321}, ["y"])
    assert "for nothing" in cuboid("run", path, "--json", expect=5).json["error"]["message"]
    assert [one for one in (tmp_path / "pipeline.run/data").rglob("*") if one.is_file()] == []


@pytest.mark.parametrize("killed", ["worker", "coordinator", "coordinator, then fewer rows"])
def test_a_call_killed_between_its_slabs(tmp_path, library, killed):
    """The run goes on to the same bytes, and what the killed attempt stored is gone when its stage is done: also from
    intermediates that are kept."""
    x, rows = np.abs(np.random.default_rng(4).normal(size=6)), 400_000
    path = pipeline(tmp_path, library, "pours", x, 3, {"rows": rows}, ["y"], memory="256MiB")
    cuboid("run", path, "--keep")
    expected, kept = tree(tmp_path / "out"), tree(tmp_path / "pipeline.run/data")
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(tmp_path / "pipeline.run")

    process = start("run", path, "--keep", "--json", "--progress", "none", "--workers", 1,
                    env={"CUBOID_INJECT": "delay:1-30"})
    pieces = tmp_path / "pipeline.run/data/y.y.pieces"
    while not pieces.exists() or len(list(pieces.iterdir())) < 4:
        assert process.poll() is None, finish(process).err
    os.kill(workers_of(process.pid)[0] if killed == "worker" else process.pid, signal.SIGKILL)
    outcome = finish(process)
    if killed == "worker":
        assert outcome.code == 0, outcome.err
        assert outcome.stage("y")["attempts"] == 3 and outcome.stage("y")["tasks_retried"] == 1
    elif killed == "coordinator":
        cuboid("run", path, "--keep", "--workers", 2, "--memory", "128MiB")
    else:
        content = json.loads(path.read_text())
        content["steps"]["y"]["params"]["rows"] = 7
        cuboid("run", pipelines.write(tmp_path, **content), "--keep")
        np.testing.assert_array_equal(arrays.read(tmp_path / "out/y.zarr"), poured(x, 7))
        assert len(list(pieces.iterdir())) == 2
        return
    assert tree(tmp_path / "out") == expected
    # An attempt's number is part of its objects' names.
    assert sorted(tree(tmp_path / "pipeline.run/data").values()) == sorted(kept.values())


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
