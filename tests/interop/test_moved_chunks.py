"""A copy that stores chunks as its source does moves them as they are: the other program's bytes, once they were found to decode."""
import signal

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

from program import cuboid, journaled, killed

VALUES = np.random.default_rng(8).integers(0, 50, (50, 33))  # chunks at both ends are cut
V3 = {
    "gzip": {"compressors": [GzipCodec(level=9)]},
    "zstd, crc32c": {"compressors": [ZstdCodec(level=19), Crc32cCodec()]},
    "blosc": {"compressors": [BloscCodec(cname="zlib", clevel=9, shuffle="bitshuffle")]},
    "transpose, big-endian": {"filters": [TransposeCodec(order=(1, 0))], "serializer": BytesCodec(endian="big"), "compressors": [ZstdCodec()]},
}
V2 = {
    "blosc": {"compressors": numcodecs.Blosc(cname="zstd", clevel=9)},
    "order F, lzma": {"order": "F", "compressors": numcodecs.LZMA()},
}
CASES = [*((2, name) for name in V2), *((3, name) for name in V3)]


def write(path, zarr_format, name, **more):
    options = {**(V2 if zarr_format == 2 else V3)[name], **more}
    array = zarr.create_array(store=str(path), shape=VALUES.shape, chunks=(16, 11), dtype="f8", zarr_format=zarr_format,
                              config={"write_empty_chunks": True}, **options)
    values = VALUES.astype("f8")
    values[:16, :11] = 0  # stored, though all of it is fill
    array[...] = values
    return values


def chunks(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*")
            if file.is_file() and file.name not in ("zarr.json", ".zarray", ".zattrs")}


@pytest.mark.parametrize("zarr_format, name", CASES)
def test_chunks_are_moved_as_they_are(tmp_path, zarr_format, name):
    values = write(tmp_path / "source", zarr_format, name)
    outcome = cuboid("array", "copy", tmp_path / "source", tmp_path / "copy", "--json")
    for stage in outcome.json["stages"]:
        assert 0 < stage["peak_bytes"] <= stage["projected_bytes"]
    source, copy = chunks(tmp_path / "source"), chunks(tmp_path / "copy")
    assert len(source) == 12 and len(copy) == 11  # what is all fill is not stored
    for key, stored in copy.items():
        assert stored == source[key], key
    np.testing.assert_array_equal(zarr.open_array(store=str(tmp_path / "copy"), mode="r")[...], values)


@pytest.mark.parametrize("place", ["2.1", "3.2"])
@pytest.mark.parametrize("zarr_format, name", CASES)
def test_what_does_not_decode_is_not_moved(tmp_path, zarr_format, name, place):
    write(tmp_path / "source", zarr_format, name)
    key = place if zarr_format == 2 else "c/" + place.replace(".", "/")
    chunk = tmp_path / "source" / key
    whole = chunk.read_bytes()
    for damaged in (whole[:-1], whole[:len(whole) // 2], b""):
        chunk.write_bytes(damaged)
        error = cuboid("array", "copy", tmp_path / "source", tmp_path / "copy", "--json", expect=6).json["error"]
        assert error["kind"] == "corrupt" and error["context"]["chunk"] == key, error
        assert error["context"]["array"] == str(tmp_path / "source")
        assert not (tmp_path / "copy" / ("zarr.json" if zarr_format == 3 else ".zarray")).exists()
    # Mended, the same command finishes the copy.
    chunk.write_bytes(whole)
    cuboid("array", "copy", tmp_path / "source", tmp_path / "copy")
    assert chunks(tmp_path / "copy")[key] == whole


@pytest.mark.parametrize("flags", [("--codecs", "zstd"), ("--format", "2"), ("--chunks", "16,33"), ("--shards", "32,33")])
def test_anything_else_is_encoded_anew(tmp_path, flags):
    values = write(tmp_path / "source", 3, "gzip")
    cuboid("array", "copy", tmp_path / "source", tmp_path / "copy", *flags)
    np.testing.assert_array_equal(zarr.open_array(store=str(tmp_path / "copy"), mode="r")[...], values)
    source = chunks(tmp_path / "source").values()
    assert not any(stored in source for stored in chunks(tmp_path / "copy").values())


def test_a_killed_copy_goes_on_to_the_same_bytes(tmp_path):
    values = np.random.default_rng(9).integers(0, 50, (600, 600)).astype("f8")
    zarr.create_array(store=str(tmp_path / "source"), data=values, chunks=(10, 10), compressors=[ZstdCodec(level=9)])
    done = 0
    for blocks in (1, 1000, 7, 2000):  # of 3600
        assert killed(blocks, "array", "copy", tmp_path / "source", tmp_path / "copy").code == -signal.SIGKILL
        done += blocks
        assert sum(journaled(tmp_path / "copy.run").values()) == done
    outcome = cuboid("array", "copy", tmp_path / "source", tmp_path / "copy", "--json")
    assert outcome.total("tasks_reused") == done
    assert chunks(tmp_path / "copy") == chunks(tmp_path / "source")
