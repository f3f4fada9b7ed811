"""Arrays exchanged with implementations in other languages: tensorstore (C++) and zarrs (Rust, as zarr-python's codecs)."""
import itertools

import numpy as np
import pytest
import tensorstore
import zarr
import zarrs  # noqa: F401  (registers its pipeline)

from program import cuboid
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
