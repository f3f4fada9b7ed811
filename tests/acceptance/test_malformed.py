"""Wrong input is found before anything runs: exit code 2, the place, the offending word, what was expected, and
nothing touched. In a pipeline's text the offending place is marked «so»; the marks are taken out before it is written."""
import json
import re

import numpy as np
import pytest

import arrays
from program import BUILD, cuboid, tree

GOOD = """\
arrays:
  image: image.zarr
steps:
  grey:    {call: mean, args: [image], params: {axis: 2}}
  smooth:  {call: filter.gaussian, args: [grey], params: {sigma: 1.5}}
  sources: {call: sky.sources, args: [smooth], params: {threshold: 30, radius: 5}}
store:
  sources: out/sources.zarr
"""


def changed(old, new):
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


# name: (text, what the message must contain beside the place)
PIPELINES = {
    "unknown key at the top": ("«memry»: 1GiB\n" + GOOD, ["memry", "memory"]),
    "unknown key of a step": (changed("args: [grey], ", "args: [grey], «parms»: {}, "), ["parms", "params"]),
    "unknown key of an output": (
        changed("sources: out/sources.zarr", "sources: {path: out/s.zarr, «chunk»: [4, 6]}"), ["chunk", "chunks"]),
    "unknown key of a policy": ("on_exceed: {«fctor»: 2}\n" + GOOD, ["fctor", "factor"]),
    "a step twice": (GOOD.replace("  smooth:  {", "  «grey»:  {"), ["grey"]),
    "a step of an array's name": (GOOD.replace("  grey:    {", "  «image»:    {"), ["image"]),
    "a step name with a dot": (changed("  grey:    {", "  «gr.ey»:    {"), ["gr.ey"]),
    "unknown function": (changed("call: mean", "call: «meen»"), ["grey", "meen", "mean"]),
    "unknown plugin function": (changed("call: filter.gaussian", "call: «filter.gausian»"),
                                ["smooth", "filter.gausian", "filter.gaussian"]),
    "unknown revision": (changed("call: sky.sources", "call: «sky.sources/999»"), ["sources", "sky.sources/999"]),
    "unknown parameter": (changed("sigma: 1.5", "«sigm»: 1.5"), ["smooth", "sigm", "sigma"]),
    "unknown parameter of a built-in": (changed("axis: 2", "«axes»: 2"), ["grey", "axes", "axis"]),
    "parameter of another type": (changed("sigma: 1.5", "sigma: «wide»"), ["smooth", "sigma", "wide"]),
    "a quoted number is a string": (changed("sigma: 1.5", "sigma: «\"1.5\"»"), ["smooth", "sigma"]),
    "parameter out of its range": (changed("sigma: 1.5", "sigma: «-1.5»"), ["smooth", "sigma", "-1.5"]),
    "axis out of range": (changed("axis: 2", "axis: «7»"), ["grey", "axis", "7"]),
    "too few arguments": (changed("args: [smooth]", "args: «[]»"), ["sources", "sky.sources"]),
    "unknown array": (changed("args: [grey]", "args: [«gray»]"), ["smooth", "gray", "grey"]),
    "a later step": (changed("args: [image]", "args: [«sources»]"), ["grey", "sources"]),
    "not an output of the step": (changed("args: [grey]", "args: [«grey.values»]"), ["smooth", "grey", "values"]),
    "no such step to store": (changed("  sources: out", "  «source»: out"), ["source", "sources"]),
    "an output without a path": (changed("sources: out/sources.zarr", "sources: «{format: 3}»"), ["sources", "path"]),
    "an output's path with a character that ends it": (
        changed("sources: out/sources.zarr", 'sources: «"out/s\\0.zarr"»'), ["sources", "code 0"]),
    "a Zarr format that there is not": (
        changed("sources: out/sources.zarr", "sources: {path: out/s.zarr, format: «4»}"), ["format", "4", "2", "3"]),
    "a codec that there is not": (
        changed("sources: out/sources.zarr", "sources: {path: out/s.zarr, codecs: «blosc-lz5»}"),
        ["blosc-lz5", "blosc-lz4"]),
    "chunks of zero": (changed("args: [grey],", "args: [grey], chunks: «[0, 16]»,"), ["smooth", "chunks", "0"]),
    "a size in unknown units": ("memory: «12parsecs»\n" + GOOD, ["12parsecs", "MiB"]),
    "a negative size": ("memory: «-5»\n" + GOOD, ["-5"]),
    "an action that there is not": ("on_exceed: {action: «explode»}\n" + GOOD,
                                    ["explode", "ask", "grow", "park", "fail"]),
    "an isolation that there is not": (changed("args: [grey],", "args: [grey], isolation: «fibre»,"),
                                       ["smooth", "fibre", "process", "thread"]),
    "a time-out that is none": (changed("args: [grey],", "args: [grey], timeout: «soon»,"), ["smooth", "soon"]),
    "YAML that does not end": (changed("params: {axis: 2}}", "params: {axis: 2"), []),
    "steps as a list": (re.sub("steps:\n(.*\n)+store", "steps: «[grey]»\nstore", GOOD), ["steps"]),
    "an array that is not there": (changed("image: image.zarr", "image: «imge.zarr»"), ["imge.zarr"]),
    "a folder without metadata": (changed("image: image.zarr", "image: «empty»"), ["empty"]),
    "metadata that is no JSON": (changed("image: image.zarr", "image: «broken.zarr»"), ["broken.zarr"]),
    "an element type that there is not": (changed("image: image.zarr", "image: «strange.zarr»"),
                                          ["strange.zarr", "float512"]),
    "chunks larger than any memory": (changed("image: image.zarr", "image: «vast.zarr»"), ["vast.zarr"]),
    "an output in an input's place": (changed("sources: out/sources.zarr", "sources: «image.zarr»"), ["image.zarr"]),
    "an output inside an input": (changed("sources: out/sources.zarr", "sources: «image.zarr/out»"), ["image.zarr"]),
    "an output that somebody else made": (changed("sources: out/sources.zarr", "sources: «other.zarr»"),
                                          ["other.zarr", "overwrite"]),
    "a plugin that is not there": ("plugins: [«libnone.so»]\n" + GOOD, ["libnone.so"]),
    "a plugin that is text": ("plugins: [«libtext.so»]\n" + GOOD, ["libtext.so"]),
    "a plugin that is cut short": ("plugins: [«libcut.so»]\n" + GOOD, ["libcut.so"]),
    "a plugin with a bad manifest": ("plugins: [«libbad.so»]\n" + GOOD, ["libbad"]),
}
# The place is that of the file as a whole or of an array; a line is asked for where the text has one.
WITHOUT_PLACE = {"YAML that does not end"}


@pytest.fixture
def folder(tmp_path):
    """A pipeline's surroundings: a good array, and bad ones."""
    arrays.write(tmp_path / "image.zarr", np.zeros((32, 32, 3), np.uint8), (16, 16, 3))
    arrays.write(tmp_path / "other.zarr", np.zeros((4, 6)))
    (tmp_path / "empty").mkdir()
    for name, document in {
        "broken.zarr": '{"zarr_format": 3, "node_type": "array", "shape": [4',
        "strange.zarr": json.dumps({**arrays.metadata(tmp_path / "image.zarr"), "data_type": "float512"}),
        "vast.zarr": json.dumps({**arrays.metadata(tmp_path / "image.zarr"), "shape": [2**62, 2**62, 2**62]}),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text(document)
    (tmp_path / "libtext.so").write_text("no library\n" * 100)
    real = next((BUILD / "plugins").glob("lib*.so")).read_bytes()
    (tmp_path / "libcut.so").write_bytes(real[:len(real) // 3])
    (tmp_path / "libbad.so").write_bytes(real.replace(b'"schema":', b'"schwma":').replace(b'"schema" :', b'"schwma" :'))
    return tmp_path


def unmark(text):
    at = text.find("«")
    if at < 0:
        return text, None, None
    line = text.count("\n", 0, at) + 1
    return text.replace("«", "").replace("»", ""), line, at - text.rfind("\n", 0, at)


def test_the_good_pipeline_is_good(folder):
    (folder / "pipeline.yaml").write_text(GOOD)
    cuboid("plan", "pipeline.yaml", cwd=folder)


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline(folder, name, verb):
    text, words = PIPELINES[name]
    text, line, column = unmark(text)
    assert text != GOOD
    (folder / "pipeline.yaml").write_text(text)
    before = tree(folder)
    outcome = cuboid(verb, "pipeline.yaml", cwd=folder, expect=2)
    assert tree(folder) == before
    assert outcome.out == ""
    if name in WITHOUT_PLACE:
        assert re.search(r"pipeline\.yaml:\d+:\d+: ", outcome.err), outcome.err
    else:
        assert f"pipeline.yaml:{line}:{column}: " in outcome.err, (line, column, outcome.err)
    for word in words:
        assert word in outcome.err, (word, outcome.err)

    told = cuboid(verb, "pipeline.yaml", "--json", cwd=folder, expect=2).json
    assert list(told) == ["error"] and {"kind", "message", "context"} <= set(told["error"])
    assert tree(folder) == before


FILES = {
    "no such file": (None, ["pipeline.yaml"]),
    "an empty file": (b"", ["pipeline.yaml"]),
    "a folder": ("folder", ["pipeline.yaml"]),
    "not UTF-8": (GOOD.encode().replace(b"image", b"im\xff\xfege"), ["pipeline.yaml", "UTF-8"]),
    "larger than any pipeline": (b"# " + b"x" * (8 << 20) + b"\n" + GOOD.encode(), ["pipeline.yaml"]),
    "nested beyond reason": (b"arrays: " + b"[" * 5000 + b"]" * 5000 + b"\n", ["pipeline.yaml"]),
    "aliases that multiply": (
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(b"%c: &%c [%s]\n" % (c + 1, c + 1, b",".join([b"*%c" % c] * 10))
                                                      for c in range(ord("a"), ord("j"))), ["pipeline.yaml"]),
}


@pytest.mark.parametrize("name", FILES)
def test_file(folder, name):
    content, words = FILES[name]
    path = folder / "pipeline.yaml"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    before = tree(folder)
    outcome = cuboid("run", "pipeline.yaml", cwd=folder, expect=2, timeout=20)
    assert tree(folder) == before
    for word in words:
        assert word in outcome.err, (word, outcome.err)


@pytest.mark.parametrize("arguments, word", [
    (["plam", "pipeline.yaml"], "plam"),
    (["run"], "FILE"),
    (["run", "pipeline.yaml", "--memroy", "1GiB"], "--memroy"),
    (["run", "pipeline.yaml", "--memory", "12parsecs"], "12parsecs"),
    (["run", "pipeline.yaml", "--workers", "0"], "--workers"),
    (["run", "pipeline.yaml", "--workers", "many"], "many"),
    (["run", "pipeline.yaml", "--on-exceed", "explode"], "explode"),
    (["run", "pipeline.yaml", "--plugin", "libnone.so"], "libnone.so"),
    (["array", "info", "nowhere.zarr"], "nowhere.zarr"),
    (["array", "cat", "image.zarr", "--box", "0:4,0:99,0"], "99"),
    (["array", "cat", "image.zarr", "--box", "a:b"], "a:b"),
    (["array", "copy", "image.zarr", "image.zarr"], "image.zarr"),
    (["array", "copy", "image.zarr", "copy.zarr", "--chunks", "0,1,1"], "0"),
    (["array", "copy", "image.zarr", "copy.zarr", "--codecs", "blosc-lz5"], "blosc-lz5"),
    (["array", "copy", "image.zarr", "other.zarr"], "other.zarr"),
    (["functions", "meen"], "mean"),
    (["plugin", "show", "libtext.so"], "libtext.so"),
    (["plugin", "show", "libcut.so"], "libcut.so"),
])
def test_command_line(folder, arguments, word):
    (folder / "pipeline.yaml").write_text(GOOD)
    before = tree(folder)
    outcome = cuboid(*arguments, cwd=folder, expect=2)
    assert word in outcome.err, outcome.err
    assert outcome.out == "" and tree(folder) == before


def test_corrupt_chunk_is_an_error_of_storage(folder):
    """An unreadable chunk is found while running: exit code 6, the array and the chunk named; mended, the run goes on."""
    (folder / "pipeline.yaml").write_text(GOOD)
    chunk = folder / "image.zarr/c/1/0/0"
    chunk.parent.mkdir(parents=True, exist_ok=True)
    arrays.write(folder / "noise.zarr", np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8), (16, 16, 3))
    for path in (folder / "noise.zarr/c").rglob("*"):
        if path.is_file():
            target = folder / "image.zarr" / path.relative_to(folder / "noise.zarr")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    good = chunk.read_bytes()
    chunk.write_bytes(good[:len(good) // 2])
    outcome = cuboid("run", "pipeline.yaml", cwd=folder, expect=6)
    assert "image.zarr" in outcome.err and "1/0/0" in outcome.err
    assert not (folder / "out/sources.zarr/zarr.json").exists()
    chunk.write_bytes(good)
    assert cuboid("run", "pipeline.yaml", "--json", cwd=folder).json["status"] == "done"
