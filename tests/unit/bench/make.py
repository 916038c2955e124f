"""Inputs of the tests of benchmarks."""

import sys
from pathlib import Path

from bench.case import Command
from bench.results import ArmResult, CaseResult, Sample


def make_command(program: str) -> Command:
    """Return a Python program."""
    return Command(words=(sys.executable, "-c", program), folder=Path.cwd(), environment={})


def make_arm(name: str, *cpu: float) -> ArmResult:
    """Return an arm of samples with these CPU seconds; the wall time is the double."""
    samples = [Sample(wall_seconds=2 * seconds, cpu_seconds={"a": seconds}, peak_bytes=2 << 20) for seconds in cpu]
    return ArmResult(name=name, samples=tuple(samples))


def make_result(identifier: str, *arms: ArmResult) -> CaseResult:
    """Return a case of these arms."""
    return CaseResult(
        id=identifier,
        title=f"Title of `{identifier}`",
        measure="cpu",
        date="2026-11-27",
        commit="abc",
        machine="2 cores",
        load=1.0,
        arms=arms,
    )
