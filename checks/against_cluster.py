"""What is wrong with an environment on the cluster that it is for, from a read of that cluster.

docs/checks.md has a section for each rule.
"""

from collections.abc import Mapping

from checks import silences
from checks.finding import Finding
from checks.live import Live, LiveRule, LiveScene
from checks.live_rules import nodes, platform, queueing, storage
from settings.errors import Place
from settings.model import Settings

RULES: dict[str, LiveRule] = {
    rule.__name__.replace("_", "-"): rule for group in (platform, storage, queueing, nodes) for rule in group.RULES
}
"""The rules by the id that their findings bear."""


def check(
    settings: Settings, live: Live, images: Mapping[str, str], places: Mapping[str, Place] | None = None
) -> list[Finding]:
    """Everything that the rules find, the worst first, then by file and line.

    `images`: the image of each declared operator's release, by the key of `checks.live.OPERATORS`. `places` as for
    `checks.preflight.check`.
    """
    scene = LiveScene(settings, live, images)
    found = [finding for rule in RULES.values() for finding in rule(scene)]
    return silences.settled(found, settings.checks.silenced, RULES, places or {})
