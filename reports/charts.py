"""Pictures of figures: panels, as one PNG or as SVG for a page.

A panel is plain data that draws itself. Every mark is labelled where it stands, so no legend has to be decoded, and
series differ by the shape of their marks too.
"""

import io
import re
from collections.abc import Sequence
from typing import Any, Protocol

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b3589a", "#8f6c00", "#3d7ea6", "#7a7a7a", "#7b4fb5")
"""Of series, in this order: told apart also with colour-blind eyes (after Okabe and Ito, darker for text on white)."""
DARK_COLOURS = ("#5ab4f0", "#ff9a5c", "#3ecf9f", "#e79ac9", "#e0bd4f", "#9cc9e6", "#b0b0b0", "#bfa2ee")
"""The same series on a dark page."""
SCALE = ("#c3d2e0", "#9dbad4", "#6c9bc7", "#3f7cb5", "#1c5a97", "#083b70")
"""From the least to the most, of one hue, so that it is read by its strength."""
DARK_SCALE = ("#35485c", "#426688", "#5585b5", "#72a5d8", "#98c4f0", "#c8e2ff")
"""The same on a dark page."""
INK, MUTED, GRID, PAPER = "#1b1f24", "#5b6470", "#d9dee3", "#ffffff"
_DARK = {"--ink": "#e8eaed", "--muted": "#a3abb5", "--grid": "#343b44", "--paper": "#15181c"}
WIDTH = 400
"""A panel's width in units of 1/72 inch: a phone shows them as pixels, so 12 is a size to read."""
FONT = 12
LETTER = 7.2
"""About the width of a letter."""
_POINTS = 72
_GUTTER = 28
"""Between two panels of one picture."""


class Panel(Protocol):
    """What is drawn in one place."""

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def margins(self) -> tuple[float, float, float, float]:
        """Left, right, top and bottom of the plot, in units, for the words around it."""

    @property
    def plot_height(self) -> float:
        """Of what is drawn between the margins, in units."""

    def draw(self, axes: Axes) -> None:
        """Draw all but the title."""


def png(panels: Sequence[Panel]) -> bytes:
    """All panels in one picture, two in a row, on white."""
    columns, rows = min(2, len(panels)), -(-len(panels) // 2)
    heights = [max(_height(panel) for panel in panels[row * columns : (row + 1) * columns]) for row in range(rows)]
    with mpl.rc_context(_style()):
        figure = Figure(figsize=(_across(columns) / _POINTS, sum(heights) / _POINTS), facecolor=PAPER)
        grid = figure.add_gridspec(rows, columns, height_ratios=heights)
        for index, panel in enumerate(panels):
            _draw(panel, figure.add_subplot(grid[divmod(index, columns)]))
        _place(figure, panels, heights, columns)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=144, bbox_inches="tight", pad_inches=0.25, metadata={"Software": None})
    return file.getvalue()


def svg(panel: Panel, identifier: str) -> str:
    """A panel as SVG for a page: as wide as what holds it, in the page's colours.

    Args:
        panel: what is drawn.
        identifier: begins the ids in it, which have to be unique on the page.

    Its colours are the variables --ink, --muted, --grid, --paper, --series-0 to --series-7 and --scale-0 to --scale-5;
    its words are text.
    """
    with mpl.rc_context({**_style(), "svg.fonttype": "none", "svg.hashsalt": identifier}):
        figure = Figure(figsize=(WIDTH / _POINTS, _height(panel) / _POINTS))
        figure.patch.set_visible(False)
        _draw(panel, figure.add_subplot())
        _place(figure, [panel], [_height(panel)], 1)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r'(id="|href="#|url\(#)', rf"\1{identifier}-", drawn)
    drawn = re.sub(r' (?:width|height)="[\d.]+pt"', "", drawn, count=2)
    for variable, colour in variables().items():
        drawn = drawn.replace(colour, f"var({variable})")
    return drawn


def variables(*, dark: bool = False) -> dict[str, str]:
    """The CSS variables of a page, and their colours: on a light page those that panels are drawn with."""
    series, scale = (DARK_COLOURS, DARK_SCALE) if dark else (COLOURS, SCALE)
    return {
        **(_DARK if dark else {"--ink": INK, "--muted": MUTED, "--grid": GRID, "--paper": PAPER}),
        **{f"--series-{index}": colour for index, colour in enumerate(series)},
        **{f"--scale-{index}": colour for index, colour in enumerate(scale)},
    }


def write(axes: Axes, text: str, offset: tuple[float, float], **style: Any) -> None:
    """Words above the plot, by their place from its upper left corner."""
    axes.annotate(text, (0, 1), offset, xycoords="axes fraction", textcoords="offset points", **style)


def short(name: str, length: int = 20) -> str:
    """A name cut in the middle: its beginning and its end tell it from others."""
    head = (length - 1) // 2
    return name if len(name) <= length else f"{name[:head]}…{name[-(length - 1 - head) :]}"


def _style() -> dict[Any, Any]:
    return {
        "font.family": "DejaVu Sans",  # comes with matplotlib
        "font.size": FONT,
        "text.color": INK,
        "axes.edgecolor": GRID,
        "axes.labelcolor": MUTED,
        "axes.labelsize": FONT - 1,
        "axes.facecolor": "none",
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelsize": FONT - 1,
        "ytick.labelsize": FONT - 1,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        # Text is text: a name with a dollar sign is no formula.
        "text.parse_math": False,
    }


def _across(columns: int) -> float:
    return columns * (WIDTH + _GUTTER) - _GUTTER


def _height(panel: Panel) -> float:
    _, _, top, bottom = panel.margins
    return top + panel.plot_height + bottom


def _place(figure: Figure, panels: Sequence[Panel], heights: Sequence[float], columns: int) -> None:
    """Leave the same room in units around every panel, whatever the picture's size."""
    total, width = sum(heights), _across(columns)
    for index, (panel, axes) in enumerate(zip(panels, figure.axes, strict=True)):
        row, column = divmod(index, columns)
        left, right, _, bottom = panel.margins
        axes.set_position(
            (
                (column * (WIDTH + _GUTTER) + left) / width,
                1 - (sum(heights[:row]) + _height(panel) - bottom) / total,
                (WIDTH - left - right) / width,
                panel.plot_height / total,
            )
        )


def _draw(panel: Panel, axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, pad=6)
    axes.set_axisbelow(True)
    left, _, top, _ = panel.margins
    write(axes, panel.title, (-left, top - 20), size=FONT + 1, weight="bold")
    panel.draw(axes)
