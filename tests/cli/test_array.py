"""`cuboid array ...` against zarr-python and NumPy."""
import json
import re

import numpy as np
import pytest
import zarr

import arrays
from program import cuboid, tree

SEED = 20261129
TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
         "complex128"]


def values(dtype, shape, seed=SEED):
    """Every bit pattern that matters: extremes, NaN, infinities, minus zero."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        data = generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        data.flat[:2] = limits.min, limits.max
        return data
    data = generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "c":
        data += 1j * generator.standard_normal(shape).astype(dtype)
    data.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    return data


def parsed(told):
    """The array that `cat --json` tells of."""
    dtype = np.dtype(told["dtype"])

    def number(item):
        return complex(float(item[0]), float(item[1])) if isinstance(item, list) else float(item) if isinstance(item, str) else item

    return np.array([number(item) for item in told["data"]], dtype=dtype).reshape(told["shape"])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", TYPES)
def test_cat_tells_every_element(tmp_path, dtype, zarr_format):
    data = values(dtype, (7, 5))
    path = arrays.write(tmp_path / "a.zarr", data, (3, 2), zarr_format)
    told = cuboid("array", "cat", path, "--json").json
    assert list(told) == ["shape", "dtype", "data"] and told["dtype"] == dtype
    np.testing.assert_array_equal(parsed(told).view(np.uint8), data.view(np.uint8))  # to the last bit
    cuboid("array", "cat", path, "--npy", tmp_path / "a.npy")
    back = np.load(tmp_path / "a.npy")
    assert back.dtype == data.dtype
    np.testing.assert_array_equal(back.view(np.uint8), data.view(np.uint8))


BOXES = {"": np.s_[...], "3": np.s_[3], "-1": np.s_[-1], "1:4": np.s_[1:4], ":,2": np.s_[:, 2], "...,0": np.s_[..., 0],
         "0:6:2,::-1,-2": np.s_[0:6:2, ::-1, -2], "5:1:-2": np.s_[5:1:-2], "2:2": np.s_[2:2], "1,2,3": np.s_[1, 2, 3],
         ":,:,1:3": np.s_[:, :, 1:3], "::5,::3,::2": np.s_[::5, ::3, ::2], "-3:,-2:": np.s_[-3:, -2:]}


@pytest.mark.parametrize("memory", ["64", "4KiB", "1GiB"])
@pytest.mark.parametrize("box", BOXES)
def test_boxes_select_as_numpy_does(tmp_path, box, memory):
    data = np.arange(11 * 8 * 4, dtype=np.int32).reshape(11, 8, 4)
    path = arrays.write(tmp_path / "a.zarr", data, (4, 3, 4))
    told = cuboid("array", "cat", path, "--json", "--memory", memory, *(["--box", box] if box else [])).json
    expected = data[BOXES[box]]
    assert told["shape"] == list(expected.shape)
    np.testing.assert_array_equal(parsed(told), expected)
    cuboid("array", "cat", path, "--npy", tmp_path / "a.npy", "--memory", memory, *(["--box", box] if box else []))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected)


def test_cat_prints_rows(tmp_path):
    path = arrays.write(tmp_path / "a.zarr", np.arange(12.0).reshape(2, 2, 3))
    assert cuboid("array", "cat", path).out == "0 1 2\n3 4 5\n\n6 7 8\n9 10 11\n"
    assert cuboid("array", "cat", path, "--box", "1,1,2").out == "11\n"
    scalar = arrays.write(tmp_path / "s.zarr", np.float64(2.5))
    assert cuboid("array", "cat", scalar).out == "2.5\n"
    assert cuboid("array", "cat", scalar, "--json").json == {"shape": [], "dtype": "float64", "data": [2.5]}
    empty = arrays.write(tmp_path / "e.zarr", np.zeros((0, 3)), (1, 3))
    assert cuboid("array", "cat", empty, "--json").json == {"shape": [0, 3], "dtype": "float64", "data": []}


def test_a_corrupt_chunk_is_6_and_leaves_no_output(tmp_path):
    path = arrays.write(tmp_path / "a.zarr", np.random.default_rng(SEED).random((40, 40)), (20, 20))
    chunk = path / "c/1/1"
    chunk.write_bytes(chunk.read_bytes()[:50])
    outcome = cuboid("array", "cat", path, "--json", "--memory", "4KiB", expect=6)
    assert outcome.json["error"]["kind"] in ("corrupt", "io") and list(outcome.json) == ["error"]
    outcome = cuboid("array", "cat", path, "--npy", tmp_path / "a.npy", expect=6)
    assert "c/1/1" in outcome.err and sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr"]
    cuboid("array", "cat", path, "--box", "0:20,0:20", "--json")  # what is whole can be read


def test_info_is_what_zarr_python_says(tmp_path):
    path = tmp_path / "a.zarr"
    array = zarr.create_array(store=str(path), shape=(50, 40), dtype="float32", chunks=(10, 20), zarr_format=3,
                              fill_value=np.nan, dimension_names=["y", "x"], attributes={"unit": "K", "n": [1, 2.5, None]})
    array[:20] = 1
    info = cuboid("array", "info", path, "--json").json
    assert list(info) == sorted(info, key=list(info).index)
    assert set(info) == {"path", "zarr_format", "shape", "chunks", "shards", "dtype", "fill_value", "codecs", "dimension_names",
                         "attributes", "bytes", "bytes_stored", "chunks_stored"}
    stored = [p for p in (path / "c").rglob("*") if p.is_file()]
    assert info == {**info, "path": str(path), "zarr_format": 3, "shape": [50, 40], "chunks": [10, 20], "shards": None,
                    "dtype": "float32", "fill_value": "NaN", "dimension_names": ["y", "x"],
                    "attributes": {"unit": "K", "n": [1, 2.5, None]}, "bytes": 50 * 40 * 4,
                    "bytes_stored": sum(p.stat().st_size for p in stored), "chunks_stored": len(stored)}
    assert info["chunks_stored"] == 4 and info["codecs"][0]["name"] == "bytes"
    told = cuboid("array", "info", path).out
    for word in ("(50, 40)", "float32", "(10, 20)", "4 of 10 chunks", "unit"):
        assert word in told


def test_info_of_format_2_and_of_shards(tmp_path):
    path = tmp_path / "two.zarr"
    zarr.create_array(store=str(path), shape=(6, 4), dtype=">i2", chunks=(3, 4), zarr_format=2, fill_value=7)[...] = 1
    info = cuboid("array", "info", path, "--json").json
    assert info["zarr_format"] == 2 and info["dtype"] == "int16" and info["fill_value"] == 7 and info["chunks_stored"] == 2
    assert info["codecs"][0] == {"name": "bytes", "configuration": {"endian": "big"}} and info["dimension_names"] is None
    path = tmp_path / "sharded.zarr"
    zarr.create_array(store=str(path), shape=(64, 64), dtype="uint8", chunks=(8, 8), shards=(32, 32))[:32] = 1
    info = cuboid("array", "info", path, "--json").json
    assert info["chunks"] == [8, 8] and info["shards"] == [32, 32] and info["chunks_stored"] == 2


def test_ls_shows_the_hierarchy(tmp_path):
    root = zarr.create_group(store=str(tmp_path / "root"))
    root.create_group("a").create_array("b", shape=(4, 4), dtype="int8", chunks=(2, 2))[...] = 1
    root.create_array("c", shape=(3,), dtype="float64", chunks=(3,))
    told = cuboid("array", "ls", tmp_path / "root", "--json").json
    assert [(node["path"], node["kind"], node.get("shape")) for node in told["nodes"]] == [
        ("", "group", None), ("a", "group", None), ("a/b", "array", [4, 4]), ("c", "array", [3])]
    lines = [" ".join(line.split()) for line in cuboid("array", "ls", tmp_path / "root").out.splitlines()]
    assert lines[1:] == [". group", "├─ a group", "│ └─ b array (4, 4) int8 (2, 2) 16 B", "└─ c array (3) float64 (3) 24 B"]
    assert [node["attributes"] for node in told["nodes"]] == [{}] * 4 and told["nodes"][2]["bytes"] == 16
    cuboid("array", "ls", tmp_path / "nowhere", expect=2)


def test_an_error_names_the_array_however_short_its_name(tmp_path):
    zarr.create_array(store=str(tmp_path / "a"), shape=(4,), chunks=(2,), dtype="i1")
    document = json.loads((tmp_path / "a/zarr.json").read_text())
    document["chunk_grid"]["configuration"]["chunk_shape"] = [0]
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    assert "chunks of (0): expected extents of at least 1 (array a)" in cuboid("array", "info", "a", cwd=tmp_path, expect=2).err


def test_what_is_no_archive_is_an_input_that_is_wrong(tmp_path):
    torn = tmp_path / "torn.zip"
    torn.write_bytes(b"PK")
    for verb in ("info", "ls", "cat"):
        assert "no ZIP archive" in cuboid("array", verb, torn, expect=2).err


def test_codecs_print_a_codec_a_line():
    lines = cuboid("array", "codecs").out.splitlines()
    names = [line.split()[0] for line in lines]
    assert "blosc-lz4" in names and "blosc-zstd" in names and len(names) == len(set(names))
    assert [codec["name"] for codec in cuboid("array", "codecs", "--json").json["codecs"]] == names


@pytest.fixture
def original(tmp_path):
    path = tmp_path / "in.zarr"
    data = values("int32", (100, 90))
    zarr.create_array(store=str(path), shape=data.shape, dtype=data.dtype, chunks=(30, 40), zarr_format=3, fill_value=-5,
                      dimension_names=["y", "x"], attributes={"unit": "m", "deep": {"list": [1, 2]}},
                      compressors=zarr.codecs.ZstdCodec(level=3))[...] = data
    return path, data


def test_copy_keeps_all_that_is_not_stated(original, tmp_path):
    path, data = original
    cuboid("array", "copy", path, tmp_path / "out.zarr", cwd=tmp_path)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out.zarr"), data)
    before, after = arrays.metadata(path), arrays.metadata(tmp_path / "out.zarr")
    assert before.pop("storage_transformers", []) == []
    assert {**after, "attributes": None} == {**before, "attributes": None}
    assert before["attributes"].items() <= after["attributes"].items()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.zarr", "out.zarr"]  # no run directory is left


@pytest.mark.parametrize("flags", [["--chunks", "7,90"], ["--chunks", "100,90"], ["--chunks", "10,10", "--shards", "50,30"],
                                   ["--codecs", "blosc-zstd"], ["--codecs", "none"], ["--format", "2"],
                                   ["--codecs", json.dumps([{"name": "bytes", "configuration": {"endian": "big"}}])]],
                         ids=lambda flags: " ".join(flags)[:40])
def test_copy_changes_what_is_stated(original, tmp_path, flags):
    path, data = original
    told = cuboid("array", "copy", path, tmp_path / "out.zarr", *flags, "--memory", "64MiB", "--json").json
    assert told["status"] == "done"
    array = zarr.open_array(store=str(tmp_path / "out.zarr"), mode="r")
    np.testing.assert_array_equal(array[...], data)
    stated = dict(zip(flags[::2], flags[1::2]))
    chunks = tuple(map(int, stated.get("--chunks", "30,40").split(",")))
    assert array.chunks == chunks
    assert array.shards == (tuple(map(int, stated["--shards"].split(","))) if "--shards" in stated else None)
    assert array.metadata.zarr_format == int(stated.get("--format", 3))
    assert array.fill_value == -5 and array.attrs["unit"] == "m" and array.attrs["deep"] == {"list": [1, 2]}
    if stated.get("--codecs", "").startswith("["):
        assert arrays.metadata(tmp_path / "out.zarr")["codecs"][0]["configuration"]["endian"] == "big"


def test_copy_refuses_what_is_there_unless_told(original, tmp_path):
    path, data = original
    arrays.write(tmp_path / "out.zarr", np.zeros(3))
    before = tree(tmp_path)
    outcome = cuboid("array", "copy", path, tmp_path / "out.zarr", expect=2)
    assert "overwrite" in outcome.err and tree(tmp_path) == before
    cuboid("array", "copy", path, path, "--overwrite", expect=2)
    assert tree(tmp_path) == before
    cuboid("array", "copy", path, tmp_path / "out.zarr", "--overwrite")
    np.testing.assert_array_equal(arrays.read(tmp_path / "out.zarr"), data)


def test_copy_is_refused_where_it_cannot_fit(tmp_path):
    path = tmp_path / "large.zarr"
    zarr.create_array(store=str(path), shape=(1 << 14, 1 << 13), dtype="float64", chunks=(1 << 13, 1 << 13))
    outcome = cuboid("array", "copy", path, tmp_path / "out.zarr", "--memory", "64MiB", "--json", expect=3)
    assert outcome.json["refused"]["resource"] == "memory" and outcome.json["status"] == "refused"
    assert not (tmp_path / "out.zarr").exists()
