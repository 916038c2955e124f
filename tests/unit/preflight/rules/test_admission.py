"""What Kueue books for a run is what its author would expect, or there is a finding."""

import random

from tests.seeds import chosen_seed
from tests.unit.make import make_cluster_queue, make_distributed, make_group, make_queues, make_run, make_settings
from tests.unit.preflight.cases import ROOT
from trainstack.preflight import file_checks
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import ResourceFlavor
from trainstack.settings.sections.workloads import Resources, Role
from trainstack.stack_objects.stack_objects import StackObjects

SEED = chosen_seed("TRAINSTACK_SEARCH_SEED")


def found(rule: str, settings: Settings) -> list[Finding]:
    """Return the findings of one rule alone."""
    check = file_checks.RULES[rule]
    return [
        Finding.from_violation(check.rule, violation)
        for violation in check.find(RuleContext(StackObjects(settings), ROOT))
    ]


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


def test_flavors_that_contradict_each_other_are_found_and_no_others() -> None:
    """On an idle cluster, pods get the first flavor of each group that they need."""
    rng = random.Random(SEED)
    seen = set()
    for _ in range(80):
        labels = [{key: rng.choice("ab") for key in ("pool", "zone") if rng.random() < 0.6} for _ in range(4)]
        flavors = tuple(ResourceFlavor(name=f"f{index}", node_labels=each) for index, each in enumerate(labels))
        groups = (
            make_group(*((name, {"cpu": "2", "memory": "8Gi"}) for name in ("f0", "f1"))),
            make_group(*((name, {"nvidia.com/gpu": "2"}) for name in ("f2", "f3"))),
        )
        gpus = rng.choice((True, True, False))
        run = make_run(resources=Resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "1"} if gpus else {}))
        queue = make_cluster_queue(resource_groups=groups)
        settings = make_settings(run, queues=make_queues(flavors=flavors, cluster_queues=(queue,)))
        shared = labels[0].keys() & labels[2].keys()
        differing = sorted(key for key in shared if labels[0][key] != labels[2][key]) if gpus else []
        messages = [finding.message for finding in found("flavors-contradict", settings)]
        assert [key for key in differing for message in messages if f"{key}=" in message] == differing, (SEED, labels)
        assert len(messages) == len(differing), (SEED, labels)
        seen.add(bool(differing))
    assert seen == {True, False}


def test_labels_of_two_flavors_that_a_run_selects_together_are_named() -> None:
    """Each flavor has one of the labels."""
    group = make_group(*((name, {"cpu": "2", "memory": "8Gi"}) for name in ("a", "b", "c")))
    flavors = tuple(
        ResourceFlavor(name=name, node_labels=labels)
        for name, labels in (("a", {"pool": "x"}), ("b", {"zone": "y"}), ("c", {"zone": "y", "pool": "z"}))
    )
    queues = make_queues(flavors=flavors, cluster_queues=(make_cluster_queue(resource_groups=(group,)),))
    run = make_run(node_selector={"pool": "x", "zone": "y", "rack": "r"})
    messages = [finding.message for finding in found("never-fits", make_settings(run, queues=queues))]
    assert messages == [
        "the pod selects pool=x of flavor a and zone=y of flavor b or c, but no flavor has all",
        "the labels of flavor b do not match the node selector or affinity of the pod",
        "the labels of flavor c do not match the node selector or affinity of the pod",
    ]
    unknown = make_run(node_selector={"pool": "other", "zone": "y"})
    assert not [
        finding
        for finding in found("never-fits", make_settings(unknown, queues=queues))
        if "but no flavor" in finding.message
    ]
