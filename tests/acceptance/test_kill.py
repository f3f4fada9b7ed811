"""kill -9 of the coordinator or of a worker at any moment: the same command goes on and ends in identical bytes, and no
block that the journal names is computed twice."""
import os
import random
import shutil
import signal
import sqlite3
import time

import numpy as np
import pytest

import arrays
import pipelines
from program import DATA, cuboid, finish, processes, start, tree, workers_of

MOMENTS = 50


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A pipeline with every kind of stage: built-in and plugin, halo, pieces, compact, rechunk, a reduction's tree."""
    folder = tmp_path_factory.mktemp("kill")
    image = arrays.read(DATA / "hubble_deep_field.zarr").mean(axis=2)
    arrays.write(folder / "image.zarr", np.tile(image, (2, 2)), (200, 200))
    pipelines.write(
        folder, arrays={"image": "image.zarr"}, memory="256MiB",
        steps={"twice": {"call": "multiply", "args": ["image", 2]},
               "smooth": {"call": "filter.gaussian", "args": ["twice"], "params": {"sigma": 3}},
               "level": {"call": "mean", "args": ["smooth"], "params": {"axis": 0}},
               "sources": {"call": "sky.sources", "args": ["smooth"], "params": {"threshold": 60, "radius": 5}}},
        store={"smooth": {"path": "out/smooth.zarr", "chunks": [300, 150]}, "level": "out/level.zarr",
               "sources": "out/sources.zarr"})
    begin = time.monotonic()
    outcome = cuboid("run", "pipeline.yaml", "--json", cwd=folder)
    seconds = time.monotonic() - begin
    expected = tree(folder / "out")
    assert len(arrays.read(folder / "out/sources.zarr")) > 500
    clean(folder)
    yield folder, outcome.json, seconds, expected, set()


def clean(folder):
    shutil.rmtree(folder / "out", ignore_errors=True)
    shutil.rmtree(folder / "pipeline.run", ignore_errors=True)


def journaled(folder):
    """Committed rows by stage."""
    path = folder / "pipeline.run/journal.sqlite"
    if not path.exists():
        return {}
    # Opened for writing, so that SQLite may roll back what a killed writer left half done, as the next run would.
    with sqlite3.connect(path, timeout=10) as journal:
        try:
            return dict(journal.execute("SELECT name, count(*) FROM blocks JOIN names ON names.id = stage GROUP BY name"))
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error)  # killed before the journal was made
            return {}


def files_of_outputs(folder):
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (folder / "out").rglob("*") if path.is_file()}


def run_until_killed(folder, moment, target, chance, flags=()):
    """Starts the run and kills the target at the moment; returns the process, or None where it was over before."""
    process = start("run", "pipeline.yaml", "--json", "--progress", "none", *flags, cwd=folder)
    time.sleep(moment)
    pids = workers_of(process.pid) if target == "worker" else [process.pid]
    if process.poll() is None and pids:
        os.kill(chance.choice(pids), signal.SIGKILL)
    return process


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_kill(job, seed):
    folder, whole, seconds, expected, hit = job
    clean(folder)
    chance = random.Random(seed)
    target = "worker" if seed % 3 == 2 else "coordinator"
    # The moments are spread evenly over the run, and a little beyond; no two at one point.
    moment = seconds * 1.02 * (seed + chance.random()) / MOMENTS
    process = run_until_killed(folder, moment, target, chance)
    outcome = finish(process)
    tasks = {stage["name"]: stage["tasks"] for stage in whole["stages"]}

    if target == "worker":  # it costs an attempt, not the run
        assert outcome.code == 0, outcome.err
        assert outcome.total("attempts") <= sum(tasks.values()) + 1
        assert outcome.total("tasks_retried") <= 1
        assert outcome.json["status"] == "done"
        assert tree(folder / "out") == expected
        return

    if outcome.code == 0:  # it was over before the moment
        assert tree(folder / "out") == expected
        return
    assert outcome.code == -signal.SIGKILL
    before, files = journaled(folder), files_of_outputs(folder)
    unfinished = [name for name in tasks if before.get(name, 0) < tasks[name]]
    if unfinished:
        hit.add(unfinished[0])

    flags = [(), ("--memory", "512MiB"), ("--workers", 3), ("--workers", 1, "--memory", "512MiB")][seed % 4]
    again = cuboid("run", "pipeline.yaml", "--json", *flags, cwd=folder)
    assert tree(folder / "out") == expected
    for stage in again.json["stages"]:
        assert stage["tasks_done"] == stage["tasks"] == tasks[stage["name"]]
        assert stage["tasks_reused"] >= before.get(stage["name"], 0), stage["name"]
        assert stage["attempts"] == stage["tasks"] - stage["tasks_reused"], stage["name"]
    # Chunks of journaled blocks of the output stay the files that they were.
    after = files_of_outputs(folder)
    chunks = [path for path in files if "smooth.zarr/c/" in path.as_posix()]
    kept = sum(after.get(path) == files[path] for path in chunks)
    assert kept >= before.get("smooth.rechunk", 0)
    assert cuboid("run", "pipeline.yaml", cwd=folder).out.count("nothing to do") == 1


def test_every_stage_was_hit(job):
    """Of the moments above: for every stage, one at which it was the first that had work to do."""
    folder, whole, _, _, hit = job
    stages = [stage["name"] for stage in whole["stages"]]
    assert len(hit) >= min(4, len(stages)), f"hit {sorted(hit)} of {stages}"


def test_workers_die_with_their_coordinator(job):
    folder = job[0]
    clean(folder)
    process = start("run", "pipeline.yaml", "--json", cwd=folder)
    deadline = time.monotonic() + 20
    workers = []
    while not workers and process.poll() is None and time.monotonic() < deadline:
        workers = workers_of(process.pid)
    assert workers, "no worker process was seen"
    process.kill()
    process.wait()
    deadline = time.monotonic() + 2
    while any(os.path.exists(f"/proc/{pid}/exe") and alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker outlives its coordinator"
        time.sleep(0.01)
    finish(process)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_interrupt_and_second_coordinator(job):
    folder = job[0]
    clean(folder)
    process = start("run", "pipeline.yaml", "--json", cwd=folder)
    deadline = time.monotonic() + 20
    while len(processes(process.pid)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)  # it is alive, and does nothing for a while
    try:
        second = cuboid("run", "pipeline.yaml", cwd=folder, expect=2, timeout=20)
        assert str(process.pid) in second.err
    finally:
        process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.code == 130 and outcome.json["status"] == "interrupted" and outcome.json["error"]
    assert cuboid("run", "pipeline.yaml", "--json", cwd=folder).json["status"] == "done"
    assert tree(folder / "out") == job[3]
