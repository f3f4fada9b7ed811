"""A plugin that misbehaves in one block: the right exit code, the cause and the block named, all else finished and kept."""
import signal
import time

import numpy as np
import pytest

import arrays
import pipelines
from libraries import PLUGINS, build
from program import MIB, cuboid, finish, start

BLOCK, BLOCKS, BAD = 1000, 8, 5


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return build(PLUGINS / "bad.cc", tmp_path_factory.mktemp("plugins") / "libbad.so")


def pipeline(folder, library, function, where=BAD * BLOCK, step=None, **top):
    x = np.random.default_rng(5).normal(size=BLOCKS * BLOCK)
    if not (folder / "x.zarr").exists():
        arrays.write(folder / "x.zarr", x, (BLOCK,))
    steps = {"bad": {"call": f"bad.{function}", "args": ["x"], "params": {"where": where}, **(step or {})},
             "after": {"call": "add", "args": ["bad", 1]}, "other": {"call": "multiply", "args": ["x", 3]}}
    return pipelines.write(folder, arrays={"x": "x.zarr"}, plugins=[str(library)], steps=steps, memory="512MiB",
                           store={"after": "out/after.zarr", "other": "out/other.zarr"}, **top), x


# function: (exit code, status, words of the message, settings of the step)
MISBEHAVIOURS = {
    "abort": (5, "failed", ["abort"], {}),
    "crash": (5, "failed", ["segmentation fault"], {}),
    "leave": (5, "failed", ["exit"], {}),
    "quit": (5, "failed", ["exit"], {}),
    "throw": (5, "failed", ["the sky is falling"], {}),
    "loop": (5, "failed", ["time"], {"timeout": "500ms"}),
    "rows": (5, "failed", ["1001", "1000"], {}),
    "before": (5, "failed", ["wrote before its output y"], {}),
    "behind": (5, "failed", ["wrote behind its output y"], {}),
    "acquire_bound": (5, "failed", ["MiB"], {}),
    "acquire_guess": (4, "exceeded", ["MiB"], {"on_exceed": {"action": "park"}}),
    "malloc": (4, "exceeded", ["MiB"], {"on_exceed": {"action": "park"}}),
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("function", MISBEHAVIOURS)
def test_misbehaviour(tmp_path, library, function, workers):
    code, status, words, step = MISBEHAVIOURS[function]
    path, x = pipeline(tmp_path, library, function, step=step)
    begin = time.monotonic()
    outcome = cuboid("run", path, "--workers", workers, "--json", expect=code, timeout=60)
    assert time.monotonic() - begin < 30
    report = outcome.json
    assert report["status"] == status
    message = report["error"]["message"] + str(report["error"]["context"])
    for word in [*words, "bad", str(BAD)]:
        assert word.lower() in message.lower(), (word, message)

    # Exactly the failed block and what depends on it is missing.
    parked = {stage["name"]: stage["parked"] for stage in report["stages"] if stage["parked"]}
    assert len(parked) == 1 and sum(parked.values()) == 1, parked
    names = [stage["name"] for stage in report["stages"]]
    missing = {stage["name"]: stage["tasks"] - stage["tasks_done"] for stage in report["stages"]}
    assert missing[next(iter(parked))] == 1
    for name in names[:names.index(next(iter(parked)))]:
        assert missing[name] == 0
    if function == "rows":  # where the rows lie depends on all blocks: nothing behind can run
        assert all(missing[s["name"]] == s["tasks"] for s in report["stages"] if s["name"] in ("bad.compact", "after"))
    elif "after" in names and "after" not in parked:
        assert missing["after"] == 1
    if "other" in names:
        assert missing["other"] == 0
        np.testing.assert_array_equal(arrays.read(tmp_path / "out/other.zarr"), 3 * x)
    assert not (tmp_path / "out/after.zarr/zarr.json").exists()

    # Mended, the run goes on and keeps what is done.
    if function in ("acquire_guess", "malloc"):
        again = cuboid("run", path, "--on-exceed", "grow", "--json")
        assert again.total("tasks_reused") == sum(stage["tasks_done"] for stage in report["stages"])
        # The first mebibyte of malloc is the process's own.
        assert max(stage["allowed_bytes"] for stage in again.json["stages"]) >= 95 * MIB
        np.testing.assert_array_equal(arrays.read(tmp_path / "out/after.zarr"), x + 1)


def test_a_thread_that_writes_beside_its_output(tmp_path, library):
    """In our own process nothing is to be trusted after that: the run stops, whatever other blocks have to say."""
    path, x = pipeline(tmp_path, library, "behind", step={"isolation": "thread"})
    outcome = cuboid("run", path, "--json", expect=5)
    error = outcome.json["error"]
    assert "wrote behind its output y" in error["message"] and "isolation: thread" in error["message"]
    assert (error["context"]["stage"], error["context"]["block"]) == ("bad", f"({BAD})")
    assert not (tmp_path / "out/after.zarr/zarr.json").exists()

    # Isolated, the same command keeps what was done before the damage and finishes all else.
    pipeline(tmp_path, library, "behind")
    again = cuboid("run", path, "--json", expect=5)
    assert again.total("tasks_reused") >= outcome.total("tasks_done") - outcome.total("tasks_reused")
    assert again.total("parked") == 1
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/other.zarr"), 3 * x)


@pytest.mark.parametrize("isolation", ["process", "thread"])
def test_a_copy_of_the_process_that_comes_back_writes_nothing(tmp_path, library, isolation):
    path, x = pipeline(tmp_path, library, "fork", step={"isolation": isolation})
    outcome = cuboid("run", path, "--workers", 1, "--json", timeout=60)
    assert "a process that a plugin forked came back" in outcome.err
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/after.zarr"), x + 1)


def test_interrupted_while_a_plugin_is_loaded(tmp_path, library):
    """A static initialiser that never ends; before the interrupt is sent it has begun."""
    source = (PLUGINS / "bad.cc").read_text() + """
#include <cstdio>
static const int asleep = [] {
  std::puts("asleep");
  std::fflush(stdout);
  for (;;) ::pause();
  return 0;
}();
"""
    (tmp_path / "asleep.cc").write_text(source)
    path, _ = pipeline(tmp_path, build(tmp_path / "asleep.cc", tmp_path / "libasleep.so"), "throw")
    process = start("run", path, "--json")
    while "asleep" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    outcome = finish(process, timeout=60)
    assert outcome.code == 130 and outcome.json["status"] == "interrupted"
    assert not (tmp_path / "out/after.zarr/zarr.json").exists()


def test_grow_in_one_run(tmp_path, library):
    for function in ("acquire_guess", "malloc"):
        folder = tmp_path / function
        folder.mkdir()
        path, x = pipeline(folder, library, function)
        outcome = cuboid("run", path, "--on-exceed", "grow", "--json")
        assert outcome.total("tasks_retried") + outcome.total("tasks_grown") == 1
        np.testing.assert_array_equal(arrays.read(folder / "out/after.zarr"), x + 1)


def test_cap_that_is_too_small(tmp_path, library):
    """Grown up to the cap, it still does not suffice: parked, exit code 4, and the cap is named."""
    path, _ = pipeline(tmp_path, library, "acquire_guess")
    outcome = cuboid("run", path, "--on-exceed", "grow", "--max-task-memory", "32MiB", "--json", expect=4)
    assert outcome.total("parked") == 1
    cuboid("run", path, "--on-exceed", "grow", "--max-task-memory", "160MiB")


def test_good_everywhere_else(tmp_path, library):
    for function in MISBEHAVIOURS:
        folder = tmp_path / function
        folder.mkdir()
        path, x = pipeline(folder, library, function, where=-1)
        cuboid("run", path, "--on-exceed", "fail")
        np.testing.assert_array_equal(arrays.read(folder / "out/after.zarr"), x + 1)


def test_what_a_plugin_prints_is_not_in_our_output(tmp_path, library):
    source = (PLUGINS / "bad.cc").read_text().replace(
        'if (here(c)) throw std::runtime_error("the sky is falling");', 'std::puts("plugin speaking");')
    assert "plugin speaking" in source
    (tmp_path / "loud.cc").write_text("#include <cstdio>\n" + source)
    path, _ = pipeline(tmp_path, build(tmp_path / "loud.cc", tmp_path / "libloud.so"), "throw")
    outcome = cuboid("run", path, "--json")
    assert outcome.json["status"] == "done"  # one JSON object and nothing else
    assert "plugin speaking" not in outcome.out
