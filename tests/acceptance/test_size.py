"""Functions whose result's extent depends on data, in the worst case: all elements distinct, all true, in 64 MiB.

CUBOID_ELEMENTS=500000000 takes the size that is promised instead of the ordinary tests' (docs/memory-model.md).
"""
import os
import shutil
import time

import numpy as np
import pytest
import zarr

import arrays
import pipelines
from program import MIB, MemoryWatch, cuboid, finish, start

ELEMENTS = int(os.environ.get("CUBOID_ELEMENTS", 1_000_000))
CHUNK = max(20_000, ELEMENTS // 500)  # more runs than one task merges
BUDGET = 64 * MIB


def mix(index):
    """A one-to-one map of 64 bits onto themselves that looks like chance (SplitMix64): all distinct, in no order."""
    x = index.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)


def unmix(value):
    """Where the value stands."""
    def unshift(x, bits):
        y = x
        for _ in range(64 // bits):
            y = x ^ (y >> np.uint64(bits))
        return y
    x = unshift(value.view(np.uint64), 31) * np.uint64(pow(0x94D049BB133111EB, -1, 1 << 64))
    x = unshift(x, 27) * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 1 << 64))
    return (unshift(x, 30) - np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def blocks(array):
    """Parts of one axis, one after another: where each begins, and its elements."""
    opened = zarr.open_array(store=str(array), mode="r")
    assert opened.shape == (ELEMENTS,)
    for begin in range(0, ELEMENTS, 4_000_000):
        yield begin, opened[begin:begin + 4_000_000]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """`x`: distinct int64. `all`: booleans, all true, on two axes."""
    folder = tmp_path_factory.mktemp("inputs")
    x = zarr.create_array(store=str(folder / "x.zarr"), shape=(ELEMENTS,), dtype="int64", chunks=(CHUNK,), compressors=None)
    for begin in range(0, ELEMENTS, CHUNK):
        x[begin:begin + CHUNK] = mix(np.arange(begin, begin + CHUNK))
    arrays.mosaic(folder / "all.zarr", np.ones(CHUNK, bool), (ELEMENTS // CHUNK,))
    columns = 1000
    arrays.mosaic(folder / "plane.zarr", np.ones((CHUNK // columns, columns), bool), (ELEMENTS // CHUNK, 1))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def run(inputs, tmp_path):
    """Runs one call, watched, within the budget: the paths of its outputs."""
    def watched(call, arguments, outputs):
        pipeline = pipelines.write(
            tmp_path, arrays={name: str(inputs / f"{name}.zarr") for name in ("x", "all", "plane")}, memory="64MiB",
            steps={"y": {"call": call, "args": arguments, **({"chunks": [CHUNK]} if call.startswith("unique") else {})}},
            store={f"y.{name}" if name else "y": f"{name or 'y'}.zarr" for name in outputs})
        begin = time.monotonic()
        process = start("run", pipeline, "--json", "--progress", "none")
        with MemoryWatch(process.pid) as watch:
            outcome = finish(process, timeout=None)
        seconds = time.monotonic() - begin
        assert outcome.code == 0, outcome.err[-3000:]
        print(f"{call} of {ELEMENTS}: {seconds:.1f} s ({ELEMENTS * 8 / seconds / 1e6:.0f} MB/s of int64), peak of the process "
              f"tree {watch.peak / MIB:.1f} MiB in {watch.samples} samples")
        for stage in outcome.json["stages"]:
            print(f"  {stage['name']}: {stage['tasks']} tasks, {stage['projected_bytes'] / MIB:.1f} MiB projected, "
                  f"{stage['peak_bytes'] / MIB:.1f} taken")
            assert stage["peak_bytes"] <= stage["projected_bytes"], stage["name"]
        assert watch.peak <= 1.05 * BUDGET
        return [tmp_path / f"{name or 'y'}.zarr" for name in outputs]
    yield watched
    shutil.rmtree(tmp_path)


def check_sorted(path):
    """So many ascending values, each of which is one of the input's: all of them."""
    last = np.int64(np.iinfo(np.int64).min)
    for _, values in blocks(path):
        assert values[0] > last and np.all(values[1:] > values[:-1])
        last = values[-1]
        places = unmix(values)
        assert np.all((places >= 0) & (places < ELEMENTS))


def test_unique_values(run):
    check_sorted(*run("unique_values", ["x"], [""]))


def test_unique_counts(run):
    values, counts = run("unique_counts", ["x"], ["values", "counts"])
    check_sorted(values)
    assert all(np.all(part == 1) for _, part in blocks(counts))


def test_nonzero(run):
    path, = run("nonzero", ["all"], [""])
    for begin, part in blocks(path):
        np.testing.assert_array_equal(part, np.arange(begin, begin + len(part)))


def test_nonzero_of_a_plane(run):
    rows, columns = run("nonzero", ["plane"], ["0", "1"])
    for (begin, y), (_, x) in zip(blocks(rows), blocks(columns)):
        np.testing.assert_array_equal(1000 * y + x, np.arange(begin, begin + len(y)))


def test_select(run):
    path, = run("select", ["x", "all"], [""])
    for begin, part in blocks(path):
        np.testing.assert_array_equal(part, mix(np.arange(begin, begin + len(part))))


@pytest.mark.parametrize("call, names", [("unique_inverse", ["values", "inverse_indices"]),
                                         ("unique_all", ["values", "indices", "inverse_indices", "counts"])])
def test_unique_with_inverse(run, call, names):
    paths = dict(zip(names, run(call, ["x"], names)))
    check_sorted(paths["values"])
    if call == "unique_all":
        assert all(np.all(part == 1) for _, part in blocks(paths["counts"]))
        for (_, values), (_, places) in zip(blocks(paths["values"]), blocks(paths["indices"])):
            np.testing.assert_array_equal(unmix(values), places)
    # Ascending values whose ranks are asked for: so many are smaller.
    chance = np.random.default_rng(7)
    asked = np.sort(chance.integers(0, ELEMENTS, 100))
    smaller = np.zeros(len(asked), int)
    for _, values in blocks(paths["values"]):
        smaller += np.searchsorted(values, mix(asked))
    inverse = zarr.open_array(store=str(paths["inverse_indices"]), mode="r")
    np.testing.assert_array_equal([inverse[place] for place in asked], smaller)
    seen = np.zeros(ELEMENTS, bool)  # and all of them are other ones
    for _, part in blocks(paths["inverse_indices"]):
        seen[part] = True
    assert seen.all()
