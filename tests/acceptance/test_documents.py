"""What the README and the documents say is true: code in them builds and runs, links lead somewhere."""
import re
import subprocess

import numpy as np
import pytest

import arrays
from program import ROOT, cuboid

README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("sdk/**/*.md")])


def block_of(language, holding=""):
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if holding in block)


def test_plugin_of_fifteen_lines(tmp_path):
    source = block_of("cpp")
    assert len(source.splitlines()) <= 15
    (tmp_path / "demo.cc").write_text(source)
    command = block_of("sh", "g++").replace("-Isdk/include", f"-I{ROOT}/sdk/include")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    (tmp_path / "pipeline.yaml").write_text(block_of("yaml"))

    signal = np.random.default_rng(7).normal(2, 2, 1000)
    arrays.write(tmp_path / "signal.zarr", signal, (128,))
    cuboid("run", "pipeline.yaml", cwd=tmp_path)
    np.testing.assert_array_equal(arrays.read(tmp_path / "high.zarr"), signal[signal > 3])


def test_plan_table_in_the_readme_is_real():
    """The stages, confidences and tasks shown are those that the program prints."""
    shown = [line.split() for line in README.splitlines()]
    printed = cuboid("plan", "examples/hubble.yaml", cwd=ROOT).out.splitlines()
    for line in printed:
        if line.strip():
            assert line.split() in shown, line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#\s]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_map_of_folders():
    for cell in re.findall(r"^\| (`.*?`) \| .*? \| (.*?) \|$", README, re.MULTILINE):
        folders = re.findall(r"`([^`]+)/`", cell[0])
        assert folders and all((ROOT / folder).is_dir() for folder in folders), cell
        for start in re.findall(r"`([^`]+)`", cell[1]):
            assert any((base / start).exists() for base in [ROOT, *(ROOT / folder for folder in folders),
                                                            *((ROOT / folder).parent for folder in folders)]), start
