"""The structure check finds what it should find, in trees made for the purpose."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

COUNT = pathlib.Path(__file__).parents[2] / "scripts" / "count_results.py"
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import structure


def findings_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return list(structure.findings(root, structure.tree(root)))


HEADERS = {name: "#pragma once\n" for name in (
    "storage/error.h", "storage/types.h", "storage/zarr.h", "engine/expr/kernel.h", "engine/plan/plan.h", "engine/run/task.h",
    "engine/run/run.h", "engine/run/events.h", "engine/plugin/manifest.h", "engine/report/table.h", "engine/cli/pipeline.h",
    "sdk/include/cuboid/plugin.h", "engine/include/cuboid/cuboid.h", "plugins/sky/sky.h", "plugins/filter/filter.h")}
# includer, included as written, allowed
INCLUDES = [
    ("storage/zarr.cc", "storage/error.h", True),
    ("storage/zarr.cc", "engine/expr/kernel.h", False),
    ("sdk/include/cuboid/plugin.hpp", "cuboid/plugin.h", True),
    ("sdk/include/cuboid/plugin.hpp", "storage/types.h", False),
    ("engine/expr/array.cc", "storage/zarr.h", True),
    ("engine/expr/array.cc", "engine/plan/plan.h", False),
    ("engine/plan/planner.cc", "engine/expr/kernel.h", True),
    ("engine/plan/planner.cc", "engine/run/run.h", False),
    ("engine/run/run.cc", "engine/plan/plan.h", True),
    ("engine/run/run.cc", "engine/plugin/manifest.h", False),
    ("engine/plugin/host.cc", "cuboid/plugin.h", True),
    ("engine/plugin/host.cc", "engine/plan/plan.h", False),
    ("engine/report/progress.cc", "engine/run/events.h", True),
    ("engine/report/progress.cc", "engine/run/run.h", False),
    ("engine/worker/main.cc", "engine/run/task.h", True),
    ("engine/worker/main.cc", "engine/run/run.h", False),
    ("engine/cli/main.cc", "engine/run/run.h", True),
    ("engine/cuboid.cc", "engine/run/run.h", True),
    ("engine/cuboid.cc", "engine/cli/pipeline.h", False),
    ("engine/include/cuboid/cuboid.h", "storage/types.h", True),
    ("engine/include/cuboid/cuboid.h", "storage/zarr.h", False),
    ("plugins/sky/sky.cc", "cuboid/plugin.h", True),
    ("plugins/sky/sky.cc", "plugins/sky/sky.h", True),
    ("plugins/sky/sky.cc", "plugins/filter/filter.h", False),
    ("plugins/sky/sky.cc", "storage/types.h", False),
    ("plugins/sky/sky.cc", "engine/nowhere.h", False),  # ours by its name, though it is not there
    ("tests/storage/zarr_test.cc", "engine/cli/pipeline.h", True),
]


class Structure(unittest.TestCase):
    def test_one_name_is_one_type(self):
        node = "namespace cuboid {\n\nstruct Node {\n};\n\n}  // namespace cuboid\n"
        hidden = node.replace("cuboid {", "cuboid {\nnamespace {").replace("}  //", "}  // namespace\n}  //")
        self.assertEqual(findings_of({"storage/a.h": node, "engine/plan/b.cc": hidden}), [])
        found = findings_of({"storage/a.h": node, "engine/plan/b.cc": node.replace("Node {", "Node final : Base {")})
        self.assertEqual(found, ["engine/plan/b.cc: cuboid::Node is another type in storage/a.h; name one of them otherwise"])

    def test_include_rules(self):
        for includer, name, allowed in INCLUDES:
            for brackets in ('"{}"', "<{}>"):
                with self.subTest(includer=includer, name=name):
                    text = f"#pragma once\n#include <vector>\n  #  include {brackets.format(name)}\n"
                    found = findings_of({**HEADERS, includer: text})
                    self.assertEqual([], found) if allowed else self.assertEqual(1, len(found), found)
                    if not allowed:
                        self.assertTrue(found[0].startswith(f"{includer}:3: includes "), found)

    def test_neighbour_by_relative_name_is_seen(self):
        found = findings_of({**HEADERS, "engine/plan/x.cc": '#include "../run/run.h"\n'})
        self.assertEqual(["engine/plan/x.cc:1: includes engine/run/run.h; engine/plan/ may include only "
                          "engine/expr/, storage/"], found)

    def test_long_file(self):
        self.assertEqual([], findings_of({"storage/a.cc": "\n" * 800}))
        self.assertEqual(["storage/a.cc: 801 lines, at most 800: split it by idea"], findings_of({"storage/a.cc": "\n" * 801}))

    def test_names(self):
        self.assertEqual(1, len(findings_of({"engine/util/a.h": ""})))
        self.assertEqual(1, len(findings_of({"storage/BadName.cc": ""})))
        self.assertEqual([], findings_of({"build/dev/util/a.h": ""}))


class Counting(unittest.TestCase):
    """scripts/count_results.py, which has the last word in CI."""

    def count(self, *cases):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<testsuites><testsuite>" + "".join(cases) + "</testsuite></testsuites>")
            file.flush()
            done = subprocess.run([sys.executable, COUNT, file.name], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout.strip()

    def test_counts(self):
        good = '<testcase name="a" status="run"/>'
        self.assertEqual((0, "2 passed, 0 failed"), self.count(good, '<testcase name="b"/>'))
        for bad in ("<testcase><failure/></testcase>", "<testcase><error/></testcase>", "<testcase><skipped/></testcase>",
                    '<testcase status="fail"/>', '<testcase status="notrun"/>'):
            self.assertEqual((1, "1 passed, 1 failed"), self.count(good, bad))
        self.assertEqual((1, "0 passed, 0 failed"), self.count())


if __name__ == "__main__":
    unittest.main()
