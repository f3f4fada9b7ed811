"""Checks how the source tree is built: who includes whom, how long files are, what folders and types are called, and that
clang-format would change nothing.

    structure.py ROOT     prints every finding, one a line; exit code 1 where there is one
"""
import pathlib
import re
import subprocess
import sys

SOURCES = (".h", ".hpp", ".c", ".cc", ".cpp")
MAX_LINES = 800
# Longer on purpose, with its own limit.
LONGER = {"sdk/include/cuboid/plugin.hpp": 1800}  # one file to copy is what plugin authors are promised
FORBIDDEN_FOLDERS = {"util", "utils", "common", "internal", "misc", "helpers"}

STORAGE, EXPR, PLAN, RUN, PLUGIN = "storage/", "engine/expr/", "engine/plan/", "engine/run/", "engine/plugin/"
CHECK = "engine/check/"
SDK = "sdk/include/"
# Folder or file -> what of ours it may include, beside itself: prefixes. The longest matching key counts.
RULES = {
    "storage/": (),
    "sdk/": (),
    "plugins/": (SDK,),
    "engine/expr/": (STORAGE,),
    "engine/plan/": (EXPR, STORAGE),
    "engine/run/": (PLAN, EXPR, STORAGE),
    "engine/plugin/": (EXPR, STORAGE, SDK),
    "engine/check/": (PLAN, PLUGIN, EXPR, STORAGE, SDK),
    "engine/report/": ("engine/run/events.h", "engine/run/journal.h", "engine/plan/plan.h", STORAGE),
    "engine/worker/": ("engine/run/task", "engine/run/protocol.h", PLAN, EXPR, PLUGIN, CHECK, STORAGE),
    "engine/cli/": ("engine/", STORAGE, SDK),
    "engine/cuboid.cc": ("engine/include/", EXPR, PLAN, RUN, PLUGIN, "engine/report/", STORAGE, SDK),
    "engine/include/": ("storage/error.h", "storage/types.h", SDK),
}
# Where an include may be found, in the order in which it is tried.
ROOTS = ("", "sdk/include/", "engine/include/")
OURS = re.compile(r"^(storage|sdk|engine|plugins|cuboid|tests|bench)/")
TYPE = re.compile(r"(?:struct|class|union|enum class) (\w+)(?: final)?(?: : .*)? \{")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def rule_of(path):
    keys = [key for key in RULES if path.startswith(key)]
    return max(keys, key=len) if keys else None


def own_folder(path, key):
    """The folder within which files include each other freely: of plugins, each one; of a single file, none."""
    if key == "plugins/":
        return "/".join(path.split("/")[:2]) + "/"
    return key


def target_of(root, path, name):
    """The file of ours that `#include name` in `path` means, or None where it is somebody else's."""
    beside = (root / path).parent / name
    if beside.is_file():
        return beside.resolve().relative_to(root.resolve()).as_posix()
    for prefix in ROOTS:
        if (root / prefix / name).is_file():
            return prefix + name
    return name if OURS.match(name) else None


def include_findings(root, path, text):
    key = rule_of(path)
    if key is None:
        return
    allowed = (own_folder(path, key),) + RULES[key]
    for match in INCLUDE.finditer(text):
        target = target_of(root, path, match.group(1))
        if target is not None and not target.startswith(allowed):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: includes {target}; {key} may include only {', '.join(RULES[key]) or 'itself'}"


def types_of(text):
    """Classes and structures that a file defines at the level of a named namespace, as `cuboid::Shape`."""
    namespaces = []
    for line in text.splitlines():
        if opened := re.match(r"namespace ?([\w:]*) ?\{$", line):
            namespaces.append(opened.group(1))
        elif line.startswith("}  // namespace") and namespaces:
            namespaces.pop()
        elif namespaces and all(namespaces) and (defined := TYPE.match(line)):
            yield "::".join((*namespaces, defined.group(1)))


def name_findings(root, paths):
    """What is linked into one program may give a name to one type only: the linker takes any of two, silently."""
    places = {}
    for path in sorted(paths):
        if path.startswith(("storage/", "engine/")) and path.endswith((".h", ".cc")):
            for name in types_of((root / path).read_text(encoding="utf-8")):
                places.setdefault(name, []).append(path)
    for name, found in places.items():
        if len(found) > 1:
            yield f"{found[0]}: {name} is another type in {', '.join(found[1:])}; name one of them otherwise"


def findings(root, paths):
    """All findings about `paths` (relative to root, '/'-separated)."""
    paths = sorted(paths)
    yield from name_findings(root, paths)
    for path in paths:
        for folder in path.split("/")[:-1]:
            if folder in FORBIDDEN_FOLDERS:
                yield f"{path}: a folder named '{folder}' says nothing; put it where it is needed"
        if path.endswith(SOURCES + (".py",)):
            text = (root / path).read_text(encoding="utf-8")
            lines = text.count("\n")
            most = LONGER.get(path, MAX_LINES)
            if lines > most:
                yield f"{path}: {lines} lines, at most {most}: split it by idea"
            if path.endswith(SOURCES):
                yield from include_findings(root, path, text)
                name = path.rsplit("/", 1)[-1]
                if name != name.lower() or "-" in name:
                    yield f"{path}: files are named in snake_case"


def tree(root):
    """Files of the project: neither build products nor data."""
    skip = {"build", ".git", "__pycache__", "data", "out"}
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if path.is_file() and not skip.intersection(relative.parts):
            yield relative.as_posix()


def format_findings(root, paths):
    sources = [path for path in paths if path.endswith((".c", ".cc", ".h", ".hpp"))]
    said = subprocess.run(["clang-format", "--dry-run", *sources], cwd=root, stderr=subprocess.PIPE, text=True, check=True)
    for path in sorted({line.split(":")[0] for line in said.stderr.splitlines() if "warning:" in line}):
        yield f"{path}: is not as clang-format writes it: clang-format -i {path}"


def main():
    root = pathlib.Path(sys.argv[1])
    paths = list(tree(root))
    found = [*findings(root, paths), *format_findings(root, paths)]
    print("\n".join(found) if found else "the tree is in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
