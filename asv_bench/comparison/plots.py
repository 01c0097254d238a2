"""Plots of what was measured, as SVG: bars of a path, and curves of growth. Needs matplotlib, of the group `bench`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# One colour for each reader, in all plots.
COLOURS = {
    "kafkalog": "#1f6feb",
    "limit": "#8c959f",
    "ready": "#8c959f",
    "java": "#bf8700",
    "kafka": "#bf8700",
    "aiokafka": "#2da44e",
    "kafka-python": "#cf222e",
    "parquet": "#8250df",
}
_OTHERS = ("#54aeff", "#d85fa8", "#1b7c83", "#fa8c4b")
# SVG of the same figures is the same file.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "kafkalog", "font.family": "sans-serif", "font.size": 9}


def bars(
    page: Path, title: str, unit: str, groups: Sequence[str], figures: Mapping[str, Sequence[float | None]]
) -> str:
    """Draw a group of bars for each of `groups`, a bar for each reader, beside a page; return the line of the page.

    Args:
        page: The page, whose name begins that of the picture.
        title: What was measured.
        unit: What the figures count.
        groups: The names below the bars.
        figures: By reader, one for each group; None: not measured.
    """
    figure, (axes,) = _figure(1, 7.0)
    width = 0.8 / len(figures)
    others = iter(_OTHERS * len(figures))
    for number, (reader, values) in enumerate(figures.items()):
        places = [place - 0.4 + width * (number + 0.5) for place in range(len(groups))]
        colour = COLOURS.get(reader) or next(others)
        axes.bar(places, [value or 0 for value in values], width, label=reader, color=colour)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(unit)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return _saved(figure, page, title)


def curves(
    page: Path, title: str, panels: Sequence[tuple[str, str, Mapping[str, Sequence[tuple[float, float]]]]]
) -> str:
    """Draw panels of curves side by side, both axes logarithmic; return the line of the page.

    Args:
        page: The page, whose name begins that of the picture.
        title: What was measured.
        panels: For each the names of its axes, and points by curve.
    """
    figure, all_axes = _figure(len(panels), 3.6 * len(panels))
    for axes, (across, up, points) in zip(all_axes, panels, strict=True):
        for name, each in points.items():
            axes.loglog([x for x, _ in each], [y for _, y in each], marker="o", markersize=4, label=name)
        places = sorted({x for each in points.values() for x, _ in each})
        axes.set_xticks(places, [f"{place:,.0f}" for place in places])
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.minorticks_off()
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        lowest, highest = axes.get_ylim()
        axes.set_ylim(lowest, max(highest, 10 * lowest))  # so that what is flat looks flat
        axes.legend(frameon=False, fontsize=7)
    return _saved(figure, page, title)


def _figure(panels: int, width: float) -> tuple[Any, list[Any]]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(_SETTINGS)
    figure = Figure(figsize=(width, 2.8), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def _saved(figure: Any, page: Path, title: str) -> str:
    name = f"{page.stem}-{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}.svg"
    figure.savefig(page.with_name(name), metadata={"Date": None, "Creator": None})
    return f"![{title}]({name})"
