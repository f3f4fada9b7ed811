"""What a run goes on from after something changed or broke beside it: exactly what depends on that is computed again, or
the run stops with words that help."""
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

import arrays
import pipelines
from program import CUBOID, cuboid, environment, tree

BLOCK, BLOCKS = 100, 12


def pipeline(folder, sharded=False, **top):
    """x -> rows above 0 of its moving difference: a halo, an intermediate, pieces, compact; and its sum."""
    x = np.random.default_rng(11).normal(size=(BLOCK * BLOCKS, 8))
    options = {"shards": (2 * BLOCK, 8)} if sharded else {"compressors": None}
    arrays.write(folder / "x.zarr", x, (BLOCK, 8), **options)
    return pipelines.write(
        folder, arrays={"x": "x.zarr"},
        steps={"smooth": {"call": "filter.gaussian", "args": ["x"], "params": {"sigma": 1}},
               "sources": {"call": "sky.sources", "args": ["smooth"], "params": {"threshold": 0.2, "radius": 1}},
               "total": {"call": "sum", "args": ["smooth"], "params": {"axis": 1}}},
        store={"sources": "out/sources.zarr", "total": "out/total.zarr"}, **{"memory": "256MiB", **top})


def attempts(outcome):
    return {stage["name"]: stage["attempts"] for stage in outcome.json["stages"] if stage["attempts"]}


def chunk(folder, index):
    return folder / f"x.zarr/c/{index}/0"


def rewrite(path, change=None):
    """In place: the same inode, length and modification time; other bytes where `change` says so."""
    before, data = path.stat(), bytearray(path.read_bytes())
    if change:
        change(data)
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)


def test_a_chunk_that_was_touched_without_change_is_not_computed_again(tmp_path):
    path = pipeline(tmp_path)
    cuboid("run", path)
    before = tree(tmp_path / "out")
    os.utime(chunk(tmp_path, 3))
    rewrite(chunk(tmp_path, 7))
    for index in range(BLOCKS):  # a copy, as a backup would bring it back
        shutil.copyfile(chunk(tmp_path, index), tmp_path / "copy")
        os.replace(tmp_path / "copy", chunk(tmp_path, index))
    assert "nothing to do" in cuboid("run", path).out
    assert "nothing to do" in cuboid("run", path).out
    assert tree(tmp_path / "out") == before


def test_a_chunk_rewritten_in_place_with_its_old_time_is_computed_again_and_nothing_else(tmp_path):
    """Where intermediates are kept; of those that are gone, blocks run again that others need anew."""
    path = pipeline(tmp_path)
    cuboid("run", path, "--keep")

    def other(data):
        values = np.frombuffer(data, "<f8")
        values[400:408] += 1000

    os.utime(chunk(tmp_path, 2))  # and one beside it that only looks changed
    rewrite(chunk(tmp_path, 5), other)
    again = cuboid("run", path, "--keep", "--json")
    x = arrays.read(tmp_path / "x.zarr")
    assert x[550, 0] > 900
    import scipy.ndimage
    expected = scipy.ndimage.gaussian_filter(x, 1, mode="reflect", truncate=4).sum(axis=1)
    np.testing.assert_allclose(arrays.read(tmp_path / "out/total.zarr"), expected, rtol=1e-12)
    # Its own block and the two whose halos reach into it.
    assert again.stage("smooth")["attempts"] == 3
    assert again.stage("total")["attempts"] == 3
    # And of these the windows of the blocks beside them.
    assert again.stage("sources")["attempts"] == 5
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    shutil.copytree(tmp_path / "x.zarr", fresh / "x.zarr")
    shutil.copy(path, fresh)
    cuboid("run", fresh / path.name)
    assert tree(tmp_path / "out") == tree(fresh / "out")
    assert "nothing to do" in cuboid("run", path, "--keep").out


def test_shards_are_known_by_their_times(tmp_path):
    """Of shards parts are read: whether a touched one has changed is not known, so it is computed again."""
    path = pipeline(tmp_path, sharded=True)
    cuboid("run", path)
    before = tree(tmp_path / "out")
    os.utime(chunk(tmp_path, 3))
    assert cuboid("run", path, "--json").stage("smooth")["attempts"] > 0
    assert tree(tmp_path / "out") == before


@pytest.fixture
def stopped(tmp_path):
    """A run that stopped half way: a parked block keeps all that follows from running, its intermediates are kept."""
    folder = tmp_path / "project"
    folder.mkdir()
    path = pipeline(folder)
    whole = tmp_path / "whole"
    whole.mkdir()
    shutil.copytree(folder / "x.zarr", whole / "x.zarr")
    shutil.copy(path, whole)
    cuboid("run", whole / path.name)
    saved = chunk(folder, BLOCKS - 1).read_bytes()
    chunk(folder, BLOCKS - 1).write_bytes(b"cut")
    outcome = cuboid("run", path, "--json", expect=6)
    chunk(folder, BLOCKS - 1).write_bytes(saved)
    return folder, path, outcome, tree(whole / "out")


def left(outcome):
    return sum(stage["tasks"] - stage["tasks_done"] for stage in outcome.json["stages"])


def test_a_folder_that_was_moved_goes_on(stopped, tmp_path):
    folder, path, outcome, expected = stopped
    kept = {stage["name"]: stage["tasks_done"] for stage in outcome.json["stages"]}
    os.rename(folder, tmp_path / "elsewhere")
    folder = tmp_path / "elsewhere"
    again = cuboid("run", folder / path.name, "--json")
    assert tree(folder / "out") == expected
    for stage in again.json["stages"]:
        assert stage["tasks_reused"] >= kept[stage["name"]], stage["name"]
    os.rename(folder, tmp_path / "back")
    assert "nothing to do" in cuboid("run", tmp_path / "back" / path.name).out


def test_a_run_is_the_same_from_whatever_folder_it_is_started(tmp_path):
    """Relative paths all the way, into a folder that is not there yet."""
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    x = np.arange(40.0)
    arrays.write(project / "x.zarr", x, (10,))
    pipelines.write(project, arrays={"x": "x.zarr"}, steps={"y": {"call": "add", "args": ["x", 1]}},
                    store={"y": "out/y.zarr"})
    cuboid("run", "pipeline.yaml", cwd=project)
    # What lies elsewhere under the same relative path is another's.
    arrays.write(other / "out/y.zarr", x, (10,))
    assert "nothing to do" in cuboid("run", "../project/pipeline.yaml", cwd=other).out
    shutil.rmtree(project / "out")
    cuboid("run", "../project/pipeline.yaml", "--fresh", cwd=other)
    np.testing.assert_array_equal(arrays.read(project / "out/y.zarr"), x + 1)
    np.testing.assert_array_equal(arrays.read(other / "out/y.zarr"), x)
    assert "nothing to do" in cuboid("run", "project/pipeline.yaml", cwd=tmp_path).out


def test_a_journal_with_a_relative_path_makes_nobody_erase_anything(tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    x = np.arange(40.0)
    arrays.write(project / "x.zarr", x, (10,))
    pipelines.write(project, arrays={"x": "x.zarr"}, steps={"y": {"call": "add", "args": ["x", 1]}}, store={"y": "y.zarr"})
    cuboid("run", "pipeline.yaml", cwd=project)
    with contextlib.closing(sqlite3.connect(project / "pipeline.run/journal.sqlite")) as journal, journal:
        journal.execute("UPDATE outputs SET location = 'y.zarr'")
    shutil.rmtree(project / "y.zarr")
    arrays.write(other / "y.zarr", x, (10,))
    cuboid("run", "../project/pipeline.yaml", "--fresh", cwd=other)
    np.testing.assert_array_equal(arrays.read(other / "y.zarr"), x)
    np.testing.assert_array_equal(arrays.read(project / "y.zarr"), x + 1)


def test_two_spellings_of_one_path_are_one_output(tmp_path):
    arrays.write(tmp_path / "x.zarr", np.arange(40.0), (10,))
    pipelines.write(tmp_path, arrays={"x": "x.zarr"},
                    steps={"y": {"call": "add", "args": ["x", 1]}, "z": {"call": "add", "args": ["x", 2]}},
                    store={"y": "out/y.zarr", "z": "./out/../out/y.zarr"})
    outcome = cuboid("run", "pipeline.yaml", cwd=tmp_path, expect=2)
    assert "two outputs would be written into one place" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_copied_folder_never_touches_the_original(stopped, tmp_path):
    folder, path, _, expected = stopped
    cuboid("run", path)
    shutil.copytree(folder, tmp_path / "copy")
    cuboid("run", tmp_path / "copy" / path.name, "--fresh")
    assert tree(folder / "out") == tree(tmp_path / "copy/out") == expected
    assert "nothing to do" in cuboid("run", path).out


def test_a_run_directory_that_was_moved_goes_on(stopped, tmp_path):
    folder, path, outcome, expected = stopped
    kept = sum(stage["tasks_done"] for stage in outcome.json["stages"])
    os.rename(path.with_suffix(".run"), tmp_path / "scratch")
    again = cuboid("run", path, "--run-dir", tmp_path / "scratch", "--json")
    assert again.total("tasks_reused") >= kept
    assert tree(folder / "out") == expected


@pytest.mark.parametrize("name", ["data", "plan.json"])
def test_a_run_directory_with_files_that_no_run_made_is_refused(tmp_path, name):
    path = pipeline(tmp_path)
    mine = tmp_path / "data" / "notes.txt" if name == "data" else tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("not yours")
    before = tree(tmp_path)
    for flags in ([], ["--fresh"]):
        assert f"'{name}'" in cuboid("run", path, "--run-dir", tmp_path, *flags, expect=2).err
    assert f"'{name}'" in cuboid("array", "copy", tmp_path / "x.zarr", tmp_path / "copy.zarr", "--run-dir", tmp_path, expect=2).err
    assert tree(tmp_path) == before


@pytest.mark.parametrize("store", ["pipeline.run/data/total", "pipeline.run/data", "pipeline.run", "."])
def test_an_output_that_a_run_would_remove_with_its_own_files_is_refused(tmp_path, store):
    folder = tmp_path / "here"
    folder.mkdir()
    arrays.write(tmp_path / "x.zarr", np.zeros((4, 4)), (2, 2))
    path = pipelines.write(folder, arrays={"x": "../x.zarr"}, steps={"total": {"call": "sum", "args": ["x"]}},
                           store={"total": store})
    for command in ("plan", "run"):
        assert "run directory" in cuboid(command, path, expect=2).err
    assert list(tree(folder)) == [path.name]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_somebody_else_put_in_an_outputs_place_stays(tmp_path, zarr_format):
    arrays.write(tmp_path / "x.zarr", np.zeros((4, 4)), (2, 2))
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, steps={"total": {"call": "sum", "args": ["x"], "params": {"axis": 0}}},
                           store={"total": {"path": "out.zarr", "format": zarr_format}})
    cuboid("run", path)
    cuboid("run", path, "--fresh")
    shutil.rmtree(tmp_path / "out.zarr")
    arrays.write(tmp_path / "out.zarr", np.ones((3, 3)), (2, 2))
    before = tree(tmp_path / "out.zarr")
    for flags in ([], ["--fresh"]):
        for command in ("plan", "run"):
            if flags and command == "plan":
                continue
            assert "exists already" in cuboid(command, path, *flags, expect=2).err
    # Nor is it removed by a run that starts anew and writes elsewhere.
    pipelines.write(tmp_path, arrays={"x": "x.zarr"}, steps={"total": {"call": "sum", "args": ["x"]}}, store={"total": "other.zarr"})
    cuboid("run", path, "--fresh")
    assert tree(tmp_path / "out.zarr") == before
    shutil.rmtree(tmp_path / "out.zarr")


def test_an_input_among_the_intermediates_of_its_own_run_is_refused(tmp_path):
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, steps={"total": {"call": "sum", "args": ["x"]}},
                           store={"total": "out.zarr"})
    arrays.write(tmp_path / "x.zarr", np.zeros((4, 4)), (2, 2))
    cuboid("run", path)
    arrays.write(tmp_path / "pipeline.run/data/x.zarr", np.ones((4, 4)), (2, 2))
    path = pipelines.write(tmp_path, arrays={"x": "pipeline.run/data/x.zarr"},
                           steps={"total": {"call": "sum", "args": ["x"]}}, store={"total": "out.zarr"})
    assert "run directory" in cuboid("run", path, expect=2).err
    assert arrays.read(tmp_path / "pipeline.run/data/x.zarr").all()


def test_a_lock_that_nobody_holds_is_no_obstacle(stopped):
    folder, path, _, expected = stopped
    (path.with_suffix(".run") / "coordinator.lock").write_text(f"{os.getpid()}\n")  # a process that lives, and is no run
    cuboid("run", path)
    assert tree(folder / "out") == expected


@pytest.mark.parametrize("damage", ["garbage", "zeros", "cut", "text"])
def test_a_damaged_journal_is_refused_with_the_way_out(stopped, damage):
    folder, path, _, expected = stopped
    journal = path.with_suffix(".run") / "journal.sqlite"
    data = bytearray(journal.read_bytes())
    if damage == "garbage":
        data[100:] = random.Random(3).randbytes(len(data) - 100)
    elif damage == "zeros":
        data[100:] = bytes(len(data) - 100)
    elif damage == "cut":
        data = data[:len(data) // 2]
    else:
        data = b"this is no journal, but somebody's notes\n" * 100
    journal.write_bytes(data)
    refused = cuboid("run", path, "--json", expect=2)
    assert "journal" in refused.json["error"]["message"] and "--fresh" in refused.json["error"]["message"]
    assert journal.read_bytes() == bytes(data)  # nothing was written
    cuboid("run", path, "--fresh")
    assert tree(folder / "out") == expected


def intermediates(path):
    data = path.with_suffix(".run") / "data"
    return sorted(file for file in data.rglob("*") if file.is_file() and file.stat().st_size > 0)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "swap"])
@pytest.mark.parametrize("kind", ["smooth", "sources"])
def test_a_damaged_intermediate_is_computed_again(stopped, kind, damage):
    """A chunk, or a block's ragged result, that is not what was written: found by its length or when it is read."""
    folder, path, outcome, expected = stopped
    files = [file for file in intermediates(path) if kind in str(file.relative_to(path.with_suffix(".run")))]
    assert len(files) > 3
    # One that what is left to do reads: the last ones lie beside the block that is missing.
    for victim, other in [(files[-1], files[0]), (files[-2], files[0])]:
        data = bytearray(victim.read_bytes())
        if damage == "flip":
            data[len(data) // 2] ^= 0x40
            victim.write_bytes(data)
        elif damage == "cut":
            victim.write_bytes(data[:-3])
        elif damage == "remove":
            victim.unlink()
        else:  # of another block, and of another length as a rule
            victim.write_bytes(other.read_bytes())
    again = cuboid("run", path, "--json")
    assert tree(folder / "out") == expected
    assert 3 < again.total("attempts") <= left(outcome) + 10
    assert "nothing to do" in cuboid("run", path).out


def in_namespace(script, cwd):
    """A shell script with mounts of its own; `$cuboid` is the program."""
    command = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m", "sh", "-euc", script]
    outcome = subprocess.run(command, cwd=cwd, env=environment(cuboid=str(CUBOID)), capture_output=True, text=True,
                             timeout=120)
    if "unshare" in outcome.stderr or "permission denied" in outcome.stderr.lower():
        pytest.skip("this system lets nobody make mounts of his own: " + outcome.stderr)
    return outcome


FEW_FILES = "mount -o remount,nr_inodes=$(( $(df -i disk | awk 'END {{print $3}}') + {files} )) disk"
FILL_UP = """
    export CUBOID_INJECT=delay:{call}-{last}
    (until grep -q 'delay {call}$' error; do sleep 0.005; done
     fallocate -l $(( $(df -k disk | awk 'END {{print $4}}') - {kibibytes} ))k disk/filler) &"""


@pytest.mark.parametrize("trouble", [FEW_FILES.format(files=files) for files in (0, 6, 14, 24)] +
                         [FILL_UP.format(call=call, last=call + 4, kibibytes=kibibytes)
                          for call, kibibytes in ((8, 0), (30, 4), (60, 12))])
def test_a_full_disk_stops_the_run_and_space_lets_it_go_on(tmp_path, trouble):
    """A disk that has room for so many more files, or whose room somebody else takes in the middle of the run: before the
    journal is there, while chunks and journal are written."""
    path = pipeline(tmp_path)
    cuboid("run", path)
    expected = tree(tmp_path / "out")
    outcome = in_namespace(f"""
        mkdir disk && mount -t tmpfs -o size=10m tmpfs disk
        ln -s $PWD/x.zarr disk/x.zarr && cp pipeline.yaml disk/ && touch error
        {trouble}
        code=0; $cuboid run disk/pipeline.yaml -q 2>error || code=$?
        echo $code >code; df disk >space; df -i disk >>space
        [ -z "${{!:-}}" ] || kill $! 2>/dev/null || true
        wait; unset CUBOID_INJECT
        rm -f disk/filler; mount -o remount,nr_inodes=10000 disk
        $cuboid run disk/pipeline.yaml -q
        cp -r disk/out saved""", tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    error = (tmp_path / "error").read_text()
    assert int((tmp_path / "code").read_text()) == 6, (error, (tmp_path / "space").read_text())
    assert "No space left" in error or "disk is full" in error or "disk I/O error" in error, error
    assert tree(tmp_path / "saved") == expected


def test_room_on_disk_is_asked_for_where_it_is_needed_and_only_for_what_is_missing(tmp_path):
    """2 MiB of results; a disk of 1 MiB, and one of 3 MiB that holds 1.5 MiB of them when the run goes on."""
    x = np.random.default_rng(3).normal(size=(512, 512))
    arrays.write(tmp_path / "x.zarr", x, (64, 64))
    steps = {"y": {"call": "add", "args": ["x", 1]}}
    for name, path in (("large", "disk/y.zarr"), ("small", "tiny/y.zarr"), ("elsewhere", "y.zarr")):
        pipelines.write(tmp_path, f"{name}.yaml", arrays={"x": "x.zarr"}, steps=steps,
                        store={"y": {"path": path, "codecs": "none"}})
    outcome = in_namespace("""
        mkdir disk tiny && mount -t tmpfs -o size=3m tmpfs disk && mount -t tmpfs -o size=1m tmpfs tiny
        for i in 1 2; do $cuboid run small.yaml -q 2>>refused || echo $? >>codes; done
        CUBOID_INJECT=run:48 $cuboid run large.yaml -q || echo $? >>codes
        $cuboid run large.yaml -q
        $cuboid run elsewhere.yaml -q --run-dir tiny/run
        cp -r disk/y.zarr copy.zarr""", tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "codes").read_text().split() == ["3", "3", "137"]
    assert "tiny" in (tmp_path / "refused").read_text()
    for name in ("copy.zarr", "y.zarr"):
        np.testing.assert_array_equal(arrays.read(tmp_path / name), x + 1)


def test_an_output_that_may_not_be_written_stops_the_run(tmp_path):
    path = pipeline(tmp_path)
    (tmp_path / "out").mkdir()
    outcome = in_namespace("""
        mount -t tmpfs tmpfs out && mount -o remount,ro out
        code=0; $cuboid run pipeline.yaml 2>error || code=$?
        echo $code >code""", tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    text = (tmp_path / "error").read_text()
    assert int((tmp_path / "code").read_text()) == 6 and "Read-only file system" in text and "out/" in text, text
    cuboid("run", path)
