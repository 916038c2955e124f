"""Every remedy, applied to the files, loads and has the promised outcome.

The environments are drawn from TRAINSTACK_FAULTS_SEED, which is printed.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.drawn_runs import Environment
from tests.seeds import chosen_seed
from tests.unit.kueue.remedy_files import STACK, apply, outcomes, verdicts, with_what_if, write
from trainstack.kueue.verdict import Remedy
from trainstack.preflight.file_checks import examine
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects

SEED = chosen_seed("TRAINSTACK_FAULTS_SEED")
SERIES = [pytest.param(40, id="some"), pytest.param(500, id="many", marks=pytest.mark.slow)]
VERDICTS = {"never-fits", "resource-uncovered", "queue-closed"}
"""The rules that verdicts are reported by."""


@pytest.mark.parametrize("count", SERIES)
def test_every_remedy_loads_and_has_its_outcome(tmp_path: Path, count: int) -> None:
    """It needs no other change, makes no other fault, and keeps the outcomes of the other runs."""
    print(f"TRAINSTACK_FAULTS_SEED={SEED}")
    wrong: list[str] = []
    figures: Counter[str] = Counter()
    for number in range(count):
        drawn = Environment(SEED, number)
        root = tmp_path / str(number)
        root.mkdir()
        for path, remedy in _remedies(drawn.write(root), figures):
            wrong += [f"{number} {path}: {remedy.text}: {fault}" for fault in _faults(root, drawn, path, remedy)]
        shutil.rmtree(root)
    print(dict(figures))
    assert wrong == []
    assert figures["remedies"] > count, "the environments have too few remedies to show anything"


def _remedies(root: Path, figures: Counter[str]) -> Iterator[tuple[str, Remedy]]:
    figures["environments"] += 1
    found = verdicts(root)
    figures["runs that never fit"] += sum(verdict.outcome == "never fits" for verdict in found)
    for verdict in found:
        figures["remedies"] += len(verdict.remedies)
        figures["without remedies"] += verdict.outcome == "never fits" and not verdict.remedies
        for remedy in verdict.remedies:
            yield verdict.path, remedy


def _faults(root: Path, drawn: Environment, path: str, remedy: Remedy) -> Iterator[str]:
    before = load(root, STACK)
    write(root, apply(drawn.config, remedy.changes))
    try:
        after = load(root, STACK)
    except SettingsError as error:
        yield f"does not load: {error}"
        return
    finally:
        write(root, drawn.config)
    if with_what_if(root, remedy.changes) != after:
        yield "--set has another result than the edit of the file"
    was, now = outcomes(before), outcomes(after)
    if now.get(path) != remedy.outcome or remedy.outcome not in ("fits", "fits by borrowing"):
        yield f"promises {remedy.outcome}, but: {now.get(path)}"
    spoilt = [other for other in was if now.get(other) == "never fits" != was[other]]
    if spoilt:
        yield f"spoils {spoilt}"
    if added := _errors(root, after) - _errors(root, before):
        yield f"adds errors: {dict(added)}"


def _errors(root: Path, settings: Settings) -> Counter[str]:
    findings = examine(StackObjects(settings), root).findings
    return Counter(f"{one.id} {one.path}" for one in findings if one.severity == "error" and one.id not in VERDICTS)
