"""Every rule, in the order of docs/checks.md. A rule over files and clusters is listed with those over files."""

from collections.abc import Mapping

from trainstack.preflight import against_cluster, preflight, silences
from trainstack.preflight.rule import Rule
from trainstack.preflight.runner import RULE_FAILED

ALL_RULES: tuple[Rule, ...] = (
    preflight.SETTINGS,
    *(check.rule for check in preflight.RULES.values()),
    *silences.RULES,
    RULE_FAILED,
    *(check.rule for id_, check in against_cluster.RULES.items() if id_ not in preflight.RULES),
    against_cluster.MANIFESTS_UNBUILT,
    against_cluster.CLUSTER_UNREACHABLE,
)
RULES_BY_ID: Mapping[str, Rule] = {rule.id: rule for rule in ALL_RULES}
