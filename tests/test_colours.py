"""The table of colours: readable on both papers, apart for everybody, one per method."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sghash.colours import (
    DARK_FAINT,
    DARK_INK,
    DARK_PAPER,
    FAINT,
    INK,
    METHODS,
    PAPER,
    MethodStyle,
    method_style,
    series_styles,
)
from sghash.errors import InvalidInput
from sghash.models import MODELS

# Linear sRGB as people without one kind of cone see it (Viénot, Brettel and Mollon, 1999).
DICHROMATS = {
    "protan": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "deutan": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
}


def linear(colour):
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    light = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (one, other))
    return light[1] / light[0]


def lab(rgb):
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    f = np.cbrt(np.maximum(to_xyz @ rgb / [0.9505, 1, 1.089], 1e-4))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_every_model_has_a_colour_of_its_own():
    named = {*MODELS, "SGH.paper"}
    assert named <= set(METHODS)
    assert len({style.colour for style in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_colours_stand_out_from_light_and_dark_paper(name):
    for paper in (PAPER, DARK_PAPER):
        assert contrast(METHODS[name].colour, paper) >= 3


def test_text_is_readable_on_its_paper():
    assert min(contrast(INK, PAPER), contrast(DARK_INK, DARK_PAPER)) >= 7
    assert min(contrast(FAINT, PAPER), contrast(DARK_FAINT, DARK_PAPER)) >= 4.5


def test_no_two_methods_share_marker_and_line():
    assert len({(style.marker, style.line) for style in METHODS.values()}) == len(METHODS)


# Drawn in one figure, and once hard to tell apart.
TOGETHER = [
    ("SGH", "SGH(neighbors=10)", "SGH, asymmetric", "SGH.paper", "ITQ"),
    ("ProductQuantizer", "OPQ", "GenerativeQuantizer"),
    ("RaBitQ", "HNSWFlat", "IVFFlat", "SGH"),
    ("ITQ", "BinaryAutoencoder", "SphericalHashing", "SpectralHashing"),
]


@pytest.mark.parametrize("names", TOGETHER)
def test_methods_drawn_together_differ_in_colour_and_marker(names):
    for one, other in combinations(names, 2):
        seen = [lab(linear(METHODS[name].colour)) for name in (one, other)]
        assert np.linalg.norm(seen[0] - seen[1]) > 18, (one, other)
        assert METHODS[one].marker != METHODS[other].marker


def test_series_that_are_no_methods_have_no_colour_of_one():
    colours = {style.colour for style in series_styles([f"{n} bits" for n in range(7)])}
    assert len(colours) == 7 and not colours & {style.colour for style in METHODS.values()}


@pytest.mark.parametrize("eye", DICHROMATS)
def test_the_methods_seen_most_differ_for_the_colour_blind(eye):
    shown = ["SGH", "ITQ", "SignHashing"]
    for one, other in combinations(shown, 2):
        seen = [lab(DICHROMATS[eye] @ linear(METHODS[name].colour)) for name in (one, other)]
        assert np.linalg.norm(seen[0] - seen[1]) > 20, (one, other)


def test_variants_look_like_their_method():
    assert method_style("SGH(n_steps=9)") == method_style("SGH, sharpened") == METHODS["SGH"]
    assert method_style("SGH.paper(n_steps=9)") == METHODS["SGH.paper"]
    assert method_style("LSH(center=False)") == METHODS["LSH"]


@pytest.mark.parametrize("name", ["", "SGHX", "no such", "sgh"])
def test_an_unknown_method_is_refused(name):
    with pytest.raises(InvalidInput, match="METHODS"):
        method_style(name)


def test_series_all_look_different_and_keep_their_colour():
    names = ["SGH", "SGH, sharpened", "SGH, neighbours", "ITQ", *(f"{n} bits" for n in range(9))]
    styles = series_styles(names)
    assert len(set(styles)) == len(names)
    assert {style.colour for style in styles[:3]} == {METHODS["SGH"].colour}
    assert len({style.line for style in styles[:3]}) == 3
    assert len({style.marker for style in styles[:3]}) == 3
    assert styles[3] == METHODS["ITQ"] and all(isinstance(style, MethodStyle) for style in styles)


def test_other_series_keep_off_the_colours_of_methods_beside_them():
    colours = [style.colour for style in series_styles(["one pass", "batch", "ITQ", "SGH"])]
    assert len(set(colours)) == 4
    every = series_styles(["one pass", *METHODS])
    assert len(set(every)) == len(every)
