"""The catalogue equals what an independent NumPy and SciPy computation finds on the whole image."""
import itertools

import numpy as np
import pytest

import arrays
import pipelines
import reference
from program import DATA, cuboid

WHOLE = (872, 1000)
CHUNKS = {"256x256": (256, 256), "100x333": (100, 333), "whole": WHOLE}


@pytest.fixture(scope="module")
def image():
    return arrays.read(DATA / "hubble_deep_field.zarr")


@pytest.fixture(scope="module", params=list(itertools.product(CHUNKS, (2, 3))), ids=lambda p: f"{p[0]}-v{p[1]}")
def rechunked(request, image, tmp_path_factory):
    """The image with chunks and format of the run, and a place to keep the bytes of its first run."""
    chunks, zarr_format = request.param
    path = tmp_path_factory.mktemp("input") / "image.zarr"
    arrays.write(path, image, (*CHUNKS[chunks], 3), zarr_format)
    return path, CHUNKS[chunks], zarr_format, {}


@pytest.mark.parametrize("memory", ["64MiB", "1GiB"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_equals_reference(rechunked, image, tmp_path, workers, memory):
    path, chunks, zarr_format, first = rechunked
    pipeline = pipelines.catalogue(tmp_path, path, zarr_format=zarr_format)
    outcome = cuboid("run", pipeline, "--workers", workers, "--memory", memory, "--json")

    smooth = arrays.read(tmp_path / "out/smooth.zarr")
    np.testing.assert_allclose(smooth, reference.gaussian(image.mean(axis=2), 1.5), rtol=1e-12, atol=1e-12)
    rows = arrays.read(tmp_path / "out/sources.zarr")
    expected = reference.sources(smooth, 30, 5)
    assert len(expected) > 500  # the image is full of them
    reference.assert_same_catalogue(rows, expected)

    assert arrays.metadata(tmp_path / "out/smooth.zarr")["zarr_format"] == zarr_format
    for stage in outcome.json["stages"]:
        assert stage["tasks_done"] == stage["tasks"] and stage["parked"] == 0
        assert stage["peak_bytes"] is None or stage["peak_bytes"] <= stage["allowed_bytes"]
    # Workers and memory change nothing, not even the order of rows.
    np.testing.assert_array_equal(rows, first.setdefault("rows", rows))
    np.testing.assert_array_equal(smooth, first.setdefault("smooth", smooth))


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_chunks_of_steps(image, tmp_path, chunks):
    pipeline = pipelines.catalogue(tmp_path, DATA / "hubble_deep_field.zarr", chunks=chunks)
    cuboid("run", pipeline, "--workers", 2)
    smooth = arrays.read(tmp_path / "out/smooth.zarr")
    assert tuple(arrays.metadata(tmp_path / "out/smooth.zarr")["chunk_grid"]["configuration"]["chunk_shape"]) == chunks
    np.testing.assert_allclose(smooth, reference.gaussian(image.mean(axis=2), 1.5), rtol=1e-12, atol=1e-12)
    reference.assert_same_catalogue(arrays.read(tmp_path / "out/sources.zarr"), reference.sources(smooth, 30, 5))


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8"])
@pytest.mark.parametrize("seed", range(3))
def test_sources_at_borders_of_blocks(tmp_path, seed, dtype):
    """Peaks within the halo of a border, on it, at corners, and plateaus of equal pixels across it: each found once."""
    rng = np.random.default_rng(seed)
    field = rng.integers(0, 40, (97, 131)).astype(np.float64)
    block, radius = 32, 4
    for y in range(0, 97, block // 2):
        for x in range(0, 131, block // 2):
            dy, dx = rng.integers(-radius, radius + 1, 2)
            field[np.clip(y + dy, 0, 96), np.clip(x + dx, 0, 130)] = rng.integers(100, 200)
    field[30:34, 30:34] = 220     # a plateau over four blocks: its first pixel is the source
    field[63, 0:131] = 210        # a ridge along a border
    field[0, 0] = field[96, 130] = field[0, 130] = 230
    field = field.astype(dtype)
    arrays.write(tmp_path / "field.zarr", field, (block, block))
    pipeline = pipelines.write(
        tmp_path, arrays={"field": "field.zarr"},
        steps={"sources": {"call": "sky.sources", "args": ["field"], "params": {"threshold": 50, "radius": radius}}},
        store={"sources": "out/sources.zarr"})
    cuboid("run", pipeline, "--workers", 2)
    expected = reference.sources(field, 50, radius)
    assert len(expected) >= 20
    reference.assert_same_catalogue(arrays.read(tmp_path / "out/sources.zarr"), expected)


def test_no_source_gives_an_empty_table(tmp_path):
    arrays.write(tmp_path / "field.zarr", np.zeros((40, 40)), (16, 16))
    pipeline = pipelines.write(
        tmp_path, arrays={"field": "field.zarr"},
        steps={"sources": {"call": "sky.sources", "args": ["field"], "params": {"threshold": 1, "radius": 2}}},
        store={"sources": "out/sources.zarr"})
    cuboid("run", pipeline)
    assert arrays.read(tmp_path / "out/sources.zarr").shape == (0, 6)


def test_second_run_has_nothing_to_do(tmp_path):
    pipeline = pipelines.catalogue(tmp_path, DATA / "hubble_deep_field.zarr")
    cuboid("run", pipeline)
    again = cuboid("run", pipeline)
    assert "nothing to do" in again.out
    told = cuboid("run", pipeline, "--json")
    assert told.json["status"] == "done" and told.total("attempts") == 0
