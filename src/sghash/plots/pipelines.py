"""Pipelines: recall against bytes, and recall against speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sghash.colours import series_styles
from sghash.errors import InvalidInput
from sghash.plots.canvas import WIDE, canvas, place_legend
from sghash.plots.curves import Series, check_series, decorate, draw_lines


def pipeline_panels(pipelines: Sequence[Any], *, size: tuple[float, float] = WIDE) -> Any:
    """Two panels that share their methods; a Figure.

    `pipelines` have `model`, `stage`, `recall`, `n_bytes` and `milliseconds`, as an `Evaluation`
    holds them. By bytes a curve joins the lengths of one model with one last stage; by speed they
    stay points, for their shortlists differ as well.
    """
    if not pipelines:
        raise InvalidInput("there is nothing to draw: give at least one pipeline")
    names = dict.fromkeys(f"{one.model}, {one.stage}" for one in pipelines)
    groups = {
        name: [one for one in pipelines if f"{one.model}, {one.stage}" == name] for name in names
    }
    panels = (
        ("bytes per vector", lambda one: one.n_bytes),
        ("queries per second, one at a time", lambda one: 1000 / max(one.milliseconds, 1e-6)),
    )
    with canvas(size) as figure:
        styles = series_styles(list(names))
        for place, (label, x_of) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, 2, place)
            curves = []
            for name, ones in groups.items():
                ordered = sorted(ones, key=x_of)
                found = Series(name, list(map(x_of, ordered)), [o.recall for o in ordered])
                curves.append(found._replace(joined=place == 1))
            draw_lines(axes, check_series(curves), styles)
            decorate(axes, label, "recall", "", "log", "linear", (None, None), (None, None))
        place_legend(figure, axes)
    return figure
