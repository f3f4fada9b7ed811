"""The plugin ABI does not change under plugins that are built already: what minor 0 laid down (abi.txt, made by abi_dump.py
from the header as it was) is still so; structs may only have grown at their ends."""
import pathlib
import re
import tempfile
import unittest

import abi_dump

HERE = pathlib.Path(__file__).resolve().parent
SIZE = re.compile(r"struct (\w+): at least (\d+) bytes")


def breaches(promised, found):
    """Lines of `promised` that no longer hold in `found`."""
    sizes = {m.group(1): int(m.group(2)) for m in map(SIZE.fullmatch, found.splitlines()) if m}
    lines = set(found.splitlines())
    broken = []
    for line in promised.splitlines():
        size = SIZE.fullmatch(line)
        holds = sizes.get(size.group(1), 0) >= int(size.group(2)) if size else line in lines
        if not holds:
            broken.append(line)
    return broken


class Abi(unittest.TestCase):
    promised = (HERE / "abi.txt").read_text()

    def dump_of(self, text):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder) / "cuboid/plugin.h"
            header.parent.mkdir()
            header.write_text(text)
            return abi_dump.dump(header)

    def test_the_frozen_header_is_what_was_promised(self):
        self.assertEqual(abi_dump.dump(HERE / "frozen/cuboid/plugin.h"), self.promised)

    def test_todays_header_keeps_it(self):
        for compiler in ("gcc", "clang"):
            self.assertEqual(breaches(self.promised, abi_dump.dump(compiler=compiler)), [])

    def test_growth_at_the_end_is_allowed(self):
        text = abi_dump.HEADER.read_text()
        grown = text.replace("  const int64_t* inner_shape;  /*", "  const int64_t* inner_shape;  const void* later;  /*")
        self.assertNotEqual(grown, text)
        self.assertEqual(breaches(self.promised, self.dump_of(grown)), [])

    def test_any_other_change_is_noticed(self):
        text = abi_dump.HEADER.read_text()
        for old, new in [("  uint32_t lanes;", "  uint32_t first;\n  uint32_t lanes;"), ("CUBOID_E_BUDGET = -5", "CUBOID_E_BUDGET = -15"),
                         ("void (*detach)(void);", ""), ("int32_t (*cancelled)(cuboid_call* call);", "int64_t (*cancelled)(cuboid_call* call);"),
                         ("CUBOID_F_THREADS = 1u << 3", "CUBOID_F_THREADS = 1u << 4"), ("uint16_t rank;", "uint32_t rank;")]:
            self.assertIn(old, text)
            self.assertNotEqual(breaches(self.promised, self.dump_of(text.replace(old, new, 1))), [], old)


if __name__ == "__main__":
    unittest.main()
