"""A Gantt chart as a page: rows that fit a phone and a desk, without a script or a network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainstack.reports import page
from trainstack.reports.charts import COLOURS
from trainstack.reports.gantt import Gantt, Lane, Level, Piece, stairs, ticks


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A part of a lane; places and colours are CSS."""

    kind: str
    """Its class in the style sheet."""
    left: str
    width: str
    upper: str = ""
    """The colour of its upper half; none for a dashed line."""
    lower: str = ""
    words: str = ""
    """Shown where a mouse points at it."""


def html(
    gantt: Gantt, sentences: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> str:
    """The page.

    Args:
        gantt: what is drawn.
        sentences: the summary above it.
        head: of the table, and
        rows: below it.
        notes: what a person should know.

    """
    marks = [(_percent(seconds, gantt.until), text) for seconds, text in ticks(gantt.until, 5)]
    return page.render(
        "gantt",
        gantt.title,
        sentences=sentences,
        ticks=marks,
        step=marks[1][0] if len(marks) > 1 else "100%",
        lanes=[(lane, list(_bars(lane, gantt.until))) for lane in gantt.drawn],
        left_out=gantt.left_out,
        levels=[(level, _area(level, gantt.until)) for level in gantt.levels],
        head=head,
        rows=rows,
        notes=notes,
    )


def _bars(lane: Lane, until: float) -> Iterator[Bar]:
    """The pieces of a lane, and a dashed line for each time in which it waits."""
    since = lane.since
    for piece in lane.pieces:
        yield from _wait(since, piece.start, until)
        yield _bar(piece, until)
        since = piece.end
    if not lane.ends:
        yield from _wait(since, until, until)


def _wait(since: float | None, start: float, until: float) -> Iterator[Bar]:
    if since is not None and start > max(0.0, since):
        begin = max(0.0, since)
        yield Bar(kind="wait", left=_percent(begin, until), width=_percent(start - begin, until))


def _bar(piece: Piece, until: float) -> Bar:
    """A bar in the first and the last of the piece's colours, one above the other."""
    begin = max(0.0, piece.start)
    return Bar(
        kind="run endless" if piece.end is None else "run uncertain" if piece.uncertain else "run",
        left=_percent(begin, until),
        width=_percent((until if piece.end is None else piece.end) - begin, until),
        upper=_colour(piece.colours[0]),
        lower=_colour(piece.colours[-1]),
        words=piece.words,
    )


def _area(level: Level, until: float) -> dict[str, str]:
    """Paths of an SVG that is 1000 wide and 100 high."""
    values, edges = stairs(level.steps, until)
    top = max([level.most, *values]) or 1
    steps = (f"H{1000 * left / until:.2f}V{_down(used, top)}" for left, used in zip(edges, values, strict=False))
    return {
        "path": f"M0 100{''.join(steps)}H1000V100Z",
        "most": f"M0 {_down(level.most, top)}H1000",
        "colour": _colour(level.colour),
    }


def _down(amount: float, top: float) -> str:
    return f"{100 - 100 * amount / top:.2f}"


def _colour(place: int) -> str:
    return f"var(--series-{place % len(COLOURS)})"


def _percent(seconds: float, until: float) -> str:
    return f"{100 * seconds / until:.3f}%"
