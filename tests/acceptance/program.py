"""The program `cuboid` as a user meets it: commands, pipeline files, directory trees, process trees."""
import ctypes
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CUBOID_BUILD", ROOT / "build" / "dev"))
CUBOID = BUILD / "cuboid"
DATA = ROOT / "examples" / "data"
MIB = 1 << 20


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    def stage(self, name):
        return next(stage for stage in self.json["stages"] if stage["name"] == name)

    def total(self, key):
        return sum(stage[key] for stage in self.json["stages"])


def environment(**extra):
    """The caller's, without the settings that would change what a test means."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CUBOID_")}
    return {**kept, "CUBOID_HISTORY": "off", **extra}


def start(*arguments, cwd=None, env=None, **options):
    return subprocess.Popen([str(CUBOID), *map(str, arguments)], cwd=cwd, env=environment(**(env or {})),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                            **{"stderr": subprocess.PIPE, **options})


def finish(process, timeout=300):
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out, err)


class LineByLine:
    """A pipe for what a program writes, a line at a write: it waits before each line until the one before was taken, so
    that what a line announces has been begun and nothing that later ones announce has happened yet."""

    def __init__(self):
        self.reader, self.writer = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)  # each write is a packet of its own
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, 4096)  # room for one
        self._copy = os.pipe2(os.O_CLOEXEC)
        self._rest = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.writer is not None:
            os.close(self.writer)
        if self._rest:
            self._rest.join()
        for descriptor in (self.reader, *self._copy):
            os.close(descriptor)

    def __iter__(self):
        """The program must have been started."""
        os.close(self.writer)
        self.writer = None
        tee = ctypes.CDLL(None, use_errno=True).tee
        while (length := tee(self.reader, self._copy[1], 4096, 0)) > 0:  # seen, and still in the pipe
            yield os.read(self._copy[0], length).decode()
            os.read(self.reader, 4096)
        assert length == 0, os.strerror(ctypes.get_errno())

    def pass_on(self):
        """Takes all further lines as they come."""
        self._rest = threading.Thread(target=lambda: all(iter(lambda: os.read(self.reader, 4096), b"")))
        self._rest.start()


def cuboid(*arguments, expect=0, cwd=None, env=None, timeout=300):
    """Runs `cuboid ...` and asserts its exit code (None: any)."""
    outcome = finish(start(*arguments, cwd=cwd, env=env), timeout)
    assert expect is None or outcome.code == expect, (
        f"cuboid {' '.join(map(str, arguments))}: exit code {outcome.code}, expected {expect}\n"
        f"stdout: {outcome.out[-4000:]}\nstderr: {outcome.err[-4000:]}")
    return outcome


def killed(blocks, *arguments, cwd=None):
    """Runs `cuboid ...`, which dies by SIGKILL once so many blocks of this run are journaled. The outcome; exit code 0
    where it had fewer."""
    outcome = cuboid(*arguments, cwd=cwd, expect=None, env={"CUBOID_INJECT": f"run:{blocks}"})
    assert outcome.code in (0, -signal.SIGKILL), (outcome.code, outcome.err[-4000:])
    return outcome


def tree(folder):
    """Every path under `folder` with a digest of its bytes: equal trees are equal to the last byte."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
    return found


def journaled(run_dir):
    """Committed blocks of a run by stage."""
    path = run_dir / "journal.sqlite"
    if not path.exists():
        return {}
    # Opened for writing, so that SQLite may roll back what a killed writer left half done, as the next run would.
    with sqlite3.connect(path, timeout=10) as journal:
        try:
            return dict(journal.execute("SELECT name, count(*) FROM blocks JOIN names ON names.id = stage GROUP BY name"))
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error)  # killed before the journal was made
            return {}


def processes(root_pid):
    """The process and all that descend from it, as far as they live."""
    found, queue = [], [root_pid]
    while queue:
        pid = queue.pop()
        found.append(pid)
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as children:
                    queue.extend(map(int, children.read().split()))
        except OSError:
            pass
    return found


def workers_of(pid):
    """Worker processes of a coordinator."""
    found = []
    for child in processes(pid)[1:]:
        try:
            with open(f"/proc/{child}/cmdline", "rb") as line:
                if b"worker" in line.read():
                    found.append(child)
        except OSError:
            pass
    return found


def pss(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            for line in rollup:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:  # it ended meanwhile
        pass
    return 0


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


class MemoryWatch:
    """Samples the summed Pss of a process tree every 10 ms, and how many of its workers run at once."""

    def __init__(self, pid):
        self.peak = 0
        self.samples = 0
        self.samples_with_two_running = 0
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.is_set():
            due = time.monotonic() + 0.01
            tree_pids = processes(self._pid)
            self.peak = max(self.peak, sum(map(pss, tree_pids)))
            self.samples += 1
            self.samples_with_two_running += sum(map(running, tree_pids[1:])) >= 2
            self._stop.wait(max(0.0, due - time.monotonic()))
