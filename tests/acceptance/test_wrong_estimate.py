"""A plugin's estimate that is too low for crowded blocks only: what each policy makes of it."""
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import time

import numpy as np
import pytest

import arrays
import reference
from program import CUBOID, DATA, ROOT, cuboid, environment, tree

SIGMA, RADIUS, STAMP, THRESHOLD, BLOCK, BLOCKS = 1, 5, 8, 33, 290, 16


@pytest.fixture(scope="module")
def crowd():
    """By block in C order: bytes that one call takes, and bytes that the manifest's formula says; computed from the image."""
    smooth = reference.gaussian(arrays.read(DATA / "hubble_deep_field.zarr").mean(axis=2), SIGMA)
    ys, xs = np.nonzero(reference.is_peak(smooth, RADIUS) & (smooth > THRESHOLD))
    plane = (2 * STAMP + 1) ** 2 * 8
    reach, halo = 4 * STAMP, 4 * STAMP + RADIUS
    taken, declared = [], []
    for y in range(0, 872, BLOCK):
        for x in range(0, 1000, BLOCK):
            rows, columns = min(BLOCK, 872 - y), min(BLOCK, 1000 - x)
            near = (ys >= y - reach) & (ys < y + rows + reach) & (xs >= x - reach) & (xs < x + columns + reach)
            dy, dx = (abs(v[near][:, None] - v[near][None, :]) <= 2 * STAMP for v in (ys, xs))
            taken.append(np.count_nonzero(dy & dx) * plane)
            declared.append(32768 + (rows + 2 * halo) * (columns + 2 * halo) / 1000 * 4 * plane)
    taken, declared = np.array(taken), np.array(declared)
    # No block is a close call: a grant may be rounded up to the pool's next size class, by at most an eighth.
    assert not np.any((taken > 0.98 * declared) & (taken < 1.15 * declared))
    crowded = set(np.nonzero(taken > declared)[0].tolist())
    assert len(taken) == BLOCKS and len(crowded) == 4
    return taken, declared, crowded


@pytest.fixture
def pipeline(tmp_path):
    text = (ROOT / "examples/crowded.yaml").read_text()
    text = text.replace("data/", f"{DATA}/")
    path = tmp_path / "crowded.yaml"
    path.write_text(text)
    return path


def whole_catalogue(tmp_path_factory, name="whole"):
    """What an estimate that suffices for every block gives."""
    folder = tmp_path_factory.mktemp(name)
    text = (ROOT / "examples/crowded.yaml").read_text().replace("data/", f"{DATA}/")
    (folder / "p.yaml").write_text(text.replace("chunks: [290, 290]", "chunks: [290, 290]\n    extra_memory: 16MiB"))
    outcome = cuboid("run", "p.yaml", "--json", "--on-exceed", "fail", cwd=folder)
    assert outcome.total("tasks_retried") + outcome.total("tasks_grown") == 0
    return arrays.read(folder / "out/crowded/catalogue.zarr")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    rows = whole_catalogue(tmp_path_factory)
    smooth = reference.gaussian(arrays.read(DATA / "hubble_deep_field.zarr").mean(axis=2), SIGMA)
    ys, xs = np.nonzero(reference.is_peak(smooth, RADIUS) & (smooth > THRESHOLD))
    found = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    np.testing.assert_array_equal(found[:, :2], np.stack([ys, xs], axis=1))  # every source once
    return rows


def catalogue(pipeline):
    return arrays.read(pipeline.parent / "out/crowded/catalogue.zarr")


def test_plan_marks_the_stage(pipeline):
    stage = cuboid("plan", pipeline, "--json").stage("catalogue")
    assert stage["confidence"] == "unsafe" and stage["tasks"] == BLOCKS


def test_grow_gives_more_to_exactly_the_crowded_blocks(pipeline, crowd, expected):
    outcome = cuboid("run", pipeline, "--on-exceed", "grow", "--json")
    stage = outcome.stage("catalogue")
    assert stage["tasks_retried"] + stage["tasks_grown"] == len(crowd[2])
    assert stage["tasks_done"] == stage["tasks"] == BLOCKS and stage["parked"] == 0
    assert stage["allowed_bytes"] >= max(crowd[0])
    for other in outcome.json["stages"]:
        if other["name"] != "catalogue":
            assert other["tasks_retried"] == other["tasks_grown"] == 0
    np.testing.assert_array_equal(catalogue(pipeline), expected)


def test_fail_stops_says_why_and_goes_on_with_more(pipeline, crowd, expected):
    failed = cuboid("run", pipeline, "--on-exceed", "fail", "--json", expect=4)
    assert failed.json["status"] == "exceeded"
    stage = failed.stage("catalogue")
    assert 0 < stage["tasks"] - stage["tasks_done"]
    assert not (pipeline.parent / "out/crowded/catalogue.zarr/zarr.json").exists()

    stopped = cuboid("run", pipeline, "--on-exceed", "fail", expect=4)
    text = stopped.err
    assert "lost to attempts that failed" in stopped.out
    assert "catalogue" in text
    blocks = {int(number) for number in re.findall(r"block (\d+)", text)}
    assert blocks and blocks <= crowd[2], text
    assert "allowed" in text and "need" in text and "kept" in text, text

    kept = sum(s["tasks_done"] for s in failed.json["stages"])
    done = cuboid("run", pipeline, "--on-exceed", "grow", "--max-task-memory", "128MiB", "--json")
    assert done.total("tasks_reused") >= kept
    assert done.stage("catalogue")["tasks_done"] == BLOCKS
    np.testing.assert_array_equal(catalogue(pipeline), expected)


def test_a_stopped_run_prints_the_command_that_goes_on(pipeline, expected):
    stopped = cuboid("run", "--fresh", pipeline, "--on-exceed", "park", "--max-task-memory=3MiB", "--workers", 1, expect=4)
    (command,) = re.findall("^go on with: cuboid (.*)$", stopped.err, re.M)
    words = shlex.split(command)
    assert words[:2] == ["run", str(pipeline)] and "--fresh" not in words and "--workers" in words
    assert cuboid(*words, "--json").total("tasks_reused") > 0
    np.testing.assert_array_equal(catalogue(pipeline), expected)


def test_park_finishes_all_but_the_crowded_blocks(pipeline, crowd, expected):
    stopped = cuboid("run", pipeline, "--on-exceed", "park", "--json", expect=4)
    stage = stopped.stage("catalogue")
    assert stage["parked"] == len(crowd[2]) and stage["tasks_done"] == BLOCKS - len(crowd[2])
    again = cuboid("run", pipeline, "--on-exceed", "grow", "--json")
    assert again.stage("catalogue")["attempts"] >= len(crowd[2])
    assert again.stage("catalogue")["tasks_reused"] == BLOCKS - len(crowd[2])
    np.testing.assert_array_equal(catalogue(pipeline), expected)


class Terminal:
    """The program on a pseudo-terminal: what it writes there, and what is typed."""

    def __init__(self, *arguments):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([str(CUBOID), *map(str, arguments)], stdin=slave, stderr=slave,
                                        stdout=subprocess.PIPE, env=environment(TERM="xterm"), start_new_session=True)
        os.close(slave)
        self.text = ""

    def read_until(self, pattern, seconds=60):
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:  # the other end is closed
                    assert re.search(pattern, self.text), f"ended without {pattern!r}: {self.text!r}"
        return self.text

    def type(self, line):
        self.text = ""
        os.write(self.master, line.encode() + b"\n")

    def finish(self, seconds=120):
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    pass
        self.process.stdout.close()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(pipeline):
    opened = Terminal("run", pipeline)
    yield opened
    opened.close()


def test_question_on_a_terminal_says_what_it_costs(terminal, pipeline, expected):
    text = terminal.read_until(r"what now\?.*$")
    assert "catalogue" in text and "crowd.sources" in text
    assert re.search(r"allowed [\d.]+ [KM]iB", text) and re.search(r"at once", text) and re.search(r"kept", text)
    terminal.type("perhaps")
    terminal.read_until(r"yes")  # what is accepted
    terminal.type("yes!")
    assert terminal.finish() == 0, terminal.text
    np.testing.assert_array_equal(catalogue(pipeline), expected)


def test_question_answered_with_stop(terminal, pipeline, expected):
    terminal.read_until(r"what now\?")
    terminal.type("stop")
    assert terminal.finish() == 4, terminal.text
    assert cuboid("run", pipeline, "--on-exceed", "grow", "--json").total("tasks_reused") > 0
    np.testing.assert_array_equal(catalogue(pipeline), expected)


def test_question_answered_with_a_size(terminal, pipeline, expected):
    terminal.read_until(r"what now\?")
    terminal.type("64MiB!")
    assert terminal.finish() == 0, terminal.text
    np.testing.assert_array_equal(catalogue(pipeline), expected)


def test_without_a_terminal_ask_parks(pipeline, crowd):
    before = tree(DATA)
    stopped = cuboid("run", pipeline, "--on-exceed", "ask", "--json", expect=4)
    assert stopped.stage("catalogue")["parked"] == len(crowd[2])
    assert tree(DATA) == before
