"""A cluster with Kueue that runs many cases side by side."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.admission.cases import LABELS, OVERHEAD, make_object
from tests.admission.kueue import Api, Body, wait_until

SLOTS = 100
"""Cases that stand side by side, each in a namespace of its own."""
FENCES = 10
"""Cycles of the scheduler that are awaited before something counts as refused. No case needs more attempts."""
TIMEOUT_SECONDS = 30
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
        """Delete the objects of an interrupted run."""
        for kind in ("Job", "Workload", "LimitRange", "LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor"):
            self.api.delete(self.api.list_all(kind))
        wait_until("Kueue has let its objects go", lambda: not self.api.list_all("ResourceFlavor"), seconds=300)

    def next_prefixes(self) -> list[str]:
        """Return the name prefixes of the cases in the next batch."""
        self.batch += 1
        return [f"b{self.batch}s{slot}-" for slot in range(SLOTS)]

    def await_prediction(self, is_true: Callable[[], bool]) -> None:
        """Wait until a prediction is true, at most for the timeout, and then for the next second.

        Times are in whole seconds, and later objects must be newer.
        """
        end = time.monotonic() + TIMEOUT_SECONDS
        while not is_true() and time.monotonic() < end:
            time.sleep(0.1)
        now = int(time.time())
        wait_until("the next second", lambda: int(time.time()) > now)

    def create_environment(self, bodies: Sequence[Body]) -> None:
        """Create objects, and wait until Kueue has all of them in its cache.

        It takes objects of a kind in their order. So it knows them once it admits a workload to a queue that was made
        after all others, with quota of a cohort that was made after all others.
        """
        ranges = [body for body in bodies if body["kind"] == "LimitRange"]
        others = [body for body in bodies if body["kind"] != "LimitRange"]
        for group in (ranges, others):
            self.api.create(group)
        name = f"fence-{self.batch}"
        objects = _fence_queue(name, cohort=name)
        self.api.create(objects[:1])
        self.api.create(objects[1:])
        self._pass_fence(name)
        self.api.delete(reversed(objects))

    def pass_fences(self) -> None:
        """Wait for some cycles of the scheduler; each of them tries the head of every queue."""
        for _ in range(FENCES):
            self._pass_fence("fence")

    def _pass_fence(self, queue: str) -> None:
        self._fence += 1
        body = _fence_workload(f"fence-{self.batch}-{self._fence}", queue)
        self.api.create([body])
        wait_until("a fence is admitted", partial(self._is_reserved, body), pause=0.02)
        self.api.delete([body])

    def _is_reserved(self, body: Body) -> bool:
        return has_reservation(self.api.read(body))

    def workloads(self) -> dict[str, Body]:
        """The live Workloads by namespace and name; of a Job by the Job's name."""
        return {_key_of(body): body for body in self.api.list_all("Workload")}


def namespace(slot: int) -> str:
    """Return the namespace of the case in a slot."""
    return f"s{slot}-ns"


def key(body: Body) -> str:
    """Return the namespace and the name of an object."""
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _key_of(workload: Body) -> str:
    (owner,) = workload["metadata"].get("ownerReferences") or ({"name": workload["metadata"]["name"]},)
    return f"{workload['metadata']['namespace']}/{owner['name']}"


def condition(live: Body, kind: str) -> str:
    """Return the status of a condition, or an empty string if it is missing."""
    conditions = live.get("status", {}).get("conditions", ())
    return next((str(item["status"]) for item in conditions if item["type"] == kind), "")


def has_reservation(live: Body) -> bool:
    """Return whether a Workload has a quota reservation."""
    return condition(live, "QuotaReserved") == "True"


def assigned_flavors(live: Body, own: Callable[[str], str]) -> dict[str, tuple[int, dict[str, str]]]:
    """Return the admitted count and the flavors by pod set of a Workload; `own` maps a flavor to the case's name."""
    return {
        assignment["name"]: (
            assignment["count"],
            {resource: own(name) for resource, name in (assignment.get("flavors") or {}).items()},
        )
        for assignment in live["status"]["admission"]["podSetAssignments"]
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
    """Return the objects of a queue with one cpu, from its own quota or from its cohort."""

    def group(cpus: int) -> list[Body]:
        flavor = {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpus}]}
        return [{"coveredResources": ["cpu"], "flavors": [flavor]}]

    spec = {"namespaceSelector": {}, "resourceGroups": group(0 if cohort else 1)}
    return [
        *([make_object("Cohort", cohort, {"resourceGroups": group(1)})] if cohort else []),
        make_object("ResourceFlavor", name, {}),
        make_object("ClusterQueue", name, {**spec, **({"cohortName": cohort} if cohort else {})}),
        make_object("LocalQueue", name, {"clusterQueue": name}, "fence"),
    ]


def _fence_workload(name: str, queue: str) -> Body:
    container = {"name": "one", "image": "none", "resources": {"requests": {"cpu": "1m"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pods = {"name": "main", "count": 1, "template": {"spec": spec}}
    return make_object("Workload", name, {"queueName": queue, "podSets": [pods]}, "fence")
