"""Runs beside z5py and zarrita.   write FOLDER: arrays and what is in them.   check FOLDER: reads their copies."""
import itertools
import json
import pathlib
import sys

import numpy as np
import z5py
import zarrita

SHAPE, CHUNKS = (13, 9, 10), (5, 4, 5)
Z5 = [(2, compression, None) for compression in ("raw", "blosc", "zlib", "bzip2")] + [
    (3, compression, shards) for compression in ("raw", "blosc", "gzip", "zstd") for shards in (None, (10, 8, 10))]
ZARRITA = {"plain": lambda: [zarrita.codecs.bytes_codec()], "big": lambda: [zarrita.codecs.bytes_codec("big")],
           "turned": lambda: [zarrita.codecs.transpose_codec((2, 0, 1)), zarrita.codecs.bytes_codec(), zarrita.codecs.blosc_codec(typesize=4)],
           "zstd-crc": lambda: [zarrita.codecs.bytes_codec(), zarrita.codecs.zstd_codec(), zarrita.codecs.crc32c_codec()],
           "sharded": lambda: [zarrita.codecs.sharding_codec((5, 4, 5), [zarrita.codecs.bytes_codec(), zarrita.codecs.gzip_codec()])]}
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint64", "float32", "float64"]


def z5_file(folder, zarr_format):
    return z5py.ZarrFile(str(folder / f"z5-{zarr_format}.zarr"), "a", zarr_format=zarr_format)


def values_of(dtype, seed):
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1e3, SHAPE) if dtype[0] == "f" else rng.integers(0, 100, SHAPE)).astype(dtype)


def write(folder):
    names = []
    for (zarr_format, compression, shards), dtype in itertools.product(Z5, DTYPES):
        name = f"{compression}-{'shards' if shards else 'chunks'}-{dtype}"
        values = values_of(dtype, len(names))
        z5_file(folder, zarr_format).create_dataset(name, data=values, chunks=CHUNKS, compression=compression,
                                                    **({"shards": shards} if shards else {}))
        names.append(f"z5-{zarr_format}.zarr/{name}")
        np.save(folder / (names[-1].replace("/", "+") + ".npy"), values)
    for kind, dtype in itertools.product(ZARRITA, ("int32", "float32")):
        name = f"zarrita-{kind}-{dtype}"
        values = values_of(dtype, len(names))
        array = zarrita.Array.create(zarrita.LocalStore(folder) / name, shape=SHAPE, dtype=dtype, codecs=ZARRITA[kind](),
                                     chunk_shape=(10, 8, 10) if kind == "sharded" else CHUNKS, fill_value=0)
        array[:, :, :] = values
        names.append(name)
        np.save(folder / (name + ".npy"), values)
    print(json.dumps(names))


def check(folder):
    """Copies stand beside the originals: NAME.copy."""
    checked = 0
    for path in sorted(folder.glob("*.npy")):
        name, expected = path.stem.replace("+", "/"), np.load(path)
        if name.startswith("z5"):
            group, member = name.split("/")
            read = z5py.ZarrFile(str(folder / group), "r", zarr_format=int(group[3]))[member + ".copy"][:]
        else:
            read = zarrita.Array.open(zarrita.LocalStore(folder) / (name + ".copy"))[:, :, :]
        assert read.dtype == expected.dtype and np.array_equal(read, expected), name
        checked += 1
    print(checked)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
