"""Element types that are carried, not computed on: times, strings, bytes, structures; and float16."""
import json
import subprocess
import warnings

import numpy as np
import pytest
import zarr

from program import ROOT, cuboid
from test_zarr_python import cat, same

warnings.filterwarnings("ignore", category=zarr.errors.UnstableSpecificationWarning)
POINT = np.dtype([("x", "f4"), ("n", "i2"), ("name", "S3")])
TYPES = {"half": "f2", "datetime": "M8[ns]", "ten-days": "M8[10D]", "timedelta": "m8[s]", "generic": "m8", "bytes": "S5",
         "text": "U4", "raw": "V7", "structure": POINT}
V3_NAMES = {"half": "float16", "datetime": "numpy.datetime64", "ten-days": "numpy.datetime64", "timedelta": "numpy.timedelta64",
            "generic": "numpy.timedelta64", "bytes": "null_terminated_bytes", "text": "fixed_length_utf32", "raw": "raw_bytes",
            "structure": "structured"}


def values_of(name, shape=(7, 5), seed=11):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(TYPES[name])
    if name == "half":
        values = rng.normal(0, 100, shape).astype("f2")
        values.flat[:5] = [np.nan, np.inf, -np.inf, -0.0, 6e-8]
        return values
    if dtype.kind in "Mm":
        values = rng.integers(-10**9, 10**9, shape).astype("i8").view(dtype)
        values.flat[0] = "NaT"
        return values
    if dtype.kind == "S":
        return np.array([bytes(rng.integers(1, 256, n % 6, dtype="u1")) for n in range(np.prod(shape))], dtype).reshape(shape)
    if dtype.kind == "U":
        letters = "aé€😀\"\\"
        return np.array(["".join(rng.choice(list(letters), n % 5)) for n in range(np.prod(shape))], dtype).reshape(shape)
    return np.frombuffer(rng.integers(0, 128, dtype.itemsize * np.prod(shape), dtype="u1").tobytes(), dtype).reshape(shape)


# Big-endian times without a unit, and structures of format 3, zarr-python stores in the machine's byte order whatever
# the metadata says: there is nothing to exchange.
EXCHANGED = [(name, zarr_format, order) for name in TYPES for zarr_format in (2, 3) for order in "<>"
             if order == "<" or (name != "generic" and (name, zarr_format) != ("structure", 3))]


@pytest.mark.parametrize("name, zarr_format, order", EXCHANGED)
def test_exchange(tmp_path, name, zarr_format, order):
    values = values_of(name)
    dtype = values.dtype.newbyteorder(order)
    options = {}
    if zarr_format == 3 and name not in ("bytes", "raw", "structure"):
        options["serializer"] = zarr.codecs.BytesCodec(endian={"<": "little", ">": "big"}[order])
        dtype = values.dtype
    array = zarr.create_array(store=str(tmp_path / "theirs"), shape=values.shape, chunks=(3, 2), dtype=dtype,
                              zarr_format=zarr_format, **options)
    array[...] = values.astype(dtype)
    same(cat(tmp_path / "theirs", tmp_path), values)
    info = cuboid("array", "info", tmp_path / "theirs", "--json").json
    assert info["dtype"] == V3_NAMES[name]
    if name != "half":
        assert info["data_type"] == zarr.core.dtype.get_data_type_from_native_dtype(values.dtype).to_json(zarr_format=3)
    assert cuboid("array", "ls", tmp_path, "--json").json["nodes"][0]["dtype"] == V3_NAMES[name]
    for copied_format in (2, 3):
        copy = tmp_path / f"copy{copied_format}"
        cuboid("array", "copy", tmp_path / "theirs", copy, "--format", copied_format, "--chunks", "4,5")
        ours = zarr.open_array(store=str(copy), mode="r")
        same(ours[...].astype(values.dtype), values)
        same(np.asarray(ours.fill_value, values.dtype), np.asarray(array.fill_value, dtype).astype(values.dtype))
        same(cat(copy, tmp_path), values)


def test_elements_as_json_and_as_text(tmp_path):
    def told(values, *flags):
        zarr.create_array(store=str(tmp_path / "a"), data=values, overwrite=True)
        return cuboid("array", "cat", tmp_path / "a", *flags)
    times = np.array(["1969-12-31T23:59:59.5", "NaT", "2026-11-29T10:15:00"], "M8[ms]")
    assert told(times, "--json").json["data"] == [-500, "NaT", 1795947300000]
    assert told(times).out.split() == [str(t) for t in times]
    for unit in ("Y", "M", "W", "D", "h", "m", "s", "us", "ns"):
        some = np.array(["1677-10-02", "1969-12-30", "2024-02-29", "2262-04-01"], "M8[D]").astype(f"M8[{unit}]")
        assert told(some).out.split() == [str(t) for t in some], unit
    assert told(np.array([3, -4], "m8[10s]")).out == "3 10s -4 10s\n"
    assert told(np.array(["a\"€", ""])).out == '"a\\"€" ""\n'
    assert told(np.array(["a\"€", ""]), "--json").json["data"] == ["a\"€", ""]
    assert told(np.array([b"ab\0c", b"\n"])).out == 'b"ab\\x00c" b"\\x0a"\n'
    assert told(np.array([b"ab"]), "--json").json["data"] == ["YWI="]
    points = np.array([(1.5, 2, b"x"), (np.nan, -3, b"")], POINT)
    assert told(points, "--json").json["data"] == [[1.5, 2, "eA=="], ["NaN", -3, ""]]
    assert told(points).out == '(1.5, 2, b"x") (nan, -3, b"")\n'
    assert told(np.array([0.1, -0.0, np.inf], "f2")).out == "0.099975586 -0 inf\n"


def write_pipeline(tmp_path, steps, store):
    path = tmp_path / "p.yaml"
    path.write_text(json.dumps({"arrays": {"a": "a"}, "steps": steps, "store": store}))
    return path


@pytest.mark.parametrize("name", TYPES)
def test_elements_are_moved_but_not_computed_on(tmp_path, name):
    values = values_of(name)
    zarr.create_array(store=str(tmp_path / "a"), shape=values.shape, chunks=(3, 2), dtype=values.dtype)[...] = values
    steps = {"t": {"call": "permute_dims", "args": ["a"], "params": {"axes": [1, 0]}},
             "g": {"call": "getitem", "args": ["t"], "params": {"key": "1:4, ::-2"}},
             "c": {"call": "concat", "args": ["g", "g"], "params": {"axis": 0}}}
    cuboid("run", write_pipeline(tmp_path, steps, {"c": "out"}), "--progress", "none")
    part = values.T[1:4, ::-2]
    same(cat(tmp_path / "out", tmp_path), np.concatenate([part, part]))
    for call, params in (("sum", {}), ("add", None), ("max", {}), ("isnan", None)):
        args = ["a", "a"] if call == "add" else ["a"]
        steps = {"s": {"call": call, "args": args, **({"params": params} if params else {})}}
        failed = cuboid("plan", write_pipeline(tmp_path, steps, {"s": "out2"}), expect=2)
        assert ("astype" if name == "half" else "only be moved") in failed.err and call in failed.err


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64", "complex64"])
def test_halves_are_converted_as_numpy_does(tmp_path, dtype):
    with np.errstate(invalid="ignore"):
        halves = np.concatenate([np.arange(-60, 60, 0.37), [0.0, -0.0]]).astype("f2")
        back = (np.abs(halves) * 3000.7).astype("f8").astype(dtype)
    zarr.create_array(store=str(tmp_path / "a"), data=halves)
    cuboid("run", write_pipeline(tmp_path, {"s": {"call": "astype", "args": ["a"], "params": {"dtype": dtype}}}, {"s": "out"}),
           "--progress", "none")
    with np.errstate(invalid="ignore"):
        if dtype[0] != "u":  # negative ones to unsigned: undefined in C
            same(cat(tmp_path / "out", tmp_path), halves.astype(dtype))
    zarr.create_array(store=str(tmp_path / "a"), data=back, overwrite=True)
    if dtype[0] == "c":
        return
    with np.errstate(over="ignore"):
        expected = back.astype("f2")
    cuboid("run", write_pipeline(tmp_path, {"s": {"call": "astype", "args": ["a"], "params": {"dtype": "float16"}}},
                                 {"s": "out2"}), "--progress", "none", "--fresh")
    same(cat(tmp_path / "out2", tmp_path), expected)


def test_zarr_python_2_exchanges_them(tmp_path):
    venv = subprocess.run([ROOT / "scripts/venv", ROOT / "tests/requirements-zarr2.txt"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    code = """
import sys, numpy as np, zarr
mode, folder = sys.argv[1:]
rng = np.random.default_rng(5)
for k, dtype in enumerate(["<f2", ">M8[us]", "<m8[h]", "|S4", ">U3", "|V6", [("x", ">f4"), ("y", ">i2", (2,)), ("s", "S2")]]):
    dtype = np.dtype(dtype)
    name = f"{folder}/{k}"
    if mode == "write":
        values = np.frombuffer(rng.integers(1, 120, dtype.itemsize * 24, dtype="u1").tobytes(), dtype).reshape(6, 4)
        if dtype.kind == "U":
            values = np.array(["é€a", "b"] * 12, dtype).reshape(6, 4)
        np.save(name + ".npy", values.astype(dtype.newbyteorder("=")))
        fill = b"ab" if dtype.kind == "S" else "é" if dtype.kind == "U" else 0 if dtype.kind in "fMm" else None
        array = zarr.open_array(name, mode="w", shape=(6, 4), chunks=(4, 3), dtype=dtype, fill_value=fill, order="F")
        array[...] = values
    else:
        copied, original = zarr.open_array(name + ".copy", mode="r"), zarr.open_array(name, mode="r")
        assert copied.dtype == original.dtype and copied[...].tobytes() == original[...].tobytes(), dtype
        assert copied.fill_value == original.fill_value, dtype
"""
    (tmp_path / "other.py").write_text(code)
    theirs = [f"{venv}/bin/python", tmp_path / "other.py"]
    subprocess.run([*theirs, "write", tmp_path], check=True)
    for k in range(7):
        same(cat(tmp_path / str(k), tmp_path), np.load(tmp_path / f"{k}.npy"))
        cuboid("array", "copy", tmp_path / str(k), tmp_path / f"{k}.copy")
    subprocess.run([*theirs, "check", tmp_path], check=True)
