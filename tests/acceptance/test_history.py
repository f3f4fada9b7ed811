"""What calls took is remembered across runs: first sizes, and the audit of a manifest."""
import json
import sqlite3

import numpy as np
import pytest

import arrays
import libraries
import pipelines
from program import MIB, cuboid

BLOCK, BLOCKS = 2000, 12  # each declared 2 MiB (1 KiB an element), and takes 62.5


def build(path, change=lambda source: source):
    source = path.with_suffix(".cc")
    source.write_text(change((libraries.PLUGINS / "ladder.cc").read_text()))
    return libraries.build(source, path)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("plugins") / "libladder.so")


class Runs:
    """Runs of one pipeline, each in a folder of its own, sharing a history."""

    def __init__(self, folder, library):
        self.folder, self.library, self.count = folder, library, 0
        self.file = folder / "history" / "calls.sqlite"
        self.env = {"CUBOID_HISTORY": str(self.file)}

    def pipeline(self):
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        arrays.write(folder / "x.zarr", 10 + np.arange(BLOCK * BLOCKS, dtype=float), (BLOCK,))
        return pipelines.write(folder, arrays={"x": "x.zarr"}, plugins=[str(self.library)], memory="512MiB",
                               steps={"a": {"call": "ladder.whole", "args": ["x"]}}, store={"a": "out/a.zarr"})

    def run(self, *flags, path=None, **options):
        return cuboid("run", path or self.pipeline(), "--on-exceed", "grow", "--workers", 1, "--json", *flags, env=self.env,
                      **options)


@pytest.fixture
def runs(tmp_path, library):
    return Runs(tmp_path, library)


def needed_more(outcome):
    return outcome.total("tasks_grown") + outcome.total("tasks_retried")


def test_the_second_run_begins_with_what_the_first_one_measured(runs):
    first = runs.run()
    assert 5 <= needed_more(first) < BLOCKS  # until five have taught the others
    second = runs.run()
    assert needed_more(second) == 0
    assert second.stage("a")["attempts"] == BLOCKS
    assert 62 * MIB < second.stage("a")["allowed_bytes"] < 80 * MIB
    assert needed_more(runs.run("--no-history")) == needed_more(first)


def test_a_plan_shows_what_was_learned(runs):
    """In another folder, from the history; in the run's own, from its journal."""
    path = runs.pipeline()
    plan = lambda *flags: cuboid("plan", path, "--workers", 8, *flags, env=runs.env)
    before = plan("--json").stage("a")
    assert "learned" not in before and before["concurrency"] == 8 and " unsafe " in plan().out
    runs.run()
    after = plan("--json").stage("a")
    assert after["confidence"] == "unsafe" and after["projected_bytes"] == before["projected_bytes"]  # as declared
    assert after["learned"]["blocks"] == BLOCKS and 62 * MIB < after["learned"]["projected_bytes"] < 80 * MIB
    (row,) = [line for line in plan().out.splitlines() if line.startswith("a ")]
    assert f"learned({BLOCKS})" in row and f"{after['learned']['projected_bytes'] / MIB:.3g} MiB" in row
    assert f"learned({BLOCKS})" in plan("--dot").out
    assert "learned" not in plan("--no-history").out
    outcome = runs.run("--no-history", path=path)
    again = plan("--json", "--no-history").stage("a")["learned"]
    assert again["blocks"] == BLOCKS and abs(again["projected_bytes"] - after["learned"]["projected_bytes"]) < MIB
    assert needed_more(outcome) > 0 and "learned" in plan("--no-history").out


def test_a_changed_plugin_starts_anew(runs, tmp_path):
    first = runs.run()
    other = '__attribute__((used)) static const char other[] = "another build";\n'
    runs.library = build(tmp_path / "libladder.so", lambda source: other + source)
    assert needed_more(runs.run()) == needed_more(first)


def test_a_run_that_goes_on_never_changes_its_mind(runs):
    """What it was taught when it began is in its journal: a history that is gone, or says more, is not asked again."""
    runs.run()
    path = runs.pipeline()
    chunk = path.parent / "x.zarr/c/6"
    saved = chunk.read_bytes()
    chunk.write_bytes(b"cut")
    stopped = runs.run(path=path, expect=6)
    assert needed_more(stopped) == 0
    taught = lambda: sqlite3.connect(path.with_suffix(".run") / "journal.sqlite").execute("SELECT * FROM taught").fetchall()
    before = taught()
    assert len(before) == 1
    chunk.write_bytes(saved)
    runs.file.unlink()
    assert needed_more(runs.run(path=path)) == 0
    assert taught() == before


def test_functions_show_declared_against_measured(runs):
    audit = lambda *flags: cuboid("functions", "ladder.whole", "--plugin", runs.library, *flags, env=runs.env)
    assert audit("--json").json["functions"][0]["measured"] == {"calls": [], "corrected": {}}
    grown = needed_more(runs.run())
    runs.run()
    measured = audit("--json").json["functions"][0]["measured"]
    (calls,) = measured["calls"]
    assert calls["calls"] == 2 * BLOCKS and calls["breaches"] == grown and calls["params"] == {}
    # Both count what size classes may add: an eighth of what is declared.
    assert calls["declared_bytes"] == BLOCK * 1024 * 9 // 8 and 62 * MIB < calls["peak_bytes"] < 66 * MIB
    formula = measured["corrected"]["call_bytes"]
    factor, _, rest = formula.partition("*")
    assert rest == "(1024*n)" and 31 < float(factor) < 33
    text = audit().out
    assert formula in text and str(2 * BLOCKS) in text and str(grown) in text


def test_the_corrected_formula_holds(runs, tmp_path):
    assert needed_more(runs.run()) > 0
    (function,) = cuboid("functions", "ladder.whole", "--plugin", runs.library, "--json", env=runs.env).json["functions"]
    corrected = function["measured"]["corrected"]["call_bytes"]
    runs.library = build(tmp_path / "libladder.so", change=lambda source: source.replace('"1024*n"', f'"{corrected}"'))
    assert needed_more(runs.run()) == 0


@pytest.mark.parametrize("content", [b"somebody's notes " * 300, None])
def test_a_history_that_cannot_be_used_is_no_reason_to_fail(runs, content):
    if content is None:
        runs.env = {"CUBOID_HISTORY": "/proc/nowhere/history.sqlite"}
    else:
        runs.file.parent.mkdir()
        runs.file.write_bytes(content)
    outcome = runs.run()
    assert outcome.json["status"] == "done" and "history" in outcome.err
    if content:
        assert runs.file.read_bytes() == content


def test_where_it_lies(tmp_path, library):
    """Below the user's data directory where nothing else is said."""
    runs = Runs(tmp_path, library)
    runs.env = {"CUBOID_HISTORY": "", "XDG_DATA_HOME": str(tmp_path / "data")}
    runs.run()
    assert (tmp_path / "data/cuboid/history.sqlite").stat().st_size > 0
