"""Structural similarity: against its definition, window by window, and scikit-image."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.experiments.similarity import structural_similarity


def slow_similarity(one, two, value_range):
    """The definition for one channel of one image."""
    c1, c2 = (0.01 * value_range) ** 2, (0.03 * value_range) ** 2
    found = []
    for row in range(one.shape[0] - 6):
        for column in range(one.shape[1] - 6):
            x = one[row : row + 7, column : column + 7].ravel().astype(float)
            y = two[row : row + 7, column : column + 7].ravel().astype(float)
            (xx, xy), (_, yy) = np.cov(x, y)
            mx, my = x.mean(), y.mean()
            found.append(
                (2 * mx * my + c1) * (2 * xy + c2) / ((mx**2 + my**2 + c1) * (xx + yy + c2))
            )
    return np.mean(found)


@pytest.fixture
def pairs(rng):
    images = rng.random((300, 9, 11, 3))
    return images, np.clip(images + 0.2 * rng.standard_normal(images.shape), 0, 1)


def test_similarity_is_its_definition(pairs):
    images, others = pairs
    found = structural_similarity(images, others)
    for place in (0, 255, 256, 299):  # on both sides of the end of a block
        parts = [slow_similarity(images[place, ..., c], others[place, ..., c], 1) for c in range(3)]
        assert found[place] == pytest.approx(np.mean(parts), abs=1e-12)


def test_grey_images_of_any_range(pairs):
    images, others = (255 * (part[:2, ..., 0] + 40) for part in pairs)
    expected = [slow_similarity(a, b, 255) for a, b in zip(images, others, strict=True)]
    np.testing.assert_allclose(
        structural_similarity(images, others, value_range=255), expected, atol=1e-9
    )


def test_only_equal_images_are_fully_alike(pairs):
    images, others = pairs
    np.testing.assert_allclose(structural_similarity(images, images), 1)
    assert structural_similarity(images, others).max() < 0.999
    flat = np.full((1, 8, 8), 0.5)
    assert structural_similarity(flat, flat) == pytest.approx(1)
    assert structural_similarity(flat, 1 - images[:1, :8, :8, 0]) < 0.2


def test_it_is_that_of_scikit_image(pairs):
    metrics = pytest.importorskip("skimage.metrics")
    images, others = pairs
    expected = [
        metrics.structural_similarity(a, b, data_range=1.0, channel_axis=-1)
        for a, b in zip(images[:9], others[:9], strict=True)
    ]
    np.testing.assert_allclose(structural_similarity(images, others)[:9], expected, atol=1e-9)


@pytest.mark.parametrize("shape", [(2, 6, 9), (2, 49), (2, 7, 7, 3, 1)])
def test_what_has_no_window_is_refused(shape):
    with pytest.raises(InvalidInput, match="7 x 7 pixels"):
        structural_similarity(np.zeros(shape), np.zeros(shape))


def test_pairs_and_the_range_are_checked():
    one = np.zeros((2, 8, 8))
    with pytest.raises(InvalidInput, match=r"got \(2, 8, 8\) and \(1, 8, 8\)"):
        structural_similarity(one, one[:1])
    with pytest.raises(InvalidInput, match="value_range"):
        structural_similarity(one, one, value_range=0)
