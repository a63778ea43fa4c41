"""Figures show the numbers they were given, in the colours of the table, and nothing else."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sghash import plots
from sghash.errors import InvalidInput, MissingExtra
from sghash.evaluation.summary import estimate
from sghash.plots.canvas import log_ticks
from sghash.plots.memory import readable

matplotlib = pytest.importorskip("matplotlib")


def rows(seeds=(0, 1, 2)):
    """Result rows of two models and two lengths, as far as curves need them."""
    return [
        {
            "settings": {
                "dataset": "toy", "checksum": "c", "metric": "l2", "model": model, "asked": {},
                "n_bits": n_bits, "k": 10, "seed": seed,
            },
            "values": {
                f"{kind}10@{n}": min(1.0, n_bits / 100 + n / 2000 + seed / 50)
                for kind in ("recall", "precision", "expected_recall")
                for n in (10, 100, 1000)
            },
        }
        for model in ("SGH", "ITQ") for n_bits in (16, 32) for seed in seeds
    ]  # fmt: skip


def test_lines_draws_what_it_is_given():
    x, y = [1, 10, 100], [0.1, 0.5, 0.9]
    figure = plots.lines(
        [("SGH", x, y, [0, 0.4, 0.8], [0.2, 0.6, 1.0]), plots.Series("ITQ", x, [0.2, 0.3, 0.4])],
        x_label="N",
        y_label="recall",
        x_scale="log",
        y_range=(0, 1),
        title="a title",
    )
    (axes,) = figure.axes
    sgh, itq = axes.lines
    assert sgh.get_xdata().tolist() == x and sgh.get_ydata().tolist() == y
    assert (sgh.get_color(), sgh.get_marker(), sgh.get_linestyle()) == plots.method_style("SGH")
    assert itq.get_color() == plots.method_style("ITQ").colour
    assert len(axes.collections) == 1 and axes.get_xscale() == "log" and axes.get_ylim() == (0, 1)
    assert axes.get_xlabel() == "N" and axes.get_title(loc="left") == "a title"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["SGH", "ITQ"]


@pytest.mark.parametrize(
    "series",
    [[], [("SGH", [1], [1, 2])], [("SGH", [], [])], [("SGH", [1], [1], [0], None)],
     [("SGH", [1, 2], [1, 2], [0], [1])]],
)  # fmt: skip
def test_lines_refuses_what_cannot_be_drawn(series):
    with pytest.raises(InvalidInput):
        plots.lines(series, x_label="x", y_label="y")


def test_a_band_needs_many_points_that_all_have_an_interval():
    """Bands between few points, or to points without an interval, would be bow ties."""
    from matplotlib.collections import LineCollection, PolyCollection

    x = list(range(1, 9))
    half = [0.1] * 8

    def drawn(n, widths, joined=True):
        low, high = ([s * w for w in widths] for s in (-1, 1))
        series = plots.Series("SGH", x[:n], [0] * n, low, high, joined)
        return plots.lines([series], x_label="x", y_label="y").axes[0]

    (band,) = drawn(8, half).collections
    assert isinstance(band, PolyCollection)
    for n, widths, joined, n_bars in ((3, half[:3], True, 3), (8, [0.0, *half[1:]], True, 7),
                                      (8, half, False, 8)):  # fmt: skip
        axes = drawn(n, widths, joined)
        (bars,) = axes.collections
        assert isinstance(bars, LineCollection) and len(bars.get_segments()) == n_bars
        assert (axes.lines[0].get_linestyle() == "None") is not joined
    assert not drawn(3, [0.0] * 3).collections


def test_levels_and_guides_have_no_points():
    figure = plots.lines(
        [("SGH", [1, 2], [1, 2])], x_label="x", y_label="y", levels={"ITQ": 1.5},
        guides=[("1 / x", [1, 2], [1, 0.5])],
    )  # fmt: skip
    _, level, guide = figure.axes[0].lines
    assert level.get_ydata()[0] == 1.5 and level.get_color() == plots.method_style("ITQ").colour
    assert guide.get_ydata().tolist() == [1, 0.5]
    assert level.get_marker() == guide.get_marker() == "None"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["SGH", "ITQ", "1 / x"]


@pytest.mark.parametrize("base", [2, 10])
@pytest.mark.parametrize("factor", [1.04, 1.3, 1.9, 3, 8, 50, 1e3, 1e9])
@pytest.mark.parametrize("low", [3e-4, 0.7, 1, 99, 1.42e6])
def test_a_logarithmic_axis_has_three_to_eight_labels(low, factor, base):
    ticks = log_ticks(low, low * factor, base=base)
    assert 3 <= len(ticks) <= 8 and ticks == sorted(set(ticks))
    assert low <= ticks[0] * (1 + 1e-9) and ticks[-1] <= low * factor * (1 + 1e-9)


@pytest.mark.parametrize("scale", ["linear", "log", "log2"])
def test_curves_fill_their_axes(scale):
    x = [1, 8, 64, 1024]
    figure = plots.lines([("SGH", x, x)], x_label="x", y_label="y", x_scale=scale, y_scale=scale)
    (axes,) = figure.axes
    figure.draw_without_rendering()
    corners = axes.transData.transform([(1, 1), (1024, 1024)])
    size = axes.get_window_extent()
    assert corners[0] == pytest.approx([size.x0, size.y0], abs=0.06 * size.width)
    assert corners[1] == pytest.approx([size.x1, size.y1], abs=0.06 * size.width)


def test_lines_refuses_an_unknown_scale():
    with pytest.raises(InvalidInput, match="x_scale"):
        plots.lines([("SGH", [1], [1])], x_label="x", y_label="y", x_scale="cubic")


def test_recall_curves_are_means_over_seeds_with_their_interval():
    figure = plots.recall_curves(rows())
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["16 bits", "32 bits"]
    line, bars = figure.axes[0].lines[0], figure.axes[0].collections[0]
    expected = estimate([0.16 + 10 / 2000 + seed / 50 for seed in range(3)])
    assert line.get_xdata().tolist() == [10, 100, 1000]
    assert line.get_ydata()[0] == pytest.approx(expected.mean)
    ends = expected.mean - expected.half_width, expected.mean + expected.half_width
    assert bars.get_segments()[0][:, 1].tolist() == pytest.approx([max(0, ends[0]), ends[1]])
    assert figure.axes[0].get_ylabel() == "Recall10@N"


def test_recall_curves_of_one_seed_have_no_band_and_of_one_length_one_panel():
    figure = plots.recall_curves(rows(seeds=(0,)), n_bits=32, kind="precision")
    (axes,) = figure.axes
    assert len(axes.collections) == 0 and axes.get_ylabel() == "Precision10@N"


def test_recall_curves_takes_finished_series():
    figure = plots.recall_curves({64: [("SGH", [1, 10], [0.2, 0.4])]}, k=1)
    assert figure.axes[0].lines[0].get_ydata().tolist() == [0.2, 0.4]
    assert figure.axes[0].get_ylabel() == "Recall1@N"


def test_recall_differences_have_the_reference_at_zero():
    figure = plots.recall_differences(
        {32: [("SGH", [1, 10], [0.1, 0.2])], 16: [("SGH", [1, 10], [0, -0.5])]}, k=10,
        y_range=(-0.2, None),
    )  # fmt: skip
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["16 bits", "32 bits"]
    curve, zero = figure.axes[1].lines
    assert curve.get_ydata().tolist() == [0.1, 0.2] and set(zero.get_ydata()) == {0}
    assert zero.get_color() == plots.method_style("ITQ").colour
    assert figure.axes[0].get_ylabel() == "Recall10@N minus ITQ's"
    assert figure.axes[0].get_ylim()[0] == -0.2
    with pytest.raises(InvalidInput):
        plots.recall_differences({})


BY_BYTES = [
    ("SGH", [8, 16, 32], [0.3, 0.5, 0.6]),
    ("OPQ", [8, 16, 32], [0.2, 0.7, 0.5]),
    ("SignHashing", [48], [0.4]),
]


def test_the_winner_at_each_size_is_named():
    found = [(winner.x, winner.name) for winner in plots.winners(BY_BYTES)]
    # At 48 bytes there is nobody to win against.
    assert found == [(8, "SGH"), (16, "OPQ"), (32, "SGH")]
    level = [("SGH", [8, 16], [1.0, 1.0]), ("OPQ", [8, 16], [0.9999, 1.0]), ("LSH", [8], [0.5])]
    assert [(won.x, won.name) for won in plots.winners(level)] == [(8, "SGH"), (8, "OPQ")]
    figure = plots.recall_by_bytes(BY_BYTES, y_label="recall", title="t")
    above, below = figure.axes
    texts = [text.get_text() for text in above.texts]
    assert texts == ["best: SGH", "best: OPQ"]
    width = {line.get_label(): line.get_linewidth() for line in below.lines}
    assert width["SGH"] == width["OPQ"] > width["SignHashing"]
    assert [tick.get_text() for tick in below.get_xticklabels()] == ["8", "16", "32", "48"]


def test_memory_bars_add_their_parts_and_say_the_sum():
    kinds = {"float32": {"numbers": 4e9}, "codes": {"codes": 3e7, "ids": 2e7}}
    figure = plots.memory_bars(kinds)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == [4e9, 0, 0, 3e7, 0, 2e7]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["4 GB", "50 MB  (80 times smaller)"]
    with pytest.raises(InvalidInput):
        plots.memory_bars({"float32": {}})


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(12, "12 bytes"), (999_600, "1000 kB"), (4.608e9, "4.61 GB")]
)
def test_bytes_are_readable(n_bytes, text):
    assert readable(n_bytes) == text


def test_recall_curves_refuses_mixed_sets_and_missing_lengths():
    mixed = rows()
    mixed[0]["settings"]["dataset"] = "other"
    with pytest.raises(InvalidInput, match="one data set"):
        plots.recall_curves(mixed)
    with pytest.raises(InvalidInput, match="lengths there are"):
        plots.recall_curves(rows(), n_bits=[16, 128])
    with pytest.raises(InvalidInput):
        plots.recall_curves([])


def test_bars_leave_gaps_and_tell_variants_apart():
    figure = plots.bars(
        ["8", "16"],
        {"SGH": [1, 2], "SGH, sharpened": [3, None]},
        half_widths={"SGH": [0.1, None]},
        y_label="seconds",
    )
    first, second = (c for c in figure.axes[0].containers if len(c) and hasattr(c[0], "get_height"))
    assert [bar.get_height() for bar in first] == [1, 2]
    assert [bar.get_height() for bar in second] == [3]
    assert first[0].get_facecolor() == second[0].get_facecolor()
    assert first[0].get_hatch() != second[0].get_hatch()
    with pytest.raises(InvalidInput, match="one per group"):
        plots.bars(["8"], {"SGH": [1, 2]}, y_label="s")
    with pytest.raises(InvalidInput):
        plots.bars([], {}, y_label="s")


def test_images_draws_every_picture_once(rng):
    grid = [[rng.random((4, 6)), None], [rng.random((4, 6, 3)), rng.random((2, 2))]]
    figure = plots.images(grid, titles=["a", "b"], row_titles=["first", "second"], title="t")
    shown = figure.axes[0].images
    assert len(shown) == 3
    assert np.array_equal(shown[0].get_array(), grid[0][0])
    texts = [text.get_text() for text in (*figure.axes[0].texts, *figure.texts)]
    assert texts == ["a", "b", "first", "second", "t"]


def test_signed_images_have_zero_in_the_middle(rng):
    picture = rng.standard_normal((5, 5)) + 3
    (shown,) = plots.images([[picture]], signed=True).axes[0].images
    low, high = shown.get_clim()
    assert low == -high and high == pytest.approx(np.abs(picture).max())


@pytest.mark.parametrize("grid", [[], [[]], [[np.zeros(4)]], [[np.zeros((2, 2, 4))]]])
def test_images_refuses_what_is_no_picture(grid):
    with pytest.raises(InvalidInput):
        plots.images(grid)
    with pytest.raises(InvalidInput, match="titles"):
        plots.images([[np.zeros((2, 2))]], titles=["a", "b"])


def test_bit_report_shows_shares_and_correlations(rng):
    shares = rng.random(16)
    figure = plots.bit_report(shares, correlations=np.eye(16))
    assert [bar.get_height() for bar in figure.axes[0].patches] == pytest.approx(shares.tolist())
    assert len(plots.bit_report(shares).axes) == 1
    with pytest.raises(InvalidInput):
        plots.bit_report([0.5, 1.5])
    with pytest.raises(InvalidInput, match="shape"):
        plots.bit_report(shares, correlations=np.eye(3))


def test_settings_of_others_stay_as_they_are():
    before = dict(matplotlib.rcParams)
    plots.lines([("SGH", [1, 2], [1, 2])], x_label="x", y_label="y")
    assert dict(matplotlib.rcParams) == before


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"\[plots\]"):
        plots.lines([("SGH", [1], [1])], x_label="x", y_label="y")


METHODS = list(plots.METHODS)
CURVES = [
    (name, [1, 10, 100, 1000], [0.1, 0.2, 0.3, 0.4 + i / 40]) for i, name in enumerate(METHODS)
]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.recall_curves({16: CURVES, 32: CURVES, 64: CURVES}, title="all"),
        lambda: plots.recall_curves({16: CURVES[:5]}),
        lambda: plots.lines(CURVES, x_label="N", y_label="recall", x_scale="log", y_scale="log"),
        lambda: plots.lines(
            [("SGH", [8, 16, 32, 64], [1e-3, 1, 1e3, 2e3])],
            x_label="bits", y_label="seconds", x_scale="log2", y_scale="log", title="time",
        ),
        lambda: plots.bars(["8", "16", "32"], {m: [1, 2, 3] for m in METHODS}, y_label="s"),
        lambda: plots.images(
            [[np.eye(4)] * 5] * 2, titles=list("01234"), row_titles=["original", "SGH 64 bits"],
            title="pictures",
        ),
        lambda: plots.bit_report(np.full(64, 0.5), correlations=np.eye(64)),
        lambda: plots.recall_differences({16: CURVES, 32: CURVES}, title="all"),
        lambda: plots.recall_by_bytes(
            [(name, [8, 16, 32, 48, 64, 128], np.roll([0.9, *[0.1 + i / 40] * 5], i))
             for i, name in enumerate(METHODS[:6])],
            y_label="recall", title="all win",
        ),
        lambda: plots.memory_bars(
            {f"kind {i}": {"numbers": 10.0**i, "ids": 5.0} for i in range(6, 0, -1)}, title="t"
        ),
    ],
)  # fmt: skip
def test_no_text_lies_over_other_text_or_outside(draw):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    figure = draw()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    shown = [(text.get_text(), text.get_window_extent(renderer)) for text in _texts(figure, Text)]
    width, height = canvas.get_width_height()
    assert len(shown) >= 6
    for place, (text, box) in enumerate(shown):
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text
        for other, second in shown[:place]:
            apart = box.x1 < second.x0 + 1 or second.x1 < box.x0 + 1
            apart |= box.y1 < second.y0 + 1 or second.y1 < box.y0 + 1
            assert apart, (text, other)


def _texts(figure, kind):
    """All texts that are drawn; ticks beyond the range of an axis have one that is not."""
    texts = []
    for axes in figure.axes:
        ticks = []
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                ticks += [tick.label1, tick.label2]
                if low <= tick.get_loc() <= high and axes.axison:
                    texts += [tick.label1, tick.label2]
        texts += [text for text in axes.findobj(kind) if text not in ticks]
    texts += [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def test_ticks_beyond_a_million_keep_their_factor():
    figure = plots.lines([("SGH", [1, 2], [1.1e6, 1.7e6])], x_label="x", y_label="y", y_scale="log")
    figure.canvas.draw()
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels() if text.get_text()]
    assert len(labels) > 2 and len(set(labels)) == len(labels)
