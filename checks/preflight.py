"""What is wrong with an environment, told from its files alone: no engine, no cluster, no network.

docs/checks.md has a section for each rule.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from checks.finding import Finding
from checks.rules import admission, files, images, names, operators, queues, references, sweeps, tenant, volumes
from checks.scene import Rule, Scene
from settings.errors import Place
from settings.model import Settings
from settings.paths import nearest_place

RULES: dict[str, Rule] = {
    rule.__name__.replace("_", "-"): rule
    for group in (references, queues, admission, operators, volumes, names, files, images, tenant, sweeps)
    for rule in group.RULES
}
"""The rules by the id that their findings bear."""


def check(settings: Settings, root: Path, places: Mapping[str, Place] | None = None) -> list[Finding]:
    """Everything that the rules find, the worst first, then by file and line.

    `root`: the project's folder, below which the files are that the settings name. `places`: where each value was set,
    as `settings.load.load_with_places` tells it; without it the findings have no place.
    """
    scene = Scene(settings, root)
    found = [finding for rule in RULES.values() for finding in rule(scene)]
    placed = (replace(each, where=nearest_place(places or {}, each.path)) for each in found)
    return sorted(set(placed), key=lambda finding: finding.order)
