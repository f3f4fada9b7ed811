"""What every command promises: JSON objects of a fixed form, exit codes, where output goes."""
import os
import re
import subprocess

import numpy as np
import pytest

import arrays
from program import BUILD, CUBOID, MIB, cuboid, environment

PIPELINE = """\
memory: 256MiB
arrays: {image: image.zarr}
steps:
  grey:   {call: mean, args: [image], params: {axis: 2}}
  smooth: {call: filter.gaussian, args: [grey], params: {sigma: 1.5}}
  found:  {call: sky.sources, args: [smooth], params: {threshold: 150, radius: 3}}
  spare:  {call: add, args: [grey, 1]}
store: {smooth: out/smooth.zarr, found: out/found.zarr}
"""


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(20261129)
    arrays.write(tmp_path / "image.zarr", generator.integers(0, 255, (96, 80, 3), np.uint8, endpoint=True), (32, 32, 3))
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return tmp_path


def check_plan(told):
    assert {"budget", "stages", "tasks", "totals", "refused"} <= set(told)
    assert set(told["totals"]) == {"bytes_read", "bytes_written", "disk_peak_bytes", "memory_seconds"}
    for stage in told["stages"]:
        assert {"name", "function", "confidence", "tasks", "projected_bytes", "concurrency", "bytes_read", "bytes_written",
                "outputs"} <= set(stage)
        assert stage["confidence"] in ("exact", "bounded", "unsafe", "learned")
        for output in stage["outputs"]:
            assert {"name", "dtype", "shape", "chunks"} <= set(output)
            for extent in output["shape"]:
                assert isinstance(extent, int) or list(extent) == ["max"]
    assert told["tasks"] == sum(stage["tasks"] for stage in told["stages"])


def test_plan_json(folder):
    told = cuboid("plan", "p.yaml", "--json", cwd=folder).json
    check_plan(told)
    assert told["budget"] == 256 * MIB and told["refused"] is None
    assert not (folder / "out").exists() and not (folder / "p.run").exists()


def test_plan_table_has_a_row_a_stage_then_totals(folder):
    told = cuboid("plan", "p.yaml", "--json", cwd=folder).json
    text = cuboid("plan", "p.yaml", cwd=folder).out
    table, totals = text.split("\n\n")
    rows = table.splitlines()
    assert len(rows) == 1 + len(told["stages"])
    for row, stage in zip(rows[1:], told["stages"]):
        assert row.startswith(stage["name"]) and stage["function"] in row and stage["confidence"] in row
    assert f"{told['tasks']} tasks" in totals and "256 MiB" in totals and "spare" in totals
    assert "\x1b" not in text


def test_plan_dot_and_what_if(folder):
    dot = cuboid("plan", "p.yaml", "--dot", cwd=folder).out
    assert dot.startswith("digraph") and dot.count("{") == dot.count("}")
    told = cuboid("plan", "p.yaml", "--json", "--what-if", "memory=300MiB,chunks=48,80", cwd=folder).json
    assert told["budget"] == 300 * MIB
    smooth = next(stage for stage in told["stages"] if stage["name"] == "smooth")
    assert smooth["outputs"][0]["chunks"] == [48, 80]
    assert "memry" in cuboid("plan", "p.yaml", "--what-if", "memry=1GiB", cwd=folder, expect=2).err


def test_a_plan_that_cannot_fit_is_3(folder):
    outcome = cuboid("plan", "p.yaml", "--memory", "1MiB", "--json", cwd=folder, expect=3)
    refused = outcome.json["refused"]
    assert refused["resource"] == "memory" and refused["budget"] == MIB and refused["projected_bytes"] > 0 and refused["hint"]
    outcome = cuboid("plan", "p.yaml", "--memory", "1MiB", cwd=folder, expect=3)
    assert "refused" in outcome.err and refused["hint"] in outcome.err
    outcome = cuboid("run", "p.yaml", "--memory", "1MiB", "--json", cwd=folder, expect=3)
    assert outcome.json["status"] == "refused" and "error" not in outcome.json
    assert not (folder / "out").exists()


def test_run_json_then_nothing_to_do(folder):
    told = cuboid("run", "p.yaml", "--json", cwd=folder).json
    check_plan(told)
    assert told["status"] == "done" and "error" not in told and told["run_dir"] == "p.run"
    assert told["wall_seconds"] > 0 and 0 < told["peak_rss_bytes"] < 256 * MIB
    for stage in told["stages"]:
        assert {"tasks_done", "tasks_reused", "tasks_retried", "tasks_grown", "attempts", "peak_bytes", "allowed_bytes",
                "parked"} <= set(stage)
        assert stage["tasks_done"] == stage["tasks"] == stage["attempts"] and stage["tasks_reused"] == stage["parked"] == 0
        assert stage["peak_bytes"] is None or stage["peak_bytes"] <= stage["allowed_bytes"]
    outputs = {output["name"]: output for stage in told["stages"] for output in stage["outputs"] if "path" in output}
    found = arrays.read(folder / "out/found.zarr")
    assert outputs["found"]["shape"] == list(found.shape) and outputs["found"]["path"].endswith("out/found.zarr")
    again = cuboid("run", "p.yaml", cwd=folder)
    assert again.out == "nothing to do\n"
    again = cuboid("run", "p.yaml", "--json", cwd=folder).json
    assert again["status"] == "done" and all(s["tasks_reused"] == s["tasks_done"] == s["tasks"] for s in again["stages"])
    assert cuboid("plan", "p.yaml", cwd=folder).out  # its own outputs are no obstacle
    fresh = cuboid("run", "p.yaml", "--fresh", "--json", cwd=folder).json
    assert all(s["tasks_reused"] == 0 for s in fresh["stages"])


def test_run_summary_goes_to_standard_output_progress_to_error(folder):
    outcome = cuboid("run", "p.yaml", cwd=folder)
    assert outcome.out.splitlines()[0].split()[:2] == ["stage", "confidence"] and "done in" in outcome.out
    assert re.search(r"\d+ tasks in \d+ stages", outcome.err) and "smooth" in outcome.err
    quiet = cuboid("run", "p.yaml", "--fresh", "-q", cwd=folder)
    assert quiet.err == ""
    none = cuboid("run", "p.yaml", "--fresh", "--progress", "none", cwd=folder)
    assert none.err == ""


def test_a_flag_beats_the_file_which_beats_the_environment(folder):
    budget = lambda *flags, **env: cuboid("plan", "p.yaml", "--json", *flags, cwd=folder, env=env).json["budget"]
    assert budget(CUBOID_MEMORY="128MiB") == 256 * MIB
    assert budget("--memory", "512MiB", CUBOID_MEMORY="128MiB") == 512 * MIB
    (folder / "p.yaml").write_text(PIPELINE.replace("memory: 256MiB\n", ""))
    assert budget(CUBOID_MEMORY="128MiB") == 128 * MIB
    assert "CUBOID_MEMORY" in cuboid("plan", "p.yaml", cwd=folder, env={"CUBOID_MEMORY": "much"}, expect=2).err


@pytest.mark.parametrize("state", ["finished", "failed"])
def test_report_is_one_page_for_any_run(folder, state):
    if state == "failed":
        chunk = folder / "image.zarr/c/1/1/0"
        chunk.write_bytes(chunk.read_bytes()[:20])
    cuboid("run", "p.yaml", cwd=folder, expect=None)
    told = cuboid("report", "p.run", "--json", cwd=folder).json
    assert told["status"] == ("done" if state == "finished" else "failed")
    page = (folder / told["report"]).read_text()
    assert page.startswith("<!DOCTYPE html>") and "smooth" in page and told["status"] in page
    assert not re.search(r"(src|href)=|<script|https?://", page)  # self-contained
    assert "no run" in cuboid("report", "image.zarr", cwd=folder, expect=2).err


def test_functions_and_plugins_are_listed():
    told = cuboid("functions", "--json").json["functions"]
    kinds = {function["name"]: function["kind"] for function in told}
    assert kinds["mean"] == "builtin" and kinds["sky.sources/1"] == "plugin" and kinds["filter.gaussian/1"] == "plugin"
    one = cuboid("functions", "filter.gaussian").out
    assert "sigma" in one and "filter.gaussian/1" in one
    listed = cuboid("plugin", "list", "--json").json
    assert set(listed) == {"plugins", "skipped"}
    sky = next(plugin for plugin in listed["plugins"] if plugin["name"] == "sky")
    assert "sky.sources/1" in sky["functions"] and os.path.samefile(sky["path"], BUILD / "plugins/libsky.so")
    shown = cuboid("plugin", "show", sky["path"], "--json").json
    assert shown["name"] == "sky" and shown["functions"][0]["id"] == "sky.sources/1" and shown["functions"][0]["signature"]


COMMANDS = ["plan", "run", "report", "functions", "plugin list", "plugin show", "array info", "array ls", "array cat", "array copy",
            "array codecs", "completion"]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_an_example(command):
    outcome = cuboid(*command.split(), "--help")
    assert "Example:" in outcome.out and f"cuboid {command}".strip() in outcome.out and outcome.err == ""


def test_usage_errors_are_2_and_told_as_json_where_asked():
    assert cuboid(expect=2).err
    told = cuboid("run", "--json", expect=2).json
    assert told["error"]["kind"] == "invalid" and "FILE" in told["error"]["message"]


def test_colours_need_a_terminal_and_no_objection(folder):
    import pty
    def on_terminal(**extra):
        master, slave = pty.openpty()
        process = subprocess.Popen([str(CUBOID), "plan", "p.yaml"], cwd=folder, stdout=slave, stderr=subprocess.DEVNULL,
                                   stdin=subprocess.DEVNULL, env=environment(TERM="xterm", **extra))
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(master)
        assert process.wait() == 0
        return shown
    assert b"\x1b[" in on_terminal()
    assert b"\x1b[" not in on_terminal(NO_COLOR="1")


def complete(folder, *words):
    told = subprocess.run(["bash", "-c", f"source .completion; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _cuboid; "
                           'printf "%s\\n" "${COMPREPLY[@]}"'], text=True, capture_output=True, check=True, cwd=folder)
    return told.stdout.split()


def test_completion_knows_commands_and_flags(tmp_path):
    script = tmp_path / ".completion"
    script.write_text(cuboid("completion").out)
    assert complete(tmp_path, "cuboid", "pl") == ["plan", "plugin"]
    assert complete(tmp_path, "cuboid", "array", "c") == ["cat", "copy", "codecs"]
    assert complete(tmp_path, "cuboid", "run", "p.yaml", "--max-t") == ["--max-task-memory"]
    assert "worker" not in complete(tmp_path, "cuboid", "w")


@pytest.mark.parametrize("words", [["functions"], ["functions", "--json"], ["array", "codecs"], ["--help"], ["plugin", "list"]])
def test_output_that_cannot_be_written_is_an_io_error(words):
    with open("/dev/full", "w") as full:
        outcome = subprocess.run([CUBOID, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=environment())
    assert outcome.returncode == 6 and "standard output cannot be written" in outcome.stderr
