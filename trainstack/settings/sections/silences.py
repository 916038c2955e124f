"""Section `trainstack:checks`: findings that are known, and why they may stay."""

from typing import Annotated

from pydantic import Field

from trainstack.settings.base import Section

Sentence = Annotated[str, Field(min_length=1, max_length=500)]


class Silence(Section):
    """A finding that is not to be told again. It stays in `trainstack check --json`, with the reason."""

    rule: Sentence
    """The rule's id, as `trainstack explain` lists it."""
    path: Sentence
    """The value that the finding names, or what encloses it: `workloads.runs[digits]`."""
    reason: Sentence
    """Why it may stay, for whoever reads it next."""


class Checks(Section):
    """What is said about the environment's own faults."""

    silenced: tuple[Silence, ...] = ()
