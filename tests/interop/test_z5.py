"""Arrays exchanged with z5's C++ headers, in a program of their own (z5_peer.cc), and where z5 3.0.2 reads otherwise."""
import hashlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import zarr

from program import ROOT, cuboid
from test_zarr_python import cat, same

SHAPE, CHUNKS, SHARDS = (13, 9, 10), (5, 4, 5), (10, 8, 10)
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
CODECS = [(2, codec, 0) for codec in ("raw", "blosc", "zlib", "bzip2", "zstd")] + [
    (3, codec, shards) for codec in ("raw", "blosc", "gzip", "zstd") for shards in (0, 1)]


@pytest.fixture(scope="module")
def z5():
    """The program, built once from the headers whose hash is pinned."""
    pinned, source = ROOT / "tests/requirements-z5-headers.txt", ROOT / "tests/interop/z5_peer.cc"
    folder = ROOT / "build/venv" / f"z5-{hashlib.sha256(pinned.read_bytes() + source.read_bytes()).hexdigest()[:12]}"
    program = folder / "z5_peer"
    if not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary",
                        "z5py", "--require-hashes", "-r", pinned, "-d", folder], check=True)
        subprocess.run(["tar", "-xzf", next(folder.glob("*.tar.gz")), "-C", folder, "--strip-components=1"], check=True)
        libraries = ("blosc", "z", "bz2", "zstd", "lz4", "pthread")
        with_codecs = (f"-DWITH_{name}" for name in ("BLOSC", "ZLIB", "BZIP2", "ZSTD", "LZ4"))
        subprocess.run(["g++", "-std=c++20", "-O1", "-w", "-isystem", folder / "include", *with_codecs, source, "-o",
                        folder / "building", *(f"-l{name}" for name in libraries)], check=True)
        (folder / "building").rename(program)
    return program


def values_of(dtype, seed):
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1e3, SHAPE) if dtype[0] == "f" else rng.integers(0, 100, SHAPE)).astype(dtype)


def read(z5, folder, key, dtype):
    done = subprocess.run([z5, "read", folder, key], check=True, stdout=subprocess.PIPE)
    return np.frombuffer(done.stdout, dtype).reshape(SHAPE)


@pytest.mark.parametrize("zarr_format, codec, shards", CODECS)
def test_both_ways(tmp_path, z5, zarr_format, codec, shards):
    for seed, dtype in enumerate(DTYPES):
        values, folder = values_of(dtype, seed), tmp_path / "z5.zarr"
        subprocess.run([z5, "write", folder, dtype, str(zarr_format), dtype, codec, str(shards)], check=True, input=values.tobytes())
        same(cat(folder / dtype, tmp_path), values)
        cuboid("array", "copy", folder / dtype, folder / f"{dtype}.kept")  # beside the original: in z5's file
        same(read(z5, folder, f"{dtype}.kept", dtype), values)
    other = ["--format", 5 - zarr_format, "--codecs", "zstd"] if zarr_format == 2 or not shards else ["--shards", "15,8,5"]
    cuboid("array", "copy", folder / "float64", folder / "other", *other)
    same(zarr.open_array(store=str(folder / "other"), mode="r")[...], values)


# What z5 3.0.2 reads wrongly where others read right: pinned, so that a fix is seen.

def test_z5_sees_no_chunks_without_a_group_above(tmp_path, z5):
    values = values_of("int32", 1)
    zarr.create_array(store=str(tmp_path / "a"), data=values, chunks=CHUNKS)
    assert not read(z5, tmp_path, "a", "int32").any()
    same(cat(tmp_path / "a", tmp_path), values)
    zarr.create_group(store=str(tmp_path), overwrite=False)
    same(read(z5, tmp_path, "a", "int32"), values)


def test_z5_does_not_swap_bytes_in_format_3(tmp_path, z5):
    values = values_of("int32", 2)
    zarr.create_group(store=str(tmp_path))
    zarr.create_array(store=str(tmp_path / "a"), shape=SHAPE, chunks=CHUNKS, dtype="int32", compressors=None,
                      serializer=zarr.codecs.BytesCodec(endian="big"))[...] = values
    same(read(z5, tmp_path, "a", "int32").byteswap(), values)
    same(cat(tmp_path / "a", tmp_path), values)
