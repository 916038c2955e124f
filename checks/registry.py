"""Every rule, in the order of docs/checks.md."""

from collections.abc import Mapping

from checks import against_cluster, preflight, silences
from checks.rule import Rule
from checks.rule_runner import RULE_FAILED

EVERY: tuple[Rule, ...] = (
    preflight.SETTINGS,
    *(check.rule for check in preflight.RULES.values()),
    *silences.RULES,
    RULE_FAILED,
    *(check.rule for check in against_cluster.RULES.values()),
    against_cluster.MANIFESTS_UNBUILT,
    against_cluster.CLUSTER_UNREACHABLE,
)
BY_ID: Mapping[str, Rule] = {rule.id: rule for rule in EVERY}
