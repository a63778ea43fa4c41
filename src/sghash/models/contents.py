"""What the file of each model must hold, checked before a loaded model is used.

A fingerprint tells damage, but anybody can make one: a file of arrays that do not fit together must
be refused here, not fail in the middle of a search (kernels do not check bounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sghash.errors import BadFile
from sghash.models.late_estimator import options_of
from sghash.validation import METRICS, check_choice, check_count, check_n_bits

if TYPE_CHECKING:
    from sghash.models.base import VectorModel

_LINEAR = {"mean_": "f4 d", "projection_": "f4 d b"}
_DECODED = {"decoder_": "f4 b d", "decoder_offset_": "f4 d"}
_ENCODER = {"encoder_weights_": "f4 d b", "encoder_bias_": "f4 b", "prior_logits_": "f4 b"}

#: Model -> learned attribute -> what it is. An array: its type and its axes, which are numbers, d
#: (columns of a vector), b (bits), what `_sizes` says, or a letter: the same length everywhere.
#: Otherwise "number", "positive" or "layers" of a network.
CONTENTS: dict[str, dict[str, str]] = {
    "LSH": _LINEAR,
    "PCAHashing": {**_LINEAR, "variances_": "f8 r"},
    "ITQ": {**_LINEAR, **_DECODED, "quantization_error_history_": "f8 n"},
    "BinaryAutoencoder": {
        **_LINEAR, **_DECODED, "bias_": "f4 b", "objective_history_": "f8 n 4",
    },
    "SignHashing": {"threshold_": "f4 d", "directions_": "f4 d k"},
    "SpectralHashing": {
        "mean_": "f4 d", "axes_": "f4 d r", "corner_": "f4 r", "sides_": "f4 r",
        "bit_axis_": "i4 b", "bit_mode_": "i4 b",
    },
    "SphericalHashing": {
        "mean_": "f4 d", "pivots_": "f4 b d", "squared_radii_": "f4 b",
        "overlap_history_": "f8 n 2",
    },
    "KMeansHashing": {
        "mean_": "f4 d", "rotation_": "f4 d w", "part_bits_": "i4 p", "part_widths_": "i4 p",
        "centroids_": "f4 n", "objective_history_": "f8 m p",
    },
    "GraphHashing": {
        "mean_": "f4 d", "anchors_": "f4 m d", "width_": "positive", "kernel_mean_": "f4 m",
        "projection_": "f4 m b",
    },
    "SGH": {
        **_ENCODER, "decoder_weights_": "f4 b d", "decoder_bias_": "f4 d",
        "noise_variance_": "number", "hidden_weights_": "f4 d hidden",
        "hidden_bias_": "f4 hidden", "hidden_output_": "f4 hidden b",
    },
    "GeneralSGH": {
        **_ENCODER, "hidden_weights_": "f4 b h", "hidden_bias_": "f4 h",
        "decoder_weights_": "f4 k d", "decoder_bias_": "f4 d", "noise_variance_": "number",
    },
    "ScaleInvariantSGH": {
        **_ENCODER, "origin_": "f4 d", "length_": "positive", "scale_weights_": "f4 d b+1",
        "scale_bias_": "f4 b+1", "log_scale_variance_": "f4 b+1", "decoder_weights_": "f4 b+1 d",
        "decoder_bias_": "f4 d", "noise_variance_": "number",
    },
    "DeepSGH": {
        "encoder_layers_": "layers", "encoder_numbers_": "f4 n",
        "decoder_layers_": "layers", "decoder_numbers_": "f4 m",
    },
    "PCAReconstruction": {
        "mean_": "f4 d", "components_": "f4 n_components d", "variances_": "f8 n_components",
    },
    "ProductQuantizer": {
        "rotation_": "f4 r r", "part_widths_": "i4 n_parts", "centroids_": "f4 n_parts k w",
    },
    "GenerativeQuantizer": {
        "encoder_weights_": "f4 d coded_bits", "encoder_bias_": "f4 coded_bits",
        "tables_": "f4 coded_bytes 256 d", "bias_": "f4 d",
        "term_low_": "number", "term_step_": "positive",
    },
}  # fmt: skip

_CHOICES = {"metric": METRICS, "coding": ("signed", "binary")}
_COUNTS = {"n_components", "n_parts", "n_bytes", "n_sweeps"}


def check_contents(model: VectorModel) -> None:
    """Refuse learned attributes that are not of the type and shape that the class needs."""
    sizes = _sizes(model)
    contents = CONTENTS[type(model).__name__]
    for name in model.stored_names:
        value = getattr(model, name)
        kind, *axes = contents[name].split()
        if not axes:
            _check_scalar(name, value, kind)
        else:
            _check_array(name, value, kind, axes, sizes)
    check = _FURTHER.get(type(model).__name__)
    if check is not None:
        check(model, sizes)


def _sizes(model: VectorModel) -> dict[str, int]:
    """Lengths that the options and the width of the vectors fix."""
    width = model.n_features_in_
    check_count(width, name="n_features_in_")
    sizes, options = {"d": int(width)}, options_of(model)
    if "n_bits" in options:
        sizes["b"] = check_n_bits(options["n_bits"])
        sizes["b+1"] = sizes["b"] + 1
    for name in sorted(options.keys() & _COUNTS):
        check_count(options[name], name=name)
        sizes[name] = int(options[name])
    for name in sorted(options.keys() & _CHOICES.keys()):
        check_choice(options[name], _CHOICES[name], name=name)
    for name in model.shape_options:
        check_count(options[name], name=name, least=0)
        sizes[name] = int(options[name])
    if "n_bytes" in sizes:
        # One byte holds the length of the vector, except for inner products.
        sizes["coded_bytes"] = sizes["n_bytes"] - (options["metric"] != "ip")
        sizes["coded_bits"] = 8 * sizes["coded_bytes"]
    return sizes


def _check_array(name: str, value: Any, kind: str, axes: list[str], sizes: dict[str, int]) -> None:
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(f"<{kind}"):
        found = value.dtype.str if isinstance(value, np.ndarray) else type(value).__name__
        raise BadFile(f"{name} must be an array of type {kind}, got {found}")
    expected = [int(axis) if axis.isdigit() else sizes.get(axis) for axis in axes]
    fits = len(expected) == value.ndim and all(
        length is None or length == found
        for length, found in zip(expected, value.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(
            str(n if n is not None else axis) for n, axis in zip(expected, axes, strict=True)
        )
        raise BadFile(f"{name} must have shape ({wanted}), got {value.shape}")
    for axis, length in zip(axes, value.shape, strict=True):
        if sizes.setdefault(axis, length) != length:
            raise BadFile(f"{name} has shape {value.shape}, which does not fit the other arrays")


def _check_scalar(name: str, value: Any, kind: str) -> None:
    if kind == "layers":
        if not isinstance(value, list):
            raise BadFile(f"{name} must be a list of layers, got {type(value).__name__}")
        return
    # NumPy computes with whole numbers only as far as they fit 64 bits.
    most = {int: 1 << 53, float: 1e300}.get(type(value))
    if most is None or not abs(value) < most or (kind == "positive" and value <= 0):
        if isinstance(value, float) and not math.isfinite(value):
            raise BadFile(f"{name} is not a finite number")
        raise BadFile(f"{name} must be a {kind if kind == 'number' else 'positive number'}")


def _k_means(model: Any, sizes: dict[str, int]) -> None:
    bits, widths = model.part_bits_.astype(np.int64), model.part_widths_.astype(np.int64)
    _check_parts(bits, 1, 8, sizes["b"], "part_bits_")
    _check_parts(widths, 0, sizes["w"], sizes["w"], "part_widths_")
    if model.centroids_.size != int(((1 << bits) * widths).sum()):
        raise BadFile(f"centroids_ holds {model.centroids_.size} numbers, not those of the parts")


def _spectral(model: Any, sizes: dict[str, int]) -> None:
    axes = model.bit_axis_
    if sizes["r"] and not (axes.min() >= 0 and axes.max() < sizes["r"]):
        raise BadFile(f"bit_axis_ names axes that are not among the {sizes['r']} there are")


def _product_quantizer(model: Any, sizes: dict[str, int]) -> None:
    if sizes["r"] not in (0, sizes["d"]):
        raise BadFile(f"rotation_ must be empty or {sizes['d']} wide, it is {sizes['r']}")
    if not 1 <= sizes["k"] <= 256:
        raise BadFile(f"a part has 1 to 256 centroids, centroids_ has {sizes['k']}")
    _check_parts(model.part_widths_.astype(np.int64), 0, sizes["w"], sizes["d"], "part_widths_")


def _generative_quantizer(model: Any, sizes: dict[str, int]) -> None:
    from sghash.models.quantizers.generative import MAX_BYTES

    if not 2 <= sizes["n_bytes"] <= MAX_BYTES:
        raise BadFile(f"n_bytes must lie between 2 and {MAX_BYTES}, got {sizes['n_bytes']}")
    if sizes["n_sweeps"] > 1 << 31:
        raise BadFile(f"n_sweeps must be less than 2**31, got {sizes['n_sweeps']}")


_LINEAR_DECODERS = ("gaussian", "bernoulli", "multinomial")


def _general(model: Any, sizes: dict[str, int]) -> None:
    from sghash.models.sgh.training.trainable import check_trainable
    from sghash.models.sgh.variants.decoders import DECODERS

    check_trainable(model.decoder, list(DECODERS))
    # What a decoder of the caller's own makes of its arrays, trying it out will tell.
    n_rows = {"two-layer": sizes["h"], **dict.fromkeys(_LINEAR_DECODERS, sizes["b"])}
    if sizes["k"] != n_rows.get(model.decoder, sizes["k"]):
        raise BadFile(
            f"decoder_weights_ has {sizes['k']} rows, which fit no {model.decoder} decoder"
        )


def _check_parts(values: NDArray[np.int64], least: int, most: int, total: int, name: str) -> None:
    if not len(values) or values.min() < least or values.max() > most or values.sum() != total:
        raise BadFile(f"{name} must be numbers from {least} to {most} that add up to {total}")


_FURTHER: dict[str, Callable[[Any, dict[str, int]], None]] = {
    "KMeansHashing": _k_means,
    "SpectralHashing": _spectral,
    "ProductQuantizer": _product_quantizer,
    "GeneralSGH": _general,
    "GenerativeQuantizer": _generative_quantizer,
}
