#!/usr/bin/env python3
"""What a wrong estimate costs: the ladder beside "the whole stage again with twice as much", and beside an oracle that knew
what every block takes. Real runs of synthetic blocks, each of which takes what its data says.

    cmake --preset release && cmake --build --preset release
    bench/escalation/run.py [--folder DIR] [--blocks N] [--milliseconds N] [--json FILE]

Printed per case: wall seconds, the same in terms of the oracle's, runs that did not finish, and memory-time: MiB-seconds
granted, and of those how many were not used (granted beyond what a block took, and all of attempts that failed). A block
that needs more than the machine has cannot finish for anybody; then "all but those" is what a run can do, and is compared.
And when a wrong estimate is known that the last of six stages makes: with pilots, and without (where the same block of the same
work starts if its number is promised, so that nothing is tried out first).
Needs g++ and nothing but Python's standard library.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CUBOID_BUILD", ROOT / "build" / "release"))
DECLARED, BUDGET, WORKERS, ELEMENTS = 4, 256, 4, 16  # MiB, MiB, tasks at once, elements of a block
# The share of blocks that take more than was declared, and how many times as much at most.
CASES = {"none": (0, 1), "10 % up to 6x": (0.10, 6), "50 % up to 3x": (0.50, 3), "2 % up to 60x": (0.02, 60)}
MIB = 1 << 20


def needs(case, blocks):
    """MiB of each block, spread over the array at random, the same every time."""
    chance = random.Random(case)
    share, most = CASES[case]
    result = [chance.choice([1, 2, 3]) for _ in range(blocks)]
    greedy = chance.sample(range(blocks), round(share * blocks))
    for k, block in enumerate(greedy):  # the first is the worst
        result[block] = round(DECLARED * (most if k == 0 else chance.uniform(1.25, most)))
    return result


def write_array(path, rows):
    """A Zarr array of float64, a block of ELEMENTS a chunk, not compressed."""
    path.mkdir(parents=True)
    (path / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [len(rows) * ELEMENTS], "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [ELEMENTS]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}))
    (path / "c").mkdir()
    for k, row in enumerate(rows):
        (path / "c" / str(k)).write_bytes(struct.pack(f"<{ELEMENTS}d", *row, *[k] * (ELEMENTS - len(row))))


class Bench:
    def __init__(self, folder, blocks, milliseconds):
        self.folder, self.blocks, self.milliseconds = folder, blocks, milliseconds
        self.library = folder / "libappetite.so"
        subprocess.run(["g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{ROOT}/sdk/include",
                        pathlib.Path(__file__).parent / "appetite.cc", "-o", self.library], check=True)

    def run(self, name, steps, *flags):
        """Wall seconds and what --json said. `steps`: name -> (function, MiB said, blocks as (MiB, ...))."""
        folder = self.folder / name
        if not folder.exists():
            for step, (_, _, mebibytes) in steps.items():
                write_array(folder / f"{step}.zarr", [(m, self.milliseconds) for m in mebibytes])
        pipeline = folder / "p.yaml"
        pipeline.write_text(json.dumps({
            "memory": f"{BUDGET}MiB", "plugins": [str(self.library)], "arrays": {f"in_{s}": f"{s}.zarr" for s in steps},
            "steps": {s: {"call": f"appetite.{function}", "args": [f"in_{s}"], "params": {"mib": said}}
                      for s, (function, said, _) in steps.items()},
            "store": {s: f"out/{s}.zarr" for s in steps}}))
        begin = time.perf_counter()
        done = subprocess.run([BUILD / "cuboid", "run", pipeline, "--workers", str(WORKERS), "--json", "--progress", "none",
                               *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "CUBOID_HISTORY": "off"})
        seconds = time.perf_counter() - begin
        if done.returncode not in (0, 4):
            sys.exit(f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return seconds, json.loads(done.stdout)

    def memory_time(self, name):
        """MiB-seconds that a run was granted and that it did not use, from its journal."""
        with sqlite3.connect(self.folder / name / "p.run/journal.sqlite") as journal:
            rows = journal.execute("SELECT allowed, peak, seconds FROM blocks").fetchall()
            failed = journal.execute("SELECT allowed, seconds FROM failures").fetchall()
        granted = sum(a * s for a, _, s in rows) + sum(a * s for a, s in failed)
        wasted = sum(max(0, a - p) * s for a, p, s in rows) + sum(a * s for a, s in failed)
        return granted / MIB, wasted / MIB

    def ladder(self, mebibytes):
        seconds, report = self.run("ladder", {"a": ("guessed", DECLARED, mebibytes)}, "--on-exceed", "grow")
        return {"seconds": seconds, "lost": sum(s["parked"] for s in report["stages"]),
                "memory_time": self.memory_time("ladder"),
                "grown": sum(s["tasks_grown"] for s in report["stages"]),
                "retried": sum(s["tasks_retried"] for s in report["stages"])}

    def doubled(self, mebibytes):
        """The stage fails at its first block that needs more, and is run again as a whole with twice as much."""
        total, granted, wasted, said = 0.0, 0.0, 0.0, DECLARED
        while True:
            seconds, report = self.run("doubled", {"a": ("guessed", said, mebibytes)}, "--on-exceed", "fail", "--fresh")
            total += seconds
            more, unused = self.memory_time("doubled")
            granted, wasted = granted + more, wasted + (unused if report["status"] == "done" else more)
            if report["status"] == "done":
                return {"seconds": total, "lost": 0, "memory_time": (granted, wasted)}
            said *= 2
            if said * 1.2 > BUDGET:  # a plan that is refused
                return {"seconds": total, "lost": self.blocks, "memory_time": (granted, wasted)}

    def oracle(self, mebibytes):
        """A step for the blocks of each need, which is promised: what fits runs, with exactly what it takes."""
        steps = {}
        for need in sorted(set(mebibytes), reverse=True):
            if need * 1.125 + 22 <= BUDGET:  # size classes, and what the processes take
                steps[f"need{need}"] = ("known", need, [m for m in mebibytes if m == need])
        seconds, report = self.run("oracle", steps)
        lost = self.blocks - sum(s["tasks_done"] for s in report["stages"])
        return {"seconds": seconds, "lost": lost, "memory_time": self.memory_time("oracle")}

    def pilots(self):
        """Seconds until the wrong estimate of the last stage's middle block is known, with and without pilots, of how many."""
        last, middle = DECLARED * 6, 40
        blocks = [1] * 80
        blocks[middle] = last
        folder = self.folder / "pilots"
        write_array(folder / "x.zarr", [(m, self.milliseconds) for m in blocks])

        def pipeline(function, said):
            names = ["x", "one", "two", "three", "four", "five"]
            steps = {b: {"call": "appetite.idle", "args": [a]} for a, b in zip(names, names[1:])}
            steps["last"] = {"call": f"appetite.{function}", "args": ["five"], "params": {"mib": said}}
            path = folder / f"{function}.yaml"
            path.write_text(json.dumps({
                "memory": f"{BUDGET}MiB", "plugins": [str(self.library)], "arrays": {"x": "x.zarr"}, "steps": steps,
                "store": {"last": f"out/{function}.zarr"}}))
            return path

        def run(path, *flags):
            return subprocess.Popen([BUILD / "cuboid", "run", path, "--workers", str(WORKERS), *flags], text=True,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                    env={**os.environ, "CUBOID_HISTORY": "off"})

        begin = time.perf_counter()
        with run(pipeline("guessed", DECLARED), "--on-exceed", "fail", "--progress", "none") as process:
            error = process.communicate()[1]
            known = time.perf_counter() - begin
        if process.returncode != 4:
            sys.exit(f"exit code {process.returncode}\n{error[-2000:]}")
        begin = time.perf_counter()
        without = None
        with run(pipeline("known", last), "--progress", "plain", "-vv") as process:
            for line in process.stderr:
                if line.startswith(f"last, block {middle}: starts"):
                    without = time.perf_counter() - begin
        if process.returncode != 0 or without is None:
            sys.exit(f"exit code {process.returncode}, and block {middle} was not seen")
        return {"with": known, "without": without, "whole": time.perf_counter() - begin}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--blocks", type=int, default=400)
    parser.add_argument("--milliseconds", type=float, default=40, help="that a call takes beside touching its memory")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    print(f"{options.blocks} blocks, said to take {DECLARED} MiB each, {BUDGET} MiB, {WORKERS} at once\n")
    print(f"{'case':16}{'':10}{'seconds':>9}{'/oracle':>9}{'not done':>10}{'MiB s':>9}{'not used':>10}")
    with tempfile.TemporaryDirectory(prefix="cuboid-escalation-", dir=options.folder) as temporary:
        for case in CASES:
            folder = pathlib.Path(temporary) / case.replace(" ", "").replace("%", "")
            folder.mkdir()
            bench = Bench(folder, options.blocks, options.milliseconds)
            mebibytes = needs(case, options.blocks)
            results[case] = {name: getattr(bench, name)(mebibytes) for name in ("oracle", "ladder", "doubled")}
            best = results[case]["oracle"]["seconds"]
            for name, result in results[case].items():
                result["to_oracle"] = result["seconds"] / best
                granted, wasted = result["memory_time"]
                print(f"{case if name == 'oracle' else '':16}{name:10}{result['seconds']:9.2f}{result['to_oracle']:9.2f}"
                      f"{result['lost']:10}{granted:9.0f}{wasted:10.0f}", flush=True)
            shutil.rmtree(folder)
        gain = results["pilots"] = Bench(pathlib.Path(temporary), options.blocks, options.milliseconds).pilots()
        print(f"\na wrong estimate in the last of six stages is known after {gain['with']:.2f} s, without pilots after "
              f"{gain['without']:.2f} s, of {gain['whole']:.2f} s")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
