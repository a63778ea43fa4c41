from __future__ import annotations

import numpy as np

from sghash.kernels.halves import as_float32


def test_every_half_widens_as_numpy_does():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    for array in (every, every[:13], every[:0], every[: 8 * 9 * 3].reshape(9, 3, 8)[:, ::2]):
        found = as_float32(array)
        assert found.dtype == np.float32 and found.shape == array.shape
        np.testing.assert_array_equal(found, array.astype(np.float32))


def test_other_kinds_pass():
    array = np.arange(6, dtype=np.float32)
    assert as_float32(array) is array
