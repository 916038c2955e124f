"""The run.json of a record, as untrusted input: a pod wrote it, and it may have changed on the volume since."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

MAX_REPLICAS = 100_000
"""The limit of replicas; a larger number is damage, and reports have a line for each replica."""
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_DEPTH = 50
"""The limit of nested arrays and objects, because functions that print or copy a value may be recursive."""


class CodeDefinition(BaseModel):
    """The code that was checked out into the pods."""

    revision: str | None = None


class RunDefinition(BaseModel):
    """The definition of a run in its stack."""

    model_config = ConfigDict(frozen=True)

    workload: str | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None
    seed: int | None = None
    data: str | None = None
    code: CodeDefinition | None = None


class RunRecord(BaseModel):
    """The fields of run.json that reports read; None for a missing one."""

    model_config = ConfigDict(frozen=True)

    state: str | None = None
    attempts: Annotated[int, Field(ge=1, lt=10**9)] | None = None
    started: AwareDatetime | None = None
    finished: AwareDatetime | None = None
    world_size: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] | None = None
    definition: RunDefinition | None = None


def parse_run_record(value: Mapping[str, Any]) -> RunRecord:
    """Validate the content of a run.json. Raises ValueError with a reason of one line."""
    try:
        return RunRecord.model_validate(value)
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first_error['loc']))}: {first_error['msg']}") from None


def parse_object(text: str | bytes, *, file_names: bool = False) -> dict[str, Any]:
    """Parse a JSON object with `parse_json`. Raises ValueError, also for another JSON value."""
    value = parse_json(text, file_names=file_names)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 (callers handle damage of any kind alike)
    return value


def parse_json(text: str | bytes, *, file_names: bool = False) -> Any:
    """Parse JSON. Raises ValueError, also for too deep nesting and for a number with too many digits.

    Lone surrogates, which cannot be printed or written, are replaced. With `file_names` they remain, because they
    encode the bytes of file names.
    """
    text = text if isinstance(text, str) else text.decode()
    try:
        value = _loads(text)
        if not file_names and _ESCAPED_SURROGATE.search(text):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        if not _is_deep(value):
            return value
    except RecursionError:
        pass
    raise ValueError(f"it is nested more than {_MAX_DEPTH} levels deep")


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python limits the digits of a number, since parsing a very long one takes minutes.
        raise ValueError("it has a number of too many digits") from None


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)
