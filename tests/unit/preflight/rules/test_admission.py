"""What Kueue books for a run is what its author would expect, or there is a finding."""

import random

from tests.seeds import chosen_seed
from tests.unit.checks.cases import ROOT
from tests.unit.make import make_cluster_queue, make_distributed, make_group, make_queues, make_run, make_settings
from trainstack.declared.declared import Declared
from trainstack.preflight import preflight
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Resources, Role

SEED = chosen_seed("TRAINSTACK_SEARCH_SEED")


def found(rule: str, settings: Settings) -> list[Finding]:
    """Return the findings of one rule alone."""
    check = preflight.RULES[rule]
    return [Finding.of(check.rule, violation) for violation in check.find(RuleContext(Declared(settings), ROOT))]


def draw_resources(rng: random.Random) -> Resources:
    """Return requests and limits of cpu and memory, some of them 0 or missing."""

    def amounts() -> dict[str, str]:
        drawn = {name: rng.choice((None, "0", "0", "1")) for name in ("cpu", "memory")}
        return {name: amount for name, amount in drawn.items() if amount is not None}

    return Resources(requests=amounts(), limits=amounts())


def test_each_role_that_requests_nothing_is_found_and_no_other() -> None:
    """A limit without a request counts as a request."""
    rng = random.Random(SEED)
    for _ in range(60):
        roles = {"Master": draw_resources(rng), "Worker": draw_resources(rng)}
        run = make_distributed(
            roles={name: Role(replicas=2 - (name == "Master"), resources=drawn) for name, drawn in roles.items()}
        )
        idle = {
            f"workloads.runs[train].roles.{name}.resources"
            for name, drawn in roles.items()
            if not any(amount == "1" for amount in {**drawn.limits, **drawn.requests}.values())
        }
        assert {finding.path for finding in found("requests-nothing", make_settings(run))} == idle, (SEED, roles)


def test_a_queue_that_counts_pods_books_them() -> None:
    group = make_group(("cpu", {"cpu": "2", "memory": "8Gi", "pods": "4"}))
    counting = make_queues(cluster_queues=(make_cluster_queue(resource_groups=(group,)),))
    assert found("requests-nothing", make_settings(make_run(resources=Resources()), queues=counting)) == []
