"""Charts: panels as one PNG, or as SVG for a page.

A panel is data with a method that draws it. matplotlib measures all text and reserves room for it. Series also differ
by the shape of their markers, and the legend names each series in its color.
"""

import io
import re
from collections.abc import Sequence
from typing import Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, FigureBase
from matplotlib.layout_engine import ConstrainedLayoutEngine

COLORS = ("#0072b2", "#d55e00", "#009e73", "#b3589a", "#8f6c00", "#3d7ea6", "#7a7a7a", "#7b4fb5")
"""The colors of series, in this order: the palette of Okabe and Ito for color-blind readers, but darker, since the
yellow and the light blue of matplotlib's `okabe_ito` are illegible as text on white."""
DARK_COLORS = ("#5ab4f0", "#ff9a5c", "#3ecf9f", "#e79ac9", "#e0bd4f", "#9cc9e6", "#b0b0b0", "#bfa2ee")
"""`COLORS` on a dark page."""
SCALE_COLORS = tuple(map(to_hex, mpl.colormaps["Blues"](np.linspace(0.3, 1, 6))))
DARK_SCALE_COLORS = tuple(map(to_hex, mpl.colormaps["Blues_r"](np.linspace(0.15, 0.85, 6))))
"""`SCALE`, from the lowest to the highest value, on a dark page."""
INK, MUTED, GRID, PAPER = "#1b1f24", "#5b6470", "#d9dee3", "#ffffff"
ALARM = "#b3261e"
"""The color of what needs a change; a text or another form always shows it, too."""
_LIGHT_VARIABLES = {"--ink": INK, "--muted": MUTED, "--grid": GRID, "--paper": PAPER, "--alarm": ALARM}
_DARK_VARIABLES = {
    "--ink": "#e8eaed",
    "--muted": "#a3abb5",
    "--grid": "#343b44",
    "--paper": "#15181c",
    "--alarm": "#ff8a80",
}
PANEL_WIDTH = 400
"""A panel's width in points (1/72 inch). A phone shows a point as a pixel, so a font size of 12 is legible."""
FONT_SIZE = 12
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # bundled with matplotlib
    "font.size": FONT_SIZE,
    "text.color": INK,
    # A name with a dollar sign is not a formula.
    "text.parse_math": False,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.titlesize": FONT_SIZE + 1,
    "figure.titleweight": "bold",
    **{f"axes.spines.{side}": False for side in ("left", "right", "top")},
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelpad": 6,
    "axes.labelsize": FONT_SIZE - 1,
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "xaxis.labellocation": "left",
    **{f"{axis}tick.color": MUTED for axis in "xy"},
    **{f"{axis}tick.labelsize": FONT_SIZE - 1 for axis in "xy"},
    **{f"{axis}tick.major.size": 0 for axis in "xy"},
    **{f"{axis}tick.major.pad": 6 for axis in "xy"},
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "hatch.color": PAPER,
    "legend.borderaxespad": 0,
    "legend.fontsize": FONT_SIZE - 1,
    "legend.frameon": False,
    "legend.handlelength": 1.5,
    "legend.labelcolor": "linecolor",
}
"""matplotlib's settings for all charts."""
_POINTS_PER_INCH = 72
_PNG_DPI = 144
_FILE_MARGIN = 12
"""The margin of an SVG file in points."""


class Panel(Protocol):
    """One chart."""

    @property
    def title(self) -> str: ...

    @property
    def height(self) -> float:
        """The height in points, with the title and all text."""

    def draw(self, axes: Axes) -> str:
        """Draw everything except the title; return the subtitle."""


def png(panels: Sequence[Panel]) -> bytes:
    """Return all panels as one PNG, two in a row, on white."""
    with mpl.rc_context(STYLE):
        return encode_png(_draw_panels(panels, columns=min(2, len(panels))))


def svg(panel: Panel, identifier: str) -> str:
    """Return a panel as SVG for a page: as wide as its container, in the page's CSS variables.

    `identifier` is the prefix of its ids, which must be unique on the page. Its text remains text.
    """
    with mpl.rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": identifier}):
        figure = empty_figure(PANEL_WIDTH, panel.height)
        figure.patch.set_visible(False)
        _draw_panel(panel, figure)
        text = _encode_svg(figure)
    # Ids must be unique on the page, and the container sets the size.
    text = re.sub(r'(id="|href="#|url\(#)', rf"\1{identifier}-", text)
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)


def svg_file(panels: Sequence[Panel]) -> str:
    """Return all panels as one SVG file, one below the other, in the light or the dark colors that a reader prefers."""
    with mpl.rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": "file"}):
        text = _encode_svg(_draw_panels(panels, columns=1))
    light, dark = (
        "".join(f"{name}:{color};" for name, color in css_variables(dark=dark).items()) for dark in (False, True)
    )
    style = f":root{{background:var(--paper);{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    head, _, rest = text.partition(">")
    sizes = [float(size) for size in re.findall(r' (?:width|height)="([\d.]+)pt"', head)]
    width, height = (size + 2 * _FILE_MARGIN for size in sizes)
    head = re.sub(r' (?:width|height|viewBox)="[^"]*"', "", head)
    box = f'width="{width}pt" height="{height}pt" viewBox="{-_FILE_MARGIN} {-_FILE_MARGIN} {width} {height}"'
    return f"{head} {box}><style>{style}</style>{rest}"


def _draw_panels(panels: Sequence[Panel], *, columns: int) -> Figure:
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    figure = empty_figure(columns * PANEL_WIDTH, sum(heights))
    grid = figure.subfigures(len(rows), columns, height_ratios=heights, wspace=0.06, hspace=0, squeeze=False)
    for row, height, cells in zip(rows, heights, grid, strict=True):
        for panel, cell in zip(row, cells, strict=False):
            # The space below a panel that is lower than its neighbor remains empty.
            spare_height = height - panel.height
            _draw_panel(
                panel,
                cell.subfigures(2, 1, height_ratios=(panel.height, spare_height))[0] if spare_height else cell,
            )
    return figure


def _encode_svg(figure: Figure) -> str:
    """Return the figure as SVG, whose colors are CSS variables; the text depends on the figure alone."""
    _lay_out(figure, FigureCanvasSVG(figure), dpi=_POINTS_PER_INCH)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = file.getvalue()
    text = text[text.index("<svg") :]
    # CSS variables switch to the dark colors.
    for variable, color in css_variables().items():
        text = text.replace(color, f"var({variable})")
    return text


def css_variables(*, dark: bool = False) -> dict[str, str]:
    """Return the CSS variables of a page by name; panels are drawn in the colors of the light ones."""
    series, scale = (DARK_COLORS, DARK_SCALE_COLORS) if dark else (COLORS, SCALE_COLORS)
    return {
        **(_DARK_VARIABLES if dark else _LIGHT_VARIABLES),
        **{f"--series-{index}": color for index, color in enumerate(series)},
        **{f"--scale-{index}": color for index, color in enumerate(scale)},
    }


def shorten(name: str, max_length: int = 20) -> str:
    """Shorten a name in the middle, because its beginning and its end identify it."""
    head_length = (max_length - 1) // 2
    return name if len(name) <= max_length else f"{name[:head_length]}…{name[-(max_length - 1 - head_length) :]}"


def write_text(axes: Axes, text: str, corner: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """Write text at an offset from a corner of the panel, without reserving space for it."""
    position: dict[str, Any] = {"xycoords": "subfigure fraction", "textcoords": "offset points", "va": "top"}
    axes.annotate(text, corner, offset, size=FONT_SIZE - 1, **position, **style).set_in_layout(False)


def empty_figure(width: float, height: float) -> Figure:
    """Return an empty figure; `width` and `height` are in points."""
    return Figure(figsize=(width / _POINTS_PER_INCH, height / _POINTS_PER_INCH), facecolor=PAPER)


def encode_png(figure: Figure) -> bytes:
    """Return the figure as PNG; the bytes depend on the figure alone."""
    _lay_out(figure, FigureCanvasAgg(figure), dpi=_PNG_DPI)
    box = figure.get_tightbbox().padded(0.25)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_PNG_DPI, bbox_inches=box, metadata={"Software": None})
    return file.getvalue()


def _lay_out(figure: Figure, canvas: FigureCanvasBase, *, dpi: float) -> None:
    """Reserve space for all text, as the canvas measures it. `savefig` would draw the figure twice for this."""
    figure.set_canvas(canvas)
    figure.set_dpi(dpi)
    ConstrainedLayoutEngine().execute(figure)


def _draw_panel(panel: Panel, figure: FigureBase) -> None:
    axes = figure.add_subplot()
    subtitle = panel.draw(axes)
    # The title's second line reserves space for the subtitle, which has another size and color.
    figure.suptitle(f"{panel.title}\n" if subtitle else panel.title, x=0, ha="left")
    write_text(axes, subtitle, (0, 1), (0, -30), color=MUTED)
