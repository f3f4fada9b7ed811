"""Every rung for a block whose estimate was too low, through real workers: same results, and the rung that was meant."""
import sqlite3

import numpy as np
import pytest
import scipy.ndimage

import arrays
import pipelines
from libraries import PLUGINS, build
from program import MIB, cuboid

BLOCK, BLOCKS, CROWDED = 500, 8, 5


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return build(PLUGINS / "ladder.cc", tmp_path_factory.mktemp("plugins") / "libladder.so")


@pytest.fixture
def x():
    """Eight blocks, of which one is crowded: its elements are above 9."""
    x = np.random.default_rng(6).normal(size=BLOCK * BLOCKS)
    x[CROWDED * BLOCK:(CROWDED + 1) * BLOCK] = 10 + np.arange(BLOCK)
    return x


def pipeline(folder, library, function, x, step=None, outputs=("",), **top):
    arrays.write(folder / "x.zarr", x, (BLOCK,))
    store = {f"a{output and '.' + output}": f"out/{output or 'a'}.zarr" for output in outputs}
    return pipelines.write(folder, arrays={"x": "x.zarr"}, plugins=[str(library)],
                           steps={"a": {"call": f"ladder.{function}", "args": ["x"], **(step or {})}}, store=store,
                           **{"memory": "512MiB", **top})


def failures(path):
    """What failed, oldest first: (block, outcome, evidence, bytes allowed)."""
    with sqlite3.connect(path.with_suffix(".run") / "journal.sqlite") as journal:
        return journal.execute("SELECT block, outcome, evidence, allowed FROM failures ORDER BY id").fetchall()


def result_of(function, x):
    return x[x > 0] if function == "rows" else 2 * x


@pytest.mark.parametrize("function", ["halves", "rows"])
def test_a_block_that_may_be_cut_is_cut_where_it_may_not_grow(tmp_path, library, x, function):
    """The block needs 16 MiB and a task may have 6: quarters fit, and their results joined are the uncut result."""
    path = pipeline(tmp_path, library, function, x)
    outcome = cuboid("run", path, "--on-exceed", "grow", "--max-task-memory", "6MiB", "--json", "-v")
    assert outcome.err.count("cut into more pieces") >= 2
    assert outcome.stage("a")["tasks_retried"] == 1 and outcome.stage("a")["allowed_bytes"] <= 6 * MIB
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/a.zarr"), result_of(function, x))
    assert {(block, outcome) for block, outcome, _, _ in failures(path)} == {(CROWDED, "exceeded")}

    uncut = tmp_path / "uncut"
    uncut.mkdir()
    outcome = cuboid("run", pipeline(uncut, library, function, x, step={"extra_memory": "20MiB"}), "--json")
    assert outcome.stage("a")["tasks_retried"] + outcome.stage("a")["tasks_grown"] == 0
    chunks = lambda folder: {p.name: p.read_bytes() for p in (folder / "out/a.zarr/c").rglob("*") if p.is_file()}
    assert chunks(tmp_path) == chunks(uncut)


def test_a_block_that_may_not_be_cut_stops_at_the_cap(tmp_path, library, x):
    path = pipeline(tmp_path, library, "whole", x)
    outcome = cuboid("run", path, "--on-exceed", "grow", "--max-task-memory", "6MiB", "--json", expect=4)
    assert outcome.stage("a")["parked"] == 1 and outcome.stage("a")["tasks_done"] == BLOCKS - 1
    go_on = outcome.json["error"]["context"]
    flags = next(value for key, value in (go_on.items() if isinstance(go_on, dict) else go_on) if key == "go_on")
    cuboid("run", path, *flags.split())  # what it says is true
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/a.zarr"), 2 * x)


def test_only_the_result_that_was_too_long_gets_a_larger_bound(tmp_path, library):
    x = np.zeros(BLOCK * BLOCKS)
    x[CROWDED * BLOCK:CROWDED * BLOCK + 13] = -2 - np.arange(13)  # 13 where 10 are allowed
    x[::100] = 2 + np.arange(len(x[::100]))
    path = pipeline(tmp_path, library, "both", x, outputs=("low", "high"))
    outcome = cuboid("run", path, "--on-exceed", "grow", "--json")
    assert outcome.stage("a")["tasks_retried"] == 1
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/low.zarr"), x[x < -1])
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/high.zarr"), x[x > 1])
    with sqlite3.connect(path.with_suffix(".run") / "journal.sqlite") as journal:
        assert dict(journal.execute("SELECT array, bound FROM bounds")) == {"a.low": 20}


@pytest.mark.parametrize("policy, code", [("park", 4), ("grow", 0)])
def test_a_mapping_of_the_plugins_own_is_refused_as_memory(tmp_path, library, x, policy, code):
    path = pipeline(tmp_path, library, "map", x)
    outcome = cuboid("run", path, "--on-exceed", policy, "--json", expect=code)
    stage = outcome.stage("a")
    if policy == "park":
        assert outcome.json["status"] == "exceeded" and stage["parked"] == 1
        assert [row[:3] for row in failures(path)] == [(CROWDED, "exceeded", "own-limit")]
        outcome = cuboid("run", path, "--on-exceed", "grow", "--json")
        assert outcome.stage("a")["tasks_reused"] == BLOCKS - 1
    else:
        assert stage["tasks_grown"] == 1 and stage["tasks_retried"] == 0 and failures(path) == []
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/a.zarr"), 2 * x)


def test_more_memory_that_changes_nothing_is_given_once(tmp_path, library, x):
    path = pipeline(tmp_path, library, "stubborn", x)
    outcome = cuboid("run", path, "--on-exceed", "grow", "--json", expect=5)
    assert "same memory" in outcome.json["error"]["message"]
    first, second = failures(path)
    assert first[:3] == second[:3] == (CROWDED, "exceeded", "own-account") and second[3] > first[3]
    assert outcome.stage("a")["attempts"] == BLOCKS + 1


def test_pilots_of_the_last_stage_run_in_the_first_minutes(tmp_path, library):
    """Its largest, smallest and middle block, with what they need, before anything else: a wrong estimate is known when
    hardly anything has been computed in vain."""
    chunks, middle = 300, 75  # a task of the filter covers two chunks
    x = np.random.default_rng(7).normal(size=(20 * chunks - 5, 20))  # the last block is the smallest
    x[40 * middle:40 * middle + 40] = 100  # the middle one is crowded
    arrays.write(tmp_path / "x.zarr", x, (20, 20))
    path = pipelines.write(
        tmp_path, arrays={"x": "x.zarr"}, plugins=[str(library)], memory="256MiB",
        steps={"one": {"call": "filter.gaussian", "args": ["x"], "params": {"sigma": 1}},
               "two": {"call": "filter.gaussian", "args": ["one"], "params": {"sigma": 1}},
               "level": {"call": "sum", "args": ["two"], "params": {"axis": 1}},
               "last": {"call": "ladder.whole", "args": ["level"]}}, store={"last": "out/a.zarr"})
    plan = cuboid("plan", path, "--json")
    assert plan.stage("last")["tasks"] == 2 * middle and plan.stage("last")["confidence"] == "unsafe"
    outcome = cuboid("run", path, "--on-exceed", "fail", "--progress", "plain", "-vv", "--workers", 1, expect=4)
    started = [line.split(": starts")[0] for line in outcome.err.splitlines() if ": starts" in line]
    assert started[-1] == f"last, block {middle}"
    assert len(started) <= 0.05 * plan.json["tasks"], "what was computed before the wrong estimate was known"
    # It, and the two that the filter smears it into.
    assert cuboid("run", path, "--on-exceed", "grow", "--json").stage("last")["tasks_grown"] == 3
    smooth = x
    for _ in range(2):
        smooth = scipy.ndimage.gaussian_filter(smooth, 1, mode="reflect", truncate=4)
    np.testing.assert_allclose(arrays.read(tmp_path / "out/a.zarr"), 2 * smooth.sum(axis=1), rtol=1e-12, atol=1e-11)
