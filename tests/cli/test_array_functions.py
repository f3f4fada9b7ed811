"""Array functions run as pipelines, in chunks that suit and chunks that do not, against NumPy."""
import itertools
import json
import warnings

import numpy as np
import pytest

import arrays
from program import MIB, MemoryWatch, cuboid, finish, start

SEED = 20261201


def run(folder, inputs, steps, store=None, **top):
    """Runs the steps on {name: (values, chunks)}; returns {output: values}."""
    for name, (values, chunks) in inputs.items():
        arrays.write(folder / f"{name}.zarr", values, chunks)
    store = {name: f"out/{name}.zarr" for name in store or steps}
    content = {"arrays": {name: f"{name}.zarr" for name in inputs}, "steps": steps, "store": store, **top}
    (folder / "p.yaml").write_text(json.dumps(content))
    cuboid("run", "p.yaml", "--progress", "none", cwd=folder)
    return {name: arrays.read(folder / path) for name, path in store.items()}


def same(actual, expected):
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


SHAPES = [((120,), (4, 5, 6)), ((4, 5, 6), (120,)), ((4, 5, 6), (20, 6)), ((4, 5, 6), (4, 30)), ((12, 10), (8, 15)), ((12, 10), (10, 12)),
          ((24, 35), (2, 12, 5, 7)), ((2, 12, 5, 7), (24, 35)), ((7, 11, 13), (1001,)), ((7, 11, 13), (77, 13)), ((3, 1, 40), (120,)),
          ((6, 20), (-1,)), ((100,), (1, 10, 10, 1)), ((5, 4), (5, 4))]


@pytest.mark.parametrize("kind", ["small", "thin", "whole"])
def test_reshape(tmp_path, kind):
    inputs, steps, expected = {}, {}, {}
    for k, (before, after) in enumerate(SHAPES):
        x = np.arange(np.prod(before), dtype=np.int32).reshape(before)
        chunks = {"small": [max(1, n // 3) for n in before], "thin": [max(1, n // 2) for n in before[:-1]] + [1],
                  "whole": before}[kind]
        inputs[f"x{k}"] = (x, tuple(chunks))
        steps[f"r{k}"] = {"call": "reshape", "args": [f"x{k}"], "params": {"shape": list(after)}}
        # What is computed inside a consumer is computed in its blocks.
        steps[f"s{k}"] = {"call": "reshape", "args": [f"x{k}"], "params": {"shape": list(after)}}
        steps[f"t{k}"] = {"call": "flip", "args": [f"s{k}"]}
        expected[f"r{k}"], expected[f"t{k}"] = x.reshape(after), np.flip(x.reshape(after))
    made = run(tmp_path, inputs, steps, store=expected)
    for name, values in expected.items():
        same(made[name], values)


def test_rearrangements(tmp_path):
    generator = np.random.default_rng(SEED)
    x = generator.normal(size=(30, 41)).astype(np.float32)
    p, q = np.arange(6), np.arange(9)
    inputs = {"x": (x, (8, 10)), "p": (p, (4,)), "q": (q, (2,)), "i": (np.argsort(x, axis=0), (8, 10))}
    steps = {"rolled": {"call": "roll", "args": ["x"], "params": {"shift": [7, -3], "axis": [0, 1]}},
             "rolled_flat": {"call": "roll", "args": ["x"], "params": {"shift": 5}},
             "tiled": {"call": "tile", "args": ["x"], "params": {"repetitions": [2, 3]}},
             "repeated": {"call": "repeat", "args": ["x", 3], "params": {"axis": 1}},
             "parts": {"call": "unstack", "args": ["x"], "params": {"axis": 1}},
             "grid": {"call": "meshgrid", "args": ["p", "q"]},
             "wide": {"call": "broadcast_arrays", "args": ["x", "q2"]},
             "sorted": {"call": "take_along_axis", "args": ["x", "i"], "params": {"axis": 0}},
             "steps": {"call": "diff", "args": ["x"], "params": {"axis": 0, "n": 2}}}
    inputs["q2"] = (np.arange(41, dtype=np.int16), (20,))
    made = run(tmp_path, inputs, steps, store=["rolled", "rolled_flat", "tiled", "repeated", "parts.0", "parts.40", "grid.0", "grid.1",
                                               "wide.0", "wide.1", "sorted", "steps"])
    same(made["rolled"], np.roll(x, (7, -3), (0, 1)))
    same(made["rolled_flat"], np.roll(x, 5))
    same(made["tiled"], np.tile(x, (2, 3)))
    same(made["repeated"], np.repeat(x, 3, axis=1))
    same(made["parts.0"], x[:, 0])
    same(made["parts.40"], x[:, 40])
    for k, expected in enumerate(np.meshgrid(p, q)):
        same(made[f"grid.{k}"], expected)
    for k, expected in enumerate(np.broadcast_arrays(x, inputs["q2"][0])):
        same(made[f"wide.{k}"], expected)
    same(made["sorted"], np.sort(x, axis=0))
    same(made["steps"], np.diff(x, 2, axis=0))


def test_cumulative(tmp_path):
    generator = np.random.default_rng(SEED + 1)
    x, y = generator.normal(size=(20_000, 7)), generator.integers(-9, 9, 10_000).astype(np.int16)
    made = run(tmp_path, {"x": (x, (3000, 4)), "y": (y, (1100,))},
               {"down": {"call": "cumulative_sum", "args": ["x"], "params": {"axis": 0}},
                "across": {"call": "cumulative_sum", "args": ["x"], "params": {"axis": 1}},
                "whole": {"call": "cumulative_sum", "args": ["y"], "params": {"include_initial": True}},
                "product": {"call": "cumulative_prod", "args": ["y"]},
                "odd": {"call": "cumulative_sum", "args": ["y"], "chunks": [700]}})
    for name, expected in [("down", np.cumsum(x, 0)), ("across", np.cumsum(x, 1))]:
        assert made[name].dtype == expected.dtype
        np.testing.assert_allclose(made[name], expected, rtol=1e-12, atol=1e-10)
    same(made["whole"], np.cumulative_sum(y, include_initial=True))
    same(made["product"], np.cumulative_prod(y))
    same(made["odd"], np.cumulative_sum(y))


def test_what_may_not_be_cut_is_not_computed_in_parts(tmp_path):
    """Whose consumer wants a part of it, directly or through another step."""
    x = np.random.default_rng(SEED + 7).normal(size=(200, 50))
    made = run(tmp_path, {"x": (x, (60, 20))},
               {"sums": {"call": "cumulative_sum", "args": ["x"], "params": {"axis": 1}},
                "part": {"call": "getitem", "args": ["sums"], "params": {"key": ":, 30:40"}},
                "others": {"call": "cumulative_sum", "args": ["x"], "params": {"axis": 1}},
                "more": {"call": "add", "args": ["others", 1]},
                "other": {"call": "getitem", "args": ["more"], "params": {"key": ":, 7:21"}}}, store=["part", "other"])
    np.testing.assert_allclose(made["part"], np.cumsum(x, 1)[:, 30:40], rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(made["other"], np.cumsum(x, 1)[:, 7:21] + 1, rtol=1e-12, atol=1e-10)


def test_histogram(tmp_path):
    generator = np.random.default_rng(SEED + 2)
    x = generator.normal(size=(200, 300)).astype(np.float32)
    n = generator.integers(0, 50, 5000).astype(np.uint8)
    made = run(tmp_path, {"x": (x, (64, 100)), "n": (n, (700,))},
               {"free": {"call": "histogram", "args": ["x"], "params": {"bins": 40}},
                "fixed": {"call": "histogram", "args": ["x"], "params": {"bins": 16, "range": [-2, 2]}},
                "listed": {"call": "histogram", "args": ["n"], "params": {"bins": [0, 1, 5, 20, 50]}},
                "dense": {"call": "histogram", "args": ["n"], "params": {"density": True}}},
               store=[f"{s}.{o}" for s in ("free", "fixed", "listed", "dense") for o in ("hist", "bin_edges")])
    for name, (hist, edges) in {"free": np.histogram(x, 40), "fixed": np.histogram(x, 16, (-2, 2)),
                                "listed": np.histogram(n, [0, 1, 5, 20, 50])}.items():
        same(made[name + ".hist"], hist)
        same(made[name + ".bin_edges"], edges)
    np.testing.assert_allclose(made["dense.hist"], np.histogram(n, density=True)[0], rtol=1e-12)


def test_quantile_and_sort(tmp_path):
    generator = np.random.default_rng(SEED + 3)
    x = generator.normal(size=(300, 40))
    large = generator.permutation(1 << 21).astype(np.int32)  # more than is sorted in one block
    made = run(tmp_path, {"x": (x, (64, 16)), "large": (large, (100_000,))},
               {"median": {"call": "quantile", "args": ["x"], "params": {"q": 0.5, "axis": 0}},
                "all": {"call": "quantile", "args": ["x"], "params": {"q": [0.01, 0.99]}},
                "of_large": {"call": "quantile", "args": ["large"], "params": {"q": [0, 0.123, 0.5, 1]}},
                "lower": {"call": "quantile", "args": ["large"], "params": {"q": 0.3, "method": "lower"}},
                "positive": {"call": "greater", "args": ["x", 0]},
                "chosen": {"call": "select", "args": ["x", "positive"]},
                "of_chosen": {"call": "quantile", "args": ["chosen"], "params": {"q": 0.9}},
                "rows": {"call": "sort", "args": ["x"], "params": {"axis": 1}},
                "down": {"call": "sort", "args": ["large"], "params": {"descending": True}}},
               store=["median", "all", "of_large", "lower", "of_chosen", "rows", "down"], memory="64MiB")
    np.testing.assert_allclose(made["median"], np.quantile(x, 0.5, axis=0), rtol=1e-15)
    np.testing.assert_allclose(made["all"], np.quantile(x, [0.01, 0.99]), rtol=1e-15)
    np.testing.assert_allclose(made["of_large"], np.quantile(large, [0, 0.123, 0.5, 1]), rtol=1e-15)
    np.testing.assert_allclose(made["of_chosen"], np.quantile(x[x > 0], 0.9), rtol=1e-15)
    same(made["lower"], np.quantile(large, 0.3, method="lower"))
    same(made["rows"], np.sort(x, axis=1))
    same(made["down"], np.sort(large)[::-1])


def test_many_inputs_are_held_one_at_a_time(tmp_path):
    """A stack of fifty arrays takes one input and one block of the result."""
    x = np.random.default_rng(SEED + 4).normal(size=(512, 256))
    inputs = {f"x{k}": (x + k, (512, 256)) for k in range(50)}
    steps = {"all": {"call": "stack", "args": list(inputs)}}
    made = run(tmp_path, inputs, steps, memory="24MiB")
    same(made["all"], np.stack([x + k for k in range(50)]))
    stage = cuboid("plan", "p.yaml", "--json", cwd=tmp_path).json["stages"][0]
    assert stage["projected_bytes"] <= 4.25 * MIB  # blocks of 1 MiB: the result, what is encoded, and two of the codec's own


@pytest.mark.parametrize("mebibytes", [28, 32, 64])
def test_a_plan_keeps_its_budget_over_rearranged_arrays(tmp_path, mebibytes):
    """Also of what codecs take for themselves and malloc keeps: some MiB for chunks of 1 MiB, of many sizes."""
    x = np.random.default_rng(SEED + 5).normal(size=(1024, 1024))
    arrays.write(tmp_path / "x.zarr", x, (128, 128))
    content = {"memory": f"{mebibytes}MiB", "arrays": {"x": "x.zarr"},
               "steps": {"flat": {"call": "reshape", "args": ["x"], "params": {"shape": [-1]}},
                         "rolled": {"call": "roll", "args": ["flat"], "params": {"shift": 100_001}},
                         "sums": {"call": "cumulative_sum", "args": ["rolled"]}},
               "store": {"sums": "sums.zarr"}}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    process = start("run", "p.yaml", "--progress", "none", "--json", cwd=tmp_path)
    with MemoryWatch(process.pid) as watch:
        outcome = finish(process)
    assert outcome.code == 0, outcome.err
    assert watch.peak <= mebibytes * MIB
    np.testing.assert_allclose(arrays.read(tmp_path / "sums.zarr"), np.cumsum(np.roll(x.reshape(-1), 100_001)), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("step, message", [
    ({"call": "reshape", "args": ["x"], "params": {"shape": [5, 5]}}, "24 elements"),
    ({"call": "reshape", "args": ["few"], "params": {"shape": [-1]}}, "depends on data"),
    ({"call": "roll", "args": ["x"], "params": {"shift": "far"}}, "integer"),
    ({"call": "repeat", "args": ["x", "x"]}, "must be an integer"),
    ({"call": "quantile", "args": ["x"], "params": {"q": 2}}, "0 to 1"),
    ({"call": "histogram", "args": ["x"], "params": {"bins": 0}}, "bins"),
    ({"call": "cumulative_sum", "args": ["x"]}, "axis"),
    ({"call": "cumulative_sum", "args": ["x"], "params": {"axis": 0, "part": "totals"}}, "unknown parameter"),
    ({"call": "unstack", "args": ["x"], "params": {"axis": 7}}, "out of range"),
    ({"call": "tile", "args": ["x"], "params": {"repetitions": [1, 2**63 - 1]}}, "too large"),
    # No elements, but an extent that is 4 modulo 2^64.
    ({"call": "tile", "args": ["none"], "params": {"repetitions": [1, 3689348814741910324]}}, "too large"),
    ({"call": "repeat", "args": ["none"], "params": {"repeats": 3689348814741910324, "axis": 1}}, "too large"),
    ({"call": "concat", "args": ["wide"] * 4, "params": {"axis": 1}}, "too large")])
def test_wrong_calls_are_refused_with_what_was_expected(tmp_path, step, message):
    arrays.write(tmp_path / "x.zarr", np.ones((4, 6)), (2, 6))
    steps = {"few": {"call": "unique_values", "args": ["x"]}, "none": {"call": "zeros", "params": {"shape": [0, 5]}},
             "wide": {"call": "zeros", "params": {"shape": [0, 2**62]}}, "y": step}
    content = {"arrays": {"x": "x.zarr"}, "steps": steps, "store": {"few": "few.zarr"}}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    assert message in cuboid("plan", "p.yaml", cwd=tmp_path, expect=2).err


@pytest.mark.parametrize("shape, chunks", [((0,), (1,)), ((0, 5), (4, 2)), ((5, 0), (2, 1)), ((0, 0), (3, 1)), ((4, 0, 3), (2, 7, 3))])
def test_functions_of_nothing(tmp_path, shape, chunks):
    """Of no elements a sum is 0, a mean NaN, a sorted array empty: in one task where there is a result, in none where there is not."""
    x = np.zeros(shape)
    reductions = {"sum": np.sum, "prod": np.prod, "any": np.any, "all": np.all, "mean": np.mean, "std": np.std, "count_nonzero": np.count_nonzero}
    steps = {"more": {"call": "add", "args": ["x", 1]}}
    expected = {"more": x + 1}
    axes = [list(a) for n in range(1, len(shape) + 1) for a in itertools.combinations(range(len(shape)), n)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in reductions.items():
            for axis in axes:
                step = f"{name}_{'_'.join(map(str, axis))}"
                steps[step] = {"call": name, "args": ["more"], "params": {"axis": axis}}  # which is computed inside
                expected[step] = np.asarray(function(x, axis=tuple(axis)))
    for name, function in {"sort": np.sort, "cumulative_sum": np.cumsum, "flip": np.flip}.items():
        steps[name] = {"call": name, "args": ["x"], "params": {"axis": 0}}
        expected[name] = function(x, axis=0)
    steps["values"] = {"call": "unique_values", "args": ["x"]}
    expected["values"] = np.unique(x)
    steps["bins"] = {"call": "histogram", "args": ["x"], "params": {"bins": 4, "range": [0, 1]}}
    expected["bins.hist"] = np.histogram(x, bins=4, range=(0, 1))[0]
    steps["found"] = {"call": "searchsorted", "args": ["nothing", "y"]}
    expected["found"] = np.zeros(3, np.int64)
    if len(shape) == 2:
        steps["smooth"] = {"call": "filter.gaussian", "args": ["x"], "params": {"sigma": 1}}
        expected["smooth"] = x
        steps["rows"] = {"call": "sky.sources", "args": ["smooth"], "params": {"threshold": 1, "radius": 2}}
        expected["rows"] = np.zeros((0, 6))
        steps["pairs"] = {"call": "stats.histogram2d", "args": ["x", "x"], "params": {"bins_a": 2, "bins_b": 3, "min_a": 0, "max_a": 1, "min_b": 0, "max_b": 1}}
        expected["pairs"] = np.zeros((2, 3), np.int64)
    made = run(tmp_path, {"x": (x, chunks), "nothing": (np.zeros(0), (1,)), "y": (np.arange(3.0), (2,))}, steps, store=expected)
    for name, values in expected.items():
        same(made[name], values)
