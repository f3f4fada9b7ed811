"""Bundled plugins against SciPy and NumPy, through pipelines in blocks; what needs a whole array in bounded memory."""
import numpy as np
import pytest
import scipy.ndimage

import arrays
import pipelines
from program import MIB, cuboid


def by_first_pixel(labels):
    """Every label replaced by 1 + the index of its first pixel in C order."""
    flat = labels.ravel()
    values, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    names = np.where(values == 0, 0, first + 1)
    return names[inverse].reshape(labels.shape)


def blobs(shape, seed, share):
    noise = scipy.ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), 2)
    return (noise > np.quantile(noise, 1 - share)).astype(np.uint8)


@pytest.mark.parametrize("connectivity", [1, 2])
@pytest.mark.parametrize("name,chunks", [("sparse", (37, 41)), ("dense", (64, 16)), ("spiral", (11, 13)), ("full", (50, 50)),
                                         ("empty", (50, 50)), ("noise", (1, 7))])
def test_label_components_equal_scipy(tmp_path, name, chunks, connectivity):
    image = {"sparse": lambda: blobs((200, 231), 1, 0.1), "dense": lambda: blobs((200, 231), 2, 0.6),
             "full": lambda: np.ones((130, 120), np.uint8), "empty": lambda: np.zeros((130, 120), np.uint8),
             "noise": lambda: (np.random.default_rng(3).random((40, 61)) < 0.45).astype(np.uint8),
             "spiral": spiral}[name]()
    arrays.write(tmp_path / "x.zarr", image, chunks)
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, memory="512MiB", store={"labels": "out/labels.zarr"},
                           steps={"labels": {"call": "label.components", "args": ["x"],
                                             "params": {"connectivity": connectivity}}})
    cuboid("run", path)
    structure = scipy.ndimage.generate_binary_structure(2, connectivity)
    expected = by_first_pixel(scipy.ndimage.label(image, structure)[0])
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/labels.zarr"), expected)


def spiral():
    """One component that winds through every block many times."""
    image = np.zeros((99, 99), np.uint8)
    low, high = 0, 98
    while low + 2 <= high:
        image[low, low:high + 1] = image[low:high + 1, high] = image[high, low:high + 1] = 1
        image[low + 2:high + 1, low] = 1
        if low + 4 <= high:
            image[low + 2, low:low + 3] = 1
        low, high = low + 2, high - 2
    return image


def test_label_components_of_an_image_larger_than_the_budget(tmp_path):
    image = blobs((3000, 3500), 4, 0.4)
    arrays.write(tmp_path / "x.zarr", image, (256, 256))
    path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, memory="64MiB", store={"labels": "out/labels.zarr"},
                           steps={"labels": {"call": "label.components", "args": ["x"]}})
    told = cuboid("run", path, "--json").json
    assert told["peak_rss_bytes"] <= 64 * MIB < image.size * 8
    assert [stage["function"] for stage in told["stages"] if stage["name"] == "labels"] == ["label.relabel/1"]
    assert {stage["confidence"] for stage in told["stages"]} <= {"exact", "bounded"}
    expected = by_first_pixel(scipy.ndimage.label(image)[0])
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/labels.zarr"), expected)


def test_a_recipe_is_documented_and_its_mistakes_are_placed(tmp_path):
    doc = cuboid("functions", "label.components", "--json").json["functions"]
    assert [one["name"] for one in doc] == ["label.components/1"]
    assert [param["name"] for param in doc[0]["params"]] == ["connectivity"]
    arrays.write(tmp_path / "x.zarr", np.zeros((8, 8)), (4, 4))
    for step, words in [({"params": {"connectivty": 1}}, ["connectivity"]), ({"params": {"connectivity": 3}}, ["1 to 2"]),
                        ({"args": ["x", "x"]}, ["1 array"]), ({"max_shape": [5, 3]}, ["several functions"]),
                        ({"extra_memory": "1MiB"}, ["several functions"])]:
        path = pipelines.write(tmp_path, arrays={"x": "x.zarr"}, store={"labels": "out/labels.zarr"},
                               steps={"labels": {"call": "label.components", "args": ["x"], **step}})
        message = cuboid("plan", path, "--json", expect=2).json["error"]["message"]
        for word in [*words, "labels"]:
            assert word in message, message


@pytest.mark.parametrize("chunks", [(50, 60), (7, 301)])
def test_histogram2d_is_a_tree_over_blocks(tmp_path, chunks):
    generator = np.random.default_rng(5)
    a, b = generator.normal(size=(400, 301)), generator.normal(size=(400, 301)).astype(np.float64)
    arrays.write(tmp_path / "a.zarr", a, chunks)
    arrays.write(tmp_path / "b.zarr", b, (64, 64))
    params = {"bins_a": 20, "bins_b": 13, "min_a": -2.5, "max_a": 3, "min_b": -3, "max_b": 2}
    path = pipelines.write(tmp_path, arrays={"a": "a.zarr", "b": "b.zarr"}, memory="512MiB",
                           store={"counts": "out/counts.zarr"},
                           steps={"counts": {"call": "stats.histogram2d", "args": ["a", "b"], "params": params}})
    told = cuboid("run", path, "--json").json
    stages = {stage["name"]: stage for stage in told["stages"]}
    assert stages["counts.partial"]["tasks"] > 4 and stages["counts"]["tasks"] == 1
    assert {stage["confidence"] for stage in told["stages"]} == {"exact"}
    expected = np.histogram2d(a.ravel(), b.ravel(), bins=(20, 13), range=((-2.5, 3), (-3, 2)))[0]
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/counts.zarr"), expected.astype(np.int64))


def test_histogram2d_of_arrays_larger_than_the_budget(tmp_path):
    a = np.random.default_rng(6).normal(size=(4000, 4000))
    arrays.write(tmp_path / "a.zarr", a, (500, 500))
    params = {"bins_a": 64, "bins_b": 64, "min_a": -3, "max_a": 3, "min_b": -3, "max_b": 3}
    path = pipelines.write(tmp_path, arrays={"a": "a.zarr"}, memory="64MiB", store={"counts": "out/counts.zarr"},
                           steps={"counts": {"call": "stats.histogram2d", "args": ["a", "a"], "params": params}})
    told = cuboid("run", path, "--json").json
    assert told["peak_rss_bytes"] <= 64 * MIB < a.nbytes
    counts = np.histogram(a, 64, (-3, 3))[0]
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/counts.zarr"), np.diag(counts))


def test_reduction_of_nothing(tmp_path):
    arrays.write(tmp_path / "a.zarr", np.zeros((0, 5)), (1, 5))
    params = {"bins_a": 2, "bins_b": 3, "min_a": 0, "max_a": 1, "min_b": 0, "max_b": 1}
    path = pipelines.write(tmp_path, arrays={"a": "a.zarr"}, store={"counts": "out/counts.zarr"},
                           steps={"counts": {"call": "stats.histogram2d", "args": ["a", "a"], "params": params}})
    cuboid("run", path)
    np.testing.assert_array_equal(arrays.read(tmp_path / "out/counts.zarr"), np.zeros((2, 3), np.int64))
