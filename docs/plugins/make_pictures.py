"""Makes the pictures of these pages: runs each page's pipeline with the program and draws what it wrote.

    make_pictures.py CUBOID [PAGE ...]      CUBOID is the program
"""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import zarr

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def pipeline_of(page):
    return re.search(r"^```yaml\n(.*?)^```$", (HERE / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL).group(1)


def run(cuboid, page, folder):
    """The arrays that the page's pipeline stores, by name, and those of the examples."""
    (folder / "p.yaml").write_text(pipeline_of(page).replace("examples/data", str(ROOT / "examples/data")))
    subprocess.run([cuboid, "run", "p.yaml", "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    found = {path.stem: zarr.open_array(path, mode="r")[...] for path in (folder / "out").iterdir()}
    return found


def png(rgb):
    """An 8-bit RGB image, as bytes of a PNG file."""
    height, width, _ = rgb.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), rgb.reshape(height, width * 3)], axis=1)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")


def grey(values, low, high):
    scaled = np.clip((np.asarray(values, float) - low) / (high - low), 0, 1)
    return np.repeat((scaled * 255).round().astype(np.uint8)[..., None], 3, axis=2)


def ring(image, y, x, radius, colour):
    for angle in np.linspace(0, 2 * np.pi, 40, endpoint=False):
        j, i = int(round(y + radius * np.sin(angle))), int(round(x + radius * np.cos(angle)))
        if 0 <= j < image.shape[0] and 0 <= i < image.shape[1]:
            image[j, i] = colour


def draw_filter(arrays):
    crop = np.s_[300:560, 300:560]
    return np.concatenate([grey(arrays["smooth"][crop], 0, 120), grey(arrays["edges"][crop], 0, 80)], axis=1)


def draw_label(arrays):
    labels = arrays["labels"][250:560, 250:700]
    return (np.stack([labels * k % 199 + 56 for k in (7919, 104729, 15485863)], axis=2) * (labels > 0)[..., None]).astype(np.uint8)


def draw_signal(arrays):
    profile, events = arrays["profile"], arrays["events"]
    image = np.full((200, len(profile), 3), 255, np.uint8)
    for t, value in enumerate(profile):
        image[int(199 - (value - 200) / 5):, t] = 150
    for start, length, _, _ in events.astype(int):
        image[int(199 - (500 - 200) / 5), start:start + length] = (200, 0, 0)
        image[195:, start:start + length] = (200, 0, 0)
    return image


def draw_sky(arrays):
    image = grey(arrays["smooth"], 0, 120)
    for y, x in arrays["sources"][:, :2]:
        ring(image, y, x, 7, (255, 200, 0))
    return image[300:600, 300:750]


def draw_stats(arrays):
    counts = np.log1p(arrays["counts"].T[::-1].astype(float))
    return np.repeat(np.repeat(grey(counts, 0, counts.max()), 2, axis=0), 2, axis=1)


def draw_terrain(arrays):
    image = grey(arrays["shade"], arrays["shade"].min(), arrays["shade"].max())
    for y, x in arrays["peaks"][:, :2]:
        ring(image, y, x, 4, (220, 30, 0))
    return image


DRAW = {name[5:]: function for name, function in list(globals().items()) if name.startswith("draw_")}


def picture(cuboid, page):
    with tempfile.TemporaryDirectory() as folder:
        return DRAW[page](run(cuboid, page, pathlib.Path(folder)))


if __name__ == "__main__":
    for page in sys.argv[2:] or DRAW:
        (HERE / f"{page}.png").write_bytes(png(picture(str(pathlib.Path(sys.argv[1]).resolve()), page)))
