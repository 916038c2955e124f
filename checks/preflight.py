"""What is wrong with an environment, told from its files alone: no engine, no cluster, no network.

docs/checks.md has a section for each rule.
"""

from collections.abc import Mapping
from pathlib import Path

from checks import against_cluster, silences
from checks.finding import Checked, Finding
from checks.rule_runner import run_rules
from checks.rules import (
    admission,
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
from checks.scene import Rule, Scene
from settings.errors import Place
from settings.model import Settings

RULES: dict[str, Rule] = {
    rule.__name__.replace("_", "-"): rule
    for group in (
        references,
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
    for rule in group.RULES
}
"""The rules by the id that their findings bear."""


def check(settings: Settings, root: Path, places: Mapping[str, Place] | None = None) -> list[Finding]:
    """Everything that the rules find, as `examine` does."""
    return examine(settings, root, places).findings


def examine(settings: Settings, root: Path, places: Mapping[str, Place] | None = None) -> Checked:
    """Apply the rules, and judge the runs.

    `root`: the project's folder, below which the files are that the settings name. `places`: where each value was set,
    as `settings.load.load_with_places` tells it; without it the findings have no place.
    """
    scene, silenced = Scene(settings, root), settings.checks.silenced
    found, verdicts = run_rules(RULES, scene)
    found += silences.misplaced(silenced, {*RULES, *against_cluster.RULES})
    return Checked(silences.settled(found, silenced, RULES, places or {}), verdicts)
