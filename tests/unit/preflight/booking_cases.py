"""Environments whose runs get another quota, or other nodes, than their author would expect."""

from typing import Any

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_kueue,
    make_queues,
    make_run,
    make_settings,
)
from tests.unit.preflight.cases import Case
from tests.unit.preflight.pod_cases import helper
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators, Transformation
from trainstack.settings.sections.queues import ResourceFlavor
from trainstack.settings.sections.workloads import Resources, Role, Workload

RUN = "workloads.runs[train]"
REQUEST = "set `resources.requests`, at least of `cpu` and `memory`"

GPU = Resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "1"})
CONTRADICTION = (
    "{} get flavors general and gpu together, whose nodes have pool=general and pool=gpu: as Kueue sets either label, "
    "they run on nodes of one flavor with quota of both, or wait forever"
)
APART = "put the resources into one group, with a quota of each on each flavor, or use another queue"
SET_REQUESTS = "set the request of each container, and of the whole pod where it has a limit"
AT_LEAST = "set at least {}, or leave it out"


def patched(spec: dict[str, Any], path: str, message: str, remedy: str, **run: Any) -> Case:
    """Return a run whose patch of the pod's spec has one fault; its container requests 1 cpu."""
    resources = {"resources": Resources(requests={"cpu": "1"}), **run}
    return Case(
        make_settings(make_run(pod_patch={"spec": spec}, **resources)), f"{RUN}.podPatch.spec.{path}", message, remedy
    )


def sidecar(name: str = "proxy", **resources: Any) -> dict[str, Any]:
    """Return an init container that runs beside the others; a restricted namespace accepts it."""
    return {**helper("proxy:1"), "name": name, "restartPolicy": "Always", "resources": resources}


def grouped(general: dict[str, str], gpu: dict[str, str], run: Workload, **queue: Any) -> Settings:
    """Return an environment whose queue has cpu and memory on one flavor, and GPUs on another; with these labels."""
    flavors = (ResourceFlavor(name="general", node_labels=general), ResourceFlavor(name="gpu", node_labels=gpu))
    groups = (
        make_group(("general", {"cpu": "2", "memory": "8Gi"})),
        make_group(("gpu", {"nvidia.com/gpu": "2"})),
    )
    pool = make_cluster_queue(resource_groups=groups, **queue)
    return make_settings(run, queues=make_queues(flavors=flavors, cluster_queues=(pool,)))


def transforming(
    transformation: dict[str, Any],
    path: str,
    message: str,
    remedy: str,
    others: tuple[Transformation, ...] = (),
    **configuration: Any,
) -> Case:
    """Return an install of Kueue whose first transformation has one fault."""
    listed = (Transformation.model_validate(transformation), *others)
    operators = Operators(kueue=make_kueue(transformations=listed, **configuration))
    place = f"operators.kueue.configuration.transformations[0]{path}"
    return Case(make_settings(operators=operators), place, message, remedy, "warning")


BOOKING_CASES: dict[str, list[Case]] = {
    "requests-nothing": [
        Case(
            make_settings(make_run(resources=Resources())),
            f"{RUN}.resources",
            "each pod requests nothing: it uses no quota and gets no flavor, so Kueue does not select its nodes",
            REQUEST,
            "warning",
        ),
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "0"}))),
            f"{RUN}.resources",
            "each pod requests only an amount of 0: it uses no quota",
            REQUEST,
            "warning",
        ),
        Case(
            make_settings(make_distributed(roles={"Master": Role(resources=Resources()), "Worker": Role(replicas=2)})),
            f"{RUN}.roles.Master.resources",
            "each master pod requests nothing: it uses no quota and gets no flavor, so Kueue does not select its nodes",
            REQUEST,
            "warning",
        ),
        Case(
            make_settings(
                make_run(),
                operators=Operators(
                    kueue=make_kueue(
                        exclude_resource_prefixes=("mem",),
                        transformations=(Transformation(input="cpu", strategy="Replace"),),
                    )
                ),
            ),
            f"{RUN}.resources",
            "each pod requests only cpu, memory, which Kueue's Configuration does not count: it uses no quota and gets "
            "no flavor, so Kueue does not select its nodes",
            REQUEST,
            "warning",
        ),
    ],
    "flavors-contradict": [
        Case(
            grouped({"pool": "general"}, {"pool": "gpu"}, make_run(resources=GPU)),
            RUN,
            CONTRADICTION.format("its pods"),
            APART,
        )
    ],
    "booking-differs": [
        Case(
            make_settings(
                make_run(
                    resources=Resources(requests={"memory": "1Gi"}),
                    pod_patch={"spec": {"resources": {"limits": {"cpu": "2", "memory": "2Gi"}}}},
                )
            ),
            f"{RUN}.resources",
            "Kueue books 0 cpu for the containers of each pod, which request 2: a limit of the whole pod is by default "
            "its request",
            SET_REQUESTS,
            "warning",
        )
    ],
    "transformation-unapplied": [
        transforming(
            {"input": "nvidia.com/gpu", "outputs": {"example.com/credits": "4"}},
            ".input",
            "nvidia.com/gpu is never transformed, because excludeResourcePrefixes excludes nvidia.",
            "remove the prefix or the transformation",
            exclude_resource_prefixes=("amd.", "nvidia."),
        ),
        transforming(
            {"input": "gpu", "outputs": {"example.com/credits": "4"}},
            ".input",
            "gpu is never transformed, because no container can request it",
            "name a resource that pods request, such as nvidia.com/gpu",
        ),
        transforming(
            {"input": "nvidia.com/gpu", "outputs": {"example.com/credits": "4"}},
            ".input",
            "nvidia.com/gpu is not transformed as an output of the transformation of nvidia.com/mig",
            "write the outputs for nvidia.com/mig directly",
            others=(Transformation(input="nvidia.com/mig", outputs={"nvidia.com/gpu": "1"}),),
        ),
        transforming(
            {"input": "nvidia.com/gpu"},
            "",
            "nvidia.com/gpu is retained, and there are no outputs",
            "add outputs, or remove it",
        ),
        transforming(
            {"input": "nvidia.com/gpu", "outputs": {"nvidia.com/gpu": "2"}},
            '.outputs["nvidia.com/gpu"]',
            "nvidia.com/gpu is retained, which replaces the output of this name",
            "set `strategy: Replace`",
        ),
        transforming(
            {"input": "nvidia.com/gpu", "outputs": {"memory": "2Gi"}},
            ".outputs.memory",
            "pods also request memory, so Kueue adds the output of nvidia.com/gpu only at random",
            "name an output that pods do not request",
        ),
    ],
    "pod-resources-refused": [
        patched(
            {"resources": {"requests": {"cpu": "900m"}}},
            "resources.requests.cpu",
            "900m of cpu is less than the 1 that the containers request",
            AT_LEAST.format(1),
        ),
        patched(
            {"resources": {"requests": {"cpu": "1"}}, "initContainers": [sidecar(limits={"cpu": "500m"})]},
            "resources.requests.cpu",
            "1 of cpu is less than the 1.5 that the containers request",
            AT_LEAST.format(1.5),
        ),
        patched(
            {"resources": {"limits": {"cpu": "900m"}}},
            "resources.limits.cpu",
            "the limit of 900m of cpu is less than the 1 that the containers request",
            AT_LEAST.format(1),
        ),
        patched(
            {"resources": {"limits": {"cpu": "1500m"}, "requests": {"cpu": "1"}}},
            "resources.limits.cpu",
            "container training has a limit of 2 of cpu, the pod of 1500m",
            AT_LEAST.format(2),
            resources=Resources(requests={"cpu": "1"}, limits={"cpu": "2"}),
        ),
        patched(
            {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}},
            "resources.requests.cpu",
            "1500m of cpu is more than the limit of 1",
            "lower the request, or raise the limit",
        ),
        Case(
            make_settings(
                make_run(
                    resources=Resources(requests={"cpu": "1"}, limits={"hugepages-2Mi": "2Mi"}),
                    pod_patch={
                        "spec": {
                            "resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}},
                            "initContainers": [sidecar(requests={"cpu": "0"}, limits={"hugepages-2Mi": "2Mi"})],
                        }
                    },
                ),
                queues=make_queues(
                    cluster_queues=(
                        make_cluster_queue(
                            resource_groups=(
                                make_group(("cpu", {"cpu": "2", "memory": "8Gi", "hugepages-2Mi": "8Mi"})),
                            )
                        ),
                    )
                ),
            ),
            f"{RUN}.podPatch.spec.resources.limits.hugepages-2Mi",
            "the limit of 2Mi of hugepages-2Mi is less than the 4Mi that the containers request",
            AT_LEAST.format("4Mi"),
        ),
        patched(
            {"resources": {"requests": {"ephemeral-storage": "1Gi"}}},
            "resources.requests.ephemeral-storage",
            "ephemeral-storage cannot be set for a whole pod, only cpu, memory and huge pages",
            "set it for a container",
        ),
        patched(
            {"resources": {"claims": [{"name": "gpu"}]}}, "resources.claims", "a whole pod has no claims", "remove it"
        ),
        patched(
            {"overhead": {"cpu": "250m"}},
            "overhead",
            "only pods of a runtime class have an overhead, which is the overhead of the class",
            "remove it, or set runtimeClassName",
        ),
        patched(
            {"initContainers": [sidecar(requests={"cpu": "1"}, limits={"cpu": "500m"})]},
            "initContainers[proxy].resources.requests.cpu",
            "1 of cpu is more than the limit of 500m",
            "lower the request, or raise the limit",
        ),
    ],
}
"""Cases by the id of the rule that finds the fault."""
