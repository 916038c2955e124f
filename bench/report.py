"""Results as Markdown and as pictures."""

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench import tools
from bench.case import Subject
from bench.cases import CASES
from bench.results import ArmResult, CaseResult, Results, Summary
from trainstack.reports import charts
from trainstack.reports.panels import Bar, BarGroup, BarPanel

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = PAGE.with_suffix("")
"""The folder of the pictures, which are SVGs so that phones and dark pages show them well."""
_SUBJECTS: Mapping[Subject, str] = {
    "files": "Commands on files",
    "dev": "Previews and updates of `dev`",
    "large": "Previews and updates of a large environment",
    "runs": "Runs",
    "sweeps": "Sweeps",
    "transfers": "Uploads and fetches",
    "clusters": "Clusters",
}
_COLORED_ARMS = (tools.TRAINSTACK, tools.KUBECTL, tools.SDK, tools.CLIENT, tools.ONE)
"""Beginnings of the names of arms that have the same color in all cases, in the order of `charts.COLORS`."""
_BEGIN, _END = "<!-- results -->", "<!-- end of results -->"
_HEAD = ("", "wall seconds", "CPU seconds", "memory, MiB", "API writes", "state, KiB", "first ÷ this")
_MIB, _KIB = 2**20, 2**10


def markdown(results: Results) -> str:
    """Return a section for each subject, with its picture and its cases."""
    return "\n".join(_subject_section(subject, cases) for subject, cases in _by_subject(results))


def _by_subject(results: Results) -> Iterator[tuple[Subject, list[CaseResult]]]:
    """Yield the subjects that have results, with these."""
    subjects = {case.id: case.subject for case in CASES}
    for subject in _SUBJECTS:
        if cases := [case for case in results.cases if subjects[case.id] == subject]:
            yield subject, cases


def _subject_section(subject: Subject, cases: list[CaseResult]) -> str:
    title = _SUBJECTS[subject]
    picture = f"![{_plain(title)}: the medians, as in the tables]({PICTURES.name}/{subject}.svg)"
    return "\n".join([f"### {title}\n\n{picture}\n", *map(_section, cases)])


def page(text: str, results: Results) -> str:
    """Return the page's text with these results in place of the ones between its two marks."""
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n\n{markdown(results)}\n{_END}{after}"


def pictures(results: Results) -> dict[Path, str]:
    """Return an SVG for each subject, with a panel for each case, by its path."""
    return {
        PICTURES / f"{subject}.svg": charts.svg_file([_panel(case) for case in cases])
        for subject, cases in _by_subject(results)
    }


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
    return f"#### {case.title}\n\n{note}\n\n{table}\n"


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
        groups=tuple(_group(case, arm, _color(arm, index)) for index, arm in enumerate(case.arms)),
    )


def _color(arm: ArmResult, default: int) -> int:
    return next((index for index, name in enumerate(_COLORED_ARMS) if arm.name.startswith(name)), default)


def _group(case: CaseResult, arm: ArmResult, color: int) -> BarGroup:
    median = arm.summary(case.measure).median
    return BarGroup(name=arm.name, color=color, bars=(Bar(value=median, text=f"{_number(median)} s"),))


def _plain(title: str) -> str:
    """Return a title without marks of code, in lines that fit a panel."""
    return textwrap.fill(title.replace("`", ""), 44)
