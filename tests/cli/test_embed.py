"""The C++ face: the example program is compiled, run, and gives what the command line gives."""
import subprocess

import numpy as np
import pytest

import arrays
from program import BUILD, DATA, ROOT, cuboid, environment

IMAGE = DATA / "hubble_deep_field.zarr"


def compile_program(source, program):
    subprocess.run(["g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", source, "-o", program, f"-I{ROOT}",
                    f"-I{ROOT}/engine/include", f"-I{ROOT}/sdk/include", f"-L{BUILD}", "-lcuboid", f"-Wl,-rpath,{BUILD}"], check=True)


def run_program(*words, expect=0):
    done = subprocess.run(list(map(str, words)), env=environment(), text=True, capture_output=True)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def embed(tmp_path_factory):
    program = tmp_path_factory.mktemp("embed") / "embed"
    compile_program(ROOT / "examples/embed/main.cc", program)
    return program


def test_example_computes_what_the_command_line_does(embed, tmp_path):
    told = run_program(embed, IMAGE, tmp_path / "bright.zarr")
    assert "filter.gaussian/1" in told and "embed.contrast/1" in told and "done: " in told and "256 MiB" in told
    (tmp_path / "p.yaml").write_text(f"""
arrays: {{image: {IMAGE}}}
steps:
  grey: {{call: mean, args: [image], params: {{axis: 2}}}}
  smooth: {{call: filter.gaussian, args: [grey], params: {{sigma: 1.5}}}}
store: {{smooth: smooth.zarr}}
""")
    cuboid("run", "p.yaml", cwd=tmp_path)
    smooth = arrays.read(tmp_path / "smooth.zarr")
    np.testing.assert_array_equal(arrays.read(tmp_path / "bright.zarr"), np.abs(smooth - 20.0) > 100.0)
    again = run_program(embed, IMAGE, tmp_path / "bright.zarr")
    assert "nothing to do" in again and "0 tasks run now" in again


REFUSALS = """\
#include <cuboid/cuboid.h>
#include <cstdio>
#include <string>
using namespace cuboid;
template <class Act> void tell(Act act) {
  try {
    act();
    std::puts("no error");
  } catch (const Error& error) {
    std::printf("%s: %s\\n", std::string(to_string(error.kind())).c_str(), error.what());
  }
}
int main(int, char** words) {
  const Array image = open_array(words[1]);
  tell([&] { make_plan({{image + 1, words[2]}}, {.memory = 1_MiB}); });
  tell([&] { call("meen", {image}); });
  tell([&] { mean(image, {7}); });
  tell([&] { make_plan({}); });
  tell([&] { open_array("nowhere.zarr"); });
  tell([&] { load_plugin("libnowhere.so"); });
  const Array table = ((image % 7 == 3) & ~(image >= 5)) | (image != 2);
  std::printf("%s %s\\n", to_string(table.dtype()).c_str(), to_string(table.shape()).c_str());
  std::printf("%s\\n", to_string(where(image > 1, image, astype(image, kInt32)).dtype()).c_str());
  std::printf("%s\\n", to_string((image * std::vector<double>{1, 2, 3}).dtype()).c_str());
}
"""


def test_wrong_requests_are_thrown(tmp_path):
    (tmp_path / "main.cc").write_text(REFUSALS)
    compile_program(tmp_path / "main.cc", tmp_path / "main")
    lines = run_program(tmp_path / "main", IMAGE, tmp_path / "out.zarr").splitlines()
    assert lines[0].startswith("over_budget: refused: ") and "add" in lines[0]
    assert lines[1].startswith("invalid: ") and "mean" in lines[1]
    assert lines[2].startswith("invalid: ") and "7" in lines[2]
    assert lines[3].startswith("invalid: ")
    assert lines[4].startswith("not_found: ") and "nowhere.zarr" in lines[4]
    assert "libnowhere.so" in lines[5]
    assert lines[6:] == ["bool (872, 1000, 3)", "int32", "float64"]
    assert not (tmp_path / "out.zarr").exists()
