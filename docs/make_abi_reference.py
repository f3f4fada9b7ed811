"""Makes docs/plugin-abi.md from the comments of sdk/include/cuboid/plugin.h: prose between declarations becomes text, what
is declared stays code.

    make_abi_reference.py > docs/plugin-abi.md
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER = ROOT / "sdk/include/cuboid/plugin.h"
HEAD = """# The plugin ABI

Made from the comments of [plugin.h](../sdk/include/cuboid/plugin.h) by `docs/make_abi_reference.py`; the header is what counts. The manifest's
side is [plugin-manifest.md](plugin-manifest.md).
"""


def prose(comment):
    """The text of a block comment, a paragraph a line."""
    text = re.sub(r"^/\*|\*/$", "", comment.strip())
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in text.splitlines()]
    paragraphs, current = [], []
    for line in lines:
        item = re.match(r"\s*- ", line) or re.match(r"[A-Z ]{4,}\. ", line)
        if (not line.strip() or item) and current:
            paragraphs.append(" ".join(current))
            current = []
        if line.strip():
            current.append(line.strip())
    return "\n\n".join(paragraphs + ([" ".join(current)] if current else []))


def reference(text):
    parts = [HEAD]
    for piece in re.split(r"(^/\*.*?\*/\n)", text, flags=re.MULTILINE | re.DOTALL):
        heading = re.match(r"/\* ---- (.*?)[ -]*\n?\s*\*/\n?$", piece, re.DOTALL)
        if heading:
            title, _, rest = heading.group(1).partition(": ")
            rest = rest.strip().rstrip("-").strip()
            parts.append(f"## {title.strip()}" + (f"\n\n{rest[0].upper()}{rest[1:]}" if rest else ""))
        elif piece.startswith("/*"):
            parts.append(prose(piece))
        else:
            code = re.sub(r"^#(?:ifdef|endif|ifndef|include).*\n|^#define CUBOID_PLUGIN_H\n|^extern \"C\" \{\n|^\}\n", "", piece, flags=re.MULTILINE)
            code = re.sub(r"\n{3,}", "\n\n", code).strip()
            if code:
                parts.append(f"```c\n{code}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(reference(HEADER.read_text()), end="")
