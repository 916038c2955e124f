"""Measure the arms of a case in turn, so that whatever slows the machine down slows all of them."""

import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from bench.case import Case, Scene
from bench.meter import measure
from bench.results import ArmResult, CaseResult, Sample

T = TypeVar("T")
Report = Callable[[str], None]
"""Receives one line of progress before each measurement."""


def run(case: Case, scene: Scene, report: Report, rounds: int | None = None) -> CaseResult:
    """Measure a case. Raises BenchError if a command fails."""
    count = rounds or (case.short_rounds if scene.short else case.rounds)
    load = os.getloadavg()[0]
    report(f"{case.id}: preparing {case.title}")
    with case.arms(scene) as arms:
        samples: dict[str, list[Sample]] = {arm.name: [] for arm in arms}
        for number in range(0 if case.warm_up and not scene.short else 1, count + 1):
            for arm in rotated(arms, number):
                turn = f"round {number} of {count}" if number else "warm-up"
                report(f"{case.id}: {turn}: {arm.name}")
                arm.prepare()
                sample = measure(arm, scene.audit_log)
                if number:
                    samples[arm.name].append(sample)
    return CaseResult(
        id=case.id,
        title=case.title,
        measure=case.measure,
        date=datetime.now(UTC).date().isoformat(),
        commit=commit(),
        machine=machine(),
        load=round(load, 1),
        arms=tuple(ArmResult(name=name, samples=tuple(found)) for name, found in samples.items()),
    )


def rotated(arms: Sequence[T], number: int) -> list[T]:
    """Return the arms in another order in each round: no arm always follows the same one."""
    start = number % len(arms)
    return [*arms[start:], *arms[:start]]


def commit() -> str:
    """Return the short id of the checkout's commit; `+` marks changes."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {system}"
