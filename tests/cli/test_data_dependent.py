"""Functions whose result's extent depends on data, against NumPy: values, order, bounds, memory, going on after a kill."""
import json
import math
import shutil

import numpy as np
import pytest

import arrays
from program import MIB, MemoryWatch, cuboid, finish, journaled, killed, start, tree

SEED = 20261130
TYPES = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64", "complex64", "complex128"]
# Shapes and chunks: one axis, chunks that cut rows, more axes, one element, nothing.
SHAPES = [((700,), (64,)), ((37, 41), (10, 8)), ((6, 7, 8), (4, 3, 5)), ((1,), (1,)), ((0, 3), (1, 3))]


def elements(generator, dtype, shape):
    """Few distinct values; of floats some NaN, zeros of both signs, infinities."""
    dtype = np.dtype(dtype)
    if dtype == bool:
        return generator.random(shape) < 0.4
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -20
        return generator.integers(low, 60, shape).astype(dtype)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5])
    out = np.where(generator.random(shape) < 0.2, generator.choice(special, shape), generator.integers(-9, 9, shape) / 2)
    if dtype.kind == "c":
        out = out + 0j
        out.imag = elements(generator, "float64", shape)
    return out.astype(dtype)


def run(folder, inputs, steps, chunks=None, **top):
    """Runs the steps on the inputs ({name: (values, chunks)}) and returns {output: values}."""
    for name, (values, input_chunks) in inputs.items():
        arrays.write(folder / f"{name}.zarr", values, input_chunks)
    outputs = {"unique_values": [""], "unique_counts": [".values", ".counts"],
               "unique_inverse": [".values", ".inverse_indices"],
               "unique_all": [".values", ".indices", ".inverse_indices", ".counts"], "select": [""]}
    store = {}
    for name, step in steps.items():
        if step["call"] == "nonzero":
            rank = inputs[step["args"][0]][0].ndim
            names = [f".{k}" for k in range(rank)] if rank > 1 else [""]
        else:
            names = outputs.get(step["call"], [""])
        store.update({name + output: f"out/{name}{output}.zarr" for output in names})
    content = {"arrays": {name: f"{name}.zarr" for name in inputs}, "steps": steps, "store": store, **top}
    (folder / "p.yaml").write_text(json.dumps(content))
    cuboid("run", "p.yaml", "--progress", "none", cwd=folder)
    return {name: arrays.read(folder / path) for name, path in store.items()}


def same(actual, expected):
    """Equal types, shapes and values; any NaN equals any other."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_unique_and_nonzero_give_numpys_results(tmp_path, dtype):
    generator = np.random.default_rng(SEED)
    inputs, steps = {}, {}
    for k, (shape, chunks) in enumerate(SHAPES):
        inputs[f"x{k}"] = (elements(generator, dtype, shape), chunks)
        for call in ("unique_values", "unique_counts", "unique_inverse", "unique_all", "nonzero"):
            step = {"call": call, "args": [f"x{k}"]}
            if call != "nonzero":
                step["chunks"] = list(chunks)  # many small runs
            steps[f"{call}{k}"] = step
    made = run(tmp_path, inputs, steps)
    for k, (shape, _) in enumerate(SHAPES):
        x = inputs[f"x{k}"][0]
        values, indices, inverse, counts = (np.asarray(a) for a in np.unique_all(x))
        # Of values that compare equal NumPy and Cuboid may keep another one where positions do not decide: signs of zero.
        same(made[f"unique_values{k}"], values)
        same(made[f"unique_counts{k}.values"], values)
        same(made[f"unique_counts{k}.counts"], counts)
        same(made[f"unique_inverse{k}.values"], values)
        # Which of the NaNs is which is known where positions are kept.
        own, nan = made[f"unique_inverse{k}.inverse_indices"], np.isnan(x)
        same(own[~nan], inverse[~nan])
        same(np.sort(own[nan]), np.sort(inverse[nan]))
        same(made[f"unique_all{k}.values"], values)
        same(made[f"unique_all{k}.indices"], indices)
        same(made[f"unique_all{k}.inverse_indices"], inverse)
        same(made[f"unique_all{k}.counts"], counts)
        for axis, expected in enumerate(np.nonzero(x)):
            same(made[f"nonzero{k}" + (f".{axis}" if x.ndim > 1 else "")], expected)


def test_the_first_of_equal_elements_is_kept(tmp_path):
    x = np.array([1.0, -0.0, 0.0, 2.0, 0.0, -0.0, 1.0, np.nan, 0.0, np.nan])
    made = run(tmp_path, {"x": (x, (4,))}, {"u": {"call": "unique_all", "args": ["x"], "chunks": [4]},
                                            "v": {"call": "unique_values", "args": ["x"], "chunks": [4]}})
    same(made["u.values"], np.array([-0.0, 1, 2, np.nan, np.nan]))
    assert np.signbit(made["u.values"][0]) and np.signbit(made["v"][0])
    same(made["u.indices"], np.array([1, 0, 3, 7, 9]))
    same(made["u.inverse_indices"], np.array([1, 0, 0, 2, 0, 0, 1, 3, 0, 4]))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float64", "complex128"])
def test_select_gives_numpys_results(tmp_path, dtype):
    generator = np.random.default_rng(SEED + 1)
    inputs, steps, expected = {}, {}, {}
    for k, (shape, chunks) in enumerate(SHAPES):
        x = elements(generator, dtype, shape)
        inputs[f"x{k}"] = (x, chunks)
        for rank in range(1, x.ndim + 1):
            mask = generator.random(shape[:rank]) < 0.5
            inputs[f"m{k}_{rank}"] = (mask, tuple(max(1, c // 2) for c in chunks[:rank]))
            steps[f"s{k}_{rank}"] = {"call": "select", "args": [f"x{k}", f"m{k}_{rank}"]}
            expected[f"s{k}_{rank}"] = x[mask]
    made = run(tmp_path, inputs, steps)
    for name, values in expected.items():
        same(made[name], values)


def test_order_does_not_depend_on_chunks(tmp_path):
    """Chunks of columns cut every row: the input is put in order first."""
    generator = np.random.default_rng(SEED + 2)
    x = generator.integers(0, 3, (300, 5000)).astype(np.int16)
    made = run(tmp_path, {"x": (x, (300, 100))},
               {"where": {"call": "nonzero", "args": ["x"], "chunks": [2, 5000]},
                "mask": {"call": "greater", "args": ["x", 1]},
                "chosen": {"call": "select", "args": ["x", "mask"], "chunks": [2, 5000]}})
    for axis, expected in enumerate(np.nonzero(x)):
        same(made[f"where.{axis}"], expected)
    same(made["chosen"], x[x > 1])
    stages = [stage["name"] for stage in cuboid("plan", "p.yaml", "--json", cwd=tmp_path).json["stages"]]
    assert "where.rechunk" in stages


def plan(folder, steps, store, **top):
    content = {"arrays": {"x": "x.zarr"}, "steps": steps, "store": store, **top}
    (folder / "p.yaml").write_text(json.dumps(content))
    return cuboid("plan", "p.yaml", "--json", cwd=folder).json


def extent(told, stage):
    return next(s for s in told["stages"] if s["name"] == stage)["outputs"][0]["shape"][0]


def confidence(told, stage):
    return next(s for s in told["stages"] if s["name"] == stage)["confidence"]


def test_the_worst_case_is_known_at_planning(tmp_path):
    arrays.write(tmp_path / "x.zarr", np.zeros((100, 30), np.int8), (10, 30))
    told = plan(tmp_path, {"u": {"call": "unique_values", "args": ["x"]}, "w": {"call": "nonzero", "args": ["x"]}},
                {"u": "u.zarr", "w.0": "w.zarr"})
    assert extent(told, "u") == {"max": 256} and extent(told, "w") == {"max": 3000}
    assert confidence(told, "u") == confidence(told, "w") == confidence(told, "u.compact") == "bounded"


def test_max_shape_lowers_the_bound_and_makes_the_stage_unsafe(tmp_path):
    arrays.write(tmp_path / "x.zarr", np.arange(3000, dtype=np.int32), (100,))
    steps = {"u": {"call": "unique_values", "args": ["x"], "max_shape": [50], "chunks": [100]},
             "more": {"call": "add", "args": ["u", 1]}}
    told = plan(tmp_path, steps, {"more": "more.zarr"})
    assert extent(told, "u") == {"max": 50} and confidence(told, "u") == "unsafe"
    assert extent(told, "more") == {"max": 50}
    # There are more: as the policy says the run stops, or the bound grows; nothing is lost.
    stopped = cuboid("run", "p.yaml", "--json", "--on-exceed", "park", cwd=tmp_path, expect=4).json
    assert stopped["status"] == "exceeded" and "3000 rows where max_shape states 50" in stopped["error"]["message"]
    assert not (tmp_path / "more.zarr").exists()
    cuboid("run", "p.yaml", "--progress", "none", "--on-exceed", "grow", cwd=tmp_path)
    same(arrays.read(tmp_path / "more.zarr"), np.arange(1, 3001, dtype=np.int32))


def test_facts_replace_bounds(tmp_path):
    arrays.write(tmp_path / "x.zarr", np.arange(40_000) % 7, (1000,))
    steps = {"u": {"call": "unique_counts", "args": ["x"], "chunks": [1000]}, "twice": {"call": "multiply", "args": ["u.counts", 2]}}
    told = plan(tmp_path, steps, {"twice": "twice.zarr"})
    assert extent(told, "twice") == {"max": 40_000}
    outcome = cuboid("run", "p.yaml", "--json", cwd=tmp_path).json
    assert next(s for s in outcome["stages"] if s["name"] == "twice")["outputs"][0]["shape"] == [7]
    assert next(s for s in outcome["stages"] if s["name"] == "twice")["tasks"] == 1
    same(arrays.read(tmp_path / "twice.zarr"), 2 * np.bincount(np.arange(40_000) % 7))


def test_nothing_was_found(tmp_path):
    """No rows, once the run knows: what can be computed of nothing is, the one call that cannot fails, and all else is kept."""
    arrays.write(tmp_path / "x.zarr", np.arange(60.0).reshape(12, 5), (5, 5))
    steps = {"mask": {"call": "greater", "args": ["x", 100]}, "rows": {"call": "select", "args": ["x", "mask"]},
             "mean": {"call": "mean", "args": ["rows"]}, "sorted": {"call": "sort", "args": ["rows"]},
             "counts": {"call": "unique_counts", "args": ["rows"]}, "most": {"call": "max", "args": ["rows"]}}
    store = {"mean": "mean.zarr", "sorted": "sorted.zarr", "counts.counts": "counts.zarr", "most": "most.zarr"}
    plan(tmp_path, steps, store)
    for _ in range(2):
        outcome = cuboid("run", "p.yaml", "--json", cwd=tmp_path, expect=5).json
        assert "there is no max of nothing" in outcome["error"]["message"]
        assert [s["name"] for s in outcome["stages"] if s["tasks_done"] < s["tasks"]] == ["most"]
        same(arrays.read(tmp_path / "counts.zarr"), np.zeros(0, np.int64))
        same(arrays.read(tmp_path / "sorted.zarr"), np.zeros(0))
        assert np.isnan(arrays.read(tmp_path / "mean.zarr")) and not (tmp_path / "most.zarr").exists()


def test_what_was_found_may_fit_nothing(tmp_path):
    """Extents that could have been equal are not: the run stops, says which step, and goes on once that step is gone."""
    arrays.write(tmp_path / "x.zarr", np.arange(60.0), (7,))
    steps = {"m": {"call": "greater", "args": ["x", 10]}, "n": {"call": "greater", "args": ["x", 20]},
             "a": {"call": "select", "args": ["x", "m"]}, "b": {"call": "select", "args": ["x", "n"]},
             "sum": {"call": "add", "args": ["a", "b"]}, "twice": {"call": "multiply", "args": ["a", 2]}}
    plan(tmp_path, steps, {"sum": "sum.zarr", "twice": "twice.zarr"})
    error = cuboid("run", "p.yaml", "--json", cwd=tmp_path, expect=5).json["error"]
    assert "(49) and (39) do not broadcast" in error["message"] and error["context"]["step"] == "sum"
    assert not (tmp_path / "sum.zarr").exists()
    plan(tmp_path, steps, {"twice": "twice.zarr"})
    outcome = cuboid("run", "p.yaml", "--json", cwd=tmp_path)
    assert next(s for s in outcome.json["stages"] if s["name"] == "a")["tasks_reused"] == 1
    same(arrays.read(tmp_path / "twice.zarr"), 2.0 * np.arange(11, 60))


def test_wrong_calls_are_refused_with_what_was_expected(tmp_path):
    arrays.write(tmp_path / "x.zarr", np.zeros((4, 5)), (2, 5))
    arrays.write(tmp_path / "s.zarr", np.zeros(()))
    for step, message in [({"call": "select", "args": ["x", "x"]}, "must be boolean"),
                          ({"call": "select", "args": ["x"]}, "expected 2 arguments"),
                          ({"call": "nonzero", "args": ["s"]}, "has none"),
                          ({"call": "unique_values", "args": ["x"], "params": {"axis": 0}}, "axis"),
                          ({"call": "unique_values", "args": [3]}, "must be an array")]:
        content = {"arrays": {"x": "x.zarr", "s": "s.zarr"}, "steps": {"y": step}, "store": {"y": "y.zarr"}}
        (tmp_path / "p.yaml").write_text(json.dumps(content))
        assert message in cuboid("plan", "p.yaml", cwd=tmp_path, expect=2).err


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory):
    """A million int64, all distinct, in an order that spreads every block over the whole range."""
    folder = tmp_path_factory.mktemp("shuffled")
    x = np.random.default_rng(SEED + 3).permutation(1 << 20).astype(np.int64) * 3
    arrays.write(folder / "x.zarr", x, (1 << 13,))
    return folder, x


ALL = {"u.values": "out/values.zarr", "u.indices": "out/indices.zarr", "u.inverse_indices": "out/inverse.zarr",
       "u.counts": "out/counts.zarr"}


def test_all_distinct_stays_within_the_budget(shuffled, tmp_path):
    folder, x = shuffled
    content = {"memory": "40MiB", "arrays": {"x": str(folder / "x.zarr")},
               "steps": {"u": {"call": "unique_all", "args": ["x"], "chunks": [1 << 13]}}, "store": ALL}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    told = cuboid("plan", "p.yaml", "--json", cwd=tmp_path).json
    assert [s["tasks"] for s in told["stages"] if ".merge" in s["name"]] == [4, 1]
    process = start("run", "p.yaml", "--progress", "none", "--json", cwd=tmp_path)
    with MemoryWatch(process.pid) as watch:
        outcome = finish(process)
    assert outcome.code == 0, outcome.err
    assert watch.peak <= 40 * MIB
    for stage in outcome.json["stages"]:
        assert stage["peak_bytes"] <= stage["projected_bytes"], stage["name"]
    values, indices, inverse, counts = np.unique_all(x)
    same(arrays.read(tmp_path / "out/values.zarr"), values)
    same(arrays.read(tmp_path / "out/indices.zarr"), indices)
    same(arrays.read(tmp_path / "out/inverse.zarr"), inverse)
    same(arrays.read(tmp_path / "out/counts.zarr"), counts)


@pytest.mark.parametrize("call", ["nonzero", "select", "unique_values", "unique_counts", "unique_inverse", "unique_all"])
def test_a_killed_run_goes_on_to_the_same_bytes(shuffled, tmp_path, call):
    """Killed again and again, each time after more blocks, and gone on with other memory and other workers."""
    folder, _ = shuffled
    arguments, names = {"select": (["x", "large"], [""]), "unique_counts": (["x"], ["values", "counts"]),
                        "unique_inverse": (["x"], ["values", "inverse_indices"]),
                        "unique_all": (["x"], ["values", "indices", "inverse_indices", "counts"])}.get(call, (["x"], [""]))
    content = {"memory": "64MiB", "arrays": {"x": str(folder / "x.zarr")},
               "steps": {"large": {"call": "greater", "args": ["x", 1000]},
                         "u": {"call": call, "args": arguments, "chunks": [1 << 13]}},
               "store": {f"u.{name}" if name else "u": f"out/{name or 'u'}.zarr" for name in names}}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    told = cuboid("run", "p.yaml", "--json", cwd=tmp_path)
    tasks = {stage["name"]: stage["tasks"] for stage in told.json["stages"]}
    expected = tree(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(tmp_path / "p.run")
    others = [("--memory", "40MiB", "--workers", 1), ("--memory", "256MiB", "--workers", 3), ("--workers", 2)]
    before, kills = {}, 0
    while True:
        outcome = killed(1 + kills * kills, "run", "p.yaml", "--json", *others[kills % 3], cwd=tmp_path)
        if outcome.code == 0:
            break
        now = journaled(tmp_path / "p.run")
        assert sum(now.values()) == sum(before.values()) + 1 + kills * kills
        before, kills = now, kills + 1
    assert kills > 2
    assert tree(tmp_path / "out") == expected
    for stage in outcome.json["stages"]:
        assert stage["tasks_done"] == stage["tasks"] == tasks[stage["name"]]
        assert stage["tasks_reused"] >= before.get(stage["name"], 0), stage["name"]


def test_few_distinct_values_do_not_shrink_what_was_projected(tmp_path):
    """What a merge was allowed is what it says, also when the result turned out to be short."""
    x = np.random.default_rng(SEED).integers(0, 500, (300, 70)).astype("f4")
    arrays.write(tmp_path / "x.zarr", x, (10, 70))
    content = {"memory": "64MiB", "arrays": {"x": "x.zarr"}, "store": {"u.values": "v.zarr", "u.inverse_indices": "i.zarr"},
               "steps": {"twice": {"call": "multiply", "args": ["x", 2]},
                         "u": {"call": "unique_all", "args": ["twice"], "chunks": [4, 70]}}}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    outcome = cuboid("run", "p.yaml", "--json", cwd=tmp_path)
    for stage in outcome.json["stages"]:
        assert stage["peak_bytes"] <= stage["projected_bytes"], stage["name"]
    same(arrays.read(tmp_path / "i.zarr"), np.unique_all(2 * x).inverse_indices)


def test_an_output_that_has_served_is_not_computed_again_for_another(shuffled, tmp_path):
    """What a stage wrote is asked for by array: `values` gone, `counts` there, and only `counts` still to be read."""
    folder, x = shuffled
    content = {"memory": "64MiB", "arrays": {"x": str(folder / "x.zarr")},
               "steps": {"u": {"call": "unique_counts", "args": ["x"], "chunks": [1 << 13]}},
               "store": {"u.values": "out/values.zarr", "u.counts": "out/counts.zarr"}}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    cuboid("run", "p.yaml", "--keep", "--json", cwd=tmp_path)
    expected = tree(tmp_path / "out")
    shutil.rmtree(tmp_path / "p.run/data/u.values.pieces")
    (tmp_path / "out/counts.zarr/c/5").unlink()
    outcome = cuboid("run", "p.yaml", "--keep", "--json", cwd=tmp_path)
    assert {s["name"]: s["tasks"] - s["tasks_reused"] for s in outcome.json["stages"] if s["tasks"] > s["tasks_reused"]} \
        == {"u.counts.compact": 1}
    assert tree(tmp_path / "out") == expected

    # What is to be read and gone is made again, and the rest stays as it is.
    (tmp_path / "out/values.zarr/c/5").unlink()
    outcome = cuboid("run", "p.yaml", "--keep", "--json", cwd=tmp_path)
    ran = {s["name"]: s["tasks"] - s["tasks_reused"] for s in outcome.json["stages"]}
    assert ran["u.values.compact"] == 1 and ran["u.counts.compact"] == 0 and ran["u.merge2"] == 1, ran
    assert tree(tmp_path / "out") == expected


@pytest.mark.parametrize("call, dtype", [("nonzero", bool), ("unique_values", np.float64)])
def test_five_hundred_million_elements_are_planned_within_64_mib(tmp_path, call, dtype):
    import zarr
    zarr.create_array(store=str(tmp_path / "x.zarr"), shape=(500_000_000,), dtype=dtype, chunks=(1_000_000,))
    told = plan(tmp_path, {"y": {"call": call, "args": ["x"]}}, {"y": "y.zarr"}, memory="64MiB")
    assert told["refused"] is None
    assert all(stage["projected_bytes"] <= 50 * MIB for stage in told["stages"])
    assert math.prod(extent(told, "y.compact").values()) == 500_000_000
