"""Descriptions of benchmarks: what is compared, without how it is measured."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Measure = Literal["cpu", "wall"]
"""The unit of ratios: processor seconds of the command's processes, or seconds from its start to its effect."""
Place = Literal["files", "cluster", "bare", "simulated"]
"""Where a case runs: on files alone, on a local cluster with `dev`, on one without, or on one with `dev` and simulated
nodes."""

Subject = Literal["files", "dev", "large", "runs", "sweeps", "transfers", "clusters"]
"""What a case is about; the page has a picture of each."""


def nothing(*_: object) -> None:
    """Do nothing: the default of an arm's callables."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program that must exit with 0."""

    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    """All variables of the process."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the ways to do the same thing."""

    name: str
    command: Command
    prepare: Callable[[], None] = nothing
    """Runs before each measurement, and does not count."""
    until: Callable[[], None] = nothing
    """Waits for the effect of the command after its end. The wait counts as wall time."""
    check: Callable[[str], None] = nothing
    """Raises BenchError if the command's output shows that it did something else than what is measured."""
    reports: bool = False
    """Whether the last line that the program prints is `{"cpu_seconds": …, "wall_seconds": …}`, which then count
    instead of the seconds of the whole process."""
    state: Path | None = None
    """The file in which the tool keeps its state."""
    members: Callable[[], set[int]] | None = None
    """For an observation: the pids of the processes that count in place of the command's own."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where the commands of a case run."""

    folder: Path
    """The project."""
    environment: Mapping[str, str]
    scratch: Path
    """A folder for the files of cases."""
    kubeconfig: Path | None = None
    audit_log: Path | None = None
    """The API server's audit log, one JSON object a line."""
    short: bool = False
    cluster_state: Path | None = None
    """The state folder of the local cluster."""
    cgroup: str = ""
    """Name of the local cluster's folder in the cgroup hierarchies."""

    def command(self, *words: str, folder: Path | None = None, **variables: str) -> Command:
        """Return a command of the project."""
        return Command(words=words, folder=folder or self.folder, environment={**self.environment, **variables})


Arms = Callable[[Scene], AbstractContextManager[Sequence[Arm]]]
"""Sets the arms up, and removes their objects. The first is Trainstack's; ratios are its medians over the others'."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison."""

    id: str
    title: str
    subject: Subject
    place: Place
    arms: Arms = field(repr=False)
    measure: Measure = "cpu"
    rounds: int = 5
    """The number of measurements of each arm; the arms alternate in each round."""
    short_rounds: int = 0
    """Rounds of the short form; 0: the short form leaves the case out."""
    warm_up: bool = True
    """Whether each arm runs once before the first round; in the short form none does."""
