"""Every rule by topic, in the order of docs/checks.md: the errors of a topic come first."""

from collections.abc import Iterable, Mapping
from itertools import chain
from types import ModuleType

from trainstack.preflight import cluster_checks, file_checks, live_rules, rules, silences
from trainstack.preflight.rule import SEVERITIES, Rule, collect_checks
from trainstack.preflight.runner import RULE_FAILED


def _group_rules(topics: Mapping[str, Iterable[Rule]]) -> dict[str, tuple[Rule, ...]]:
    """Return the rules of each topic, sorted by severity. An id that several topics list belongs to the first one."""
    groups: dict[str, tuple[Rule, ...]] = {}
    grouped_ids: set[str] = set()
    for topic, rules_of_topic in topics.items():
        new_rules = {rule.id: rule for rule in rules_of_topic if rule.id not in grouped_ids}
        grouped_ids |= new_rules.keys()
        groups[topic] = tuple(sorted(new_rules.values(), key=lambda rule: SEVERITIES.index(rule.severity)))
    return groups


def _rules_of(*modules: ModuleType) -> list[Rule]:
    """Return the rules of modules; one over files and clusters is in a module of each."""
    return [check.rule for check in collect_checks(*modules).values()]


RULES_BY_TOPIC: Mapping[str, tuple[Rule, ...]] = _group_rules(
    {
        "Names and references": _rules_of(rules.references, rules.dependencies, rules.names),
        "Queues and quota": _rules_of(rules.queues, rules.pools),
        "Admission": _rules_of(rules.admission, live_rules.queueing, live_rules.nodes),
        "Worker clusters": _rules_of(rules.multikueue, live_rules.workers),
        "Resources of pods": _rules_of(
            rules.resources,
            rules.pod_resources,
            live_rules.limit_ranges,
            live_rules.resource_quotas,
            live_rules.runtime_classes,
        ),
        "Programs and objects": _rules_of(rules.programs, rules.sizes, rules.manifests, rules.pod_patches),
        "Other objects": _rules_of(rules.objects),
        "Storage and data": _rules_of(rules.volumes, rules.files, rules.loaders, live_rules.storage),
        "Images": _rules_of(rules.images, live_rules.image_registries),
        "Namespaces and isolation": _rules_of(rules.namespaces, rules.tenant),
        "Secrets": _rules_of(rules.credentials, live_rules.secrets),
        "Sweeps": _rules_of(rules.sweeps),
        "Operators and the cluster": _rules_of(rules.operators, live_rules.platform, live_rules.training_runtimes),
        "Likely mistakes": _rules_of(rules.likely_mistakes),
        "The check itself": [
            file_checks.SETTINGS,
            *silences.RULES,
            RULE_FAILED,
            cluster_checks.MANIFESTS_UNBUILT,
            cluster_checks.CLUSTER_UNREACHABLE,
        ],
    }
)
ALL_RULES: tuple[Rule, ...] = tuple(chain.from_iterable(RULES_BY_TOPIC.values()))
RULES_BY_ID: Mapping[str, Rule] = {rule.id: rule for rule in ALL_RULES}
