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

from packbits import PackBits
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


def sharding(chunk, codecs, place="end"):
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": chunk, "codecs": codecs, "index_location": place,
                                                          "index_codecs": [LITTLE, {"name": "crc32c"}]}}


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
TURNED = {"name": "transpose", "configuration": {"order": [1, 0]}}
ZSTD = CODECS["zstd-crc32c"][0]
NESTED = {
    "two": [sharding([4, 10], [sharding([2, 5], [LITTLE, ZSTD], "start")])],
    "three": [sharding([8, 10], [sharding([4, 10], [sharding([2, 5], [LITTLE])], "start")])],
    "turned": [TURNED, sharding([5, 2], [LITTLE, ZSTD])],
    "turned inside": [sharding([4, 10], [TURNED, sharding([5, 2], [TURNED, LITTLE, ZSTD])])],
}
WHOLE = {  # no part of such a shard can be read by itself
    "gzip": ([sharding([2, 5], [LITTLE, ZSTD])], CODECS["gzip"]),
    "crc32c": ([sharding([2, 5], [LITTLE])], [{"name": "crc32c"}]),
    "inside": ([sharding([4, 10], [sharding([2, 5], [LITTLE, ZSTD]), *CODECS["zstd-crc32c"]], "start")], []),
}


def check_shards(theirs, tmp_path, values, read):
    """What they wrote reads as it is, whole and in part; what we write of it, in the same shards and in others, they read."""
    same(cat(theirs, tmp_path), values)
    same(cat(theirs, tmp_path, "--box", "3:17:2,-9:"), values[3:17:2, -9:])
    same(cat(theirs, tmp_path, "--box", "18,23"), values[18:19, 23:24].reshape(()))
    stored = cuboid("array", "info", theirs, "--json").json
    for name, flags in (("kept", []), ("plain", ["--shards", "none", "--chunks", "7,7"]), ("other", ["--chunks", "3,7", "--shards", "9,7"])):
        cuboid("array", "copy", theirs, tmp_path / name, *flags)
        same(cat(tmp_path / name, tmp_path), values)
        same(read(tmp_path / name), values)
    kept = cuboid("array", "info", tmp_path / "kept", "--json").json
    assert (kept["codecs"], kept["chunks"], kept["shards"]) == (stored["codecs"], stored["chunks"], stored["shards"])


def with_fill(shape):
    values = values_of("float64", shape, seed=8)
    values[:9, :11] = 0  # of a shard all, a part, nothing
    return values


@pytest.mark.parametrize("codecs", NESTED)
def test_nested_shards_of_tensorstore(tmp_path, codecs):
    values = with_fill((19, 24))
    at = lambda path: {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    theirs = {**at(tmp_path / "theirs"), "metadata": {"shape": values.shape, "data_type": "float64", "codecs": NESTED[codecs],
              "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 20]}}}}
    tensorstore.open(theirs, create=True).result().write(values).result()
    check_shards(tmp_path / "theirs", tmp_path, values, lambda path: tensorstore.open(at(path)).result().read().result())


@pytest.mark.parametrize("codecs", WHOLE)
def test_shards_encoded_as_a_whole(tmp_path, codecs):
    values = with_fill((19, 24))
    (serializer,), compressors = WHOLE[codecs]
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        zarr.create_array(store=str(tmp_path / "theirs"), shape=values.shape, chunks=(8, 20), dtype="float64", serializer=serializer,
                          compressors=compressors or None)[...] = values
        check_shards(tmp_path / "theirs", tmp_path, values, lambda path: zarr.open_array(store=str(path), mode="r")[...])


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


@pytest.mark.parametrize("padding", ["none", "first_byte", "last_byte"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_zarrs_packs_bits(tmp_path, dtype, padding):
    values = values_of(dtype, SHAPE, seed=7)
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}):
        def write(name, chunks=CHUNKS, **more):
            array = zarr.create_array(store=str(tmp_path / name), shape=SHAPE, chunks=chunks, dtype=dtype, compressors=None,
                                      serializer=PackBits.of(padding_encoding=padding, **more))
            array[...] = values
            return array[...]
        same(write("all"), values)
        same(cat(tmp_path / "all", tmp_path), values)
        cuboid("array", "copy", tmp_path / "all", tmp_path / "ours", "--chunks", "3,14")
        assert cuboid("array", "info", tmp_path / "ours", "--json").json["codecs"][0]["name"] == "packbits"
        # Of whole bytes zarrs expects no count of the padding; the codec's description has one, and decides.
        if dtype == "bool" or padding == "none":
            same(zarr.open_array(store=str(tmp_path / "ours"))[...], values)
        same(cat(tmp_path / "ours", tmp_path), values)
        if dtype == "bool":
            return
        # In chunks that are read as a whole: of parts of them, zarrs 0.2.1 leaves the bits where it unpacked them.
        some = write("some", SHAPE, last_bit=6)
        if dtype in ("int8", "uint16", "uint64"):  # of others zarrs 0.2.1 repeats the sign within a byte only, or not at all
            same(cat(tmp_path / "some", tmp_path), some)
            higher = write("higher", SHAPE, first_bit=1, last_bit=7)
            same(cat(tmp_path / "higher", tmp_path), higher)
        assert "read only" in cuboid("array", "copy", tmp_path / "some", tmp_path / "refused", expect=2).err
