"""Filters, hierarchies and metadata that other writers leave, against zarr-python."""
import json

import numcodecs
import numpy as np
import pytest
import zarr

from program import cuboid
from test_zarr_python import cat, same

FILTERS = {
    "delta": ([numcodecs.Delta("<i4")], "<i4"),
    "delta-big": ([numcodecs.Delta(">i4")], ">i4"),
    "packbits": ([numcodecs.PackBits()], "?"),
    "shuffle": ([numcodecs.Shuffle(4)], "<f4"),
    "delta-shuffle": ([numcodecs.Delta("<u2"), numcodecs.Shuffle(2)], "<u2"),
}
LOSSY = {
    "fixedscaleoffset": ([numcodecs.FixedScaleOffset(offset=10, scale=8, dtype="<f8", astype="<i4")], "<f8"),
    "quantize": ([numcodecs.Quantize(2, "<f4")], "<f4"),
    "bitround": ([numcodecs.BitRound(9)], "<f4"),
    "delta-narrow": ([numcodecs.Delta("<i4", "<i2")], "<i4"),
    "delta-float": ([numcodecs.Delta("<f8")], "<f8"),
    "astype": ([numcodecs.AsType("<f4", "<f8")], "<f8"),
}


def write(path, filters, dtype):
    values = (np.random.default_rng(3).integers(0, 200, (9, 11)) / 8).astype(dtype) if dtype != "?" else (
        np.random.default_rng(3).random((9, 11)) < 0.5)
    array = zarr.create_array(store=str(path), shape=values.shape, chunks=(4, 5), dtype=dtype, zarr_format=2, filters=filters,
                              compressors=numcodecs.Zlib(1))
    array[...] = values
    return array[...].astype(np.dtype(dtype).newbyteorder("="))


@pytest.mark.parametrize("name", FILTERS)
def test_lossless_filters_both_ways(tmp_path, name):
    values = write(tmp_path / "theirs", *FILTERS[name])
    same(cat(tmp_path / "theirs", tmp_path), values)
    cuboid("array", "copy", tmp_path / "theirs", tmp_path / "ours", "--chunks", "5,4")
    ours = zarr.open_array(store=str(tmp_path / "ours"), mode="r")
    assert [f.get_config() for f in ours.filters] == [f.get_config() for f in FILTERS[name][0]]
    same(ours[...].astype(values.dtype), values)


@pytest.mark.parametrize("name", LOSSY)
def test_lossy_filters_are_read_only(tmp_path, name):
    values = write(tmp_path / "theirs", *LOSSY[name])
    same(cat(tmp_path / "theirs", tmp_path), values)
    assert "read only" in cuboid("array", "copy", tmp_path / "theirs", tmp_path / "ours", expect=2).err
    cuboid("array", "copy", tmp_path / "theirs", tmp_path / "ours", "--codecs", "zstd")
    same(zarr.open_array(store=str(tmp_path / "ours"), mode="r")[...], values)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_hierarchies(tmp_path, zarr_format):
    root = zarr.create_group(store=str(tmp_path / "h"), zarr_format=zarr_format, attributes={"title": "all"})
    root.create_group("g", attributes={"n": 1}).create_array("x", shape=(3, 4), dtype="f4", chunks=(2, 2), attributes={"unit": "m"})
    root.create_array("y", shape=(5,), dtype="M8[s]", chunks=(5,))
    zarr.consolidate_metadata(str(tmp_path / "h"))
    nodes = cuboid("array", "ls", tmp_path / "h", "--json").json["nodes"]
    assert [(n["path"], n["kind"], n["attributes"], n.get("bytes")) for n in nodes] == [
        ("", "group", {"title": "all"}, None), ("g", "group", {"n": 1}, None), ("g/x", "array", {"unit": "m"}, 48),
        ("y", "array", {}, 40)]
    same(cat(tmp_path / "h/g/x", tmp_path), np.zeros((3, 4), "f4"))


def test_large_integers_and_bare_words_in_attributes(tmp_path):
    zarr.create_array(store=str(tmp_path / "a"), shape=(2,), dtype="i1", chunks=(2,), zarr_format=2)
    attributes = {"big": 10**30, "small": -10**25, "exact": 2**64 - 1, "nan": float("nan")}
    (tmp_path / "a/.zattrs").write_text(json.dumps(attributes))
    told = cuboid("array", "info", tmp_path / "a", "--json").json["attributes"]
    assert told == {**attributes, "nan": "NaN"}
    for zarr_format in (2, 3):
        cuboid("array", "copy", tmp_path / "a", tmp_path / f"copy{zarr_format}", "--format", zarr_format)
        copied = dict(zarr.open_array(store=str(tmp_path / f"copy{zarr_format}")).attrs)
        assert {name: copied[name] for name in told} == told
