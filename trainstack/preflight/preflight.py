"""What is wrong with an environment, told from its files alone: no engine, no cluster, no network.

docs/checks.md has a section for each rule.
"""

from collections.abc import Mapping
from pathlib import Path

from trainstack.declared.declared import Declared
from trainstack.preflight import against_cluster, silences
from trainstack.preflight.finding import Checked, Finding
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene
from trainstack.preflight.rules import (
    admission,
    dependencies,
    files,
    images,
    loaders,
    names,
    operators,
    pods,
    pools,
    queues,
    references,
    resources,
    slips,
    sweeps,
    tenant,
    volumes,
)
from trainstack.preflight.runner import run_rules
from trainstack.settings.errors import Place, SettingsError
from trainstack.settings.model import Settings

RULES: dict[str, Check[Scene]] = {
    check.rule.id: check
    for group in (
        references,
        dependencies,
        queues,
        pools,
        admission,
        operators,
        volumes,
        names,
        files,
        images,
        pods,
        tenant,
        sweeps,
        loaders,
        resources,
        slips,
    )
    for check in group.RULES
}
"""The rules by id, in the order of docs/checks.md."""

SETTINGS = Rule(
    id="settings",
    severity="error",
    summary="A file of the environment does not load, so no rule was applied.",
    details=(
        "A key is unknown or missing, or a value does not have the form that the API server or the kubelet accepts. "
        "The report lists every fault of every file."
    ),
    change="""
        trainstack:storage:
          volumes:
            - {name: training, size: 2 GB}
    """,
    remedy=(
        "Correct the value at the file and line that the message gives. [Environments](environments.md) lists the keys."
    ),
    silenceable=False,
)


def unloaded(error: SettingsError) -> Checked:
    """What `trainstack check` reports of an environment whose files do not load."""
    faults = [
        Finding.of(SETTINGS, Violation(fault.path, fault.message, fault.remedy), fault.where)
        for fault in error.findings
    ]
    return Checked(faults, [])


def check(settings: Settings, root: Path, places: Mapping[str, Place] | None = None) -> list[Finding]:
    """Everything that the rules find, as `examine` does."""
    return examine(Declared(settings), root, places).findings


def examine(declared: Declared, root: Path, places: Mapping[str, Place] | None = None) -> Checked:
    """Apply the rules, and judge the runs.

    `root`: the project's folder, below which the files are that the settings name. `places`: where each value was set,
    as `settings.loading.load.load_with_places` tells it; without it the findings have no place.
    """
    scene, silenced = Scene(declared, root), declared.settings.checks.silenced
    found, verdicts = run_rules(RULES, scene)
    over_cluster = {id_: check.rule for id_, check in against_cluster.RULES.items()}
    found += silences.misplaced(silenced, over_cluster | {id_: check.rule for id_, check in RULES.items()})
    # A silence of any other rule may match what it finds on the cluster.
    files_alone = [check.rule for id_, check in RULES.items() if id_ not in over_cluster]
    return Checked(silences.settled(found, silenced, files_alone, places or {}), verdicts)
