"""What the pipeline of the Hubble deep field must give, computed independently on whole arrays with NumPy and SciPy."""
import numpy as np
import scipy.ndimage


def gaussian(image, sigma):
    return scipy.ndimage.gaussian_filter(image, sigma, mode="reflect", truncate=4)


def is_peak(image, radius):
    """Pixels greater than all of their window that precede them in C order, and not less than those that follow."""
    rows, columns = image.shape
    padded = np.full((rows + 2 * radius, columns + 2 * radius), -np.inf)
    padded[radius:radius + rows, radius:radius + columns] = image
    peak = np.ones(image.shape, bool)
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            neighbour = padded[radius + dy:radius + dy + rows, radius + dx:radius + dx + columns]
            if (dy, dx) < (0, 0):
                peak &= image > neighbour
            elif (dy, dx) > (0, 0):
                peak &= image >= neighbour
    return peak


def sources(image, threshold, radius):
    """Rows of y, x, area, peak, flux, background, sorted by y, then x."""
    image = np.asarray(image, np.float64)
    rows = []
    for y, x in zip(*np.nonzero(is_peak(image, radius) & (image > threshold))):
        window = image[max(0, y - radius):y + radius + 1, max(0, x - radius):x + radius + 1]
        above = window[window > threshold]
        background = np.median(window)
        rows.append((y, x, above.size, image[y, x], np.sum(above - background), background))
    return np.array(rows, np.float64).reshape(-1, 6)


def assert_same_catalogue(found, expected):
    """Same sources; positions, areas, peaks and backgrounds to the bit, fluxes up to the order of a sum."""
    found = np.asarray(found)
    assert found.dtype == np.float64 and found.ndim == 2 and found.shape[1] == 6
    found = found[np.lexsort((found[:, 1], found[:, 0]))]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found[:, :4], expected[:, :4])
    np.testing.assert_array_equal(found[:, 5], expected[:, 5])
    np.testing.assert_allclose(found[:, 4], expected[:, 4], rtol=1e-12, atol=1e-9)
