"""Zarr arrays that tests make and read, with zarr-python: never with the program under test."""
import json
import os
import pathlib
import shutil

import numpy as np
import zarr


def write(path, values, chunks=None, zarr_format=3, **options):
    values = np.asarray(values)
    array = zarr.create_array(store=str(path), shape=values.shape, dtype=values.dtype,
                              chunks=tuple(chunks) if chunks is not None else values.shape, zarr_format=zarr_format,
                              **options)
    array[...] = values
    return pathlib.Path(path)


def read(path):
    return zarr.open_array(store=str(path), mode="r")[...]


def mosaic(path, tile, repeats):
    """An array of `tile` repeated, one tile a chunk, made of one chunk file and links to it: large at once."""
    shape = tuple(extent * count for extent, count in zip(tile.shape, repeats))
    zarr.create_array(store=str(path), shape=shape, dtype=tile.dtype, chunks=tile.shape, zarr_format=3,
                      compressors=zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"))
    seed = path.with_suffix(".tile")
    one = write(seed, tile, zarr_format=3,
                compressors=zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"))
    source = one.joinpath("c", *["0"] * tile.ndim)
    for index in np.ndindex(*repeats):
        chunk = path.joinpath("c", *map(str, index))
        chunk.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, chunk)
    shutil.rmtree(seed)
    return path


def metadata(path):
    path = pathlib.Path(path)
    for name in ("zarr.json", ".zarray"):
        if (path / name).exists():
            return json.loads((path / name).read_text())
    raise FileNotFoundError(path)
