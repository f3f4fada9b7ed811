"""Arrays exchanged with zarr-python 3, in both formats: it writes and the program reads; the program writes and it reads."""
import itertools
import json
import subprocess

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as v3

from program import ROOT, cuboid

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64",
          "complex64", "complex128"]
CODECS_V3 = {
    "none": None,
    "blosc-lz4": lambda: [v3.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")],
    "blosc-lz4hc-bit": lambda: [v3.BloscCodec(cname="lz4hc", clevel=9, shuffle="bitshuffle")],
    "blosc-zstd": lambda: [v3.BloscCodec(cname="zstd", clevel=1, shuffle="noshuffle")],
    "blosc-zlib": lambda: [v3.BloscCodec(cname="zlib", clevel=3, shuffle="shuffle")],
    "blosclz": lambda: [v3.BloscCodec(cname="blosclz", clevel=5, shuffle="shuffle")],
    "zstd": lambda: [v3.ZstdCodec(level=3, checksum=False)],
    "zstd-checksum": lambda: [v3.ZstdCodec(level=1, checksum=True)],
    "gzip": lambda: [v3.GzipCodec(level=6)],
    "crc32c": lambda: [v3.Crc32cCodec()],
    "zstd-crc32c": lambda: [v3.ZstdCodec(level=1), v3.Crc32cCodec()],
}
CODECS_V2 = {
    "none": None,
    "blosc-lz4": lambda: numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE),
    "blosc-zstd-auto": lambda: numcodecs.Blosc("zstd", 3, numcodecs.Blosc.AUTOSHUFFLE),
    "zstd": lambda: numcodecs.Zstd(3),
    "gzip": lambda: numcodecs.GZip(5),
    "zlib": lambda: numcodecs.Zlib(5),
}


def values_of(dtype, shape, seed):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        values.flat[:2] = limits.min, limits.max
        return values
    values = rng.normal(0, 1e3, shape).astype(dtype)
    values.flat[:5] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).tiny]
    if dtype.kind == "c":
        values = (values + 1j * rng.normal(0, 1, shape)).astype(dtype)
    return values


def same(a, b):
    """Bit for bit, payloads of NaN and signs of zero included."""
    assert a.dtype == b.dtype and a.shape == b.shape
    assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def cat(path, tmp_path, *flags):
    cuboid("array", "cat", path, "--npy", tmp_path / "cat.npy", *flags)
    return np.load(tmp_path / "cat.npy")


def fill_of(dtype):
    return {"b": True, "i": -7, "u": 7, "f": np.nan, "c": complex(1, -2)}[np.dtype(dtype).kind]


def cases():
    """Every element type with every byte order and axis order; every codec with several element types."""
    shapes = [((13, 9, 5), (5, 4, 5)), ((40,), (16,)), ((12, 12), (12, 12))]
    for k, (dtype, endian, turned) in enumerate(itertools.product(DTYPES, ("little", "big"), (False, True))):
        codec = list(CODECS_V3)[k % len(CODECS_V3)]
        yield 3, dtype, endian, turned, codec, *shapes[k % 3]
        yield 2, dtype, endian, turned, list(CODECS_V2)[k % len(CODECS_V2)], *shapes[(k + 1) % 3]
    for zarr_format, codecs in ((3, CODECS_V3), (2, CODECS_V2)):
        for codec, dtype in itertools.product(codecs, ("uint8", "int16", "float64")):
            yield zarr_format, dtype, "little", False, codec, *shapes[0]


def write(path, case, values, drop_chunk=False, **more):
    zarr_format, dtype, endian, turned, codec, shape, chunks = case
    options = dict(store=str(path), shape=shape, chunks=chunks, zarr_format=zarr_format, fill_value=fill_of(dtype), **more)
    if zarr_format == 3:
        order = tuple(reversed(range(len(shape))))
        one_byte = np.dtype(dtype).itemsize == 1
        array = zarr.create_array(
            dtype=dtype, compressors=CODECS_V3[codec] and CODECS_V3[codec](),
            filters=[v3.TransposeCodec(order=order)] if turned else None,
            serializer=v3.BytesCodec(endian=None if one_byte else endian), **options)
    else:
        mark = {"little": "<", "big": ">"}[endian]
        array = zarr.create_array(
            dtype=np.dtype(dtype).newbyteorder(mark), order="F" if turned else "C",
            compressors=CODECS_V2[codec] and CODECS_V2[codec](), **options)
    array[...] = values
    return array


@pytest.mark.parametrize("case", cases(), ids=lambda c: "v{}-{}-{}-{}-{}-{}d".format(
    c[0], c[1], c[2], "turned" if c[3] else "straight", c[4], len(c[5])))
def test_exchange(tmp_path, case):
    zarr_format, dtype, _, _, _, shape, chunks = case
    values = values_of(dtype, shape, seed=1)
    write(tmp_path / "theirs.zarr", case, values, attributes={"title": "a test", "n": 3})

    same(cat(tmp_path / "theirs.zarr", tmp_path), values)
    told = cuboid("array", "info", tmp_path / "theirs.zarr", "--json").json
    assert told["zarr_format"] == zarr_format and told["dtype"] == dtype
    assert told["shape"] == list(shape) and told["chunks"] == list(chunks)
    assert told["attributes"] == {"title": "a test", "n": 3}

    # A copy keeps all that is not stated; other chunks, another format.
    cuboid("array", "copy", tmp_path / "theirs.zarr", tmp_path / "ours.zarr")
    ours = zarr.open_array(store=str(tmp_path / "ours.zarr"), mode="r")
    same(ours[...].astype(dtype), values)
    assert ours.metadata.zarr_format == zarr_format and ours.chunks == chunks
    assert dict(ours.attrs)["title"] == "a test"
    assert np.array_equal(ours.fill_value, fill_of(dtype), equal_nan=np.dtype(dtype).kind in "fc")
    other = 5 - zarr_format
    smaller = ",".join(str(max(1, extent // 2)) for extent in chunks)
    compressed = ["--codecs", "zstd"] if "crc32c" in case[4] else []  # which is no codec of format 2
    cuboid("array", "copy", tmp_path / "theirs.zarr", tmp_path / "other.zarr", "--format", other, "--chunks", smaller,
           *compressed)
    theirs = zarr.open_array(store=str(tmp_path / "other.zarr"), mode="r")
    same(theirs[...].astype(dtype), values)
    assert theirs.metadata.zarr_format == other


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_chunks_that_are_not_there_are_fill(tmp_path, zarr_format, dtype):
    case = (zarr_format, dtype, "little", False, "none", (20, 30), (8, 8))
    values = np.full((20, 30), fill_of(dtype), dtype)
    array = write(tmp_path / "a.zarr", case, values)
    part = values_of(dtype, (8, 8), seed=2)
    array[8:16, 8:16] = values[8:16, 8:16] = part
    assert cuboid("array", "info", tmp_path / "a.zarr", "--json").json["chunks_stored"] == 1
    same(cat(tmp_path / "a.zarr", tmp_path), values)
    same(cat(tmp_path / "a.zarr", tmp_path, "--box", "5:17,29"), values[5:17, 29])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shape, chunks", [((), ()), ((0,), (4,)), ((3, 0, 2), (2, 1, 2)), ((1, 1), (1, 1)), ((7,), (100,))])
def test_odd_shapes(tmp_path, zarr_format, shape, chunks):
    values = np.arange(np.prod(shape, dtype=int), dtype="float64").reshape(shape)
    array = zarr.create_array(store=str(tmp_path / "a.zarr"), shape=shape, chunks=chunks, dtype="float64",
                              zarr_format=zarr_format)
    array[...] = values
    same(cat(tmp_path / "a.zarr", tmp_path), values)
    cuboid("array", "copy", tmp_path / "a.zarr", tmp_path / "b.zarr")
    same(zarr.open_array(store=str(tmp_path / "b.zarr"), mode="r")[...], values)


def test_dimension_names_and_separators(tmp_path):
    zarr.create_array(store=str(tmp_path / "a.zarr"), shape=(4, 6), chunks=(2, 3), dtype="int16", dimension_names=["y", "x"],
                      chunk_key_encoding={"name": "v2", "separator": "."})[...] = np.arange(24).reshape(4, 6)
    told = cuboid("array", "info", tmp_path / "a.zarr", "--json").json
    assert told["dimension_names"] == ["y", "x"]
    same(cat(tmp_path / "a.zarr", tmp_path), np.arange(24, dtype="int16").reshape(4, 6))
    zarr.create_array(store=str(tmp_path / "b.zarr"), shape=(4, 6), chunks=(2, 3), dtype="int16", zarr_format=2,
                      chunk_key_encoding={"name": "v2", "separator": "/"})[...] = np.arange(24).reshape(4, 6)
    same(cat(tmp_path / "b.zarr", tmp_path), np.arange(24, dtype="int16").reshape(4, 6))


def test_exact_integers_in_json(tmp_path):
    values = np.array([2**63 - 1, -2**63, 2**53 + 1], "int64")
    zarr.create_array(store=str(tmp_path / "a.zarr"), shape=(3,), chunks=(3,), dtype="int64")[...] = values
    assert cuboid("array", "cat", tmp_path / "a.zarr", "--json").json == {
        "shape": [3], "dtype": "int64", "data": values.tolist()}
    zarr.create_array(store=str(tmp_path / "b.zarr"), shape=(4,), chunks=(4,), dtype="float64")[...] = [
        np.nan, np.inf, -np.inf, 0.1]
    assert cuboid("array", "cat", tmp_path / "b.zarr", "--json").json["data"] == ["NaN", "Infinity", "-Infinity", 0.1]


def test_zarr_python_2_reads_and_writes(tmp_path):
    """The last of the 2 series, in an environment of its own."""
    venv = subprocess.run([ROOT / "scripts/venv", ROOT / "tests/requirements-zarr2.txt"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    theirs = [f"{venv}/bin/python", ROOT / "tests/interop/zarr2.py"]
    written = json.loads(subprocess.run([*theirs, "write", tmp_path], check=True, text=True, stdout=subprocess.PIPE).stdout)
    assert len(written) > 30
    for name in written:
        same(cat(tmp_path / f"{name}.zarr", tmp_path), np.load(tmp_path / f"{name}.npy"))
        cuboid("array", "copy", tmp_path / f"{name}.zarr", tmp_path / f"{name}.copy")
    subprocess.run([*theirs, "check", tmp_path], check=True)
