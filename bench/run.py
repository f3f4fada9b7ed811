#!/usr/bin/env python3
"""Runs the engine beside hand-written loops of the same work, in turns, and prints how much longer the engine takes.

    cmake --preset release -DCUBOID_BENCH=ON && cmake --build --preset release
    bench/run.py [--folder DIR] [--only NAME ...] [--repeats N] [--quick] [--json FILE]

Needs 12 GB in DIR (default: a temporary folder) and nothing but Python's standard library. Every result of the engine is
compared with the loop's before a time is believed. Times are the least of the repeats, in seconds, whole processes.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("CUBOID_BUILD", ROOT / "build" / "release"))
SMALL_CHUNKS = 6400
# rows, columns, rows and columns of a chunk
LARGE, SMALL = (16000, 16000, 2000, 2000), (8000, 8000, 100, 100)
QUICK_LARGE, QUICK_SMALL = (1600, 1600, 200, 200), (400, 400, 100, 100)

# name: (inputs, steps of the pipeline or None for `array copy`, arguments of the loop, aim)
BENCHMARKS = {
    "copy": (["a"], None, ["copy", "a"], 1.15),
    "a+b": (["a", "b"], {"out": {"call": "add", "args": ["a", "b"]}}, ["add", "a", "b"], 1.15),
    "mean": (["a"], {"out": {"call": "mean", "args": ["a"]}}, ["mean", "a"], 1.15),
    "mean axis 0": (["a"], {"out": {"call": "mean", "args": ["a"], "params": {"axis": 0}}}, ["mean0", "a"], 1.15),
    "rechunk": (["a"], {"out": {"call": "rechunk", "args": ["a"], "params": {"chunks": None}}}, ["rechunk", "a"], 1.15),
    "gaussian": (["a"], {"out": {"call": "filter.gaussian", "args": ["a"], "params": {"sigma": 1.5}}}, ["gaussian", "a"], 1.15),
    "a+b small": (["s", "t"], {"out": {"call": "add", "args": ["s", "t"]}}, ["add", "s", "t"], 1.5),
}


def timed(command, cwd):
    begin = time.perf_counter()
    done = subprocess.run(list(map(str, command)), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds, done.stdout


class Bench:
    def __init__(self, folder, threads, memory, quick):
        self.folder, self.threads, self.memory = folder, threads, memory
        self.loop, self.cuboid = BUILD / "hand_loop", BUILD / "cuboid"
        self.large, self.small = (QUICK_LARGE, QUICK_SMALL) if quick else (LARGE, SMALL)

    def make(self, names):
        for seed, name in enumerate(("a", "b", "s", "t")):
            extents = self.large if name in "ab" else self.small
            if name in names and not (self.folder / name).exists():
                timed([self.loop, self.threads, "make", name, *extents, 1000 * seed], self.folder)

    def run_loop(self, arguments):
        shutil.rmtree(self.folder / "loop", ignore_errors=True)
        return timed([self.loop, self.threads, *arguments, "loop"], self.folder)[0]

    def run_engine(self, inputs, steps):
        for leftover in ("engine", "engine.run", "bench.run"):
            shutil.rmtree(self.folder / leftover, ignore_errors=True)
        flags = ["--workers", self.threads, "--memory", self.memory, "-q"]
        if steps is None:
            return timed([self.cuboid, "array", "copy", inputs[0], "engine", "--memory", self.memory], self.folder)[0]
        pipeline = self.folder / "bench.yaml"
        pipeline.write_text(json.dumps({"arrays": {key: key for key in inputs}, "steps": steps, "store": {"out": "engine"}}))
        return timed([self.cuboid, "run", pipeline, *flags, "--progress", "none"], self.folder)[0]

    def check(self, name, steps):
        if steps is not None and steps["out"]["call"] == "mean":
            ours, theirs = (self.elements(path) for path in ("engine", "loop"))
            worst = max(abs(x - y) / max(1.0, abs(y)) for x, y in zip(ours, theirs, strict=True))
        else:
            worst = float(timed([self.loop, self.threads, "compare", "engine", "loop"], self.folder)[1])
        if not worst <= 1e-11:
            sys.exit(f"{name}: the engine's result differs from the loop's by {worst}")

    def elements(self, path):
        return json.loads(timed([self.cuboid, "array", "cat", path, "--json"], self.folder)[1])["data"]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--folder", type=pathlib.Path)
    options.add_argument("--only", nargs="*", choices=BENCHMARKS)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options.add_argument("--memory", default="2GiB")
    options.add_argument("--quick", action="store_true", help="small arrays: does it work, not how fast is it")
    options.add_argument("--json", type=pathlib.Path)
    options = options.parse_args()
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="cuboid-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder, options.threads, options.memory, options.quick)
    results = {}
    try:
        print(f"{options.threads} threads, {options.memory}, least of {options.repeats}")
        print(f"{'':14}{'loop s':>9}{'engine s':>10}{'ratio':>8}{'aim':>6}")
        for name in options.only or BENCHMARKS:
            inputs, steps, arguments, aim = BENCHMARKS[name]
            if name == "rechunk":  # twice as tall, half as wide
                steps["out"]["params"]["chunks"] = [2 * bench.large[2], bench.large[3] // 2]
            bench.make(inputs)
            loop = engine = math.inf
            for turn in range(options.repeats + 1):  # the first turn warms memory and page cache and is checked
                one_loop, one_engine = bench.run_loop(arguments), bench.run_engine(inputs, steps)
                if turn == 0:
                    bench.check(name, steps)
                else:
                    loop, engine = min(loop, one_loop), min(engine, one_engine)
            results[name] = {"loop": loop, "engine": engine, "ratio": engine / loop, "aim": aim}
            print(f"{name:14}{loop:9.2f}{engine:10.2f}{engine / loop:8.2f}{aim:6.2f}", flush=True)
        if "a+b small" in results:
            small = results["a+b small"]
            small["overhead_us"] = (small["engine"] - small["loop"]) / SMALL_CHUNKS * 1e6
            print(f"the engine adds {small['overhead_us']:.0f} us a task of a+b on {SMALL_CHUNKS} chunks of 80 kB; aim 50")
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
