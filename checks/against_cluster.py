"""What is wrong with an environment on the cluster that it is for, from a read of that cluster.

docs/checks.md has a section for each rule.
"""

from collections.abc import Mapping

from checks import silences
from checks.finding import Checked, Finding
from checks.live import Live, LiveRule, LiveScene
from checks.live_rules import nodes, platform, queueing, registry, storage
from checks.rule_runner import run_rules
from settings.errors import Place
from settings.model import Settings

RULES: dict[str, LiveRule] = {
    rule.__name__.replace("_", "-"): rule
    for group in (platform, storage, queueing, nodes, registry)
    for rule in group.RULES
}
"""The rules by the id that their findings bear."""


def check(
    settings: Settings, live: Live, images: Mapping[str, str], places: Mapping[str, Place] | None = None
) -> list[Finding]:
    """Everything that the rules find, as `examine` does."""
    return examine(LiveScene(settings, live, images), places).findings


def examine(scene: LiveScene, places: Mapping[str, Place] | None = None) -> Checked:
    """Apply the rules, and judge the runs by what the cluster holds now. `places` as for `checks.preflight.examine`."""
    found, verdicts = run_rules(RULES, scene)
    return Checked(silences.settled(found, scene.settings.checks.silenced, RULES, places or {}), verdicts)
