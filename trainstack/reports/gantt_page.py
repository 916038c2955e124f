"""A Gantt chart as a page for phones and desktops, without scripts or network access."""

from collections.abc import Sequence
from typing import NamedTuple

from trainstack.reports import page
from trainstack.reports.charts import COLORS
from trainstack.reports.gantt import Gantt, Lane, Level, Piece, stairs, ticks


class Bar(NamedTuple):
    """A part of a lane as CSS values: class, position and, except for the dashed line of a wait, colors."""

    kind: str
    left: str
    width: str
    upper: str = ""
    lower: str = ""
    label: str = ""


def html(
    gantt: Gantt, sentences: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> str:
    """Return the page: `sentences`, the chart, a table of `head` and `rows`, and `notes`."""
    marks = [(_percent(seconds, gantt.until), text) for seconds, text in ticks(gantt.until, 5)]
    return page.render(
        "gantt",
        gantt.title,
        sentences=sentences,
        ticks=marks,
        step=marks[1][0] if len(marks) > 1 else "100%",
        lanes=[(lane, _bars(lane, gantt.until)) for lane in gantt.drawn],
        left_out=gantt.left_out,
        levels=[(level, _area(level, gantt.until)) for level in gantt.levels],
        head=head,
        rows=rows,
        notes=notes,
    )


def _bars(lane: Lane, until: float) -> list[Bar]:
    waits = [Bar("wait", _percent(start, until), _percent(end - start, until)) for start, end in lane.waits(until)]
    return [*waits, *(_bar(piece, until) for piece in lane.pieces)]


def _bar(piece: Piece, until: float) -> Bar:
    """Return a bar in the first and the last color of the segment, one above the other."""
    begin = max(0.0, piece.start)
    return Bar(
        kind="run endless" if piece.end is None else "run uncertain" if piece.uncertain else "run",
        left=_percent(begin, until),
        width=_percent((until if piece.end is None else piece.end) - begin, until),
        upper=_color(piece.colors[0]),
        lower=_color(piece.colors[-1]),
        label=piece.label,
    )


def _area(level: Level, until: float) -> dict[str, str]:
    """Return the paths and the color of a level, for an SVG of 1000 by 100."""
    values, edges = stairs(level.steps, until)
    top = max([level.capacity, *values]) or 1
    steps = (f"H{1000 * left / until:.2f}V{_down(used, top)}" for left, used in zip(edges, values, strict=False))
    return {
        "path": f"M0 100{''.join(steps)}H1000V100Z",
        "capacity": f"M0 {_down(level.capacity, top)}H1000",
        "color": _color(level.color),
    }


def _down(amount: float, top: float) -> str:
    return f"{100 - 100 * amount / top:.2f}"


def _color(index: int) -> str:
    return f"var(--series-{index % len(COLORS)})"


def _percent(seconds: float, until: float) -> str:
    return f"{100 * seconds / until:.3f}%"
