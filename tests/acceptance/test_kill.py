"""kill -9 of the coordinator or of a worker at any moment: the same command goes on and ends in identical bytes, and no
block that the journal names is computed twice. CUBOID_KILL_MOMENTS=200 kills at more moments than the usual 50."""
import os
import random
import shutil
import signal
import time

import numpy as np
import pytest

import arrays
import pipelines
from program import DATA, LineByLine, cuboid, finish, journaled, killed, processes, start, tree, workers_of

MOMENTS = int(os.environ.get("CUBOID_KILL_MOMENTS", 50))
SLOW = {"CUBOID_INJECT": "delay:1-1000000"}  # every store call takes 200 ms: the run is under way for certain


class Job:
    """A pipeline with every kind of stage: built-in and plugin, halo, tasks over several chunks, estimate, pieces, compact,
    rechunk, a reduction's tree. `tasks`: of each stage, in plan order."""

    def __init__(self, folder):
        self.folder = folder
        image = arrays.read(DATA / "hubble_deep_field.zarr").mean(axis=2)
        arrays.write(folder / "image.zarr", np.tile(image, (2, 2)), (100, 100))
        pipelines.write(
            folder, arrays={"image": "image.zarr"}, memory="256MiB",
            steps={"twice": {"call": "multiply", "args": ["image", 2]},
                   "smooth": {"call": "filter.gaussian", "args": ["twice"], "params": {"sigma": 3}},
                   "level": {"call": "mean", "args": ["smooth"], "params": {"axis": 0}},
                   "sources": {"call": "sky.sources", "args": ["smooth"], "params": {"threshold": 60, "radius": 5},
                               "extra_memory": "8MiB", "chunks": [200, 200]}},
            store={"smooth": {"path": "out/smooth.zarr", "chunks": [300, 150]}, "level": "out/level.zarr",
                   "sources": "out/sources.zarr"})
        begin = time.monotonic()
        outcome = cuboid("run", "pipeline.yaml", "--json", cwd=folder)
        self.seconds = time.monotonic() - begin
        self.tasks = {stage["name"]: stage["tasks"] for stage in outcome.json["stages"]}
        self.isolated = [stage["name"] for stage in outcome.json["stages"]
                         if stage["function"].startswith(("filter.", "sky."))]
        assert outcome.stage("sources")["confidence"] == "unsafe"
        chunks = len(list((folder / "image.zarr/c").rglob("*/*")))
        assert 2 * self.tasks["smooth"] < chunks, "no task over several chunks"
        assert len(arrays.read(folder / "out/sources.zarr")) > 500
        self.expected = tree(folder / "out")
        self.moments, self.hit, self.workers_lost = 0, set(), 0

    def clean(self):
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        shutil.rmtree(self.folder / "pipeline.run", ignore_errors=True)

    def start(self, *flags, **options):
        return start("run", "pipeline.yaml", "--json", *flags, cwd=self.folder, **options)

    def journaled(self):
        return journaled(self.folder / "pipeline.run")

    def files(self):
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns)
                for path in (self.folder / "out").rglob("*") if path.is_file()}

    def whole(self):
        return tree(self.folder / "out") == self.expected


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return Job(tmp_path_factory.mktemp("kill"))


def kill(process, target, chance):
    pids = workers_of(process.pid) if target == "worker" else [process.pid]
    if process.poll() is None and pids:
        os.kill(chance.choice(pids), signal.SIGKILL)


def run_until_time(job, moment, target, chance):
    """Starts the run and kills the target at the moment."""
    process = job.start("--progress", "none")
    time.sleep(moment)
    kill(process, target, chance)
    return finish(process)


def run_until_start(job, stage, nth, target, chance):
    """Starts the run and kills the target when the nth task of the stage has been started and has not been journaled;
    meanwhile, for a few milliseconds, the tasks that run go on."""
    with LineByLine() as lines:
        process = job.start("--progress", "plain", "-vv", stderr=lines.writer)
        for line in lines:
            if line.startswith(f"{stage}, block ") and ": starts" in line:
                nth -= 1
                if nth == 0:
                    time.sleep(chance.choice([0, 0.002, 0.01]))
                    kill(process, target, chance)
                    break
        else:
            assert False, f"no {nth}th task of {stage} was started"
        lines.pass_on()
        return finish(process)


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_kill(job, seed):
    job.clean()
    job.moments += 1
    chance = random.Random(seed)
    target = "worker" if seed % 3 == 2 else "coordinator"
    started = None
    if seed % 2 == 0:  # in this stage, for certain: each has its turn
        stages = list(job.tasks) if target == "coordinator" else job.isolated
        started = stages[seed // 2 % len(stages)]
        outcome = run_until_start(job, started, chance.randint(1, job.tasks[started]), target, chance)
    else:  # whatever happens then: moments are spread evenly over the run, and a little beyond; no two at one point
        outcome = run_until_time(job, job.seconds * 1.02 * (seed + chance.random()) / MOMENTS, target, chance)

    if target == "worker":  # it costs an attempt, not the run
        assert outcome.code == 0, outcome.err
        lost = outcome.total("attempts") - sum(job.tasks.values())
        assert 0 <= lost <= 1 and outcome.total("tasks_retried") == lost
        job.workers_lost += lost
        assert outcome.json["status"] == "done"
        assert job.whole()
        return

    if outcome.code == 0 and not started:  # it was over before the moment
        assert job.whole()
        return
    assert outcome.code == -signal.SIGKILL
    before, files = job.journaled(), job.files()
    if started:
        assert before.get(started, 0) < job.tasks[started]
        job.hit.add(started)

    flags = [(), ("--memory", "512MiB"), ("--workers", 3), ("--memory", "128MiB"),
             ("--workers", 1, "--memory", "128MiB")][seed // 2 % 5]
    again = cuboid("run", "pipeline.yaml", "--json", *flags, cwd=job.folder)
    assert job.whole()
    for stage in again.json["stages"]:
        assert stage["tasks_done"] == stage["tasks"] == job.tasks[stage["name"]]
        assert stage["tasks_reused"] >= before.get(stage["name"], 0), stage["name"]
        assert stage["attempts"] == stage["tasks"] - stage["tasks_reused"], stage["name"]
    # Chunks of journaled blocks of the output stay the files that they were.
    after = job.files()
    chunks = [path for path in files if "smooth.zarr/c/" in path.as_posix()]
    kept = sum(after.get(path) == files[path] for path in chunks)
    assert kept >= before.get("smooth.rechunk", 0)
    assert cuboid("run", "pipeline.yaml", cwd=job.folder).out.count("nothing to do") == 1


def test_moments_were_in_every_stage(job):
    if job.moments < MOMENTS:
        pytest.skip("looks back on all moments above")
    assert job.hit == set(job.tasks)
    assert job.workers_lost > 0


def test_killed_again_and_again(job):
    """Each run is killed after a few blocks more: every one gets further, and the last one ends."""
    job.clean()
    kept, runs = 0, 0
    while True:
        runs += 1
        blocks = 3 * runs * runs
        outcome = killed(blocks, "run", "pipeline.yaml", "--json", "--workers", 1 + runs % 3, cwd=job.folder)
        if outcome.code == 0:
            break
        kept += blocks
        assert sum(job.journaled().values()) == kept
    assert runs > 3
    assert job.whole()
    assert outcome.total("tasks_reused") >= kept
    assert outcome.total("attempts") == sum(job.tasks.values()) - outcome.total("tasks_reused")


def test_workers_die_with_their_coordinator(job):
    job.clean()
    process = job.start(env=SLOW)
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
    job.clean()
    process = job.start(env=SLOW)
    deadline = time.monotonic() + 20
    while len(processes(process.pid)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)  # it is alive, and does nothing for a while
    try:
        second = cuboid("run", "pipeline.yaml", cwd=job.folder, expect=2, timeout=20)
        assert str(process.pid) in second.err
    finally:
        process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.code == 130 and outcome.json["status"] == "interrupted" and outcome.json["error"]
    assert cuboid("run", "pipeline.yaml", "--json", cwd=job.folder).json["status"] == "done"
    assert job.whole()
