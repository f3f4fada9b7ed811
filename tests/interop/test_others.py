"""Arrays exchanged with implementations in other languages: tensorstore (C++), z5 (C++), zarrs (Rust, as zarr-python's
codecs) and zarrita."""
import itertools
import json
import subprocess

import numpy as np
import pytest
import tensorstore
import zarr
import zarrs  # noqa: F401  (registers its pipeline)

from program import ROOT, cuboid
from test_zarr_python import cat, same, values_of

DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float32", "float64", "complex64", "complex128"]
BLOSC = {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0}}
CODECS = {
    "plain": [],
    "blosc": [BLOSC],
    "gzip": [{"name": "gzip", "configuration": {"level": 4}}],
    "zstd-crc32c": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}, {"name": "crc32c"}],
}
SHAPE, CHUNKS = (9, 14), (4, 5)


def spec(path, dtype, codecs, endian, turned):
    bytes_codec = {"name": "bytes"} if np.dtype(dtype).itemsize == 1 else {
        "name": "bytes", "configuration": {"endian": endian}}
    chain = [{"name": "transpose", "configuration": {"order": [1, 0]}}] if turned else []
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}, "metadata": {
        "shape": SHAPE, "data_type": dtype, "codecs": [*chain, bytes_codec, *CODECS[codecs]],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNKS}}}}


@pytest.mark.parametrize("codecs, endian, turned", itertools.product(CODECS, ("little", "big"), (False, True)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensorstore(tmp_path, dtype, codecs, endian, turned):
    values = values_of(dtype, SHAPE, seed=4)
    tensorstore.open(spec(tmp_path / "theirs", dtype, codecs, endian, turned), create=True).result().write(values).result()
    same(cat(tmp_path / "theirs", tmp_path), values)
    cuboid("array", "copy", tmp_path / "theirs", tmp_path / "ours", "--chunks", "3,14")
    ours = tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "ours")}}).result()
    same(ours.read().result(), values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensorstore_v2(tmp_path, dtype):
    values = values_of(dtype, SHAPE, seed=5)
    zarr.create_array(store=str(tmp_path / "v3"), shape=SHAPE, chunks=CHUNKS, dtype=dtype)[...] = values
    cuboid("array", "copy", tmp_path / "v3", tmp_path / "v2", "--format", 2, "--codecs", "blosc-lz4")
    ours = tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": str(tmp_path / "v2")}}).result()
    same(ours.read().result(), values)


@pytest.mark.parametrize("codecs", ["none", "blosc-lz4", "blosc-zstd", "zstd", "gzip"])
@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_zarrs(tmp_path, dtype, codecs):
    values = values_of(dtype, SHAPE, seed=6)
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        zarr.create_array(store=str(tmp_path / "theirs"), shape=SHAPE, chunks=CHUNKS, dtype=dtype)[...] = values
        same(cat(tmp_path / "theirs", tmp_path), values)
        cuboid("array", "copy", tmp_path / "theirs", tmp_path / "ours", "--codecs", codecs)
        same(zarr.open_array(store=str(tmp_path / "ours"), mode="r")[...], values)


@pytest.mark.parametrize("inner, index", itertools.product(("plain", "blosc", "zstd-crc32c"), ("start", "end")))
@pytest.mark.parametrize("dtype", ["bool", "int16", "float64", "complex64"])
def test_shards_of_tensorstore(tmp_path, dtype, inner, index):
    values = values_of(dtype, (19, 14), seed=7)
    bytes_codec = {"name": "bytes"} if dtype == "bool" else {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [2, 5], "codecs": [bytes_codec, *CODECS[inner]], "index_location": index,
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}
    theirs = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "theirs")}, "metadata": {
        "shape": [19, 14], "data_type": dtype, "codecs": [sharding],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 10]}}}}
    tensorstore.open(theirs, create=True).result().write(values).result()
    same(cat(tmp_path / "theirs", tmp_path), values)
    same(cat(tmp_path / "theirs", tmp_path, "--box", "3:17:2,-9:"), values[3:17:2, -9:])
    for name, flags in (("kept", []), ("other", ["--chunks", "3,7", "--shards", "9,7"]), ("two", ["--format", "2", "--codecs", "zstd"])):
        cuboid("array", "copy", tmp_path / "theirs", tmp_path / name, *flags)
        driver = "zarr" if name == "two" else "zarr3"
        ours = tensorstore.open({"driver": driver, "kvstore": {"driver": "file", "path": str(tmp_path / name)}}).result()
        same(ours.read().result(), values)


def test_z5_and_zarrita(tmp_path):
    venv = subprocess.run([ROOT / "scripts/venv", ROOT / "tests/requirements-z5.txt"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    theirs = [f"{venv}/bin/python", "-W", "ignore", ROOT / "tests/interop/z5_zarrita.py"]
    names = json.loads(subprocess.run([*theirs, "write", tmp_path], check=True, text=True, stdout=subprocess.PIPE).stdout)
    assert len(names) > 100
    for name in names:
        same(cat(tmp_path / name, tmp_path.parent), np.load(tmp_path / (name.replace("/", "+") + ".npy")))
        cuboid("array", "copy", tmp_path / name, tmp_path / f"{name}.copy")
    checked = subprocess.run([*theirs, "check", tmp_path], check=True, text=True, stdout=subprocess.PIPE).stdout
    assert int(checked) == len(names)
