import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_sessionstart(session):
    from program import CUBOID
    if not CUBOID.exists():
        raise SystemExit(f"{CUBOID} is not there: build it first, or name its folder in CUBOID_BUILD")
