"""Section `trainstack:checks`: silenced findings and their reasons."""

from typing import Annotated

from pydantic import Field

from trainstack.settings.base import Section

Sentence = Annotated[str, Field(min_length=1, max_length=500)]


class Silence(Section):
    """A finding that is no longer reported. `trainstack check --json` still lists it, with the reason."""

    rule: Sentence
    """The rule's id, as `trainstack explain` lists it."""
    path: Sentence
    """The finding's path, or an enclosing one: `workloads.runs[digits]`."""
    reason: Sentence
    """Why the finding is acceptable."""


class Checks(Section):
    """Which findings are reported."""

    silenced: tuple[Silence, ...] = ()
