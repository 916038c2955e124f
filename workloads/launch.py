"""A launch: the one Kubernetes object that executes a run, as its builders are told of it."""

from dataclasses import dataclass

from workloads.identity import Facts


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a launch is called, and what it depends on beside the settings."""

    run_id: str
    name: str
    facts: Facts
