"""Every n-th allocation refused, store call failed, value torn, worker killed: the bytes are the same, or the run stops
with words and the same command goes on to them. CUBOID_INJECT_ALL=1 tries every n instead of a sample."""
import itertools
import os
import random
import re
import shutil
import signal

import numpy as np
import pytest

import arrays
import pipelines
from program import DATA, cuboid, tree

SAMPLE = None if os.environ.get("CUBOID_INJECT_ALL") else 7


def builtins(folder):
    """Rechunk, a fused chain and a reduction's tree: on threads."""
    arrays.write(folder / "x.zarr", np.random.default_rng(1).normal(size=(400, 300)), (100, 100))
    return pipelines.write(
        folder, arrays={"x": "x.zarr"}, memory="256MiB",
        steps={"y": {"call": "multiply", "args": ["x", 3]}, "z": {"call": "add", "args": ["y", "x"]},
               "total": {"call": "sum", "args": ["z"]}},
        store={"z": {"path": "out/z.zarr", "chunks": [70, 130]}, "total": "out/total.zarr"})


def plugins(folder):
    """A halo, pieces and their compaction: in workers."""
    image = arrays.read(DATA / "hubble_deep_field.zarr").mean(axis=2)[:500, :500]
    arrays.write(folder / "x.zarr", image, (125, 250))
    return pipelines.write(
        folder, arrays={"x": "x.zarr"}, memory="256MiB",
        steps={"smooth": {"call": "filter.gaussian", "args": ["x"], "params": {"sigma": 1}},
               "sources": {"call": "sky.sources", "args": ["smooth"], "params": {"threshold": 40, "radius": 5}}},
        store={"sources": "out/sources.zarr"})


def estimates(folder):
    """An estimate that is too low for some blocks, and grows."""
    text = (DATA.parent / "crowded.yaml").read_text().replace("data/", f"{DATA}/")
    (folder / "pipeline.yaml").write_text(text.replace("out/crowded/", "out/"))
    return folder / "pipeline.yaml"


def ragged(folder):
    """Results as long as the data says: sorted runs merged, pieces and their compaction; on threads."""
    values = np.random.default_rng(2).integers(0, 5000, size=(300, 200))
    arrays.write(folder / "x.zarr", values, (100, 100))
    return pipelines.write(
        folder, arrays={"x": "x.zarr"}, memory="256MiB",
        steps={"values": {"call": "unique_values", "args": ["x"]}, "large": {"call": "greater", "args": ["x", 4000]},
               "chosen": {"call": "select", "args": ["x", "large"]}},
        store={"values": "out/values.zarr", "chosen": "out/chosen.zarr"})


JOBS = {job.__name__: job for job in (builtins, ragged, plugins, estimates)}


@pytest.fixture(scope="module", params=JOBS)
def job(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    path = JOBS[request.param](folder)
    cuboid("run", path, "--on-exceed", "grow")
    expected = tree(folder / "out")
    assert expected
    return request.param, path, expected


def clean(path):
    shutil.rmtree(path.parent / "out", ignore_errors=True)
    shutil.rmtree(path.with_suffix(".run"), ignore_errors=True)


def run_with(path, fault):
    """The outcome, and how many injected faults came about."""
    clean(path)
    outcome = cuboid("run", path, "--on-exceed", "grow", "--workers", 2, "--json", "--progress", "none",
                     env={"CUBOID_INJECT": fault}, expect=None, timeout=60)
    return outcome, len(re.findall(r"^cuboid: CUBOID_INJECT: \w+ \d+$", outcome.err, re.M))


def events(path, fault):
    """How many events of the kind one run has, by doubling."""
    least, most = 0, 1
    while run_with(path, f"{fault}:{most}")[1]:
        least, most = most, 2 * most
    while most - least > max(1, least // 5):
        middle = (least + most) // 2
        least, most = (middle, most) if run_with(path, f"{fault}:{middle}")[1] else (least, middle)
    return least


FAULTS = {"builtins": ["buffer", "store", "tear", "run"], "ragged": ["buffer", "store", "tear", "run"],
          "plugins": ["buffer", "store", "worker", "host", "malloc", "run"],
          "estimates": ["host", "malloc", "run"]}
# What a run may come to where a fault of the kind came about; 2: found before the run.
CODES = {"buffer": {0, 4}, "store": {0, 2, 6}, "tear": {0, 6}, "worker": {0}, "host": {0, 5}, "malloc": {0, 5},
         "run": {0, -signal.SIGKILL}}


# The faults that can come about in each job.
@pytest.mark.parametrize("job, fault", [(name, fault) for name in FAULTS for fault in FAULTS[name]], indirect=["job"])
def test_each_fault_ends_in_the_same_bytes_or_a_clean_stop(job, fault):
    name, path, expected = job
    count = events(path, fault)
    assert count > 0, "nothing of the kind happened"
    numbers = itertools.count(1)
    if SAMPLE and count > SAMPLE:
        numbers = sorted({1, 2, count} | set(random.Random(fault + name).sample(range(1, count + 1), SAMPLE - 3)))
    elif SAMPLE:
        numbers = range(1, count + 1)
    seen, tried, missed = set(), 0, 0
    for number in numbers:
        outcome, came = run_with(path, f"{fault}:{number}")
        tried, missed = tried + 1, missed + 1 if came == 0 else 0
        if missed == 3 and not SAMPLE:  # no run has more, whatever the order of its events
            break
        where = f"CUBOID_INJECT={fault}:{number}: exit code {outcome.code}\n{outcome.err[-1500:]}"
        assert outcome.code in CODES[fault], where
        seen.add(outcome.code)
        if outcome.code == 0:
            assert tree(path.parent / "out") == expected, where
            continue
        assert came == 1, where
        if outcome.code == -signal.SIGKILL:
            done = number
        else:
            error = outcome.json["error"]
            assert error["message"], where
            if outcome.code == 6:
                assert "CUBOID_INJECT" in error["message"], where
            done = sum(stage["tasks_done"] for stage in outcome.json.get("stages", []))
        again = cuboid("run", path, "--on-exceed", "grow", "--json")
        assert tree(path.parent / "out") == expected, where
        assert again.total("tasks_reused") >= done, where
    print(f"{name}: about {count} events of {fault}, exit codes {sorted(seen)} over {tried} of them")


def test_a_store_that_is_slow_changes_nothing(job):
    name, path, expected = job
    outcome, came = run_with(path, "delay:3-9")
    assert outcome.code == 0 and came == 7
    assert tree(path.parent / "out") == expected


def test_a_wish_that_makes_no_sense_is_refused():
    for wish in ("store", "store:0", "store:x", "sotre:1", "store:1,", "store:5-2"):
        outcome = cuboid("functions", env={"CUBOID_INJECT": wish}, expect=2)
        assert "CUBOID_INJECT" in outcome.err and "FAULT:N" in outcome.err
