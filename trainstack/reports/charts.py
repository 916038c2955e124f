"""Pictures: panels, as one PNG or as SVG for a page.

A panel is plain data that draws itself. matplotlib measures all text and makes room for it. Series differ by the shape
of their marks too, and a legend names them in their own colours.
"""

import io
import re
from collections.abc import Sequence
from typing import Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, FigureBase

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b3589a", "#8f6c00", "#3d7ea6", "#7a7a7a", "#7b4fb5")
"""Of series, in this order. After Okabe and Ito for colour-blind readers, and darker: the yellow and the light blue of
matplotlib's own `okabe_ito` cannot be read as text on white."""
DARK_COLOURS = ("#5ab4f0", "#ff9a5c", "#3ecf9f", "#e79ac9", "#e0bd4f", "#9cc9e6", "#b0b0b0", "#bfa2ee")
"""The same series on a dark page."""
SCALE = tuple(map(to_hex, mpl.colormaps["Blues"](np.linspace(0.3, 1, 6))))
"""From the least to the most."""
DARK_SCALE = tuple(map(to_hex, mpl.colormaps["Blues_r"](np.linspace(0.15, 0.85, 6))))
"""The same on a dark page."""
INK, MUTED, GRID, PAPER = "#1b1f24", "#5b6470", "#d9dee3", "#ffffff"
_DARK = {"--ink": "#e8eaed", "--muted": "#a3abb5", "--grid": "#343b44", "--paper": "#15181c"}
WIDTH = 400
"""A panel's width in points (1/72 inch). A phone shows them as pixels, so 12 is a size to read."""
FONT = 12
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": FONT,
    "text.color": INK,
    # Text is text: a name with a dollar sign is not a formula.
    "text.parse_math": False,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.titlesize": FONT + 1,
    "figure.titleweight": "bold",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelpad": 6,
    "axes.labelsize": FONT - 1,
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "xaxis.labellocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": FONT - 1,
    "ytick.labelsize": FONT - 1,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 6,
    "ytick.major.pad": 6,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.color": PAPER,
    "legend.borderaxespad": 0,
    "legend.fontsize": FONT - 1,
    "legend.frameon": False,
    "legend.handlelength": 1.5,
    "legend.labelcolor": "linecolor",
}
"""matplotlib's settings for all pictures."""
_POINTS = 72


class Panel(Protocol):
    """What is drawn in one place."""

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def height(self) -> float:
        """With its title and all text, in points."""

    def draw(self, axes: Axes) -> str:
        """Draw all but the title, and return the words below the title."""


def png(panels: Sequence[Panel]) -> bytes:
    """All panels in one picture, two in a row, on white."""
    columns = min(2, len(panels))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    with mpl.rc_context(STYLE):
        figure = sized(columns * WIDTH, sum(heights))
        places = figure.subfigures(len(rows), columns, height_ratios=heights, wspace=0.06, hspace=0, squeeze=False)
        for row, height, line in zip(rows, heights, places, strict=True):
            for panel, place in zip(row, line, strict=False):
                # Below a panel that is lower than its neighbour there is nothing.
                rest = height - panel.height
                _draw(panel, place.subfigures(2, 1, height_ratios=(panel.height, rest))[0] if rest else place)
        return as_png(figure)


def svg(panel: Panel, identifier: str) -> str:
    """A panel as SVG for a page: as wide as what holds it, in the page's colours.

    Args:
        panel: what is drawn.
        identifier: begins the ids in it, which have to be unique on the page.

    Its colours are those of `variables`; its words are text.
    """
    with mpl.rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": identifier}):
        figure = sized(WIDTH, panel.height)
        figure.patch.set_visible(False)
        _draw(panel, figure)
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


def short(name: str, length: int = 20) -> str:
    """A name cut in the middle: its beginning and its end tell it from others."""
    head = (length - 1) // 2
    return name if len(name) <= length else f"{name[:head]}…{name[-(length - 1 - head) :]}"


def write(axes: Axes, words: str, corner: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """Words by their place from a corner of the panel, for which others need not make room."""
    placed: dict[str, Any] = {"xycoords": "subfigure fraction", "textcoords": "offset points", "va": "top"}
    axes.annotate(words, corner, offset, size=FONT - 1, **placed, **style).set_in_layout(False)


def sized(width: float, height: float) -> Figure:
    """An empty figure, in points, in which matplotlib makes room for all text."""
    return Figure(figsize=(width / _POINTS, height / _POINTS), layout="constrained", facecolor=PAPER)


def as_png(figure: Figure) -> bytes:
    """The same bytes for the same figure, on every day."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=144, bbox_inches="tight", pad_inches=0.25, metadata={"Software": None})
    return file.getvalue()


def _draw(panel: Panel, figure: FigureBase) -> None:
    axes = figure.add_subplot()
    words = panel.draw(axes)
    # Its second line is the room for the words, which have another size and colour.
    figure.suptitle(f"{panel.title}\n" if words else panel.title, x=0, ha="left")
    write(axes, words, (0, 1), (0, -30), color=MUTED)
