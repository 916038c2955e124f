"""A Gantt chart as a page: rows that fit a phone and a desk, without a script or a network."""

from collections.abc import Sequence
from html import escape

from reports import page
from reports.charts import COLOURS
from reports.gantt import Gantt, Lane, Level, Piece, stairs, ticks


def html(
    gantt: Gantt, sentences: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> str:
    """The page.

    Args:
        gantt: what is drawn.
        sentences: what there is to say above it.
        head: of the table, and
        rows: below it.
        notes: what a person should know.

    """
    drawn = "".join(_lane(each, gantt.until) for each in gantt.drawn)
    more = f'<p class="more">{escape(gantt.left_out)}</p>\n' if gantt.left_out else ""
    levels = "".join(_level(each, gantt.until) for each in gantt.levels)
    return page.document(
        gantt.title,
        page.paragraphs(sentences),
        _chart(gantt.until, drawn + more),
        page.heading("Use over time") + _chart(gantt.until, levels) if levels else "",
        page.table(head, rows, many=True),
        page.listed("What to know", notes, "note"),
        style=_CSS,
    )


def _chart(until: float, content: str) -> str:
    return f'<div class="gantt" style="--step: {_step(until)}">\n{_axis(until)}{content}</div>\n'


def _axis(until: float) -> str:
    marks = "".join(f'<span style="left: {_part(at, until)}">{name}</span>' for at, name in ticks(until, 5))
    return f'<div class="axis" aria-hidden="true">{marks}</div>\n'


def _lane(lane: Lane, until: float) -> str:
    pieces, since = "", lane.since
    for each in lane.pieces:
        pieces += _wait(since, each.start, until) + _piece(each, until)
        since = each.end
    if not lane.ends:
        pieces += _wait(since, until, until)
    who = f"<b>{escape(lane.name)}</b> <span>{escape(lane.words)}</span>"
    return f'<div class="lane"><div class="who">{who}</div><div class="track">{pieces}</div></div>\n'


def _wait(since: float | None, start: float, until: float) -> str:
    if since is None or start <= max(0.0, since):
        return ""
    begin = max(0.0, since)
    return f'<i class="wait" style="left: {_part(begin, until)}; width: {_part(start - begin, until)}"></i>'


def _piece(piece: Piece, until: float) -> str:
    begin = max(0.0, piece.start)
    kind = "run endless" if piece.end is None else "run uncertain" if piece.uncertain else "run"
    width = _part((until if piece.end is None else piece.end) - begin, until)
    place = f"left: {_part(begin, until)}; width: {width}; {_colours(piece.colours)}"
    return f'<i class="{kind}" style="{place}" title="{escape(piece.words)}"></i>'


def _colours(places: Sequence[int]) -> str:
    """The upper and the lower half of a bar; all further colours are left out."""
    upper, lower = (
        f"var(--series-{place % len(COLOURS)})" for place in (places[0], places[-1] if len(places) > 1 else places[0])
    )
    return f"--upper: {upper}; --lower: {lower}"


def _level(level: Level, until: float) -> str:
    values, edges = stairs(level.steps, until)
    top = max([level.most, *values]) or 1
    path = "".join(
        f"H{1000 * left / until:.2f}V{100 - 100 * used / top:.2f}" for left, used in zip(edges, values, strict=False)
    )
    line = f"{100 - 100 * level.most / top:.2f}"
    colour = f"var(--series-{level.colour % len(COLOURS)})"
    who = f'<b style="color: {colour}">{escape(level.name)}</b> <span>{escape(level.words)}</span>'
    picture = (
        f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="{escape(level.words)}">'
        f'<path d="M0 100{path}H1000V100Z" fill="{colour}"/>'
        f'<path d="M0 {line}H1000" class="most"/></svg>'
    )
    return f'<div class="lane level"><div class="who">{who}</div><div class="track">{picture}</div></div>\n'


def _part(seconds: float, until: float) -> str:
    return f"{100 * seconds / until:.3f}%"


def _step(until: float) -> str:
    """The distance of two ticks."""
    places = ticks(until, 5)
    return _part(places[1][0], until) if len(places) > 1 else "100%"


_CSS = """.gantt { margin: 1rem 0 2rem; }
.gantt h2 { margin-top: 2rem; }
.axis { position: relative; height: 1.5rem; color: var(--muted); font-size: .8rem; }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis span:first-child { transform: none; }
.lane { padding: .2rem 0; }
.who { font-size: .85rem; line-height: 1.3; overflow-wrap: anywhere; }
.who span { color: var(--muted); font-size: .8rem; }
.track { position: relative; height: 1rem;
  background: repeating-linear-gradient(to right, var(--grid) 0 1px, transparent 1px var(--step)); }
.track i { position: absolute; top: .2rem; height: .6rem; min-width: 2px; border-radius: 1px; }
.track .wait { top: .5rem; height: 0; border-top: 1px dashed var(--muted); border-radius: 0; }
.track .run { background: linear-gradient(var(--upper) 50%, var(--lower) 50%); }
.track .uncertain { mask: repeating-linear-gradient(135deg, #000 0 5px, transparent 5px 7px); }
.track .endless { mask: linear-gradient(to right, #000 70%, transparent); }
.level { margin-bottom: .6rem; }
.level .track { height: 4rem; }
.level svg { position: absolute; inset: 0; max-width: none; height: 100%; opacity: .85; }
.level .most { stroke: var(--ink); stroke-dasharray: 4 3; vector-effect: non-scaling-stroke; }
.many th:first-child { min-width: 9rem; max-width: 18rem; white-space: normal; }
.more { color: var(--muted); margin: .5rem 0; }
@media (min-width: 48rem) {
  .axis { margin-left: 19rem; }
  .lane { display: grid; grid-template-columns: 18rem 1fr; gap: 1rem; align-items: center; padding: .1rem 0; }
  .who span { display: block; }
}
"""
