"""Drawing with characters: pictures, codes, columns side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.colours import method_style

_SHADES, _ASCII_SHADES = " ░▒▓█", " .:*#"
_NEEDED = "░▒▓█·×→"
_RESET = "\x1b[0m"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
# Greys 232 to 255 of the 256 colours, and the cube of 6 x 6 x 6 that starts at 16.
_FIRST_GREY, _GREYS, _CUBE = 232, 24, 16
_LEVELS = np.array([0, 95, 135, 175, 215, 255])


@dataclass(frozen=True)
class Terminal:
    """What a terminal can show: characters beyond ASCII or not, colours or not."""

    encoding: str = "utf-8"
    colour: bool = False

    @property
    def is_rich(self) -> bool:
        """Whether blocks and shades can be printed."""
        try:
            _NEEDED.encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def plain(self, text: str) -> str:
        """Text with its few signs beyond ASCII replaced, where they cannot be printed."""
        if self.is_rich:
            return text
        for sign, other in {"×": "x", "→": "->", "·": "-"}.items():
            text = text.replace(sign, other)
        return text.encode("ascii", "replace").decode("ascii")

    def bold(self, text: str) -> str:
        """Make a heading stand out, where there are colours."""
        return f"\x1b[1m{text}{_RESET}" if self.colour else text

    def dim(self, text: str) -> str:
        """Let a remark step back, where there are colours."""
        return f"\x1b[2m{text}{_RESET}" if self.colour else text

    def picture(self, picture: NDArray[np.float64], *, side: int = 14) -> list[str]:
        """Lines of two characters per pixel; pictures larger than `side` are averaged down."""
        pixels = shrunk(picture, side)
        if self.colour:
            return ["".join(_cell(pixel) for pixel in row) + _RESET for row in pixels]
        shades = _SHADES if self.is_rich else _ASCII_SHADES
        grey = pixels if pixels.ndim == 2 else _stretched(pixels.mean(axis=2))
        levels = np.rint(np.clip(grey, 0, 1) * (len(shades) - 1)).astype(int)
        return ["".join(shades[level] * 2 for level in row) for row in levels]

    def bits(self, bits: NDArray[np.bool_], *, per_line: int = 8) -> list[str]:
        """Lines of two characters per bit: filled where it is set."""
        on, off = ("██", " ·") if self.is_rich else ("##", " .")
        lines = []
        for first in range(0, len(bits), per_line):
            part = bits[first : first + per_line]
            if self.colour:
                ink = f"\x1b[38;5;{_nearest(method_style('SGH').colour)}m"
                cells = [f"{ink}{on}{_RESET}" if bit else f"\x1b[2m{off}{_RESET}" for bit in part]
            else:
                cells = [on if bit else off for bit in part]
            lines.append("".join(cells))
        return lines

    def beside(self, blocks: Sequence[Sequence[str]], *, gap: int = 3) -> list[str]:
        """Blocks of lines next to each other, each centred in height."""
        widths = [max((visible(line) for line in block), default=0) for block in blocks]
        height = max(len(block) for block in blocks)
        rows = []
        for row in range(height):
            cells = []
            for block, width in zip(blocks, widths, strict=True):
                place = row - (height - len(block)) // 2
                line = block[place] if 0 <= place < len(block) else ""
                cells.append(line + " " * (width - visible(line)))
            rows.append((" " * gap).join(cells).rstrip())
        return rows


def visible(line: str) -> int:
    """How many places a line takes on the screen."""
    return len(_ESCAPE.sub("", line))


def shrunk(picture: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """The picture averaged down to `side` pixels each way, if it is larger."""
    pixels = picture
    for axis in (0, 1):
        n = picture.shape[axis]
        if n > side:
            edges = np.linspace(0, n, side + 1)
            rows = np.arange(n)
            # How much of each old pixel falls into each new one.
            share = np.minimum(edges[1:, None], rows + 1) - np.maximum(edges[:-1, None], rows)
            share = np.clip(share, 0, 1)
            weights = share / share.sum(axis=1, keepdims=True)
            pixels = np.moveaxis(np.tensordot(weights, pixels, axes=(1, axis)), 0, axis)
    return pixels


def _stretched(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 0 to 1: a photograph uses few of so few shades otherwise."""
    low, high = float(grey.min()), float(grey.max())
    return (grey - low) / ((high - low) or 1.0)


def _cell(pixel: NDArray[np.float64]) -> str:
    if np.ndim(pixel) == 0:
        colour = _FIRST_GREY + round(float(np.clip(pixel, 0, 1)) * (_GREYS - 1))
    else:
        colour = _in_cube(np.clip(pixel, 0, 1) * 255)
    return f"\x1b[48;5;{colour}m  "


def _nearest(colour: str) -> int:
    return _in_cube(np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]))


def _in_cube(rgb: NDArray[Any]) -> int:
    red, green, blue = (int(np.abs(_LEVELS - value).argmin()) for value in rgb)
    return _CUBE + 36 * red + 6 * green + blue
