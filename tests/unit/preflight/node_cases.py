"""Further environments and cluster snapshots with one fault: in nodes, and in a Kueue and queues of another owner."""

from dataclasses import replace
from typing import Any

from tests.unit.live_objects import Body
from tests.unit.make import make_cluster_queue as make_pool
from tests.unit.make import (
    make_distributed,
    make_group,
    make_manifest_job,
    make_manifest_run,
    make_queues,
    make_run,
    make_runtime_run,
    make_settings,
)
from tests.unit.preflight.cluster_cases import (
    CASES,
    ELSEWHERE,
    RUN,
    Case,
    make_cluster_queue,
    make_live,
    make_node,
    named,
    operators,
)
from tests.unit.runs.runtimes import make_cluster_runtime, make_job
from trainstack.preflight.live_context import LiveCluster, LiveOperator
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import ResourceFlavor
from trainstack.settings.sections.workloads import Resources, Role, Workload

NOT_DECLARED = {
    "operators": Operators(),
    "queues": make_queues(flavors=(), cohorts=(), cluster_queues=(), local_queues=()),
}
"""The sections of an environment whose Kueue and queues another owner declares."""
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
NIC = Resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"example.com/nic": "1"})
GPU = Resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "1"})
APART = [
    {
        "coveredResources": [resource],
        "flavors": [{"name": flavor, "resources": [{"name": resource, "nominalQuota": "2"}]}],
    }
    for flavor, resource in (("general", "cpu"), ("gpu", "nvidia.com/gpu"))
]
"""Resource groups, each with a flavor of its own."""
PRIORITY_SCOPE = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
BIG = Resources(requests={"cpu": "1", "memory": "9Gi"})


POOL_A = ResourceFlavor(name="cpu", node_labels={"pool": "a"})


def tainted() -> LiveCluster:
    """Return a cluster whose only node has a taint."""
    return make_live({"Node": ({**make_node(), "spec": {"taints": [TAINT]}},)})


def with_nic() -> Body:
    """Return a node with one device that the cluster queue does not cover."""
    node = make_node()
    allocatable = {**node["status"]["allocatable"], "example.com/nic": "1"}
    return {**node, "status": {"allocatable": allocatable}}


def pooled(**quotas: str) -> Settings:
    """Return an environment with one run, whose cluster queue has these quotas on the flavor `cpu`."""
    group = make_group(("cpu", quotas))
    return make_settings(make_run(), queues=make_queues(cluster_queues=(make_pool(resource_groups=(group,)),)))


def trainer(version: str) -> LiveOperator:
    """Return Kubeflow Trainer in this version."""
    name = "kubeflow-trainer-controller-manager"
    return LiveOperator("kubeflow-system", name, f"ghcr.io/kubeflow/trainer/{name}:{version}", ready=True)


WITH_TRAINER = {**operators(), "trainer": trainer("v2.1.0"), "jobset": trainer("v0.10.1")}


def on_trainer(run: Workload) -> Settings:
    """Return an environment with a run that does not wait in a queue, on a cluster whose owner installed Trainer."""
    unqueued = run.model_copy(update={"queue": None, "priority": None})
    return make_settings(unqueued, operators=Operators())


def with_runtimes(*runtimes: Body) -> LiveCluster:
    """Return a cluster with Trainer and these ClusterTrainingRuntimes."""
    return make_live({"ClusterTrainingRuntime": runtimes}, operators=WITH_TRAINER)


def two_flavors(labels: dict[str, str]) -> Settings:
    """Return an environment whose run uses two flavors: for nodes with `pool: a`, and for nodes with these labels."""
    flavors = (POOL_A, ResourceFlavor(name="ram", node_labels=labels))
    groups = (make_group(("cpu", {"cpu": "2"})), make_group(("ram", {"memory": "8Gi"})))
    queues = make_queues(flavors=flavors, cluster_queues=(make_pool(resource_groups=groups),))
    return make_settings(make_run(), queues=queues)


def ranged(kind: str = "Container", **item: dict[str, str]) -> Body:
    """Return a LimitRange of containers, or of another kind."""
    return named("bounds", spec={"limits": [{"type": kind, **item}]})


def with_resource_quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> LiveCluster:
    """Return a cluster with this ResourceQuota in the namespace of the runs."""
    body = named("team", spec={"hard": hard, **spec}, status={"hard": hard, "used": used or {}})
    return make_live({"ResourceQuota research": (body,)})


def with_default_class(live: LiveCluster) -> LiveCluster:
    """Return the cluster with two PriorityClasses, of which pods get `high` by default."""
    classes = (named("low", value=1), named("high", value=2, globalDefault=True))
    bodies = tuple({**body, "kind": "PriorityClass"} for body in classes)
    return replace(live, admission={**live.admission, "PriorityClass": bodies})


def unlimited(name: str) -> Body:
    """Return a cluster queue of the cohort `all` whose quota of cpu cannot be added to another of this size."""
    quotas = [{"name": "cpu", "nominalQuota": "9P"}, {"name": "memory", "nominalQuota": "8Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "cpu", "resources": quotas}]}
    return {**make_cluster_queue(resourceGroups=[group], cohortName="all"), "metadata": {"name": name}}


def with_class(name: str, **overhead: str) -> LiveCluster:
    """Return a cluster with this RuntimeClass."""
    live = make_live()
    body = named(name, kind="RuntimeClass", overhead={"podFixed": overhead})
    return make_live(admission={**live.admission, "RuntimeClass": (body,)})


def make_undeclared_queue(name: str, cpu: str, memory: str) -> Body:
    """Return an undeclared cluster queue with these quotas on the flavor `cpu`."""
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": memory}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "cpu", "resources": quotas}]}
    return {**make_cluster_queue(resourceGroups=[group]), "metadata": {"name": name}}


MORE: dict[str, list[Case]] = {
    "version-clash": [
        Case(
            make_settings(make_distributed(kind="TrainJob", workers=1), operators=Operators()),
            make_live(
                operators={**operators(), "trainer": trainer("v2.2.0"), "jobset": trainer("v0.10.1")},
                frameworks=frozenset({"trainer.kubeflow.org/trainjob"}),
            ),
            f"{RUN}.kind",
            "Kueue v0.15.2 places TrainJobs with podTemplateOverrides, but Trainer v2.2.0 reads runtimePatches: a "
            "queued TrainJob would never start",
            "use Trainer v2.1 with Kueue v0.15 or v0.16, or Trainer v2.2 or later with Kueue v0.17 or later",
        )
    ],
    "trainjob-limit": [
        Case(
            make_settings(
                make_distributed(kind="TrainJob", workers=1, queue=None, priority=None, args=("x",) * 200),
                operators=Operators(),
            ),
            make_live(operators={**operators(), "trainer": trainer("v2.3.0"), "jobset": trainer("v0.12.0")}),
            RUN,
            "Trainer v2.3.0 refuses its command of 205 entries; the limit is 128",
            "move arguments or variables into a file in the image or on a volume, or use `kind: PyTorchJob`",
        )
    ],
    "framework-unlisted": [
        Case(
            make_settings(make_distributed(), make_run(name="job"), **ELSEWHERE),
            make_live(frameworks=frozenset({"batch/job"})),
            f"{RUN}.kind",
            "the cluster's Kueue does not manage kind PyTorchJob: the run would start outside every quota",
            "have kubeflow.org/pytorchjob added to integrations.frameworks of Kueue's configuration",
        ),
        Case(
            make_settings(make_run(), make_run(name="again"), **ELSEWHERE),
            make_live(frameworks=None),
            f"{RUN}.kind",
            "whether Kueue manages kind Job is unknown: these credentials cannot read its configuration",
            "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
            "unknown",
        ),
        Case(
            make_settings(make_run(), environment=Environment(profile="tenant"), **ELSEWHERE),
            make_live(frameworks=None),
            f"{RUN}.kind",
            "whether Kueue manages kind Job is unknown: an environment with profile 'tenant' does not read its "
            "configuration",
            "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
            "unknown",
        ),
    ],
    "never-fits": [
        Case(
            make_settings(make_run(resources=BIG), **NOT_DECLARED),
            make_live({"Node": (make_node(memory="16Gi"),)}),
            RUN,
            "1 pod needs 9Gi memory; cluster queue research has at most 8Gi of flavor cpu (1Gi missing)",
            "have the owner of cluster queue research raise nominalQuota of memory on cpu from 8Gi to 9Gi; or lower "
            "resources.requests.memory from 9Gi to 8Gi",
        ),
        Case(
            make_settings(make_run(), **NOT_DECLARED),
            make_live({"ClusterQueue": (unlimited("research"), unlimited("speech"))}),
            RUN,
            "1 pod needs 1 cpu; the quotas of cpu on flavor cpu that cluster queue research depends on overflow: they "
            "add up to more than the 64 bits in which Kueue calculates",
            "write amounts that can be added up, such as 1P of memory or 1M of cpu",
        ),
        Case(
            make_settings(make_run()),
            make_live({"LimitRange research": (ranged(min={"memory": "2Gi"}),)}),
            f"{RUN}.resources",
            "container training has less memory than the namespace's LimitRange allows",
            "keep the requests within the limits",
        ),
    ],
    "queue-closed": [
        Case(
            make_settings(make_run(), **NOT_DECLARED),
            make_live({"ClusterQueue": (make_cluster_queue(namespaceSelector={"matchLabels": {"team": "a"}}),)}),
            "ClusterQueue research spec.namespaceSelector",
            "cluster queue research does not admit workloads of namespace research",
            "have the owner of cluster queue research admit namespace research",
        ),
    ],
    "resource-uncovered": [
        Case(
            make_settings(make_run(resources=NIC), **NOT_DECLARED),
            make_live({"Node": (with_nic(),)}),
            f"{RUN}.resources",
            "the pod requests example.com/nic, which cluster queue research does not cover",
            "have the owner of cluster queue research cover example.com/nic (at least 1); or remove "
            'resources.limits["example.com/nic"]',
        ),
    ],
    "flavor-nodes": [
        Case(
            make_settings(
                make_run(),
                queues=make_queues(
                    flavors=(ResourceFlavor(name="cpu"), ResourceFlavor(name="a100", node_labels={"gpu": "a100"}))
                ),
            ),
            make_live(),
            "queues.flavors[a100].nodeLabels",
            "no node has the labels gpu=a100: pods admitted on the flavor stay Pending",
            "label the nodes, or correct the flavor's `nodeLabels`",
            "warning",
        )
    ],
    "node-resources": [
        Case(
            make_settings(make_run()),
            tainted(),
            f"{RUN}.tolerations",
            "every node of flavor cpu has a taint that neither the pods nor the flavor tolerate (gpu:NoSchedule)",
            "tolerate it, or remove the taint from the nodes",
        ),
        Case(
            make_settings(make_run(), queues=make_queues(flavors=(POOL_A,))),
            make_live(
                {"Node": (*(make_node(f"n{n}", cpu="500m", labels={"pool": "a"}) for n in range(4)), make_node())}
            ),
            f"{RUN}.resources",
            "a pod requests 1 cpu; the largest node of flavor cpu has 0.5",
            "request less in each pod, or use larger nodes",
        ),
        Case(
            two_flavors({"disk": "ssd"}),
            make_live({"Node": (make_node("a", labels={"pool": "a"}), make_node("b", labels={"disk": "ssd"}))}),
            f"{RUN}.queue",
            "no node has the labels of flavor cpu and ram",
            "request less in each pod, or use larger nodes",
        ),
        Case(
            make_settings(make_run(queue=None, priority=None, node_selector={"disk": "ssd"})),
            make_live(),
            f"{RUN}.nodeSelector",
            "no node has the labels that the pods select (disk=ssd)",
            "correct nodeSelector, or label the nodes",
        ),
    ],
    "booking-differs": [
        Case(
            make_settings(make_run(resources=Resources(requests={"memory": "1Gi"}, limits={"cpu": "2"}))),
            make_live({"LimitRange research": (ranged(defaultRequest={"cpu": "1"}),)}),
            f"{RUN}.resources",
            "Kueue books 1 cpu for the containers of each pod, which request 2: it takes the default request of the "
            "namespace's LimitRange, where the API server takes a limit",
            "set the request of each container, and of the whole pod where it has a limit",
            "warning",
        ),
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "1"}))),
            make_live({"LimitRange research": (ranged(defaultRequest={"memory": "2Gi"}),)}),
            f"{RUN}.resources",
            "Kueue books 2Gi memory for the containers of each pod, which alone request 0: the namespace's LimitRange "
            "has defaults",
            "set the request of each container, and of the whole pod where it has a limit",
            "warning",
        ),
    ],
    "limit-range-refused": [
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "4"}))),
            make_live({"LimitRange research": (ranged(maxLimitRequestRatio={"cpu": "2"}),)}),
            f"{RUN}.resources",
            "container training has a limit of cpu of 4 times its request, and the namespace's LimitRange allows 2 "
            "times",
            "set requests and limits within the bounds that `kubectl describe limitrange` prints",
        ),
        Case(
            make_settings(make_run(queue=None, priority=None)),
            make_live({"LimitRange research": (ranged("Pod", max={"cpu": "2"}),)}),
            f"{RUN}.resources",
            "a pod has no limit of cpu, of which the namespace's LimitRange has a maximum",
            "set requests and limits within the bounds that `kubectl describe limitrange` prints",
        ),
        Case(
            make_settings(make_run()),
            make_live({"LimitRange research": (ranged("PersistentVolumeClaim", max={"storage": "1Gi"}),)}),
            "storage.volumes[training].size",
            "the namespace's LimitRange does not allow claims of 2Gi",
            "set a size that `kubectl describe limitrange` allows",
        ),
        Case(
            make_settings(make_run()),
            make_live({"LimitRange research": (ranged("PersistentVolumeClaim", min={"storage": "3Gi"}),)}),
            "storage.volumes[training].size",
            "the namespace's LimitRange does not allow claims of 2Gi",
            "set a size that `kubectl describe limitrange` allows",
        ),
    ],
    "resource-quota-refused": [
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "2", "memory": "1Gi"}))),
            with_resource_quota({"requests.cpu": "1500m", "pods": "1"}, scopes=["NotTerminating", "NotBestEffort"]),
            f"{RUN}.resources",
            "ResourceQuota team allows 1.5 requests.cpu, and each pod needs 2",
            "request less, or have the quota raised",
        ),
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "1", "memory": "1Gi"}))),
            with_resource_quota({"limits.memory": "8Gi"}),
            f"{RUN}.resources",
            "ResourceQuota team requires limits.memory of each container, and training sets none",
            "set it, or have a default added to a LimitRange",
        ),
        Case(
            make_settings(make_run(parallelism=2, completions=2)),
            with_resource_quota({"pods": "1"}),
            RUN,
            "ResourceQuota team allows 1 pods, and its pods need 2 together: not all of them can exist at once",
            "request less, or have the quota raised",
            "warning",
        ),
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "1", "memory": "1Gi"}))),
            with_resource_quota({"requests.memory": "4Gi"}, {"requests.memory": "3584Mi"}),
            RUN,
            "ResourceQuota team allows 4Gi requests.memory, of which 3584Mi are in use: its pods, which need 1Gi, are "
            "refused until 512Mi are released",
            "wait, request less, or have the quota raised",
            "warning",
        ),
        Case(
            make_settings(make_run()),
            with_resource_quota({"pods": "0"}, scopeSelector={"matchExpressions": [PRIORITY_SCOPE]}),
            RUN,
            "whether ResourceQuota team, which selects pods by their priority class, refuses its pods is unknown: "
            "these credentials cannot read PriorityClass objects",
            "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
            "unknown",
        ),
        Case(
            make_settings(make_run()),
            with_default_class(
                with_resource_quota({"pods": "0"}, scopeSelector={"matchExpressions": [PRIORITY_SCOPE]})
            ),
            f"{RUN}.resources",
            "ResourceQuota team allows 0 pods, and each pod needs 1",
            "request less, or have the quota raised",
        ),
        Case(
            make_settings(make_run()),
            with_resource_quota({"shared.storageclass.storage.k8s.io/requests.storage": "1Mi"}),
            "storage.volumes[training].size",
            "ResourceQuota team allows 1Mi shared.storageclass.storage.k8s.io/requests.storage, and the claim needs "
            "2Gi",
            "request less, or have the quota raised",
        ),
        Case(
            make_settings(make_run()),
            with_resource_quota({"count/persistentvolumeclaims": "1"}, {"count/persistentvolumeclaims": "1"}),
            "storage.volumes[training].size",
            "ResourceQuota team allows 1 count/persistentvolumeclaims, and the claim needs 1 while 1 are in use",
            "request less, or have the quota raised",
            "warning",
        ),
        Case(
            make_settings(make_run()),
            make_live({"ResourceQuota research": None}),
            f"{RUN}.namespace",
            "whether a ResourceQuota of namespace research refuses its pods and claims is unknown: these credentials "
            "cannot read ResourceQuota objects",
            "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
            "unknown",
        ),
    ],
    "runtime-unusable": [
        Case(
            on_trainer(make_runtime_run(runtime="torch-distribted")),
            with_runtimes(make_cluster_runtime()),
            f"{RUN}.runtime",
            "the cluster does not have ClusterTrainingRuntime 'torch-distribted'",
            "did you mean torch-distributed? (or ask the cluster's owner to create it)",
        ),
        Case(
            on_trainer(make_runtime_run()),
            make_live({"ClusterTrainingRuntime": None}, operators=WITH_TRAINER),
            f"{RUN}.runtime",
            "whether the cluster has ClusterTrainingRuntime 'torch-distributed' is unknown: these credentials cannot "
            "read ClusterTrainingRuntime objects",
            "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
            "unknown",
        ),
        Case(
            on_trainer(make_runtime_run()),
            with_runtimes(make_cluster_runtime(make_job("worker", {"name": "node"}))),
            f"{RUN}.runtime",
            "ClusterTrainingRuntime torch-distributed has no Job for the nodes with a container node",
            "use another runtime, or leave it out",
        ),
        Case(
            on_trainer(make_runtime_run(name="a-run-with-a-long-name")),
            with_runtimes(
                make_cluster_runtime(
                    make_job("dataset-initializer", {"name": "dataset-initializer"}),
                    make_job("node", {"name": "node"}, step="trainer"),
                )
            ),
            "workloads.runs[a-run-with-a-long-name].runtime",
            "a pod of ClusterTrainingRuntime torch-distributed would be named "
            "a-run-with-a-long-name-0000000000-000000-dataset-initializer-0-0-xxxxx with 70 characters, and Kubernetes "
            "allows 63",
            "shorten the workload's name by 7",
        ),
    ],
    "runtime-class-refused": [
        Case(
            make_settings(make_manifest_run(make_manifest_job({"runtimeClassName": "kata"}))),
            with_class("kata-qemu", cpu="250m"),
            f"{RUN}.manifest.spec.template.spec.runtimeClassName",
            "the cluster does not have RuntimeClass 'kata'",
            "did you mean kata-qemu? (or ask the cluster's owner to create it)",
        ),
        Case(
            make_settings(make_run(pod_patch={"spec": {"runtimeClassName": "kata"}})),
            with_class("kata-qemu", cpu="250m"),
            f"{RUN}.podPatch.spec.runtimeClassName",
            "the cluster does not have RuntimeClass 'kata'",
            "did you mean kata-qemu? (or ask the cluster's owner to create it)",
        ),
        Case(
            make_settings(
                make_distributed(
                    roles={"Master": Role(), "Worker": Role(pod_patch={"spec": {"runtimeClassName": "kata"}})}
                )
            ),
            with_class("kata-qemu", cpu="250m"),
            f"{RUN}.roles.Worker.podPatch.spec.runtimeClassName",
            "the cluster does not have RuntimeClass 'kata'",
            "did you mean kata-qemu? (or ask the cluster's owner to create it)",
        ),
        Case(
            make_settings(make_run(pod_patch={"spec": {"runtimeClassName": "kata", "overhead": {"cpu": "500m"}}})),
            with_class("kata", cpu="250m"),
            f"{RUN}.podPatch.spec.overhead",
            "RuntimeClass kata has another overhead (cpu: 250m)",
            "leave it out: the API server sets it",
        ),
        Case(
            make_settings(make_run(pod_patch={"spec": {"runtimeClassName": "kata", "overhead": {"cpu": "500m"}}})),
            with_class("kata"),
            f"{RUN}.podPatch.spec.overhead",
            "RuntimeClass kata has another overhead (none)",
            "leave it out: the API server sets it",
        ),
    ],
    "flavors-contradict": [
        Case(
            make_settings(make_run(resources=GPU), **NOT_DECLARED),
            make_live(
                {
                    "ClusterQueue": (make_cluster_queue(resourceGroups=APART),),
                    "ResourceFlavor": tuple(
                        named(name, spec={"nodeLabels": {"pool": name}}) for name in ("general", "gpu")
                    ),
                },
                has_autoscaler=True,
            ),
            RUN,
            "its pods get flavors general and gpu together, whose nodes have pool=general and pool=gpu: as Kueue sets "
            "either label, they run on nodes of one flavor with quota of both, or wait forever",
            "put the resources into one group, with a quota of each on each flavor, or use another queue",
        )
    ],
    "requests-nothing": [
        Case(
            make_settings(make_run(), **NOT_DECLARED),
            make_live(kueue={"resources": {"excludeResourcePrefixes": ["cpu", "memory"]}}),
            f"{RUN}.resources",
            "each pod requests only cpu, memory, which Kueue's Configuration does not count: it uses no quota and gets "
            "no flavor, so Kueue does not select its nodes",
            "set `resources.requests`, at least of `cpu` and `memory`",
            "warning",
        )
    ],
    "quota-over-nodes": [
        Case(
            pooled(cpu="3", memory="8Gi"),
            make_live(),
            "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].resources[cpu].nominalQuota",
            "nominalQuota exceeds the 2 cpu of all nodes of flavor cpu",
            "lower it to at most 2, or add nodes",
            "warning",
        )
    ],
    "flavor-overpromised": [
        Case(
            make_settings(make_run()),
            make_live({"ClusterQueue": (make_cluster_queue(), make_undeclared_queue("speech", "1", "0"))}),
            "queues.flavors[cpu]",
            "quota exceeds the 2 cpu of all its nodes: research has 2, speech has 1",
            "lower the quotas and let the cohort lend what is free, or add nodes",
            "warning",
        )
    ],
}


def every_live_case() -> list[tuple[str, Case]]:
    """Return all cases of the rules over a cluster, with the id of the rule that finds the fault."""
    return [(rule, case) for rules in (CASES, MORE) for rule, cases in rules.items() for case in cases]
