import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_sessionstart(session):
    from program import CUBOID
    if not CUBOID.exists() and not session.config.option.collectonly:
        pytest.exit(f"{CUBOID} is not there: build it first, or name its folder in CUBOID_BUILD", returncode=2)
