"""What the README and the documents say is true: code in them builds and runs, links lead somewhere."""
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import arrays
from program import CUBOID, ROOT, cuboid, environment

README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("sdk/**/*.md")])


def block_of(language, holding=""):
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if holding in block)


def test_plugin_of_fifteen_lines(tmp_path):
    source = block_of("cpp")
    assert len(source.splitlines()) <= 15
    (tmp_path / "demo.cc").write_text(source)
    command = block_of("sh", "g++").replace("sdk/", f"{ROOT}/sdk/")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    cuboid("plugin", "check", "./libdemo.so", cwd=tmp_path)
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


def test_abi_reference_is_made_from_the_header():
    made = subprocess.run([sys.executable, ROOT / "docs/make_abi_reference.py"], check=True, stdout=subprocess.PIPE, text=True)
    assert made.stdout == (ROOT / "docs/plugin-abi.md").read_text()
    for word in ("cuboid_status (*acquire)", "## Planning", "[thread] the call's", "GROWTH RULE"):
        assert word in made.stdout


def test_your_first_plugin_line_by_line(tmp_path):
    """Every block of the tutorial in order: shell is run, files are written under the name that stands before them."""
    text = (ROOT / "docs/first-plugin.md").read_text()
    image = np.random.default_rng(3).integers(0, 255, (90, 70), np.uint8)
    arrays.write(tmp_path / "image.zarr", image, (32, 32))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cuboid").symlink_to(CUBOID)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    count = 0
    for before, language, body in re.findall(r"([^\n]*)\n```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        count += 1
        if language == "sh":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env=environment(PATH=path))
            assert done.returncode == 0, f"{body}\n{done.stdout[-4000:]}"
        else:
            (tmp_path / re.search(r"`([\w./]+)`:", before).group(1)).write_text(body)
    assert count == 5
    scaled = arrays.read(tmp_path / "out/scaled.zarr")
    np.testing.assert_array_equal(scaled, (image.astype(np.float64) - 10) / 245)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/bright.zarr"), scaled > 0.5)
