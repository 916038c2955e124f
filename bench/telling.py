"""How measurements are told: as JSON for programs, or a line for each figure."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = tuple[str, str, Sequence[float]]
"""What was measured, its figure with the unit, and each of the times in seconds that it is made of."""


def tell(result: Mapping[str, Any], rows: Iterable[Row], *, as_json: bool) -> None:
    """Print the whole result in one line, or the rows of it."""
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    told = list(rows)
    names, figures = (max(len(row[column]) for row in told) for column in (0, 1))
    for name, figure, each in told:
        line = f"{name:<{names}}  {figure:>{figures}}   {' '.join(f'{took:.2f}' for took in each)}"
        sys.stdout.write(line.rstrip() + "\n")
