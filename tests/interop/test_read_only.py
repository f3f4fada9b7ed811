"""What can be read and not written says so, before anything is written; and is computed on as all else is."""
import json
import zipfile

import numcodecs
import numpy as np
import pytest
import scipy.ndimage
import zarr

import web
from program import cuboid
from test_zarr_python import cat, same

VALUES = np.random.default_rng(9).integers(-99, 99, (9, 11)).astype("f8")


def rectilinear(path):
    """As the extension's description has it: no writer that is at hand makes any."""
    rows, columns = [4, 2, 3], [5, 6]
    path.mkdir()
    (path / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": VALUES.shape, "data_type": "float64", "fill_value": 0,
        "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [rows, columns]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}))
    for i in range(3):
        for j in range(2):
            part = VALUES[sum(rows[:i]):sum(rows[:i + 1]), sum(columns[:j]):sum(columns[:j + 1])]
            (path / f"c/{i}").mkdir(parents=True, exist_ok=True)
            (path / f"c/{i}/{j}").write_bytes(part.astype(">f8").tobytes())


def lossy(path):
    zarr.create_array(store=str(path), shape=VALUES.shape, chunks=(4, 5), dtype="<f8", zarr_format=2, compressors=None,
                      filters=[numcodecs.FixedScaleOffset(offset=0, scale=1, dtype="<f8", astype="<i2")])[...] = VALUES


SOURCES = {"a rectilinear grid": (rectilinear, "--chunks"), "a lossy filter": (lossy, "choose others")}


@pytest.mark.parametrize("name", SOURCES)
def test_forms(tmp_path, name):
    make, way_out = SOURCES[name]
    make(tmp_path / "a")
    same(cat(tmp_path / "a", tmp_path), VALUES)
    same(cat(tmp_path / "a", tmp_path, "--box", "3:8,-7:"), VALUES[3:8, -7:])
    told = cuboid("array", "copy", tmp_path / "a", tmp_path / "b", expect=2).err
    assert "read only" in told and way_out in told
    assert not (tmp_path / "b").exists()
    cuboid("array", "copy", tmp_path / "a", tmp_path / "b", "--chunks", "3,4", "--codecs", "zstd")
    same(zarr.open_array(store=str(tmp_path / "b"))[...], VALUES)
    # In worker processes, which are told what the planner read of the array.
    (tmp_path / "p.yaml").write_text(json.dumps({
        "arrays": {"a": "a"}, "steps": {"s": {"call": "filter.gaussian", "args": ["a"], "params": {"sigma": 1.5}}}, "store": {"s": "s"}}))
    cuboid("run", tmp_path / "p.yaml")
    np.testing.assert_allclose(zarr.open_array(store=str(tmp_path / "s"))[...], scipy.ndimage.gaussian_filter(VALUES, 1.5), 0, 1e-12)


def test_places(tmp_path):
    zarr.create_array(store=str(tmp_path / "a"), shape=VALUES.shape, chunks=(4, 5), dtype="f8")[...] = VALUES
    zarr.create_array(store=str(tmp_path / "texts"), shape=(2,), chunks=(2,), dtype=str)[...] = np.array(["x", "y"], object)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for file in (tmp_path / "a").rglob("*"):
            archive.write(file, "there/" + str(file.relative_to(tmp_path / "a")))
    before = (tmp_path / "z.zip").read_bytes()
    with web.Faulty(tmp_path) as server:
        for place, kind in ((f"{tmp_path}/z.zip/new", "ZIP archives"), (f"{tmp_path}/z.zip/there", "ZIP archives"),
                            (f"{tmp_path}/z.zip", "ZIP archives"), (f"{server.url}/new", "web servers")):
            (tmp_path / "p.yaml").write_text(json.dumps({
                "arrays": {"a": "a"}, "steps": {"n": {"call": "negative", "args": ["a"]}}, "store": {"n": {"path": place, "overwrite": True}}}))
            for command in (["array", "copy", tmp_path / "a", place, "--run-dir", tmp_path / "run"],
                            ["array", "copy", tmp_path / "texts", place],
                            ["array", "copy", tmp_path / "a", place, "--overwrite", "--run-dir", tmp_path / "run"],
                            ["array", "copy", tmp_path / "texts", place, "--overwrite"],
                            ["plan", tmp_path / "p.yaml"], ["run", tmp_path / "p.yaml"]):
                told = cuboid(*command, expect=2).err
                assert f"{kind} are read only" in told and "Write to" in told, (command, told)
    assert (tmp_path / "z.zip").read_bytes() == before
