"""`cuboid plan`: where its numbers come from, which stage decides the budget, what would lower it; what-if and graphs."""
import json
import re

import numpy as np
import pytest

import arrays
from program import MIB, cuboid


@pytest.fixture
def folder(tmp_path):
    x = np.random.default_rng(20261202).normal(size=(2048, 1024))
    arrays.write(tmp_path / "x.zarr", x, (512, 512))
    content = {"memory": "64MiB", "arrays": {"x": "x.zarr"},
               "steps": {"y": {"call": "add", "args": ["x", "x"]},
                         "u": {"call": "unique_values", "args": ["y"], "max_shape": [1000]},
                         "m": {"call": "mean", "args": ["x"], "params": {"axis": 0}}},
               "store": {"y": "y.zarr", "u": "u.zarr", "m": "m.zarr"}}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    return tmp_path


def in_bytes(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def test_the_formula_adds_up_to_the_number(folder):
    for stage in cuboid("plan", "p.yaml", "--json", cwd=folder).json["stages"]:
        parts = re.findall(r"(\d[\d.]* (?:B|KiB|MiB|GiB))(?: \+|$)", stage["memory_formula"])
        assert sum(map(in_bytes, parts)) == pytest.approx(stage["projected_bytes"], rel=0.02), stage["memory_formula"]


def test_verbose_prints_where_each_number_comes_from(folder):
    text = cuboid("plan", "p.yaml", "-v", cwd=folder).out
    formulas = text.split("\n\n")[2].splitlines()
    told = cuboid("plan", "p.yaml", "--json", cwd=folder).json
    assert [line.split()[0] for line in formulas[1:]] == [stage["name"] for stage in told["stages"]]
    assert "= x 2 MiB + encoding y" in formulas[1]  # the sum is computed in the memory of x


def test_the_deciding_stage_and_what_would_lower_it(folder):
    told = cuboid("plan", "p.yaml", "--json", cwd=folder).json
    deciding = told["deciding"]
    largest = max(told["stages"], key=lambda stage: stage["projected_bytes"])
    assert deciding["stage"] == largest["name"]
    text = cuboid("plan", "p.yaml", cwd=folder).out
    assert f"decided by '{deciding['stage']}'" in text
    # In that budget the plan fits, in less it does not.
    needed = deciding["smallest_budget"]
    cuboid("plan", "p.yaml", "--memory", needed, cwd=folder)
    refused = cuboid("plan", "p.yaml", "--memory", needed - 64, "--json", cwd=folder, expect=3).json
    assert refused["refused"]["stage"] == deciding["stage"]
    # With the chunks that it names the stage takes what it says, at most.
    content = json.loads((folder / "p.yaml").read_text())
    content["steps"][deciding["step"]]["chunks"] = deciding["chunks"]
    (folder / "p.yaml").write_text(json.dumps(content))
    again = cuboid("plan", "p.yaml", "--json", cwd=folder).json
    lowered = next(stage for stage in again["stages"] if stage["name"] == deciding["stage"])
    assert lowered["projected_bytes"] <= deciding["budget_with_chunks"] < needed


@pytest.mark.parametrize("step", [{"call": "var", "args": ["x"], "params": {"axis": 0}, "chunks": [1024, 2048]},
                                  {"call": "sort", "args": ["x"], "params": {"axis": 1}, "chunks": [1024, 2048]},
                                  {"call": "multiply", "args": ["x", 2], "chunks": [1024, 2048]}])
def test_a_refused_step_is_told_chunks_that_fit(tmp_path, step):
    arrays.write(tmp_path / "x.zarr", np.zeros((2048, 2048)), (64, 2048))
    content = {"arrays": {"x": "x.zarr"}, "steps": {"y": step}, "store": {"y": "y.zarr"}}
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    refused = cuboid("plan", "p.yaml", "--memory", "26MiB", "--json", cwd=tmp_path, expect=3).json["refused"]
    content["steps"]["y"]["chunks"] = json.loads(re.search(r"chunks: (\[.*?\])", refused["hint"])[1])
    (tmp_path / "p.yaml").write_text(json.dumps(content))
    cuboid("plan", "p.yaml", "--memory", "26MiB", cwd=tmp_path)


def test_the_users_own_numbers_are_shown(folder):
    told = cuboid("plan", "p.yaml", "--json", cwd=folder).json
    stage = next(stage for stage in told["stages"] if stage["name"] == "u")
    assert stage["user_numbers"] == "max_shape (1000)" and stage["confidence"] == "unsafe"
    assert "your own numbers for 'u': max_shape (1000)" in cuboid("plan", "p.yaml", cwd=folder).out


def test_what_if_answers_without_touching_the_file(folder):
    before = (folder / "p.yaml").read_bytes()
    told = cuboid("plan", "p.yaml", "--json", "--what-if", "memory=1GiB,chunks=128,128", cwd=folder).json
    assert told["budget"] == 1024 * MIB
    y = next(stage for stage in told["stages"] if stage["name"] == "y")
    assert y["tasks"] == 16 * 8 and y["outputs"][0]["chunks"] == [128, 128]
    assert (folder / "p.yaml").read_bytes() == before


def test_columns_stand_under_their_titles(folder):
    table = cuboid("plan", "p.yaml", cwd=folder).out.split("\n\n")[0].splitlines()
    at = table[0].index("confidence")
    for row in table[1:]:
        assert row[at - 2:at] == "  " and row[at] != " "
    end = table[0].index("memory/task") + len("memory/task")
    for row in table[1:]:
        assert row[end - 1] != " " and row[end:end + 2] == "  "


def test_dot_is_a_graph_of_stages_and_arrays(folder):
    dot = cuboid("plan", "p.yaml", "--dot", cwd=folder).out
    assert dot.startswith("digraph") and dot.count("{") == dot.count("}") == 1
    assert 'label="u: unique_values, unsafe' in dot
