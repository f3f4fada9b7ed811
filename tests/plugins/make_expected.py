"""What the bundled plugins should compute, by SciPy and NumPy.

    make_expected.py EXAMPLE_DATA OUT     writes OUT/cases.txt and the arrays that it names

A line of cases.txt: function|boundary|boundary_value|name=value,...|tolerance|input.npy|output.npy
The tolerance is relative to max(1, |expected|).
"""
import ctypes
import itertools
import json
import pathlib
import sys

import numpy as np
import scipy.ndimage as ndi

SEED = 20240611
SCIPY_MODE = {"reflect": "reflect", "nearest": "nearest", "wrap": "wrap", "constant": "constant"}


def read_zarr2(path):
    """A Zarr v2 array with Blosc, by the C library alone: nothing of ours takes part."""
    blosc = ctypes.CDLL("libblosc.so.1")
    meta = json.loads((path / ".zarray").read_text())
    array, chunk = np.zeros(meta["shape"], meta["dtype"]), meta["chunks"]
    for index in itertools.product(*[range(-(-s // c)) for s, c in zip(array.shape, chunk)]):
        encoded = (path / ".".join(map(str, index))).read_bytes()
        block = np.zeros(chunk, meta["dtype"])
        size = blosc.blosc_decompress_ctx(encoded, block.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(block.nbytes), 1)
        assert size == block.nbytes, (path, index)
        box = tuple(slice(i * c, min((i + 1) * c, s)) for i, c, s in zip(index, chunk, array.shape))
        array[box] = block[tuple(slice(0, b.stop - b.start) for b in box)]
    return array


class Cases:
    def __init__(self, out):
        self.out, self.lines = out, []

    def add(self, function, image, expected, tolerance, boundary="", value=0.0, **params):
        number = len(self.lines)
        np.save(self.out / f"{number}.in.npy", np.ascontiguousarray(image))
        np.save(self.out / f"{number}.out.npy", np.ascontiguousarray(expected))
        text = ",".join(f"{name}={v!r}".replace("'", "") for name, v in params.items())
        self.lines.append(f"{function}|{boundary}|{value}|{text}|{tolerance}|{number}.in.npy|{number}.out.npy")

    def write(self):
        (self.out / "cases.txt").write_text("\n".join(self.lines) + "\n")


def filters(cases, rng, dem, grey):
    noise = rng.normal(100, 30, (61, 47))
    for boundary, sigma in itertools.product(SCIPY_MODE, (0.0, 0.5, 1.5, 4.0)):
        expected = ndi.gaussian_filter(noise, sigma, mode=SCIPY_MODE[boundary], cval=2.5)
        cases.add("filter.gaussian", noise, expected, 1e-12, boundary, 2.5, sigma=sigma)
    cases.add("filter.gaussian", grey, ndi.gaussian_filter(grey, 1.5), 1e-12, sigma=1.5)
    cases.add("filter.gaussian", noise, ndi.gaussian_filter(noise, 2, truncate=2.5), 1e-12, sigma=2.0, truncate=2.5)
    small = rng.normal(0, 1, (3, 2))  # reflected several times
    cases.add("filter.gaussian", small, ndi.gaussian_filter(small, 3), 1e-12, sigma=3.0)
    narrow = noise.astype("f4")
    cases.add("filter.gaussian", narrow, ndi.gaussian_filter(narrow, 1.5), 1e-6, sigma=1.5)
    for image in (dem[:40, :50], (grey[:40, :50]).astype("u1"), dem[:40, :50].astype("i4"), dem[:40, :50].astype("u2")):
        # A sum just below a whole number is truncated; where it falls depends on the last bit of exp.
        cases.add("filter.gaussian", image, ndi.gaussian_filter(image, 2.0), 1, sigma=2.0)

    for size in (1, 2, 3, 4, 5, 8, 9, 10, 11):
        cases.add("filter.median", noise, ndi.median_filter(noise, size), 0, size=size)
    for boundary in SCIPY_MODE:
        cases.add("filter.median", noise, ndi.median_filter(noise, 3, mode=SCIPY_MODE[boundary], cval=7), 0, boundary, 7.0)
    for dtype in ("f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        image = rng.integers(0, 100, (30, 150)).astype(dtype)  # longer than the lanes of any type
        cases.add("filter.median", image, ndi.median_filter(image, 5), 0, size=5)

    for boundary in SCIPY_MODE:
        sy, sx = ndi.sobel(noise, 0, mode=SCIPY_MODE[boundary]), ndi.sobel(noise, 1, mode=SCIPY_MODE[boundary])
        if boundary == "constant":  # SciPy pads the derivative with the constant too; the plugin pads the image
            padded = np.pad(noise, 1, constant_values=3)
            sy, sx = (ndi.sobel(padded, axis)[1:-1, 1:-1] for axis in (0, 1))
        cases.add("filter.sobel", noise, sy, 1e-12, boundary, 3.0, axis="y")
        cases.add("filter.sobel", noise, sx, 1e-12, boundary, 3.0, axis="x")
        cases.add("filter.sobel", noise, np.hypot(sy, sx), 1e-12, boundary, 3.0)
    cases.add("filter.sobel", narrow, ndi.sobel(narrow, 0), 1e-5, axis="y")


def windows(image, radius):
    for y, x in np.ndindex(image.shape):
        y0, x0 = max(y - radius, 0), max(x - radius, 0)
        yield y, x, image[y0:y + radius + 1, x0:x + radius + 1], (y - y0, x - x0)


def is_peak(window, place):
    flat, here = window.ravel(), place[0] * window.shape[1] + place[1]
    return bool((flat[here] > flat[:here]).all() and not (flat[here] < flat[here + 1:]).any())


def sources(image, threshold, radius):
    rows = []
    for y, x, window, place in windows(image, radius):
        if not image[y, x] > threshold or not is_peak(window, place):
            continue
        background = np.median(window)
        bright = window[window > threshold].astype("f8")
        rows.append((y, x, bright.size, image[y, x], (bright - background).sum(), background))
    return np.array(rows, "f8").reshape(-1, 6)


def peaks(image, radius, least):
    rows = [(y, x, image[y, x]) for y, x, window, place in windows(image, radius)
            if image[y, x] >= least and is_peak(window, place)]
    return np.array(rows, "f8").reshape(-1, 3)


def skies(cases, rng, grey):
    smooth = ndi.gaussian_filter(grey, 1.5)
    ties = rng.integers(0, 6, (40, 45)).astype("f8")
    gaps = np.where(rng.random((40, 45)) < 0.02, np.nan, ndi.gaussian_filter(rng.normal(0, 1, (40, 45)), 1.5))
    flat = np.full((20, 20), 9.0)
    for image, threshold, radius in ((smooth, 30, 5), (smooth, 60, 2), (ties, 2, 1), (ties, 2, 0), (ties, 4, 3),
                                     (gaps, 0, 3), (flat, 1, 4), (flat, 9, 4), (ties.astype("u1"), 3, 2),
                                     (ties.astype("i2"), 3, 2), (smooth.astype("f4"), 30, 5)):
        cases.add("sky.sources", image, sources(image, threshold, radius), 1e-9, threshold=float(threshold), radius=radius)


def gradients(dem, cell, mode):
    z = np.pad(dem.astype("f8"), 1, mode={"nearest": "edge", "reflect": "symmetric", "wrap": "wrap"}[mode])
    return (z[1:-1, 2:] - z[1:-1, :-2]) / (2 * cell), (z[:-2, 1:-1] - z[2:, 1:-1]) / (2 * cell)  # east, north


def terrain(cases, rng, dem):
    for mode, cell in (("nearest", 1.0), ("nearest", 90.0), ("reflect", 30.0), ("wrap", 30.0)):
        east, north = gradients(dem, cell, mode)
        slope = np.degrees(np.arctan(np.hypot(east, north)))
        cases.add("terrain.slope", dem, slope, 1e-12, mode, cell_size=cell)
        for azimuth, altitude in ((315.0, 45.0), (90.0, 30.0), (180.0, 90.0)):
            # Angle form, unlike the plugin's vectors: cos of the angle between slope and light.
            zenith, azimuth_rad = np.radians(90 - altitude), np.radians(azimuth)
            downhill = np.arctan2(-east, -north)  # clockwise from north
            steep = np.arctan(np.hypot(east, north))
            shade = np.cos(zenith) * np.cos(steep) + np.sin(zenith) * np.sin(steep) * np.cos(azimuth_rad - downhill)
            cases.add("terrain.hillshade", dem, 255 * np.maximum(shade, 0), 1e-10, mode, azimuth=azimuth,
                      altitude=altitude, cell_size=cell)
    for dtype in ("f4", "f8", "i4", "u2"):
        east, north = gradients(dem.astype(dtype), 30.0, "nearest")
        cases.add("terrain.slope", dem.astype(dtype), np.degrees(np.arctan(np.hypot(east, north))), 1e-12, cell_size=30.0)
    for radius, least in ((1, 0.0), (5, 400.0), (20, 0.0)):
        cases.add("terrain.peaks", dem, peaks(dem, radius, least), 0, radius=radius, min_height=least)
    ties = rng.integers(0, 4, (30, 35)).astype("i2")
    cases.add("terrain.peaks", ties, peaks(ties, 2, 1), 0, radius=2, min_height=1.0)


def events(signal, threshold, longest):
    rows = []
    above = np.concatenate([[False], signal > threshold, [False]]).astype(int)
    for start, end in zip(np.nonzero(np.diff(above) == 1)[0], np.nonzero(np.diff(above) == -1)[0]):
        run = signal[start:min(end, start + longest)].astype("f8")
        rows.append((start, run.size, run.max(), run.sum()))
    return np.array(rows, "f8").reshape(-1, 4)


def signals(cases, rng):
    noise = ndi.gaussian_filter1d(rng.normal(0, 1, 5000), 3)
    for threshold, longest in ((0.0, 4096), (0.0, 4), (0.5, 30), (99.0, 10)):
        cases.add("signal.events", noise, events(noise, threshold, longest), 1e-9, threshold=threshold, longest=longest)
    steps = rng.integers(0, 2, 3000).astype("i2")  # more events than one slab holds
    cases.add("signal.events", steps, events(steps, 0, 5), 0, threshold=0.0, longest=5)
    cases.add("signal.events", np.ones(40), events(np.ones(40), 0, 7), 0, threshold=0.0, longest=7)


def statistics(cases, rng, grey, dem):
    pair = np.stack([grey[:60, :70], ndi.gaussian_filter(grey, 2)[:60, :70]])
    whole = rng.integers(0, 12, (2, 30, 35)).astype("i2")  # many values on edges
    gaps = np.where(rng.random((2, 30, 35)) < 0.1, np.nan, rng.random((2, 30, 35)))
    for images, bins, ranges in ((pair, (10, 7), ((0, 255), (10, 90))), (whole, (5, 11), ((0, 11), (0, 11))),
                                 (gaps, (3, 3), ((0, 1), (0.1, 0.7))), (rng.random((2, 50, 50)), (10, 10), ((0, 1), (0, 1)))):
        kept = images.reshape(2, -1).astype("f8")
        kept = kept[:, ~np.isnan(kept).any(axis=0)]
        expected = np.histogram2d(*kept, bins=bins, range=ranges)[0].astype("i8")
        (min_a, max_a), (min_b, max_b) = np.array(ranges, "f8").tolist()
        cases.add("stats.histogram2d", images, expected, 0, bins_a=bins[0], bins_b=bins[1], min_a=min_a, max_a=max_a,
                  min_b=min_b, max_b=max_b)


def main():
    data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    dem = read_zarr2(data / "jacksboro_dem.zarr")[100:170, 200:280]
    grey = read_zarr2(data / "hubble_deep_field.zarr").mean(axis=2)
    np.save(out / "field.npy", ndi.gaussian_filter(grey, 1.5))
    grey = grey[300:380, 500:590]
    cases = Cases(out)
    filters(cases, rng, dem, grey)
    skies(cases, rng, grey)
    terrain(cases, rng, dem)
    signals(cases, rng)
    statistics(cases, rng, grey, dem)
    cases.write()
    print(f"{len(cases.lines)} cases, seed {SEED}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
