#!/usr/bin/env python3
"""The rows of the public zarr_benchmarks, by Cuboid's storage library beside a hand-written loop, zarrs, tensorstore and
zarr-python.

    cmake --preset release -DCUBOID_BENCH=ON && cmake --build --preset release
    $(scripts/venv)/bin/python bench/storage/run.py [--folder DIR] [--side 1024] [--repeats N] [--threads N] [--tools ...]

The array is uint16 of side^3, (x + y*y/32 + z*z*z) mod 65536, in three layouts: raw chunks of 256^3, the same with zstd 0,
and shards of 256^3 with inner chunks of 64^3 (zstd 0). Times are the least of the repeats, in seconds, whole processes,
start-up of Python included, in turns, each after memory was warmed; memory is the process's peak. Needs 12 GB in DIR at
the full side. Every sum is compared, of copies too.
"""
import argparse
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CUBOID_BUILD", ROOT / "build" / "release"))
LAYOUTS = {"raw": (None, False), "zstd": ([ZstdCodec(level=0)], False), "shards": ([ZstdCodec(level=0)], True)}
TOOLS = ["cuboid", "hand loop", "zarrs", "tensorstore", "zarr-python"]


def make(path, side, compressors, sharded):
    chunk = min(256, side)
    array = zarr.create_array(store=str(path), shape=(side,) * 3, dtype="uint16", fill_value=0, compressors=compressors,
                              chunks=(chunk // 4,) * 3 if sharded else (chunk,) * 3, shards=(chunk,) * 3 if sharded else None)
    y, z = np.arange(side, dtype="u8")[:, None], np.arange(side, dtype="u8")[None, :]
    plane = (y * y // 32 + z * z * z)
    for x in range(0, side, chunk):
        array[x:x + chunk] = np.stack([(plane + i).astype("u2") for i in range(x, x + chunk)])


def in_child(work, *arguments):
    """In a process of its own: what is started afterwards would inherit this one's peak of memory."""
    process = multiprocessing.Process(target=work, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        sys.exit(f"{work.__name__}{arguments} failed")


def timed(command):
    begin = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command}: failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024, int(out or 0)


def make_small(path):
    array = zarr.create_array(store=str(path), shape=(8000, 8000), chunks=(100, 100), dtype="f8", compressors=[
        BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")])
    array[...] = np.arange(8000.0)[:, None] * np.arange(8000.0) % 977


def compare(path, copy):
    one, other = (zarr.open_array(store=str(where), mode="r")[...] for where in (path, copy))
    assert np.array_equal(one, other)


def small_chunks(folder, flags):
    """`cuboid array copy` of 6,400 chunks of 80 kB, beside tensorstore's copy in one call, which is its fastest and takes the
    memory of the whole array, and chunk by chunk, which takes as little memory as ours."""
    path, copy = folder / "small", folder / "copy"
    if not path.exists():
        in_child(make_small, path)
    other = [sys.executable, ROOT / "bench/storage/others.py", "tensorstore", flags.threads]
    commands = {"cuboid": [BUILD / "cuboid", "array", "copy", path, copy, "-q"],
                "tensorstore in one call": [*other, "copy", path, copy],
                "tensorstore by chunk": [*other, "round_trip", path, copy]}
    best = {}
    for tool in [*commands] * flags.repeats:
        shutil.rmtree(copy, ignore_errors=True)
        seconds, mebibytes, _ = timed(commands[tool])
        best[tool] = min(best.get(tool, (seconds, mebibytes)), (seconds, mebibytes))
        in_child(compare, path, copy)
    print("copy of 6,400 chunks of 80 kB: " + ", ".join(f"{tool} {s:.2f} s {m:.0f} MiB" for tool, (s, m) in best.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=TOOLS)
    flags = parser.parse_args()
    folder = flags.folder or pathlib.Path(tempfile.mkdtemp(prefix="cuboid-bench-"))
    rows = BUILD / "storage_rows"
    try:
        for name, (compressors, sharded) in LAYOUTS.items():
            if not (folder / name).exists():
                in_child(make, folder / name, flags.side, compressors, sharded)
        print(f"{'row':24}" + "".join(f"{tool:>20}" for tool in flags.tools))
        for name, (_, sharded) in LAYOUTS.items():
            for row in ("read_all", "round_trip", "by_chunk", *(["by_inner_chunk"] if sharded else [])):
                best, sums = {}, set()
                for tool in flags.tools * flags.repeats:  # in turns
                    copy = folder / "copy"
                    shutil.rmtree(copy, ignore_errors=True)
                    if tool == "cuboid":
                        command = [rows, flags.threads, row, folder / name]
                    elif tool == "hand loop":
                        command = [BUILD / "hand_rows", flags.threads, row, name, flags.side, folder / name]
                    else:
                        command = [sys.executable, ROOT / "bench/storage/others.py", tool, flags.threads, row, folder / name]
                    timed([rows, flags.threads, "warm", folder / name])
                    seconds, mebibytes, total = timed([*command, *([copy] if row == "round_trip" else [])])
                    if row == "round_trip":  # the copy is read back before a time is believed
                        total = timed([rows, flags.threads, "read_all", copy])[2]
                    sums.add(total)
                    best[tool] = min(best.get(tool, (seconds, mebibytes)), (seconds, mebibytes))
                print(f"{name + ' ' + row:24}" + "".join(f"{s:10.2f} s{m:5.0f} MiB".rjust(20) for s, m in best.values()), flush=True)
                assert len(sums) == 1, (row, sums)
        small_chunks(folder, flags)
    finally:
        if flags.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
