"""All benchmarks: measure cases, compare them with the stored results, and update docs/benchmarks.md.

.venv/bin/python -m bench                      # everything
.venv/bin/python -m bench check preview-dev    # two cases
.venv/bin/python -m bench --short --write      # the form of `make test`, stored
"""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import httpx
import typer

from bench import baseline, report, scenes
from bench.case import Case
from bench.cases import CASES
from bench.results import CaseResult, Results
from bench.runner import run
from trainstack.cli.output.console import err
from trainstack.errors import TrainstackError, expected_message


def chosen(names: Iterable[str], *, short: bool) -> list[Case]:
    """Return the cases with these ids, by default all of the form. Raises typer.BadParameter for an unknown id."""
    requested = set(names)
    known = {case.id for case in CASES if case.short_rounds or not short}
    if unknown := sorted(requested - known):
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; the cases are {', '.join(sorted(known))}")
    return [case for case in CASES if case.id in (requested or known)]


def main(
    cases: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...", help="Default: all cases.")] = None,
    *,
    short: Annotated[bool, typer.Option("--short", help="Measure the form of `make test`: about a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown tables.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Store the results in bench/baseline.json and docs/benchmarks.md.")
    ] = False,
    show_cases: Annotated[bool, typer.Option("--list", help="List the cases, and measure nothing.")] = False,
) -> None:
    """Measure benchmarks on files and on a local cluster of their own, which is stopped afterwards."""
    selected = chosen(cases or (), short=short)
    if show_cases:
        for case in selected:
            sys.stdout.write(f"{case.id:<24}  {case.title}\n")
        return
    # A terminated benchmark stops its cluster, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failures: list[str] = []
    results = measure(selected, short=short, keep=_store if write else _discard, failed=failures.append)
    sys.stdout.write(results.model_dump_json(indent=1) + "\n" if as_json else report.markdown(results))
    for regression in baseline.regressions(results, Results() if write else baseline.load()):
        err.print(f"slower: {regression}")
    for failure in failures:
        err.print(f"error: {failure}", style="red")
    if failures:
        raise typer.Exit(1)


def measure(
    cases: Iterable[Case], *, short: bool, keep: Callable[[Results], None], failed: Callable[[str], None]
) -> Results:
    """Measure cases, and keep each result at once. A case that fails is reported to `failed`, and the next one runs."""
    measured: list[CaseResult] = []
    with (
        tempfile.TemporaryDirectory(prefix="trainstack-bench-") as scratch,
        # Closed at once on an interrupt, so that the cluster stops.
        closing(scenes.by_place(cases, Path(scratch), short=short, report=_progress)) as places,
    ):
        for scene, at_place in places:
            for case in at_place:
                try:
                    result = run(case, scene, _progress)
                except (TrainstackError, OSError, httpx.HTTPError) as error:
                    _progress(f"{case.id}: failed")
                    failed(f"{case.id}: {error}")
                    continue
                measured.append(result)
                keep(Results(cases=(result,)))
    return Results(cases=tuple(measured))


def _progress(line: str) -> None:
    err.print(f"  {line}")


def _discard(_: Results) -> None:
    """Discard the results."""


def _store(results: Results) -> None:
    """Merge results into the stored ones, and update the page and the pictures."""
    merged = baseline.load().merged(results, [case.id for case in CASES])
    baseline.store(merged)
    report.PAGE.write_text(report.page(report.PAGE.read_text(encoding="utf-8"), merged), encoding="utf-8")
    report.PICTURES.mkdir(exist_ok=True)
    for path, text in report.pictures(merged).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        message = expected_message(error)
        if message is None:
            raise
        raise SystemExit(f"error: {message}") from None
