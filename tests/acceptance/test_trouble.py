"""Trouble that plugins bring with them: on the search path, in one process with each other, and after they have returned."""
import os
import shutil
import time

import numpy as np
import pytest

import arrays
import pipelines
from libraries import PLUGINS, build
from program import BUILD, ROOT, cuboid


@pytest.fixture(scope="session")
def trouble(tmp_path_factory):
    return build(PLUGINS / "trouble.cc", tmp_path_factory.mktemp("plugins") / "libtrouble.so", "-DAT_EXIT=::_exit(3)")


def pipeline(folder, library, steps, store=None, **top):
    x = np.random.default_rng(11).normal(size=4000) / 3
    if not (folder / "x.zarr").exists():
        arrays.write(folder / "x.zarr", x, (500,))
    return pipelines.write(folder, arrays={"x": "x.zarr"}, plugins=[str(library)], steps=steps,
                           store=store or {name: f"out/{name}.zarr" for name in steps}, **top), x


@pytest.mark.parametrize("function", ["locale", "rounding", "folder", "thread"])
def test_what_a_call_leaves_behind_harms_nothing(tmp_path, trouble, function):
    """The worker that ran it runs the next blocks and steps, from a relative folder; its static destructor calls _exit."""
    steps = {"a": {"call": f"trouble.{function}", "args": ["x"]}, "b": {"call": "divide", "args": ["a", 3.1]},
             "c": {"call": f"trouble.{function}", "args": ["b"]}}
    path, x = pipeline(tmp_path, trouble, steps)
    begin = time.monotonic()
    told = cuboid("run", "pipeline.yaml", "--workers", "1", "--json", cwd=tmp_path, timeout=60).json
    assert time.monotonic() - begin < 30 and told["status"] == "done"
    assert told["peak_rss_bytes"] > 0 and told["wall_seconds"] > 0  # numbers with a point, whatever the locale
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/b.zarr"), 2 * x / 3.1)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/c.zarr"), 2 * (2 * x / 3.1))


@pytest.mark.parametrize("isolation", ["process", "thread"])
@pytest.mark.parametrize("end", ["::_exit(3)", "std::exit(3)", "std::abort()"])
def test_a_static_destructor_that_ends_the_process(tmp_path, end, isolation):
    library = build(PLUGINS / "trouble.cc", tmp_path / "libtrouble.so", f"-DAT_EXIT={end}")
    path, x = pipeline(tmp_path, library, {"a": {"call": "trouble.locale", "args": ["x"], "isolation": isolation}})
    told = cuboid("run", path, "--json")  # its exit code is the run's
    assert told.json["status"] == "done" and "signal" not in told.err
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/a.zarr"), 2 * x)


def test_last_words(tmp_path):
    """`detach` is called once, when a process that loaded the plugin ends, with its states closed before."""
    source = (ROOT / "tests/sdk/frozen/frozen.c").read_text().replace("4, 0, table, 0};", "4, 0, table, detach};").replace(
        "static const cuboid_plugin plugin", f"""#include <stdio.h>
static void note(const char* what) {{ FILE* f = fopen("{tmp_path}/log", "a"); if (f) fputs(what, f), fclose(f); }}
static void detach(void) {{ note("detach\\n"); }}
static const cuboid_plugin plugin""").replace("{ call->host->release(call, state); }",
                                              '{ note("close\\n"); call->host->release(call, state); }', 1)
    source = source.replace("static void close_state", "static void note(const char*);\nstatic void close_state", 1)
    (tmp_path / "last.c").write_text(source)
    library = build(tmp_path / "last.c", tmp_path / "libfrozen.so", compiler="gcc")
    for isolation in ("process", "thread"):
        path, _ = pipeline(tmp_path, library, {isolation: {"call": "frozen.weigh", "args": ["x"], "isolation": isolation}})
        cuboid("run", path, "--workers", "1")
        log = (tmp_path / "log").read_text().split()
        assert log[0] == "close" and log[-1] == "detach" and log.count("detach") == 1, log
        (tmp_path / "log").unlink()


def test_ok_after_memory_was_refused_is_no_success(tmp_path, trouble):
    path, _ = pipeline(tmp_path, trouble, {"a": {"call": "trouble.ignores", "args": ["x"]}})
    told = cuboid("run", path, "--on-exceed", "fail", "--json", expect=4).json
    assert "needed at least 1 TiB" in told["error"]["message"] and not (tmp_path / "out/a.zarr/zarr.json").exists()


@pytest.mark.parametrize("what,words", [(0, "over the border"), (1, "unknown type")])
def test_an_exception_past_the_c_border(tmp_path, what, words):
    library = build(PLUGINS / "thrower.cc", tmp_path / "libthrower.so")
    path, _ = pipeline(tmp_path, library, {"a": {"call": "thrower.throw", "args": ["x"], "params": {"what": what}}})
    message = cuboid("run", path, "--json", expect=5).json["error"]["message"]
    assert "exception escape" in message and words in message and "thrower.throw/1" in message


def test_two_plugins_with_the_same_symbols(tmp_path):
    """Each calls its own `secret`, although both export it."""
    source = """#include <cuboid/plugin.hpp>
extern "C" __attribute__((visibility("default"))) double secret() { return %d; }
struct F { static constexpr auto meta = cuboid::decl("%s.f/1", "x:f8[n] -> y:f8[n]", "Adds its secret.")
  .call_bytes("0", cuboid::sdk::exact).outside_bytes("0", cuboid::sdk::exact);
  static void run(cuboid::sdk::Call& c) { const auto x = c.in<double, 1>(0); auto y = c.out<double, 1>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i) + secret(); } };
CUBOID_PLUGIN("%s", "1", F)
"""
    libraries = []
    for name, secret in (("one", 1), ("two", 20)):
        (tmp_path / f"{name}.cc").write_text(source % (secret, name, name))
        libraries.append(str(build(tmp_path / f"{name}.cc", tmp_path / f"lib{name}.so")))
    arrays.write(tmp_path / "x.zarr", np.zeros(10))
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, plugins=libraries, store={"b": "b.zarr"},
                           steps={"a": {"call": "one.f", "args": ["x"]}, "b": {"call": "two.f", "args": ["a"]}})
    cuboid("run", path, "--workers", "1")
    np.testing.assert_array_equal(arrays.read(tmp_path / "b.zarr"), np.full(10, 21.0))


def test_what_lies_on_the_search_path(tmp_path):
    """Each is skipped with its reason, none is waited for, and what is good among them is found."""
    good = BUILD / "plugins/libsky.so"
    bytes_of = good.read_bytes()
    os.mkfifo(tmp_path / "libfifo.so")
    (tmp_path / "libfolder.so").mkdir()
    (tmp_path / "libdangling.so").symlink_to(tmp_path / "nowhere")
    (tmp_path / "libtruncated.so").write_bytes(bytes_of[:len(bytes_of) // 2])
    (tmp_path / "libempty.so").write_bytes(b"")
    (tmp_path / "libtext.so").write_text("no library at all\n")
    other = bytearray(bytes_of)
    other[18:20] = (183).to_bytes(2, "little")  # e_machine: AArch64
    (tmp_path / "libarm.so").write_bytes(other)
    narrow = bytearray(bytes_of)
    narrow[4] = 1  # 32 bit
    (tmp_path / "libnarrow.so").write_bytes(narrow)
    shutil.copy(good, tmp_path / "libsky.so")
    begin = time.monotonic()
    listed = cuboid("plugin", "list", "--json", env={"CUBOID_PLUGIN_PATH": str(tmp_path)}, timeout=20).json
    assert time.monotonic() - begin < 10
    assert [plugin["name"] for plugin in listed["plugins"]] == ["sky"]
    reasons = {os.path.basename(one["path"]): one["reason"] for one in listed["skipped"]}
    for name, words in {"libfifo.so": "regular file", "libfolder.so": "regular file", "libdangling.so": "No such file",
                        "libtruncated.so": "truncated", "libempty.so": "no plugin", "libtext.so": "no plugin",
                        "libarm.so": "machine", "libnarrow.so": "64"}.items():
        assert words in reasons[name], (name, reasons[name])
    assert len(reasons) == 8


def test_a_library_that_lacks_a_symbol(tmp_path):
    (tmp_path / "lacking.cc").write_text((PLUGINS / "thrower.cc").read_text() + "\nint nowhere();\nint used = nowhere();\n")
    library = build(tmp_path / "lacking.cc", tmp_path / "liblacking.so")
    path, _ = pipeline(tmp_path, library, {"a": {"call": "thrower.throw", "args": ["x"]}})
    cuboid("plan", path)  # its manifest can be read
    message = cuboid("run", path, "--json", expect=2).json["error"]["message"]
    assert "nowhere" in message and "liblacking.so" in message
    assert not (tmp_path / "out").exists()
