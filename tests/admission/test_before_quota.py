"""Kueue's treatment of jobs and quotas outside the quota arithmetic, and the verdicts on it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.admission.bench import Bench, has_reservation, key
from tests.admission.cases import make_object
from tests.admission.kueue import Body, wait_until
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.differences import RELEASES
from trainstack.kueue.from_objects import read_queue_state
from trainstack.kueue.model import Workload
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.workloads import read_kueue_workload
from trainstack.objects.labels import QUEUE
from trainstack.toolchain.groups import DEFAULT_KUEUE_MINOR

NAMESPACE = "before-quota"
"""The namespace, its flavor, and what the names of cluster queues begin with."""
RANGE = f"{NAMESPACE}-range"
"""A namespace whose containers request 500m by default, and have a limit of 1 cpu."""
QUOTAS: dict[str, dict[str, Any]] = {
    "plain": {"memory": "1Gi"},
    "large": {"memory": "9E", "cpu": "9000000000000000"},
    "exa": {"memory": "10E"},
    "cores": {"cpu": "1E"},
    "most": {"memory": "9223372036854775807"},
    "eight": {"memory": "8Ei"},
    "signed": {"memory": "+4Gi", "cpu": "5."},
    "fraction": {"memory": "1073741823.5", "cpu": ".5"},
    "exponent": {"memory": "2e9", "cpu": "1e3"},
}
"""The quota of each cluster queue."""
SUMS: dict[str, list[dict[str, Any]]] = {
    "twice": [{"nominalQuota": "9E"}, {"nominalQuota": "9E"}],
    "limited": [{"nominalQuota": "9E", "borrowingLimit": "9E"}, {"nominalQuota": "0"}],
    "lent": [{"nominalQuota": "9E", "lendingLimit": "0"}, {"nominalQuota": "9E"}],
    "thrice": [{"nominalQuota": "7E"}, {"nominalQuota": "7E"}, {"nominalQuota": "7E"}],
}
"""The quotas of the queues of each cohort, whose sums exceed 64 bits."""
MAX_POD_SETS = RELEASES[DEFAULT_KUEUE_MINOR].max_pod_sets


def group(**quotas: Any) -> list[Body]:
    """A resource group on the one flavor; a quota is its nominal amount or all its fields."""
    resources = [
        {"name": name, **(quota if isinstance(quota, dict) else {"nominalQuota": quota})}
        for name, quota in quotas.items()
    ]
    return [{"coveredResources": list(quotas), "flavors": [{"name": NAMESPACE, "resources": resources}]}]


def queue_objects(name: str, groups: list[Body], namespace: str = NAMESPACE, **spec: Any) -> list[Body]:
    """A cluster queue with its local queue."""
    full = f"{NAMESPACE}-{name}"
    return [
        make_object("ClusterQueue", full, {"namespaceSelector": {}, "resourceGroups": groups, **spec}),
        make_object("LocalQueue", name, {"clusterQueue": full}, namespace),
    ]


def make_workload(name: str, queue: str, **requests: str) -> Body:
    """A Workload of one pod."""
    return make_object(
        "Workload",
        name,
        {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": {"spec": pod(requests=requests)}}]},
        NAMESPACE,
    )


def pod(**resources: dict[str, str]) -> Body:
    """A pod's spec."""
    return {"restartPolicy": "Never", "containers": [{"name": "one", "image": "none", "resources": resources}]}


def job(name: str, queue: str | None, resources: Body, namespace: str = NAMESPACE) -> Body:
    """A Job of one pod."""
    labels = {} if queue is None else {QUEUE: queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"suspend": queue is not None, "template": {"spec": pod(**resources)}},
    }


def jobset(count: int) -> Body:
    """A JobSet of so many replicated jobs."""
    jobs = [
        {
            "name": f"job-{number}",
            "replicas": 1,
            "template": {"spec": {"template": {"spec": pod(requests={"cpu": "1m"})}}},
        }
        for number in range(count)
    ]
    metadata = {"name": f"set-{count}", "namespace": NAMESPACE, "labels": {QUEUE: "default"}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"suspend": True, "replicatedJobs": jobs},
    }


@pytest.fixture(scope="module")
def site(bench: Bench) -> Iterator[Bench]:
    """All queues, and the priority of workloads without one."""
    # Kueue does not forget at once what it knew of a deleted cohort of the same name.
    cohorts = bench.next_prefixes()[0]
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NAMESPACE},
        "value": 77,
        "globalDefault": True,
    }
    first: list[Body] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RANGE}},
        priority,
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": RANGE, "namespace": RANGE},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}]},
        },
        make_object("ResourceFlavor", NAMESPACE, {}),
        make_object("Cohort", f"{cohorts}own", {"resourceGroups": group(memory="+4Gi")}),
    ]
    rest = [body for name, quotas in QUOTAS.items() for body in queue_objects(name, group(**quotas))]
    for cohort, amounts in SUMS.items():
        for number, quota in enumerate(amounts):
            rest += queue_objects(f"{cohort}-{number}", group(memory=quota), cohortName=f"{cohorts}{cohort}")
    rest += queue_objects("own", group(memory="0"), cohortName=f"{cohorts}own")
    rest += queue_objects("default", group(cpu="8"))
    rest += queue_objects("strict", group(cpu="2"), queueingStrategy="StrictFIFO")
    rest += queue_objects("range-strict", group(cpu="8"), RANGE, queueingStrategy="StrictFIFO")
    rest += queue_objects("range-best", group(cpu="8"), RANGE)
    rest += [make_object("LocalQueue", "default", {"clusterQueue": f"{NAMESPACE}-default"}, "kube-system")]
    bench.api.create(first[:3])
    bench.create_environment([*first[3:], *rest])
    try:
        yield bench
    finally:
        bench.api.delete(reversed([*rest, *first[2:]]))


def test_pods_that_contradict_the_defaults_of_a_limit_range_are_never_admitted(site: Bench) -> None:
    """They request more than the default limit, or less than the default request. Kueue names the contradiction."""
    own, small = {"requests": {"cpu": "2"}}, {"limits": {"cpu": "250m"}}
    jobs = [
        job(f"{name}-{strategy}", f"range-{strategy}", namespace=RANGE, resources=resources)
        for strategy in ("strict", "best")
        for name, resources in (("refused", own), ("late", small))
    ]
    site.api.create(jobs)
    try:
        wait_until("the Workloads are there", lambda: {key(body) for body in jobs} <= site.workloads().keys())
        heads = [f"{RANGE}/refused-{strategy}" for strategy in ("strict", "best")]
        wait_until(
            "Kueue names the contradiction", lambda: all(map(has_failed_validation, map(site.workloads().get, heads)))
        )
        site.pass_fences()
        workloads = [site.workloads()[key(body)] for body in jobs]
        assert not any(map(has_reservation, workloads))
    finally:
        site.api.delete(jobs)


def has_failed_validation(workload: Body | None) -> bool:
    """Tell whether Kueue has refused the resources of a Workload's pods."""
    conditions = (workload or {}).get("status", {}).get("conditions", [])
    return any(
        item["type"] == "QuotaReserved" and item["message"].startswith("resources validation failed: ")
        for item in conditions
    )


def verdict(bench: Bench, asked: Body, *pending: Body) -> Verdict:
    """The verdict on a Workload by what the cluster holds, without other workloads."""
    kinds = ("ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "Namespace")
    bodies = [body for kind in kinds for body in bench.api.list_all(kind)]
    found = read_queue_state(bodies, release=DEFAULT_KUEUE_MINOR)
    workloads = [read_kueue_workload(body, found.model) for body in (asked, *pending)]
    first, *others = [workload for workload in workloads if isinstance(workload, Workload)]
    return AdmissionSimulator(found.model, pending=others).verdict(first)


def test_quotas_of_every_size_and_spelling(site: Bench) -> None:
    """Kueue accepts all spellings of amounts, and sums above 64 bits count as the largest number."""
    workloads = {
        name: make_workload(name, name, **({"memory": "1Gi"} if "memory" in quotas else {"cpu": "500m"}))
        for name, quotas in QUOTAS.items()
    }
    workloads |= {name: make_workload(name, f"{name}-0", memory="1Gi") for name in SUMS}
    workloads["own"] = make_workload("own", "own", memory="1Gi")
    site.api.create(list(workloads.values()))
    try:
        site.pass_fences()
        live = {name: has_reservation(site.api.read(body)) for name, body in workloads.items()}
        assert [name for name, is_admitted in live.items() if not is_admitted] == []
        assert {name: verdict(site, body).fits for name, body in workloads.items()} == live
    finally:
        site.api.delete(list(workloads.values()))


def test_a_head_that_never_fits_holds_a_strict_queue_up(site: Bench) -> None:
    """A small workload behind it is not admitted."""
    head, behind = make_workload("head", "strict", cpu="3"), make_workload("behind", "strict", cpu="1")
    site.api.create([head])
    site.await_prediction(lambda: True)
    site.api.create([behind])
    try:
        site.pass_fences()
        assert not has_reservation(site.api.read(behind))
        found = verdict(site, behind, head)
        assert (found.outcome, [reason.cause for reason in found.reasons]) == ("waits", ["blocked"])
        site.api.delete([head])
        wait_until("it is admitted without the head", lambda: has_reservation(site.api.read(behind)))
    finally:
        site.api.delete([head, behind])


def test_jobs_that_kueue_manages_or_leaves_suspended(site: Bench) -> None:
    """The cases are a default queue, the limit of pod sets, and namespaces that Kueue does not manage."""
    cpu = {"requests": {"cpu": "1m"}}
    adopted, left = job("adopted", None, cpu), job("left", "default", cpu, "kube-system")
    bodies = [adopted, left, jobset(MAX_POD_SETS), jobset(MAX_POD_SETS + 1)]
    managed = {key(adopted), f"{NAMESPACE}/set-{MAX_POD_SETS}"}
    site.api.create(bodies)
    try:
        wait_until("the Workloads are there", lambda: managed <= site.workloads().keys())
        site.pass_fences()
        found = site.workloads()
        assert {key(body) for body in bodies} & found.keys() == managed
        workload = found[key(adopted)]
        assert workload["spec"]["queueName"] == "default"
        assert workload["spec"]["priority"] == 77
        assert site.api.read(left)["spec"]["suspend"]
    finally:
        site.api.delete(bodies)
