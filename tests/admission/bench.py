"""A cluster with Kueue on which many cases are laid side by side."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.admission.cases import LABELS, OVERHEAD, made
from tests.admission.kueue import Api, Body, until

SLOTS = 100
"""Cases that stand side by side, each in a namespace of its own."""
FENCES = 10
"""Cycles of the scheduler that are awaited before something counts as refused. No case needs more attempts."""
PATIENCE_SECONDS = 30
"""How long a prediction is waited for. What has not come about then is a disagreement."""


class Bench:
    """The cluster, with the namespaces of the cases and the queue of the fences."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.batch = int(time.time()) % 10**6
        """Of the names of the next batch: what was deleted may still be on its way out."""
        self._fence = 0
        self._clear()
        api.create([_overhead(), _namespace("fence"), *(_namespace(namespace(slot)) for slot in range(SLOTS))])
        api.create(_fence_queue("fence"))

    def _clear(self) -> None:
        """Take away what an interrupted run may have left."""
        for kind in ("Job", "Workload", "LimitRange", "LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor"):
            self.api.delete(self.api.everywhere(kind))
        until("Kueue has let its objects go", lambda: not self.api.everywhere("ResourceFlavor"), seconds=300)

    def next_prefixes(self) -> list[str]:
        """What the names of a further batch's cases begin with."""
        self.batch += 1
        return [f"b{self.batch}s{slot}-" for slot in range(SLOTS)]

    def await_prediction(self, came_about: Callable[[], bool]) -> None:
        """Wait until a prediction has come about, or for so long as has to do; then for the next second.

        Times have whole seconds: what comes later is to be newer.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        while not came_about() and time.monotonic() < end:
            time.sleep(0.1)
        now = int(time.time())
        until("the next second", lambda: int(time.time()) > now)

    def create_environment(self, bodies: Sequence[Body]) -> None:
        """Make objects, and wait until Kueue knows them all.

        It takes objects of a kind in their order. So it knows them once it admits a workload to a queue that was made
        after all others, with quota of a cohort that was made after all others.
        """
        ranges = [body for body in bodies if body["kind"] == "LimitRange"]
        others = [body for body in bodies if body["kind"] != "LimitRange"]
        for each in (ranges, others):
            self.api.create(each)
        name = f"fence-{self.batch}"
        objects = _fence_queue(name, cohort=name)
        self.api.create(objects[:1])
        self.api.create(objects[1:])
        self._pass_fence(name)
        self.api.delete(reversed(objects))

    def pass_fences(self) -> None:
        """Let the scheduler make some cycles: in each the head of every queue is tried."""
        for _ in range(FENCES):
            self._pass_fence("fence")

    def _pass_fence(self, queue: str) -> None:
        self._fence += 1
        body = _fence_workload(f"fence-{self.batch}-{self._fence}", queue)
        self.api.create([body])
        until("a fence is admitted", partial(self._is_reserved, body), pause=0.02)
        self.api.delete([body])

    def _is_reserved(self, body: Body) -> bool:
        return reserves(self.api.read(body))

    def workloads(self) -> dict[str, Body]:
        """The live Workloads by namespace and name; of a Job by the Job's name."""
        return {_key_of(body): body for body in self.api.everywhere("Workload")}


def namespace(slot: int) -> str:
    """Of the case in a slot."""
    return f"s{slot}-ns"


def key(body: Body) -> str:
    """Of an object: namespace and name."""
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _key_of(workload: Body) -> str:
    (owner,) = workload["metadata"].get("ownerReferences") or ({"name": workload["metadata"]["name"]},)
    return f"{workload['metadata']['namespace']}/{owner['name']}"


def condition(live: Body, kind: str) -> str:
    """The status of a condition; empty where it is not there."""
    conditions = live.get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


def reserves(live: Body) -> bool:
    """Whether a Workload has its quota."""
    return condition(live, "QuotaReserved") == "True"


def given(live: Body, own: Callable[[str], str]) -> dict[str, tuple[int, dict[str, str]]]:
    """By pod set how many pods a Workload has got, and the flavor of each resource; `own` gives a flavor's own name."""
    return {
        each["name"]: (
            each["count"],
            {resource: own(name) for resource, name in (each.get("flavors") or {}).items()},
        )
        for each in live["status"]["admission"]["podSetAssignments"]
    }


def _namespace(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": LABELS}}


def _overhead() -> Body:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "admission-heavy"},
        "handler": "runc",
        "overhead": {"podFixed": OVERHEAD},
    }


def _fence_queue(name: str, cohort: str = "") -> list[Body]:
    """A queue with a cpu of its own, or of its cohort; and what it takes."""

    def group(cpus: int) -> list[Body]:
        flavor = {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpus}]}
        return [{"coveredResources": ["cpu"], "flavors": [flavor]}]

    spec = {"namespaceSelector": {}, "resourceGroups": group(0 if cohort else 1)}
    return [
        *([made("Cohort", cohort, {"resourceGroups": group(1)})] if cohort else []),
        made("ResourceFlavor", name, {}),
        made("ClusterQueue", name, {**spec, **({"cohortName": cohort} if cohort else {})}),
        made("LocalQueue", name, {"clusterQueue": name}, "fence"),
    ]


def _fence_workload(name: str, queue: str) -> Body:
    container = {"name": "one", "image": "none", "resources": {"requests": {"cpu": "1m"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pods = {"name": "main", "count": 1, "template": {"spec": spec}}
    return made("Workload", name, {"queueName": queue, "podSets": [pods]}, "fence")
