#!/usr/bin/env python3
"""The rows of the public zarr_benchmarks, by Cuboid's storage library beside zarrs, tensorstore and zarr-python.

    cmake --preset release -DCUBOID_BENCH=ON && cmake --build --preset release
    $(scripts/venv)/bin/python bench/storage/run.py [--folder DIR] [--side 1024] [--repeats N] [--threads N]

The array is uint16 of side^3, (x + y*y/32 + z*z*z) mod 65536, in three layouts: raw chunks of 256^3, the same with zstd 0,
and shards of 256^3 with inner chunks of 64^3 (zstd 0). Times are the least of the repeats, in seconds, whole processes,
start-up of Python included; memory is the process's peak. Needs 12 GB in DIR at the full side. Every sum is compared, of copies too.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CUBOID_BUILD", ROOT / "build" / "release"))
LAYOUTS = {"raw": (None, False), "zstd": ([ZstdCodec(level=0)], False), "shards": ([ZstdCodec(level=0)], True)}
TOOLS = ["cuboid", "zarrs", "tensorstore", "zarr-python"]


def make(path, side, compressors, sharded):
    chunk = min(256, side)
    array = zarr.create_array(store=str(path), shape=(side,) * 3, dtype="uint16", fill_value=0, compressors=compressors,
                              chunks=(chunk // 4,) * 3 if sharded else (chunk,) * 3, shards=(chunk,) * 3 if sharded else None)
    y, z = np.arange(side, dtype="u8")[:, None], np.arange(side, dtype="u8")[None, :]
    plane = (y * y // 32 + z * z * z)
    for x in range(0, side, chunk):
        array[x:x + chunk] = np.stack([(plane + i).astype("u2") for i in range(x, x + chunk)])


def timed(command):
    begin = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command}: failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024, int(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    flags = parser.parse_args()
    folder = flags.folder or pathlib.Path(tempfile.mkdtemp(prefix="cuboid-bench-"))
    rows = BUILD / "storage_rows"
    try:
        for name, (compressors, sharded) in LAYOUTS.items():
            if not (folder / name).exists():
                make(folder / name, flags.side, compressors, sharded)
        print(f"{'row':24}" + "".join(f"{tool:>20}" for tool in [*TOOLS, "hand loop"]))
        for name, (_, sharded) in LAYOUTS.items():
            for row in ("read_all", "round_trip", "by_chunk", *(["by_inner_chunk"] if sharded else [])):
                sums, line = set(), f"{name + ' ' + row:24}"
                for tool in [*TOOLS, *(["hand"] if name == "raw" and row == "read_all" else [])]:
                    best = None
                    for _ in range(flags.repeats):
                        copy = folder / "copy"
                        shutil.rmtree(copy, ignore_errors=True)
                        if tool == "cuboid":
                            command = [rows, flags.threads, row, folder / name]
                        elif tool == "hand":
                            command = [rows, flags.threads, "hand", folder / name]
                        else:
                            command = [sys.executable, ROOT / "bench/storage/others.py", tool, flags.threads, row, folder / name]
                        seconds, mebibytes, total = timed([*command, *([copy] if row == "round_trip" else [])])
                        if row == "round_trip":  # the copy is read back before a time is believed
                            total = timed([rows, flags.threads, "read_all", copy])[2]
                        sums.add(total)
                        best = min(best or (seconds, mebibytes), (seconds, mebibytes))
                    line += f"{best[0]:10.2f} s{best[1]:4.0f} MiB".rjust(20)
                print(line, flush=True)
                assert len(sums) == 1, (row, sums)
    finally:
        if flags.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
