"""Every rule, in the order of docs/checks.md. A rule over files and clusters is listed with those over files."""

from collections.abc import Mapping

from trainstack.preflight import cluster_checks, file_checks, silences
from trainstack.preflight.rule import Rule
from trainstack.preflight.runner import RULE_FAILED

ALL_RULES: tuple[Rule, ...] = (
    file_checks.SETTINGS,
    *(check.rule for check in file_checks.RULES.values()),
    *silences.RULES,
    RULE_FAILED,
    *(check.rule for id_, check in cluster_checks.RULES.items() if id_ not in file_checks.RULES),
    cluster_checks.MANIFESTS_UNBUILT,
    cluster_checks.CLUSTER_UNREACHABLE,
)
RULES_BY_ID: Mapping[str, Rule] = {rule.id: rule for rule in ALL_RULES}
