"""The pages of the bundled plugins: their pipelines run, their formulas and pictures are the program's, and their results
are SciPy's and NumPy's."""
import re
import sys

import numpy as np
import pytest
import scipy.ndimage as ndimage
import scipy.stats
import zarr

from program import CUBOID, DATA, ROOT, cuboid
from test_plugins import by_first_pixel

PAGES = ROOT / "docs/plugins"
sys.path.insert(0, str(PAGES))
import make_pictures  # noqa: E402


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    made = {}

    def of(page):
        if page not in made:
            made[page] = make_pictures.run(str(CUBOID), page, tmp_path_factory.mktemp(page))
        return made[page]
    return of


def decoded(path):
    """Pixels of a PNG of make_pictures."""
    import struct
    import zlib
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    at, pixels = 8, b""
    while at < len(data):
        length = struct.unpack(">I", data[at:at + 4])[0]
        if data[at + 4:at + 8] == b"IDAT":
            pixels += data[at + 8:at + 8 + length]
        at += length + 12
    return np.frombuffer(zlib.decompress(pixels), np.uint8).reshape(height, width * 3 + 1)[:, 1:].reshape(height, width, 3)


@pytest.mark.parametrize("page", make_pictures.DRAW)
def test_pictures_are_what_the_program_computes(results, page):
    shown, drawn = decoded(PAGES / f"{page}.png").astype(int), make_pictures.DRAW[page](results(page)).astype(int)
    assert shown.shape == drawn.shape and np.abs(shown - drawn).max() <= 1  # a grey value may round either way
    assert f"]({page}.png)" in (PAGES / f"{page}.md").read_text()


@pytest.mark.parametrize("page", make_pictures.DRAW)
def test_formulas_are_the_manifests(page):
    functions = {one["id"].split("/")[0]: one for one in cuboid("plugin", "show", page, "--json").json["functions"]}
    rows = re.findall(rf"^\| `({page}\.\w+)` \| `([^`]+)` \|(?: `([^`]+)` \|)?$", (PAGES / f"{page}.md").read_text(), re.MULTILINE)
    stated = {name: (call, state) for name, call, state in rows if "scipy" not in call}
    assert set(stated) == set(functions)
    for name, (call, state) in stated.items():
        memory = functions[name]["memory"]
        assert memory["call_bytes"]["expr"] == call
        if state:
            assert memory["state_bytes"]["expr"] == state


def test_filter(results):
    r = results("filter")
    tolerances = dict(re.findall(r"^\| `(filter\.\w+)` \| .*?` .*?\| ([0-9e.-]+) \|$", (PAGES / "filter.md").read_text(), re.MULTILINE)
                      or re.findall(r"^\| `(filter\.\w+)` \| .*? \| ([0-9e.-]+) \|$", (PAGES / "filter.md").read_text(), re.MULTILINE))
    assert set(tolerances) == {"filter.gaussian", "filter.median", "filter.sobel"}
    expected = {"filter.gaussian": (r["smooth"], ndimage.gaussian_filter(r["grey"], 1.5)),
                "filter.median": (r["middle"], ndimage.median_filter(r["grey"], 5)),
                "filter.sobel": (r["edges"], np.hypot(ndimage.sobel(r["smooth"], 0), ndimage.sobel(r["smooth"], 1)))}
    for name, (got, truth) in expected.items():
        assert np.abs(got - truth).max() <= float(tolerances[name]), name


def test_label(results):
    r = results("label")
    np.testing.assert_array_equal(r["labels"], by_first_pixel(ndimage.label(r["bright"], np.ones((3, 3)))[0]))


def test_signal(results):
    r = results("signal")
    labels, count = ndimage.label(r["profile"] > 500)
    index = np.arange(1, count + 1)
    starts = [piece[0].start for piece in ndimage.find_objects(labels)]
    truth = np.column_stack([starts, ndimage.sum_labels(np.ones(len(labels)), labels, index),
                             ndimage.maximum(r["profile"], labels, index), ndimage.sum_labels(r["profile"], labels, index)])
    assert count > 3 and np.array_equal(r["events"], truth)


def test_signal_onsets(results):
    r = results("signal")
    squares = r["profile"].astype(float) ** 2

    def mean(samples):
        return ndimage.uniform_filter1d(squares, samples, origin=(samples - 1) // 2)
    ratio = np.where(np.arange(len(squares)) < 63, 0, mean(8) / mean(64))
    onsets = np.flatnonzero((ratio >= 1.5) & (np.roll(ratio, 1) < 1.5))
    assert len(onsets) > 0 and np.array_equal(r["onsets"][:, 0], onsets)
    np.testing.assert_allclose(r["onsets"][:, 1], ratio[onsets], rtol=1e-12)


def test_sky(results):
    r = results("sky")
    smooth = r["smooth"]
    greatest = (smooth == ndimage.maximum_filter(smooth, 11, mode="constant", cval=-np.inf)) & (smooth > 30)
    np.testing.assert_array_equal(np.sort(r["sources"][:, :2], axis=0), np.sort(np.argwhere(greatest).astype(float), axis=0))


def test_stats(results):
    image = zarr.open_array(DATA / "hubble_deep_field.zarr", mode="r")[...]
    red, blue = image[..., 0].ravel(), image[..., 2].ravel()
    counts = results("stats")["counts"]
    np.testing.assert_array_equal(counts, np.histogram2d(red, blue, bins=128, range=((0, 256), (0, 256)))[0])
    binned = scipy.stats.binned_statistic_2d(red, blue, None, "count", bins=128, range=((0, 256), (0, 256)))
    np.testing.assert_array_equal(counts, binned.statistic)


def test_terrain(results):
    r = results("terrain")
    n, e = (ndimage.correlate1d(r["metres"], [-1, 0, 1], axis, mode="nearest") / 60 for axis in (0, 1))
    np.testing.assert_allclose(r["slope"], np.degrees(np.arctan(np.hypot(n, e))), rtol=0, atol=1e-10)
    for y, x, height in r["peaks"]:
        y, x = int(y), int(x)
        window = r["metres"][max(y - 10, 0):y + 11, max(x - 10, 0):x + 11]
        assert height == r["metres"][y, x] == window.max() >= 500
    unique_maxima = r["metres"] == ndimage.maximum_filter(r["metres"], 21, mode="constant", cval=-np.inf)
    assert len(r["peaks"]) <= (unique_maxima & (r["metres"] >= 500)).sum()
