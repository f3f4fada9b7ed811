"""Strings and bytes of any length, as zarr-python 3 and 2 write and read them: shown and copied, not computed on."""
import base64
import json
import subprocess

import numpy as np
import pytest
import zarr
import zarr.codecs as v3
from zarr.core.dtype import VariableLengthBytes

from program import MemoryWatch, ROOT, cuboid, finish, start

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = np.array([["a", "h€é", "", "x" * 70000], ["\"quoted\"\n", "q", "tab\t", "日本"], ["", "", "", ""], ["z", "y", "x", "w"],
                  ["1", "2", "3", "4"]], object)
BYTES = np.array([[t.encode() + b"\xff\0" for t in row] for row in TEXTS], object)
COMPRESSORS = {3: {"none": None, "zstd": v3.ZstdCodec(level=1), "gzip": v3.GzipCodec(level=1), "blosc": v3.BloscCodec(typesize=1)},
               2: {"none": None, "zstd": "auto"}}


def write(path, values, dtype, zarr_format, compressors, **more):
    array = zarr.create_array(store=str(path), shape=values.shape, chunks=(2, 3), dtype=dtype, zarr_format=zarr_format,
                              compressors=compressors, attributes={"unit": "none"}, **more)
    array[...] = values
    return path


def shown(values):
    return [base64.b64encode(v).decode() if isinstance(v, bytes) else v for v in values.reshape(-1).tolist()]


@pytest.mark.parametrize("zarr_format, compressor", [(f, c) for f in COMPRESSORS for c in COMPRESSORS[f]])
@pytest.mark.parametrize("values, dtype, name", [(TEXTS, str, "string"), (BYTES, VariableLengthBytes(), "variable_length_bytes")],
                         ids=["text", "bytes"])
def test_strings_of_any_length(tmp_path, zarr_format, compressor, values, dtype, name):
    path = write(tmp_path / "h/a", values, dtype, zarr_format, COMPRESSORS[zarr_format][compressor])
    assert cuboid("array", "cat", path, "--json").json == {"shape": [5, 4], "dtype": name, "data": shown(values)}
    assert cuboid("array", "cat", path, "--json", "--box", "::-2,-1:0:-1").json["data"] == shown(values[::-2, -1:0:-1])
    assert cuboid("array", "cat", path, "--json", "--box", "1,2").json["data"] == shown(values[1, 2:3])
    info = cuboid("array", "info", path, "--json").json
    assert (info["dtype"], info["shape"], info["chunks"], info["bytes"]) == (name, [5, 4], [2, 3], None)
    assert info["attributes"] == {"unit": "none"} and info["fill_value"] == "" and info["chunks_stored"] > 0
    assert name in cuboid("array", "info", path).out
    node = cuboid("array", "ls", tmp_path / "h", "--json").json["nodes"][-1]
    assert (node["path"], node["dtype"], node["shape"]) == ("a", name, [5, 4])


def test_plain_text_has_a_line_a_row(tmp_path):
    path = write(tmp_path / "a", TEXTS[1:4], str, 3, None)
    assert cuboid("array", "cat", path).out == '"\\"quoted\\"\\n" "q" "tab\\t" "日本"\n"" "" "" ""\n"z" "y" "x" "w"\n'


def test_missing_chunks_are_fill(tmp_path):
    zarr.create_array(store=str(tmp_path / "a"), shape=(3,), chunks=(2,), dtype=str, fill_value="none")
    assert cuboid("array", "cat", tmp_path / "a", "--json").json["data"] == ["none"] * 3


def test_they_are_not_computed_on(tmp_path):
    write(tmp_path / "a", TEXTS, str, 3, None)
    write(tmp_path / "b", TEXTS, str, 2, None)
    for name in "ab":
        (tmp_path / "p.yaml").write_text(json.dumps({"arrays": {"a": name}, "steps": {}, "store": {"a": "out"}}))
        assert "not computed on" in cuboid("plan", tmp_path / "p.yaml", expect=2).err
    assert "--json" in cuboid("array", "cat", tmp_path / "a", "--npy", tmp_path / "a.npy", expect=2).err


def test_damage_is_an_error(tmp_path):
    path = write(tmp_path / "a", TEXTS, str, 3, None)
    chunk = path / "c/0/0"
    whole = chunk.read_bytes()
    for damaged in (b"", whole[:3], whole[:-1], whole + b"x", b"\xff" * 4 + whole[4:], whole[:4] + b"\xff" * 4 + whole[8:]):
        chunk.write_bytes(damaged)
        assert "c/0/0" in cuboid("array", "cat", path, expect=6).err
    zarr.create_array(store=str(tmp_path / "z"), shape=(2,), chunks=(2,), dtype=str)[...] = np.array(["ab", "c"], object)
    (tmp_path / "z/c/0").write_bytes((tmp_path / "z/c/0").read_bytes()[:-3])
    assert "zstd" in cuboid("array", "cat", tmp_path / "z", expect=6).err


@pytest.mark.parametrize("options", [[], ["--chunks", "5,4"], ["--chunks", "1,1", "--codecs", "zstd"], ["--chunks", "3,2", "--codecs", "none"]],
                         ids=["as it is", "one chunk", "elements", "other chunks"])
@pytest.mark.parametrize("theirs, ours", [(2, 2), (2, 3), (3, 2), (3, 3)])
@pytest.mark.parametrize("values, dtype", [(TEXTS, str), (BYTES, VariableLengthBytes())], ids=["text", "bytes"])
def test_copies(tmp_path, values, dtype, theirs, ours, options):
    source = zarr.open_array(store=str(write(tmp_path / "a", values, dtype, theirs, COMPRESSORS[theirs]["zstd"])))
    cuboid("array", "copy", tmp_path / "a", tmp_path / "b", "--format", ours, *options)
    copy = zarr.open_array(store=str(tmp_path / "b"), mode="r")
    assert (copy[...] == source[...]).all() and (source[...] == values).all()
    assert copy.metadata.zarr_format == ours and dict(copy.attrs) == {"unit": "none"}
    assert copy.chunks == (tuple(map(int, options[1].split(","))) if options else (2, 3))
    assert copy.fill_value == source.fill_value
    if ours == theirs and not options:  # byte for byte, where the compressor is the same
        keys = sorted(str(p.relative_to(tmp_path / "a")) for p in (tmp_path / "a").rglob("*") if p.is_file() and p.name[:1] not in ".z")
        assert keys and all((tmp_path / "b" / k).read_bytes() == (tmp_path / "a" / k).read_bytes() for k in keys)
    assert cuboid("array", "cat", tmp_path / "b", "--json").json["data"] == shown(values)


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize("transposed", [False, True])
def test_shards(tmp_path, transposed, place):
    """Read, and copied to chunks by themselves."""
    array = zarr.create_array(store=str(tmp_path / "a"), shape=TEXTS.shape, chunks=(2, 1), dtype=str, fill_value="",
                              shards={"shape": (4, 3), "index_location": place},
                              filters=[v3.TransposeCodec(order=(1, 0))] if transposed else None)
    array[...] = TEXTS
    assert cuboid("array", "cat", tmp_path / "a", "--json").json["data"] == shown(TEXTS)
    info = cuboid("array", "info", tmp_path / "a", "--json").json
    assert (info["chunks"], info["shards"]) == ([2, 1], [4, 3])
    assert "--shards none" in cuboid("array", "copy", tmp_path / "a", tmp_path / "b", expect=2).err
    cuboid("array", "copy", tmp_path / "a", tmp_path / "b", "--shards", "none")
    cuboid("array", "copy", tmp_path / "a", tmp_path / "c", "--shards", "none", "--chunks", "3,4", "--format", 2, "--codecs", "zstd")
    for name, chunks in (("b", (2, 1)), ("c", (3, 4))):
        copy = zarr.open_array(store=str(tmp_path / name), mode="r")
        assert (copy[...] == TEXTS).all() and copy.chunks == chunks and copy.shards is None
    shard = tmp_path / "a/c/0/0"
    whole = shard.read_bytes()
    at = 9 if place == "start" else len(whole) - 9  # in the index
    for damaged in (b"", whole[:20], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:]):
        shard.write_bytes(damaged)
        assert "c/0/0" in cuboid("array", "cat", tmp_path / "a", expect=6).err


@pytest.mark.parametrize("codecs", ["blosc-zstd", "gzip", '["vlen-utf8", "crc32c"]', '["bytes", {"name": "gzip", "configuration": {"level": 1}}, "crc32c"]',
                                    '[{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"]'])
def test_copies_in_other_codecs(tmp_path, codecs):
    write(tmp_path / "a", TEXTS, str, 3, None)
    cuboid("array", "copy", tmp_path / "a", tmp_path / "b", "--codecs", codecs, "--chunks", "2,3")
    assert (zarr.open_array(store=str(tmp_path / "b"), mode="r")[...] == TEXTS).all()
    assert cuboid("array", "cat", tmp_path / "b", "--json").json["data"] == shown(TEXTS)
    if "crc32c" in codecs:
        chunk = tmp_path / "b/c/0/0"
        whole = chunk.read_bytes()
        chunk.write_bytes(whole[:-9] + bytes([whole[-9] ^ 2]) + whole[-8:])
        assert "c/0/0" in cuboid("array", "cat", tmp_path / "b", expect=6).err


def test_copies_leave_out_what_is_fill(tmp_path):
    array = zarr.create_array(store=str(tmp_path / "a"), shape=(7,), chunks=(2,), dtype=str, fill_value="none")
    array[3:5] = np.array(["x", "y"], object)
    for ours in (2, 3):
        said = cuboid("array", "copy", tmp_path / "a", tmp_path / f"b{ours}", "--format", ours, "--json").json
        assert (said["status"], said["shape"], said["chunks_stored"]) == ("done", [7], 2)
        copy = zarr.open_array(store=str(tmp_path / f"b{ours}"), mode="r")
        assert copy[...].tolist() == ["none"] * 3 + ["x", "y"] + ["none"] * 2 and copy.fill_value == "none"
    for shape in ((), (0,), (3, 0)):
        empty = zarr.create_array(store=str(tmp_path / f"e{len(shape)}{shape == (0,)}"), shape=shape, chunks=(1,) * len(shape), dtype=str)
        if shape == ():
            empty[...] = np.array("alone", object)
        target = tmp_path / f"f{len(shape)}{shape == (0,)}"
        cuboid("array", "copy", str(empty.store_path).removeprefix("file://"), target)
        assert np.array_equal(zarr.open_array(store=str(target), mode="r")[...], empty[...])


def test_copies_keep_to_their_memory(tmp_path):
    rng = np.random.default_rng(2)
    values = np.array([rng.bytes(int(n)).hex() for n in rng.integers(0, 60000, 400)], object).reshape(20, 20)  # 24 MB
    array = zarr.create_array(store=str(tmp_path / "a"), shape=values.shape, chunks=(4, 4), dtype=str)
    array[...] = values
    for chunks in ("20,1", "3,20"):
        process = start("array", "copy", tmp_path / "a", tmp_path / chunks, "--chunks", chunks, "--memory", "32MiB")
        with MemoryWatch(process.pid) as watch:
            assert finish(process).code == 0
        assert 0 < watch.peak <= 32 << 20
        assert (zarr.open_array(store=str(tmp_path / chunks), mode="r")[...] == values).all()
    told = cuboid("array", "copy", tmp_path / "a", tmp_path / "no", "--chunks", "20,20", "--memory", "32MiB", expect=3).err
    assert "Allow more --memory, or smaller --chunks" in told
    assert "no Zarr array" in cuboid("array", "info", tmp_path / "no", expect=2).err


def test_copies_that_are_refused(tmp_path):
    write(tmp_path / "a", TEXTS, str, 3, None)
    write(tmp_path / "b", TEXTS, str, 3, None)
    zarr.create_group(store=str(tmp_path / "group"))
    for wanted, *arguments in (
            ("exists already", "b"), ("another path", "a", "--overwrite"), ("another path", "a/below"),
            ("is a group", "group", "--overwrite"), ("shards", "c", "--shards", "4,6"), ("2 extents", "c", "--chunks", "4"),
            ("one compressor", "c", "--format", 2, "--codecs", '["bytes", "numcodecs.lz4", "numcodecs.lz4"]'),
            ("delta", "c", "--codecs", '[{"name": "numcodecs.delta", "configuration": {"dtype": "|u1"}}, "bytes"]'),
            ("vlen-utf8", "c", "--codecs", '["packbits"]'), ("vlen-bytes", "c", "--codecs", '["vlen-bytes"]'),
            ("blosc-lz4", "c", "--codecs", "blosc-lz5")):
        told = cuboid("array", "copy", tmp_path / "a", tmp_path / arguments[0], *arguments[1:], expect=2).err
        assert wanted in told, told
    assert not (tmp_path / "c").exists()
    assert cuboid("array", "cat", tmp_path / "a", "--json").json["data"] == shown(TEXTS)
    (tmp_path / "b" / "kept").write_text("")
    cuboid("array", "copy", tmp_path / "a", tmp_path / "b", "--overwrite", "--chunks", "5,4", "-q")
    assert sorted(str(p.relative_to(tmp_path / "b")) for p in (tmp_path / "b").rglob("*") if p.is_file()) == ["c/0/0", "zarr.json"]


def test_a_copy_of_what_is_damaged_is_none(tmp_path):
    path = write(tmp_path / "a", TEXTS, str, 3, None)
    (path / "c/1/0").write_bytes((path / "c/1/0").read_bytes()[:-1])
    assert "c/1/0" in cuboid("array", "copy", path, tmp_path / "b", expect=6).err
    assert "no Zarr array" in cuboid("array", "info", tmp_path / "b", expect=2).err
    write(path, TEXTS, str, 3, None, overwrite=True)
    cuboid("array", "copy", path, tmp_path / "b", "--chunks", "5,4")  # what was left there hinders nobody
    assert (zarr.open_array(store=str(tmp_path / "b"), mode="r")[...] == TEXTS).all()


def test_zarr_python_2_and_its_orders(tmp_path):
    venv = subprocess.run([ROOT / "scripts/venv", ROOT / "tests/requirements-zarr2.txt"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    code = """
import sys, numpy as np, zarr, numcodecs
values = np.array([f"{i}" * i for i in range(20)], object).reshape(5, 4)
for order in "CF":
    zarr.open_array(f"{sys.argv[1]}/{order}", mode="w", shape=(5, 4), chunks=(2, 3), dtype=object, order=order,
                    object_codec=numcodecs.VLenUTF8())[...] = values
zarr.open_array(f"{sys.argv[1]}/json", mode="w", shape=(5, 4), dtype=object, object_codec=numcodecs.JSON())[...] = values
"""
    (tmp_path / "other.py").write_text(code)
    subprocess.run([f"{venv}/bin/python", tmp_path / "other.py", tmp_path], check=True)
    for order in "CF":
        assert cuboid("array", "cat", tmp_path / order, "--json").json["data"] == [f"{i}" * i for i in range(20)]
        cuboid("array", "copy", tmp_path / order, tmp_path / f"{order}-same")
        cuboid("array", "copy", tmp_path / order, tmp_path / f"{order}-other", "--chunks", "5,1", "--codecs", "gzip")
        cuboid("array", "copy", tmp_path / order, tmp_path / f"{order}3", "--format", 3)
        assert zarr.open_array(store=str(tmp_path / f"{order}3"), mode="r")[...].reshape(-1).tolist() == [f"{i}" * i for i in range(20)]
    write(tmp_path / "v3", TEXTS, str, 3, None)
    write(tmp_path / "v3bytes", BYTES, VariableLengthBytes(), 3, None)
    for name in ("v3", "v3bytes"):
        cuboid("array", "copy", tmp_path / name, tmp_path / f"{name}-2", "--format", 2, "--codecs", "blosc-lz4")
    np.save(tmp_path / "texts.npy", TEXTS), np.save(tmp_path / "bytes.npy", BYTES)
    (tmp_path / "reads.py").write_text("""
import sys, numpy as np, zarr
for order in "CF":
    source = zarr.open_array(f"{sys.argv[1]}/{order}", mode="r")
    for kind in ("same", "other"):
        copy = zarr.open_array(f"{sys.argv[1]}/{order}-{kind}", mode="r")
        assert (copy[...] == source[...]).all() and copy.dtype == object and (copy.order == order or kind == "other")
for name, values in (("v3-2", "texts"), ("v3bytes-2", "bytes")):
    copy = zarr.open_array(f"{sys.argv[1]}/{name}", mode="r")
    assert (copy[...] == np.load(f"{sys.argv[1]}/{values}.npy", allow_pickle=True)).all() and copy.attrs["unit"] == "none"
""")
    subprocess.run([f"{venv}/bin/python", tmp_path / "reads.py", tmp_path], check=True)
    assert "vlen-utf8" in cuboid("array", "cat", tmp_path / "json", expect=2).err
