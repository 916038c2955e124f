"""A plan in words: the cells of its tables, its sentences, what its picture shows."""

from collections.abc import Iterator

from trainstack.cli.console import duration
from trainstack.forecast.costs import Use
from trainstack.forecast.report import Report, Row, Stretch
from trainstack.reports.gantt import Gantt, Lane, Level, Piece

HEAD = ("run", "queue", "start", "end", "wait", "takes", "gpus", "gpu-h", "cost", "flavors", "note")
USE_HEAD = ("flavor", "resource", "quota", "peak", "mean", "of quota")
LEFT = ("run", "queue", "flavors", "note", "flavor", "resource")
"""Columns of words; the others are figures."""
_NO_FLAVOR = 6
"""The colour of what Kueue does not hold: grey."""
_NEVER, _UNKNOWN = "never", "-"


def cells(made: Report) -> list[tuple[str, ...]]:
    """The rows of the table of runs, below HEAD."""
    return [_cells(row) for row in made.rows]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        row.queue or _UNKNOWN,
        _NEVER if row.start is None else at(row.start),
        _end(row),
        _UNKNOWN if row.wait is None else duration(row.wait),
        takes(row),
        f"{row.gpus:g}",
        _UNKNOWN if row.gpu_hours is None else f"{row.gpu_hours:.1f}",
        _UNKNOWN if row.cost is None else f"{row.cost:,.2f}",
        ", ".join(row.flavors),
        row.note,
    )


def on_page(made: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[str]]:
    """The same for a page: head, rows, and apart from them what there is to note."""
    notes = [f"{row.name}: {row.note}" for row in made.rows if row.note]
    return HEAD[:-1], [row[:-1] for row in cells(made)], [*notes, *made.notes]


def at(seconds: float) -> str:
    """A time of the plan: `now`, `+2h5m`; before it, of what runs already, `-10m`."""
    if round(seconds) == 0:
        return "now"
    return f"+{duration(seconds)}" if seconds > 0 else f"-{duration(-seconds)}"


def takes(row: Row) -> str:
    """How long a run takes, and how that is known."""
    if row.duration is None:
        return "unbounded"
    said = duration(row.duration)
    return {"deadline": f"\u2264 {said}", "measured": f"~ {said}"}.get(row.source, said)


def used(made: Report) -> list[tuple[str, ...]]:
    """The rows of the table of flavors, below USE_HEAD."""
    return [
        (
            use.flavor,
            use.resource,
            f"{use.quota:g}",
            f"{use.peak:g}",
            f"{use.mean:.1f}",
            f"{use.mean / use.quota:.0%}" if use.quota else _UNKNOWN,
        )
        for use in made.uses
    ]


def sentences(made: Report) -> list[str]:
    """The plan as a whole."""
    ended = sum(row.end is not None for row in made.rows)
    if not made.rows:
        return ["There are no runs."]
    if not ended:
        return [f"Of {_runs(len(made.rows))} no end is known."]
    rest = f"; of {_runs(made.endless)} no end is known" if made.endless else ""
    hours = f", {made.gpu_hours:,.1f} GPU-hours" if made.gpu_hours else ""
    price = "" if made.cost is None else f", {made.cost:,.2f} {made.currency}".rstrip()
    return [f"{_runs(ended)} in {duration(made.makespan)}{hours}{price}{rest}."]


def compared(before: Report, made: Report) -> Iterator[str]:
    """What the changes that are tried make of the plan."""
    wait = (_mean_wait(before), _mean_wait(made))
    yield f"Without the changes: {sentences(before)[0]}"
    if None not in wait:
        yield f"A run waits {duration(wait[1] or 0)} on average, and {duration(wait[0] or 0)} without them."


def _mean_wait(made: Report) -> float | None:
    waits = [row.wait for row in made.rows if row.wait is not None]
    return sum(waits) / len(waits) if waits else None


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"


def _end(row: Row) -> str:
    if row.end is not None:
        return at(row.end)
    waits = row.start is None or bool(row.stretches[-1].evicted_by)
    return _NEVER if waits else "unbounded"


def gantt_of(made: Report) -> Gantt:
    """What the picture shows: each run, and the scarcest resource of each flavor."""
    flavors = sorted({flavor for row in made.rows for flavor in row.flavors})
    colours = {name: index for index, name in enumerate(flavors)}
    # Something is to be seen of what has no end.
    starts = (row.start for row in made.rows if row.start is not None)
    until = 1.02 * max(made.makespan, *(1.1 * each for each in starts), 60.0)
    return Gantt(
        title=f"Plan of {made.environment}",
        until=until,
        lanes=tuple(_lane(row, colours) for row in made.rows),
        levels=tuple(_level(use, colours[use.flavor]) for use in _scarce(made)),
    )


def _lane(row: Row, colours: dict[str, int]) -> Lane:
    wait = f"waits {duration(row.wait)}" if row.wait and row.wait >= 1 else ""
    if row.start is None:
        words = [row.note]
    else:
        words = [f"{row.gpus:g} GPU" if row.gpus else "", ", ".join(row.flavors), takes(row), wait]
    return Lane(
        name=row.name,
        words=" \u00b7 ".join(filter(None, words)),
        since=row.submitted,
        pieces=tuple(_piece(each, row, colours) for each in row.stretches if each.started is not None),
        ends=row.start is not None and not row.stretches[-1].evicted_by,
    )


def _piece(stretch: Stretch, row: Row, colours: dict[str, int]) -> Piece:
    start, flavors = stretch.started or 0.0, ", ".join(stretch.flavors)
    end = "no end is known" if stretch.ended is None else at(stretch.ended)
    why = f", gives way to {stretch.evicted_by}" if stretch.evicted_by else ""
    return Piece(
        start=start,
        end=stretch.ended,
        colours=tuple(colours[each] for each in stretch.flavors) or (_NO_FLAVOR,),
        words=f"{row.name}: {at(start)} to {end}{f' on {flavors}' if flavors else ''}{why}",
        uncertain=row.source == "deadline" and not stretch.evicted_by,
    )


def _scarce(made: Report) -> list[Use]:
    """Of each flavor the resource of which most is used, as a part of its quota."""
    best: dict[str, Use] = {}
    for use in made.uses:
        rank = (use.peak / use.quota if use.quota else 0.0, use.mean / use.quota if use.quota else 0.0)
        old = best.get(use.flavor)
        if old is None or rank > (old.peak / (old.quota or 1), old.mean / (old.quota or 1)):
            best[use.flavor] = use
    return list(best.values())


def _level(use: Use, colour: int) -> Level:
    unit = {"cpu": " cores", "memory": " GiB", "ephemeral-storage": " GiB"}.get(use.resource, "")
    return Level(
        name=use.flavor,
        words=f"{use.resource}: {use.peak:g}{unit} at most, {use.mean:.1f} on average, of {use.quota:g}",
        colour=colour,
        most=use.quota,
        steps=use.steps,
    )
