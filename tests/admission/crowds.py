"""Drawn crowds: many Jobs in the queues of one environment when it opens."""

import itertools
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Any

from tests.admission.cases import (
    COVERED,
    LABELS,
    NAMESPACE,
    PREFIX,
    PRIORITIES,
    REQUESTS,
    Body,
    cluster_queue,
    cohort,
    flavor,
    groups_of,
    local_queue,
    make_object,
)
from tests.admission.choices import Choices
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import Model
from trainstack.kueue.scheduler import Event, Scheduler, UnsettledError
from trainstack.kueue.workloads import read_workload
from trainstack.objects.labels import PRIORITY, QUEUE
from trainstack.toolchain.groups import DEFAULT_KUEUE_MINOR

GATE = f"{PREFIX}gate"
"""A flavor that all queues list last and that comes when everybody has joined: until then they admit nothing, and then
all begin at one moment. Queues whose `stopPolicy` is lifted begin one after the other."""
TAINT = {"key": "gate", "value": "closed", "effect": "NoSchedule"}
"""Of the gate: nobody is ever given it."""
MANAGED_BY = "trainstack.dev/nobody"
"""The controller of the Jobs, which does not exist: Kueue holds, admits and evicts them, and no pod is made."""
EVICTION_CYCLES = (1, 2, 5, 30)
"""How many cycles evicted Jobs may hold their quota for."""


@dataclass(frozen=True)
class Crowd:
    """An environment with waiting Jobs."""

    objects: tuple[Body, ...]
    """The gate is the last."""
    jobs: tuple[Body, ...]
    """Those who stand there when it opens, in the order in which they came."""
    later: tuple[Body, ...]
    """Those who come afterwards, each when the one before has found its place or has not."""

    def with_names(self, prefix: str, namespace: str) -> "Crowd":
        """The same with names of its own, in a namespace of its own."""
        text = json.dumps([self.objects, self.jobs, self.later])
        return Crowd(*map(tuple, json.loads(text.replace(PREFIX, prefix).replace(NAMESPACE, namespace))))

    @property
    def model(self) -> Model:
        """The objects as the engine reads them."""
        name = self.jobs[0]["metadata"]["namespace"]
        namespace = {"kind": "Namespace", "metadata": {"name": name, "labels": LABELS}}
        return read_model([*self.objects, *CLASSES, namespace], unread_kinds=("Node",), release=DEFAULT_KUEUE_MINOR)


CLASSES = tuple(
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": f"p{value}"},
        "value": value,
    }
    for value in PRIORITIES
)
"""The priority classes of all crowds."""

Admissions = dict[str, tuple[int, dict[str, str]]]
"""By Job, what those got who are admitted: how many pods, and the flavor of each resource."""


class Stepwise(Scheduler):
    """Queues that can be stopped after a cycle."""

    def step(self) -> list[Event]:
        """One cycle."""
        return self._cycle(self._heads())


class Simultaneous(Stepwise):
    """Queues whose simultaneous admissions have the same time, so that their order is random, as in Kueue.

    Kueue's times are in whole seconds, and it orders equal times by UID.
    """

    rng = Random(0)

    def _stamp(self, now: float) -> float:
        return now + self.rng.random() * 1e-3


def outcomes(crowd: Crowd, scheduler: Stepwise | None = None, ahead: Collection[str] = ()) -> list[Admissions]:
    """Return the admitted Jobs after the gate opens and after each later Job. Raises UnsettledError.

    `ahead`: local queues that open one cycle before the others.
    """
    model = crowd.model
    queues = scheduler or Stepwise(model)
    workloads = [
        replace(read_workload(body, (), model), created=float(turn))
        for turn, body in enumerate((*crowd.jobs, *crowd.later))
    ]
    waiting, later = workloads[: len(crowd.jobs)], workloads[len(crowd.jobs) :]
    events: list[Event] = []
    if ahead:
        for workload in waiting:
            if workload.queue in ahead:
                queues.submit(workload)
        events = queues.step()
    for workload in waiting:
        if workload.queue not in ahead:
            queues.submit(workload)
    admitted: Admissions = {}
    _apply_events([*events, *queues.settle(0.0)], admitted)
    found = [dict(admitted)]
    for workload in later:
        queues.submit(workload)
        _apply_events(queues.settle(workload.created), admitted)
        found.append(dict(admitted))
    return found


def _apply_events(events: Iterable[Event], admitted: Admissions) -> None:
    for event in events:
        name = event.key.partition("/")[2]
        if event.kind == "evicted":
            del admitted[name]
        else:
            (pods,) = event.assigned
            admitted[name] = (pods.count, dict(pods.flavors))


def has_one_outcome(crowd: Crowd) -> bool:
    """Return whether the outcome is the same for all of Kueue's nondeterministic choices.

    That is how long evicted Jobs hold their quota; whoever of those that were admitted in one second counts as the
    latest; and which queues it finds open in the very cycle in which the gate opens.
    """
    model = crowd.model
    names = sorted({str(job["metadata"]["labels"][QUEUE]) for job in crowd.jobs})
    subsets = [subset for count in range(1, len(names)) for subset in combinations(names, count)]
    try:
        first = outcomes(crowd)
        return (
            all(outcomes(crowd, Stepwise(model, eviction_cycles=cycles)) == first for cycles in EVICTION_CYCLES)
            and all(outcomes(crowd, Simultaneous(model)) == first for _ in range(4))
            and all(outcomes(crowd, ahead=subset) == first for subset in subsets)
        )
    except UnsettledError:
        return False


def draw_crowd(choices: Choices) -> Crowd:
    """Return two to four queues with five to twelve Jobs of different priorities."""
    flavors = [flavor(choices, f"{PREFIX}f{index}") for index in range(choices.pick([1, 2, 3]))]
    names = [body["metadata"]["name"] for body in flavors]
    covered = choices.pick(COVERED)
    groups = groups_of(choices, covered, names)
    cohorts = [cohort(choices, index, groups) for index in range(choices.pick([1, 2, 3]))]
    parents = [body["metadata"]["name"] for body in cohorts]
    queues = [cluster_queue(choices, index, groups, parents) for index in range(choices.pick([2, 3, 1, 4]))]
    for queue in queues:
        for key in ("stopPolicy", "admissionChecksStrategy"):
            queue["spec"].pop(key, None)
        first = queue["spec"]["resourceGroups"][0]
        quotas = [{"name": name, "nominalQuota": "0"} for name in first["coveredResources"]]
        first["flavors"].append({"name": GATE, "resources": quotas})
    locals_ = [local_queue(choices, index) for index in range(len(queues))]
    names_of_jobs = [f"{PREFIX}j{index}" for index in range(choices.pick([5, 6, 8, 10, 12]))]
    jobs = [job(choices, name, len(queues), covered) for name in names_of_jobs]
    later = [
        job(choices, f"{PREFIX}k{index}", len(queues), covered, (200, 100, 200))
        for index in range(choices.pick([2, 1, 3]))
    ]
    gate = make_object("ResourceFlavor", GATE, {"nodeTaints": [TAINT]})
    return Crowd((*flavors, *cohorts, *queues, *locals_, gate), tuple(jobs), tuple(later))


def job(
    choices: Choices, name: str, queues: int, covered: tuple[str, ...], priorities: tuple[int, ...] = (0, 100, 0, 200)
) -> Body:
    """Return a Job that no controller runs, of up to six pods, perhaps with partial admission."""
    resources: dict[str, Any] = {}
    for resource in (covered_resource for covered_resource in covered if covered_resource in REQUESTS):
        if resource == "cpu" or choices.flip():
            resources[resource] = choices.pick(REQUESTS[resource])
    count = choices.pick([1, 2, 3, 4, 6])
    labels = {
        QUEUE: f"{PREFIX}l{choices.number(0, queues - 1)}",
        PRIORITY: f"p{choices.pick(priorities)}",
    }
    metadata: Body = {"name": name, "namespace": NAMESPACE, "labels": labels}
    if count > 1 and choices.one_in(6):
        metadata["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": str(choices.number(1, count - 1))}
    # The API server wants a limit of what cannot be shared.
    limits = {resource: amount for resource, amount in resources.items() if "/" in resource}
    container = {"name": "one", "image": "none", "resources": {"requests": resources, "limits": limits}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "managedBy": MANAGED_BY,
            "parallelism": count,
            "completions": count,
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def drawn_crowds(seed: int, count: int) -> list[Crowd]:
    """Return this number of crowds with a deterministic outcome; the same seed returns the same crowds."""
    found = (draw_crowd(Choices.of_seed(seed, index)) for index in itertools.count())
    return list(itertools.islice(filter(has_one_outcome, found), count))
