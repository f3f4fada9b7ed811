"""Arrays in archives, behind web servers and in object stores."""
import os
import subprocess
import time
import zipfile

import numpy as np
import pytest
import zarr

import web
from program import BUILD, ROOT, cuboid, finish, start
from test_zarr_python import cat, same

CEPH = os.environ.get("CUBOID_TEST_S3_SERVER") == "ceph"
VALUES = np.random.default_rng(8).integers(-9999, 9999, (37, 29), dtype="i4")


def write(path, sharded=False, zarr_format=3, chunks=(5, 4), **options):
    array = zarr.create_array(store=str(path), shape=VALUES.shape, chunks=chunks, dtype="i4", zarr_format=zarr_format,
                              shards=(10, 8) if sharded else None, attributes={"unit": "m"}, **options)
    array[...] = VALUES
    return path


def hierarchy(path, zarr_format):
    root = zarr.create_group(store=str(path), zarr_format=zarr_format, attributes={"title": "all"})
    root.create_group("g").create_array("x y", shape=(3, 4), dtype="f4", chunks=(2, 2))[...] = 1
    root.create_array("z", shape=(5,), dtype="i2", chunks=(5,))[...] = 2
    zarr.consolidate_metadata(str(path))
    return path


def packed(folder, path, compression):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    return path


# --- ZIP ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("sharded, zarr_format", [(False, 2), (False, 3), (True, 3)])
def test_archives_are_read(tmp_path, sharded, zarr_format, compression):
    archive = packed(write(tmp_path / "a", sharded, zarr_format), tmp_path / "a.zip", compression)
    same(cat(archive, tmp_path), VALUES)
    same(cat(archive, tmp_path, "--box", "3:30:4,-7:"), VALUES[3:30:4, -7:])
    info = cuboid("array", "info", archive, "--json").json
    assert info["attributes"] == {"unit": "m"}
    assert info["chunks_stored"] == cuboid("array", "info", tmp_path / "a", "--json").json["chunks_stored"]
    if sharded:
        assert "--shards none" in cuboid("array", "copy", archive, tmp_path / "copy", "--chunks", "37,2", expect=2).err
    cuboid("array", "copy", archive, tmp_path / "copy", "--chunks", "37,2", *(["--shards", "none"] if sharded else []))
    same(zarr.open_array(store=str(tmp_path / "copy"))[...], VALUES)
    told = cuboid("array", "copy", tmp_path / "a", tmp_path / "a.zip", expect=2).err
    assert "exists already" in told or "read only" in told


def test_archives_that_zarr_python_wrote(tmp_path):
    with zarr.storage.ZipStore(str(tmp_path / "h.zip"), mode="w") as store:
        root = zarr.create_group(store=store)
        root.create_array("g/x", shape=VALUES.shape, dtype="i4", chunks=(9, 9))[...] = VALUES
    assert [n["path"] for n in cuboid("array", "ls", tmp_path / "h.zip", "--json").json["nodes"]] == ["", "g", "g/x"]
    same(cat(f"{tmp_path}/h.zip/g/x", tmp_path), VALUES)
    assert "a group is there" in cuboid("array", "cat", tmp_path / "h.zip", expect=2).err


def test_archives_that_are_damaged(tmp_path):
    archive = packed(write(tmp_path / "a"), tmp_path / "a.zip", zipfile.ZIP_STORED)
    whole = archive.read_bytes()
    with zipfile.ZipFile(archive) as z:
        info = z.getinfo("c/0/0")
        at = whole.index(b"c/0/0", info.header_offset) + 5 + info.compress_size // 2
    archive.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
    assert "c/0/0" in cuboid("array", "cat", archive, expect=6).err
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        archive.write_bytes(whole[:length])
        assert "archive" in cuboid("array", "cat", archive, expect=2).err
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as z:
        z.writestr("../zarr.json", "{}")
        z.writestr("/etc/zarr.json", "{}")
    cuboid("array", "ls", tmp_path / "evil.zip", expect=2)


# --- HTTP -----------------------------------------------------------------------------------------------------------

def test_a_web_server(tmp_path):
    (tmp_path / "www").mkdir()
    for name, sharded, zarr_format in (("two", False, 2), ("three", False, 3), ("shards", True, 3)):
        write(tmp_path / "www" / name, sharded, zarr_format)
    for zarr_format in (2, 3):
        hierarchy(tmp_path / f"www/h {zarr_format}", zarr_format)
    with web.lighttpd(tmp_path / "www", tmp_path) as url:
        for name in ("two", "three", "shards"):
            same(cat(f"{url}/{name}", tmp_path), VALUES)
            same(cat(f"{url}/{name}", tmp_path, "--box", "11:20,3"), VALUES[11:20, 3])
            info = cuboid("array", "info", f"{url}/{name}", "--json").json
            assert info["shape"] == [37, 29] and info["chunks_stored"] is None and info["bytes_stored"] is None
            cuboid("array", "info", f"{url}/{name}")
        for zarr_format in (2, 3):
            nodes = cuboid("array", "ls", f"{url}/h%20{zarr_format}", "--json").json["nodes"]
            assert [(n["path"], n["kind"]) for n in nodes] == [("", "group"), ("g", "group"), ("g/x y", "array"), ("z", "array")]
        same(cat(f"{url}/h%203/g/x y", tmp_path), np.ones((3, 4), "f4"))
        cuboid("array", "copy", f"{url}/shards", tmp_path / "copy", "--chunks", "20,29", "--shards", "40,29")
        same(zarr.open_array(store=str(tmp_path / "copy"))[...], VALUES)
        assert "no Zarr array" in cuboid("array", "cat", f"{url}/nothing", expect=2).err
        assert "read only" in cuboid("array", "copy", tmp_path / "copy", f"{url}/new", "--run-dir", tmp_path / "run", expect=2).err


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("fault", [503, 429, "drop", "cut"])
def test_transient_faults_are_retried(tmp_path, sharded, fault):
    write(tmp_path / "a", sharded)
    times = 3 if fault == "drop" else 2  # libcurl itself asks again where a kept connection is dropped
    with web.Faulty(tmp_path, lambda path, n: fault if n <= times and "/c/" in path else None) as server:
        path = tmp_path / "cat.npy"
        told = cuboid("array", "cat", f"{server.url}/a", "--npy", path)
        same(np.load(path), VALUES)
        assert "attempt 3 of 6" in told.err and "/a/c/" in told.err  # what lasts is shown


def test_lasting_faults_are_errors_that_say_where(tmp_path):
    write(tmp_path / "a")
    nobody = start("array", "cat", "http://127.0.0.1:9/a")  # takes as long as all attempts do
    with web.Faulty(tmp_path, lambda path, n: 403 if path == "/a/c/1/1" else None) as server:
        told = cuboid("array", "cat", f"{server.url}/a", expect=6).err
        assert "403" in told and "/a/c/1/1" in told
        assert server.counts["/a/c/1/1"] == 1  # no use in asking again
    with web.Faulty(tmp_path, lambda path, n: 500 if path == "/a/c/1/1" else None) as server:
        told = cuboid("array", "cat", f"{server.url}/a", expect=6).err
        assert "500" in told and "/a/c/1/1" in told and server.counts["/a/c/1/1"] == 6
    told = finish(nobody)
    assert told.code == 6 and "cannot be reached" in told.err


def test_servers_without_ranges_and_with_wrong_ones(tmp_path):
    write(tmp_path / "a", True)
    with web.Faulty(tmp_path, ranges=False) as server:
        same(cat(f"{server.url}/a", tmp_path), VALUES)
        same(cat(f"{server.url}/a", tmp_path, "--box", "11:20,3"), VALUES[11:20, 3])
    for fault in ("other range", "gzip"):
        with web.Faulty(tmp_path, lambda path, n: fault if "/c/" in path else None) as server:
            cuboid("array", "cat", f"{server.url}/a", "--box", "11:20,3", expect=6)


@pytest.mark.parametrize("sharded, requests", [(False, 64), (True, 16 + 16)])
def test_latency_does_not_add_up(tmp_path, sharded, requests):
    """Chunks, or the indices of shards and what is wanted of them, are asked for together."""
    write(tmp_path / "a", sharded)
    with web.Faulty(tmp_path, delay=0.2) as server:
        begin = time.monotonic()
        same(cat(f"{server.url}/a", tmp_path), VALUES)
        assert len(server.log) >= requests and server.most >= 8
        assert requests * 0.2 > 2 * (time.monotonic() - begin)


# --- S3 -------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """moto, a server that speaks S3, in an environment of its own; or the one that tests/s3 has started."""
    venv = subprocess.run([ROOT / "scripts/venv", ROOT / "tests/requirements-s3.txt"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    port = web.free_port()
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    url = f"http://127.0.0.1:{port}"
    if CEPH:  # taken away, so that a test has only what it states
        url = os.environ.pop("AWS_ENDPOINT_URL")
        keys = {name: os.environ.pop(name) for name in keys}
    process = None if CEPH else subprocess.Popen([f"{venv}/bin/moto_server", "-p", str(port)], stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL)
    try:
        if process:
            web.wait_for(port, process)
        make = f"import boto3; boto3.client('s3', endpoint_url='{url}', region_name='us-east-1').create_bucket(Bucket='test')"
        subprocess.run([f"{venv}/bin/python", "-c", make], check=True, env={**os.environ, **keys})
        yield {"AWS_ENDPOINT_URL": url, **keys}
    finally:
        if process:
            process.terminate()
            process.wait()


def test_s3_keeps_the_contract_of_stores(s3):
    tests = subprocess.run([BUILD / "test_storage", "--gtest_filter=S3*"], text=True, stdout=subprocess.PIPE,
                           env={**os.environ, **s3, "CUBOID_TEST_S3": "s3://test"})
    assert tests.returncode == 0, tests.stdout[-5000:]
    assert "[  PASSED  ]" in tests.stdout and "0 tests" not in tests.stdout


@pytest.mark.parametrize("sharded", [False, True])
def test_s3_both_ways(tmp_path, s3, sharded):
    write(tmp_path / "a", sharded)
    target = f"s3://test/both ways {sharded}"
    cuboid("array", "copy", tmp_path / "a", target, "--run-dir", tmp_path / "run", env=s3)
    path = tmp_path / "cat.npy"
    cuboid("array", "cat", target, "--npy", path, env=s3)
    same(np.load(path), VALUES)
    info = cuboid("array", "info", target, "--json", env=s3).json
    here = cuboid("array", "info", tmp_path / "a", "--json").json
    assert (info["chunks_stored"], info["bytes_stored"]) == (here["chunks_stored"], here["bytes_stored"])
    assert cuboid("array", "ls", "s3://test", "--json", env=s3).json["nodes"]
    cuboid("array", "copy", target, tmp_path / "back", "--format", "2", "--chunks", "7,7", env=s3)
    same(zarr.open_array(store=str(tmp_path / "back"))[...], VALUES)
    assert "exists already" in cuboid("array", "copy", tmp_path / "a", target, "--run-dir", tmp_path / "run2", env=s3, expect=2).err
    cuboid("array", "copy", tmp_path / "a", target, "--overwrite", "--run-dir", tmp_path / "run3", env=s3)


def test_s3_credentials_come_from_a_profile_file(tmp_path, s3):
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = no\n[lab]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    (tmp_path / "config").write_text(f"[profile lab]\nregion = eu-central-1\nendpoint_url = {s3['AWS_ENDPOINT_URL']}\n")
    env = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_CONFIG_FILE": str(tmp_path / "config")}
    write(tmp_path / "a")
    cuboid("array", "copy", tmp_path / "a", "s3://test/profile", "--run-dir", tmp_path / "run", env={**env, "AWS_PROFILE": "lab"})
    assert cuboid("array", "info", "s3://test/profile", "--json", env={**env, "AWS_PROFILE": "lab"}).json["shape"] == [37, 29]
    assert "no secret" in cuboid("array", "info", "s3://test/profile", env=env, expect=2).err
    assert "neither" in cuboid("array", "info", "s3://test/profile", env={**env, "AWS_PROFILE": "none"}, expect=2).err


if CEPH:  # the stand-in checks no signatures
    def test_s3_refuses_a_wrong_secret(tmp_path, s3):
        write(tmp_path / "a")
        wrong = {**s3, "AWS_SECRET_ACCESS_KEY": "guess"}
        told = cuboid("array", "copy", tmp_path / "a", "s3://test/refused", "--run-dir", tmp_path / "run", env=wrong, expect=None)
        assert told.code != 0 and "403" in told.err and "credentials" in told.err
        assert "403" in cuboid("array", "info", "s3://test/refused", env=wrong, expect=6).err


def test_plugins_read_from_the_network(tmp_path):
    """Workers of their own, whose memory is counted, load what the network needs."""
    field = ROOT / "examples/data/hubble_deep_field.zarr"
    with web.Faulty(field.parent) as server:
        text = (ROOT / "examples/hubble.yaml").read_text()
        assert "data/hubble_deep_field.zarr" in text
        results = {}
        for name, place in (("web", f"{server.url}/hubble_deep_field.zarr"), ("file", field)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "p.yaml").write_text(text.replace("data/hubble_deep_field.zarr", str(place)))
            ran = cuboid("run", tmp_path / name / "p.yaml", "--json").json
            assert ran["status"] == "done"
            assert all(s["peak_bytes"] is None or s["peak_bytes"] <= s["allowed_bytes"] for s in ran["stages"])
            results[name] = zarr.open_array(store=str(tmp_path / name / "out/hubble/sources.zarr"), mode="r")[...]
        assert len(results["web"]) > 100
        same(results["web"], results["file"])
