"""Runs under zarr-python 2.   zarr2.py write DIR: arrays and what is in them.   zarr2.py check DIR: reads their copies."""
import json
import pathlib
import sys

import numcodecs
import numpy as np
import zarr

assert zarr.__version__.startswith("2."), zarr.__version__

COMPRESSORS = {"none": None, "blosc": numcodecs.Blosc("lz4", 5, 1), "zstd": numcodecs.Zstd(1), "gzip": numcodecs.GZip(1)}
DTYPES = ["?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16"]


def write(folder):
    names = []
    rng = np.random.default_rng(3)
    for k, dtype in enumerate(DTYPES):
        for order in "CF":
            for compressor in list(COMPRESSORS)[k % 2::2]:
                name = f"a{k}{order}{compressor}"
                values = (rng.normal(0, 50, (11, 7)) * 2).astype(np.dtype(dtype).newbyteorder("="))
                array = zarr.open_array(str(folder / f"{name}.zarr"), mode="w", shape=values.shape, chunks=(4, 3), dtype=dtype,
                                        order=order, compressor=COMPRESSORS[compressor], fill_value=0)
                array[...] = values
                np.save(folder / f"{name}.npy", values)
                names.append(name)
    print(json.dumps(names))


def check(folder):
    for path in sorted(folder.glob("*.copy")):
        copied, expected = zarr.open_array(str(path), mode="r"), np.load(path.with_suffix(".npy"))
        original = zarr.open_array(str(path.with_suffix(".zarr")), mode="r")
        assert np.array_equal(copied[...], expected), path
        assert (copied.dtype, copied.order, copied.chunks) == (original.dtype, original.order, original.chunks), path


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
