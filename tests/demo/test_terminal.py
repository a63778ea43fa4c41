"""Drawing with characters: what is printed is what was meant, on any terminal."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.demo.terminal import Terminal, shrunk, visible

RICH, PLAIN = Terminal("utf-8"), Terminal("ascii")


def test_a_picture_is_two_characters_per_pixel_darker_where_larger():
    picture = np.array([[0.0, 0.5], [0.25, 1.0]])
    assert RICH.picture(picture) == ["  ▒▒", "░░██"]
    assert PLAIN.picture(picture) == ["  ::", "..##"]


def test_bits_are_drawn_in_their_order():
    bits = np.array([1, 0, 0, 1], dtype=bool)
    assert RICH.bits(bits, per_line=2) == ["██ ·", " ·██"]
    assert PLAIN.bits(bits, per_line=2) == ["## .", " .##"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "no-such-encoding"])
def test_what_an_encoding_cannot_show_is_not_printed(encoding):
    terminal = Terminal(encoding)
    text = "".join(
        [*terminal.picture(np.linspace(0, 1, 9).reshape(3, 3)),
         *terminal.bits(np.arange(64) % 9 == 0), terminal.plain("a → b · 8 × 8 łódź")]
    )  # fmt: skip
    assert text.isascii()


def test_colours_only_where_wanted_and_always_ended():
    grey = np.linspace(0, 1, 16).reshape(4, 4)
    for terminal in (RICH, PLAIN):
        lines = [*terminal.picture(grey), *terminal.bits(grey[0] > 0.1), terminal.bold("x")]
        assert "\x1b" not in "".join(lines)
    bright = Terminal("utf-8", colour=True)
    for picture in (grey, np.dstack([grey] * 3)):
        assert all(line.endswith("\x1b[0m") for line in bright.picture(picture))
        assert [visible(line) for line in bright.picture(picture)] == [8] * 4
    assert visible(bright.bold("abc")) == 3 and bright.dim("x").endswith("\x1b[0m")


def test_a_colour_becomes_the_nearest_of_the_256():
    bright = Terminal("utf-8", colour=True)
    (line,) = bright.bits(np.array([True]))
    assert "\x1b[38;5;166m" in line  # d75f00, for the d55e00 of SGH
    (line,) = bright.picture(np.array([[[1.0, 0.0, 0.37]]]))
    assert line.startswith(f"\x1b[48;5;{16 + 36 * 5 + 1}m")


def test_blocks_stand_side_by_side_centred():
    assert RICH.beside([["aa", "b", "cc"], ["X"]], gap=2) == ["aa", "b   X", "cc"]


@pytest.mark.parametrize(("n", "side"), [(28, 14), (32, 14), (9, 2), (8, 14)])
def test_shrinking_keeps_the_mean(rng, n, side):
    picture = rng.random((n, n))
    small = shrunk(picture, side)
    assert small.shape == (min(n, side), min(n, side))
    assert small.mean() == pytest.approx(picture.mean())
    colours = shrunk(np.dstack([picture, picture, picture]), side)
    assert np.allclose(colours[..., 1], small)
    if n == 28:
        assert np.allclose(small, picture.reshape(14, 2, 14, 2).mean(axis=(1, 3)))
