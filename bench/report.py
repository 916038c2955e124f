"""Results as Markdown and as a picture."""

import textwrap
from pathlib import Path

from bench.results import ArmResult, CaseResult, Results, Summary
from trainstack.reports import charts
from trainstack.reports.panels import Bar, BarGroup, BarPanel

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = PAGE.with_suffix(".png")
_BEGIN, _END = "<!-- results -->", "<!-- end of results -->"
_HEAD = ("", "wall seconds", "CPU seconds", "memory, MiB", "API writes", "state, KiB", "first ÷ this")
_MIB, _KIB = 2**20, 2**10


def markdown(results: Results) -> str:
    """Return a section for each case."""
    return "\n".join(_section(case) for case in results.cases)


def page(text: str, results: Results) -> str:
    """Return the page's text with these results in place of the ones between its two marks."""
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n\n{markdown(results)}\n{_END}{after}"


def picture(results: Results) -> bytes:
    """Return a PNG with a panel for each case."""
    return charts.png([_panel(case) for case in results.cases])


def _section(case: CaseResult) -> str:
    rows = [_HEAD, ("---", *["---:"] * (len(_HEAD) - 1)), *(_row(case, arm) for arm in case.arms)]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
    programs = "; ".join(f"{arm.name}: {_programs(arm)}" for arm in case.arms if len(arm.cpu_by_program) > 1)
    rounds = len(case.arms[0].samples)
    spread = "" if rounds == 1 else ", with least and greatest"
    note = (
        f"`{case.id}`: {case.date}, commit {case.commit}, {case.machine}, load {case.load:.1f}. "
        f"Medians of {rounds}{spread}; ratios of {_seconds_of(case)}."
    )
    if programs:
        note += f" CPU seconds by program: {programs}."
    return f"### {case.title}\n\n{note}\n\n{table}\n"


def _row(case: CaseResult, arm: ArmResult) -> tuple[str, ...]:
    ratio = case.ratios.get(arm.name)
    peak = arm.median(lambda sample: sample.peak_bytes)
    writes = arm.median(lambda sample: sample.api_writes)
    state = arm.median(lambda sample: sample.state_bytes)
    return (
        arm.name,
        _range(arm.summary("wall")),
        _range(arm.summary("cpu")),
        "" if peak is None else f"{peak / _MIB:,.0f}",
        "" if writes is None else f"{writes:,.0f}",
        "" if state is None else f"{state / _KIB:,.0f}",
        "" if ratio is None else f"{ratio:.2f}",
    )


def _range(summary: Summary) -> str:
    if summary.least == summary.greatest:
        return _number(summary.median)
    return f"{_number(summary.median)} ({_number(summary.least)} to {_number(summary.greatest)})"


def _number(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 100 else f"{seconds:,.0f}"


def _programs(arm: ArmResult) -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in arm.cpu_by_program.items() if seconds >= 0.005)


def _seconds_of(case: CaseResult) -> str:
    return "CPU seconds" if case.measure == "cpu" else "wall seconds"


def _panel(case: CaseResult) -> BarPanel:
    return BarPanel(
        title=_plain(case.title),
        axis=_seconds_of(case),
        groups=tuple(_group(case, arm, color) for color, arm in enumerate(case.arms)),
    )


def _group(case: CaseResult, arm: ArmResult, color: int) -> BarGroup:
    median = arm.summary(case.measure).median
    return BarGroup(name=arm.name, color=color, bars=(Bar(value=median, text=f"{_number(median)} s"),))


def _plain(title: str) -> str:
    """Return a title without marks of code, in lines that fit a panel."""
    return textwrap.fill(title.replace("`", ""), 44)
