"""What became of the objects of files."""

from dataclasses import dataclass
from typing import Literal

from trainstack.onboarding.convert.documents import InputObject

Outcome = Literal["converted", "referenced", "left"]
"""`referenced`: the object stays as it is in the cluster, and the environment refers to it."""


@dataclass(frozen=True, kw_only=True)
class ConvertedObject:
    """What became of an object of the files."""

    source: InputObject
    outcome: Outcome
    place: str = ""
    """The file or the list of the environment that has it now."""
    reason: str = ""
    """Why it is only referred to, or left out."""
    run: str = ""
    """The name of its run."""
    trial: int | None = None
    """The number of the trial that it has become, in the sweep `run`."""
    namespace: str | None = None
    """The namespace of the file, or else that of the environment; not used by objects outside of namespaces."""
