"""The plugin ABI as text, a line a fact: sizes, offsets, numbers and the types of functions in plugin.h, as the C compiler
lays them out here.

    abi_dump.py [HEADER]      prints it; tests/sdk/abi.txt is what minor 0 promised
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "sdk/include/cuboid/plugin.h"


def declarations(text):
    """The header without comments and preprocessor lines, in single spaces."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).replace("\\\n", " ")
    return re.sub(r"\s+", " ", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))


def structs(text):
    """(name, [(member, declaration)]) of every struct with a body."""
    for match in re.finditer(r"(?:typedef )?struct (cuboid_\w+) \{", text):
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        body = re.sub(r"union \{[^}]*\} (\w+);", r"union \1;", text[match.end():at - 1])
        members = []
        for declaration in filter(None, map(str.strip, body.split(";"))):
            pointer = re.search(r"\(\*(\w+)\)", declaration)
            name = pointer.group(1) if pointer else re.search(r"(\w+)(?:\[\w+\])?$", declaration).group(1)
            members.append((name, declaration))
        yield match.group(1), members


def numbers(text):
    for match in re.finditer(r"enum \{([^}]*)\}", text):
        for entry in filter(None, map(str.strip, match.group(1).split(","))):
            yield entry.split("=")[0].strip()


def dump(header=HEADER, compiler="cc"):
    raw = header.read_text()
    text = declarations(raw)
    kinds = {name: ("struct " if f"typedef struct {name}" not in text and f"typedef struct {name} {name};" not in text
                    else "") + name for name, _ in structs(text)}
    lines = ["#include <cuboid/plugin.h>", "#include <stdio.h>", "int main(void) {"]
    for name, members in structs(text):
        kind = kinds[name]
        lines.append(f'printf("struct {name}: at least %zu bytes\\n", sizeof({kind}));')
        for member, declaration in members:
            lines.append(f'printf("{name}.{member} at %zu, %zu bytes: %s\\n", offsetof({kind}, {member}), '
                         f'sizeof((({kind}*)0)->{member}), "{declaration}");')
    for number in numbers(text):
        lines.append(f'printf("{number} = %lld\\n", (long long){number});')
    for macro in re.findall(r"#define (CUBOID_(?:MAJOR|MAX_RANK))\b", raw):
        lines.append(f'printf("{macro} = %lld\\n", (long long){macro});')
    for macro in re.findall(r"#define (CUBOID_(?:ENTRY|BLOB_MAGIC|SECTION_NAME)) ", raw):
        lines.append(f'printf("{macro} = %s\\n", {macro});')
    entry = re.search(r"CUBOID_EXPORT (const cuboid_plugin\* cuboid_plugin_v1\([^)]*\))", text).group(1)
    lines += [f'puts("{entry}");', "return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "dump.c", pathlib.Path(folder) / "dump"
        source.write_text("\n".join(lines))
        include = header.resolve().parents[1]
        subprocess.run([compiler, "-std=c11", f"-I{include}", source, "-o", program], check=True)
        return subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    print(dump(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HEADER), end="")
