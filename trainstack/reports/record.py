"""The run.json of a record. A pod wrote it, and anything may have changed it on the volume since: it is input."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

MOST_REPLICAS = 100_000
"""A larger number is damage: reports have a line for each replica."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DEPTH = 50
"""Of arrays and objects in each other. Programs that print or copy the value may recurse."""


class Code(BaseModel):
    revision: str | None = None


class RunDefinition(BaseModel):
    """What ran, as the stack defined it."""

    model_config = ConfigDict(frozen=True)

    workload: str | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None
    seed: int | None = None
    data: str | None = None
    code: Code | None = None


class RunRecord(BaseModel):
    """The fields of run.json that reports read; None for one that it does not have."""

    model_config = ConfigDict(frozen=True)

    state: str | None = None
    attempts: Annotated[int, Field(ge=1, lt=10**9)] | None = None
    started: AwareDatetime | None = None
    finished: AwareDatetime | None = None
    world_size: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] | None = None
    definition: RunDefinition | None = None


def run_record(value: Mapping[str, Any]) -> RunRecord:
    """Check what a run.json holds. Raises ValueError with the reason, in one line."""
    try:
        return RunRecord.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def parse_object(text: str | bytes, *, file_names: bool = False) -> dict[str, Any]:
    """Parse a JSON object as `parse_json` does."""
    value = parse_json(text, file_names=file_names)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 (callers handle damage of any kind alike)
    return value


def parse_json(text: str | bytes, *, file_names: bool = False) -> Any:
    """Parse JSON. Raises ValueError, also for a value that is nested too deeply and for a number that is too long.

    Strings can be printed and written: lone surrogates are replaced, unless they encode the bytes of `file_names`.
    """
    text = text if isinstance(text, str) else text.decode()
    try:
        value = _loads(text)
        if not file_names and _SURROGATE.search(text):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        if not _is_deep(value):
            return value
    except RecursionError:
        pass
    raise ValueError(f"it is nested more than {_DEPTH} levels deep")


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python's limit against numbers that take minutes to read.
        raise ValueError("it has a number of too many digits") from None


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)
