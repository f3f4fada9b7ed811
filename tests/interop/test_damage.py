"""A flipped bit anywhere in what is stored, where a checksum covers it: an error that says where, never a wrong number."""
import json

import numpy as np
import pytest
import zarr

from program import cuboid
from test_zarr_python import cat, same

VALUES = np.random.default_rng(5).integers(0, 2000, (24, 36), dtype="i4")
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
BLOSC = {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}}
FORMS = {
    "as they are": [LITTLE, "crc32c"],
    "zstd": [LITTLE, ZSTD, "crc32c"],
    "blosc": [LITTLE, BLOSC, "crc32c"],
    "shards": [LITTLE, ZSTD, "crc32c"],  # whose index has a checksum of its own
}


@pytest.mark.parametrize("form", FORMS)
def test_every_flipped_bit_is_found(tmp_path, form):
    zarr.create_array(store=str(tmp_path / "source"), shape=VALUES.shape, chunks=(12, 12), dtype="i4")[...] = VALUES
    path = tmp_path / "ours"
    cuboid("array", "copy", tmp_path / "source", path, "--codecs", json.dumps([c if isinstance(c, dict) else {"name": c} for c in FORMS[form]]),
           *(["--chunks", "6,6", "--shards", "12,12"] if form == "shards" else []))
    same(cat(path, tmp_path), VALUES)
    (tmp_path / "p.yaml").write_text(json.dumps({
        "arrays": {"a": str(path)}, "steps": {"b": {"call": "mean", "args": ["a"], "params": {"axis": 0}}}, "store": {"b": "mean"}}))
    chunk = path / "c/1/2"
    whole = chunk.read_bytes()
    rng = np.random.default_rng(len(whole))
    bits = {0, 7, 8 * len(whole) - 1, *rng.integers(0, 8 * len(whole), 24).tolist()}
    if form == "shards":  # in its index
        bits |= set(rng.integers(8 * (len(whole) - 4 * 16 - 4), 8 * len(whole), 8).tolist())
    for number, bit in enumerate(sorted(bits)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        chunk.write_bytes(damaged)
        commands = [["array", "cat", path]]
        if number % 6 == 0:
            commands += [["array", "copy", path, tmp_path / "copy", "--chunks", "8,8", "--shards", "none"], ["run", tmp_path / "p.yaml", "--fresh"]]
        for command in commands:
            error = cuboid(*command, "--json", expect=6).json["error"]
            assert error["kind"] == "corrupt" and error["context"]["array"] == str(path), (bit, error)
            assert error["context"]["chunk"].startswith("c/1/2"), (bit, error)
        assert not (tmp_path / "copy/zarr.json").exists() and not (tmp_path / "mean/zarr.json").exists()
        told = cuboid(*commands[-1], expect=6).err
        assert str(path) in told and "c/1/2" in told
    chunk.write_bytes(whole)
    cuboid("run", tmp_path / "p.yaml")
    same(zarr.open_array(store=str(tmp_path / "mean"))[...], VALUES.mean(0))
