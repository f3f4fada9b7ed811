"""The benchmark's hand-written loops are right, and the script that compares them with the program works."""
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.ndimage

import arrays
from program import BUILD, ROOT, environment

LOOPS = {
    "copy": (["a"], lambda a, b: a),
    "add": (["a", "b"], lambda a, b: a + b),
    "mean": (["a"], lambda a, b: a.mean(keepdims=True)),
    "mean0": (["a"], lambda a, b: a.mean(axis=0, keepdims=True)),
    "rechunk": (["a"], lambda a, b: a),
    "gaussian": (["a"], lambda a, b: scipy.ndimage.gaussian_filter(a, 1.5)),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_hand_written_loop(tmp_path, loop):
    def hand_loop(*arguments):
        subprocess.run([BUILD / "hand_loop", "2", *arguments], check=True, cwd=tmp_path)

    for seed, name in ((1, "a"), (2, "b")):
        hand_loop("make", name, "240", "300", "40", "50", str(seed))
    inputs, function = LOOPS[loop]
    hand_loop(loop, *inputs, "out")
    a, b = arrays.read(tmp_path / "a"), arrays.read(tmp_path / "b")
    assert not np.array_equal(a, b)
    np.testing.assert_allclose(arrays.read(tmp_path / "out"), function(a, b), rtol=1e-13)


def test_script(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "bench/run.py", "--quick", "--repeats", "1", "--folder", tmp_path / "bench",
                           "--json", tmp_path / "results.json"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment(CUBOID_BUILD=str(BUILD)))
    assert done.returncode == 0, done.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results) == 7 and all(result["ratio"] > 0 for result in results.values())
    assert "us a task" in done.stdout


def test_escalation(tmp_path):
    """A small one; the numbers that count are of 400 blocks on a quiet machine."""
    done = subprocess.run([sys.executable, ROOT / "bench/escalation/run.py", "--folder", tmp_path, "--blocks", "40",
                           "--milliseconds", "5", "--json", tmp_path / "results.json"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=environment(CUBOID_BUILD=str(BUILD)))
    assert done.returncode == 0, done.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    gain = results.pop("pilots")
    assert gain["with"] < gain["without"] <= gain["whole"]
    for case, result in results.items():
        assert result["ladder"]["lost"] == result["oracle"]["lost"], (case, done.stdout)  # what can be done is done
        more = result["ladder"]["grown"] + result["ladder"]["retried"]
        assert more == 0 if case == "none" else more > 0
    assert results["2 % up to 60x"]["oracle"]["lost"] == 1 and results["2 % up to 60x"]["doubled"]["lost"] == 40
