"""Run a benchmark, and print its result as JSON or as a line for each figure."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer

from trainstack.cli.expected_errors import expected_message

Row = tuple[str, str, Sequence[float]]
"""What was measured, its figure with the unit, and each of the times in seconds that it is made of."""


def show(result: Mapping[str, Any], rows: Iterable[Row], *, as_json: bool) -> None:
    """Print the whole result in one line, or the rows of it."""
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    lines = list(rows)
    names, figures = (max(len(row[column]) for row in lines) for column in (0, 1))
    for name, figure, times in lines:
        line = f"{name:<{names}}  {figure:>{figures}}   {' '.join(f'{seconds:.2f}' for seconds in times)}"
        sys.stdout.write(line.rstrip() + "\n")


def run(main: Callable[..., None]) -> None:
    """Run a benchmark's command; an expected error ends it with a message, without a traceback."""
    try:
        typer.run(main)
    except Exception as error:
        message = expected_message(error)
        if message is None:
            raise
        raise SystemExit(f"error: {message}") from None
