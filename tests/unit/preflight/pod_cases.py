"""Environments with one fault in a run's pods: security, patches, scratch volumes, images."""

from typing import Any

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_manifest_job,
    make_manifest_run,
    make_queues,
    make_run,
    make_settings,
)
from tests.unit.preflight.cases import Case
from trainstack.settings.model import Settings
from trainstack.settings.sections.affinity import Affinity
from trainstack.settings.sections.environment import Environment, Namespace, NamespaceNetwork
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.workloads import Image, Resources, Role, Workload

RUN = "workloads.runs[train]"
ENFORCE = "pod-security.kubernetes.io/enforce"
DIGEST = f"sha256:{'1' * 64}"


def enforcing(level: str, **run: Any) -> Settings:
    """Return an environment whose adopted namespace enforces this level."""
    namespace = Namespace(name="research", adopt=True, labels={ENFORCE: level})
    return make_settings(make_run(**run), environment=Environment(namespaces=(namespace,)))


def in_isolation(run: Workload) -> Settings:
    """Return an environment whose isolated, adopted namespace has an unknown level."""
    namespace = Namespace(name="research", adopt=True, network=NamespaceNetwork(isolated=True))
    return make_settings(run, environment=Environment(namespaces=(namespace,)))


def pinned(**patch: Any) -> Settings:
    """Return an environment that requires digests, with a pod patch."""
    return make_settings(
        make_run(image=Image(name=f"python@{DIGEST}"), pod_patch={"spec": patch}),
        environment=Environment(namespaces=(Namespace(name="research"),), pinned=True),
        operators=Operators(),
        pins={"busybox:1.35": DIGEST},
    )


def requiring(*keys: str) -> Affinity:
    """Return an affinity for nodes that have these labels."""
    terms = [{"matchExpressions": ({"key": key, "operator": "Exists"},)} for key in keys]
    required = {"nodeSelectorTerms": tuple(terms)}
    return Affinity.model_validate({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def limited(*volumes: Scratch) -> Settings:
    """Return an environment with scratch volumes, and limits of memory and ephemeral storage."""
    limits = {"memory": "1Gi", "ephemeral-storage": "2Gi"}
    quotas = {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "8Gi"}
    queue = make_cluster_queue(resource_groups=(make_group(("cpu", quotas)),))
    run = make_run(scratch=volumes, resources=Resources(requests={"cpu": "1"}, limits=limits))
    return make_settings(run, queues=make_queues(cluster_queues=(queue,)))


def scratch(size: str | None = None, **changes: Any) -> tuple[Scratch]:
    """Return one scratch volume."""
    return (Scratch(name="cache", mount_path="/cache", size=size, **changes),)


def helper(image: str) -> dict[str, Any]:
    """Return a container that a restricted namespace accepts."""
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {"name": "helper", "image": image, "securityContext": context}


def patch_case(patch: dict[str, Any], path: str, problem: str, remedy: str) -> Case:
    """Return a pod patch with one fault."""
    return Case(make_settings(make_run(pod_patch=patch)), f"{RUN}.podPatch.{path}", problem, remedy)


def with_worker(worker: Role, **run: Any) -> Settings:
    """Return an environment whose run has a master and this worker."""
    return make_settings(make_distributed(roles={"Master": Role(), "Worker": worker}, **run))


def lower(level: str) -> str:
    """Return the remedy for a run that needs this level."""
    return f"remove it, or set the namespace's label {ENFORCE}: {level}"


POD_CASES = {
    "pods-forbidden": [
        Case(
            make_settings(make_run(capabilities=Capabilities(add=("IPC_LOCK",)))),
            f"{RUN}.capabilities",
            "adds IPC_LOCK: namespace research enforces Pod Security restricted",
            lower("privileged"),
        ),
        Case(
            make_settings(make_run(capabilities=Capabilities(add=("CHOWN",)))),
            f"{RUN}.capabilities",
            "adds CHOWN: namespace research enforces Pod Security restricted",
            lower("baseline"),
        ),
        Case(
            with_worker(Role(capabilities=Capabilities(add=("CHOWN",)))),
            f"{RUN}.roles.Worker.capabilities",
            "adds CHOWN: namespace research enforces Pod Security restricted",
            lower("baseline"),
        ),
        Case(
            with_worker(Role(pod_patch={"spec": {"hostIPC": True}})),
            f"{RUN}.roles.Worker.podPatch.spec.hostIPC",
            "sets hostIPC: namespace research enforces Pod Security restricted",
            lower("privileged"),
        ),
        Case(
            enforcing("baseline", host_network=True),
            f"{RUN}.hostNetwork",
            "sets hostNetwork: namespace research enforces Pod Security baseline",
            lower("privileged"),
        ),
        Case(
            enforcing("baseline", host_ipc=True),
            f"{RUN}.hostIPC",
            "sets hostIPC: namespace research enforces Pod Security baseline",
            lower("privileged"),
        ),
        Case(
            make_settings(make_run(pod_patch={"spec": {"volumes": [{"name": "node", "hostPath": {"path": "/"}}]}})),
            f"{RUN}.podPatch.spec.volumes[node]",
            "mounts a folder of the node (hostPath): namespace research enforces Pod Security restricted",
            lower("privileged"),
        ),
        Case(
            make_settings(
                make_run(
                    capabilities=Capabilities(add=("NET_BIND_SERVICE",)),
                    pod_patch={"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
                )
            ),
            f"{RUN}.podPatch.spec.securityContext.seccompProfile",
            "has the profile Unconfined: namespace research enforces Pod Security restricted",
            lower("privileged"),
        ),
        Case(
            make_settings(
                make_run(
                    pod_patch={
                        "spec": {
                            "containers": [
                                {
                                    **helper("helper:1"),
                                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {}},
                                }
                            ]
                        }
                    }
                )
            ),
            f"{RUN}.podPatch.spec.containers[helper].securityContext.capabilities",
            "does not drop ALL: namespace research enforces Pod Security restricted",
            "add ALL to drop, or set the namespace's label pod-security.kubernetes.io/enforce: baseline",
        ),
    ],
    "isolation-lost": [
        Case(
            in_isolation(make_manifest_run(make_manifest_job({"hostNetwork": True}))),
            f"{RUN}.manifest.spec.template.spec.hostNetwork",
            "namespace research is isolated, but pods in the node's network are not",
            "remove it, or set environment.namespaces[research].network.isolated to false",
        ),
        Case(
            in_isolation(make_run(host_network=True)),
            f"{RUN}.hostNetwork",
            "namespace research is isolated, but pods in the node's network are not",
            "remove it, or set environment.namespaces[research].network.isolated to false",
        ),
    ],
    "patch-refused": [
        patch_case(
            {"spec": {"serviceAccountName": "deployer"}},
            "spec.serviceAccountName",
            "may not be changed by a patch",
            "set serviceAccount of the run",
        ),
        Case(
            with_worker(Role(pod_patch={"spec": {"serviceAccountName": "deployer"}})),
            f"{RUN}.roles.Worker.podPatch.spec.serviceAccountName",
            "may not be changed by a patch",
            "set serviceAccount of the run",
        ),
    ],
    "manifest-invalid": [
        Case(
            make_settings(make_manifest_run(make_manifest_job(image=""))),
            f"{RUN}.manifest.spec.template.spec.containers[main].image",
            "is missing",
            "add `image:`",
        ),
    ],
    "manifest-field-unknown": [
        Case(
            make_settings(make_manifest_run(make_manifest_job({"runtimeClass": "kata"}))),
            f"{RUN}.manifest.spec.template.spec.runtimeClass",
            "is not a field of PodSpec",
            "did you mean runtimeClassName?",
            "warning",
        )
    ],
    "patch-invalid": [
        patch_case(
            {"spec": {"initContainers": [{**helper("git:1"), "volumeMounts": [{"name": "code", "mountPath": "/c"}]}]}},
            "spec.initContainers[helper].volumeMounts[code]",
            "mounts code, which is not a volume",
            "valid names: training, trainstack-wrapper, or add it to spec.volumes of the patch, or to scratch or "
            "volumes of the run",
        ),
        Case(
            with_worker(
                Role(pod_patch={"spec": {"initContainers": [{**helper("a"), "name": "a"}, helper("")]}}),
                pod_patch={"spec": {"dnsPolicy": "Default"}},
            ),
            f"{RUN}.roles.Worker.podPatch.spec.initContainers[helper].image",
            "is missing",
            "add `image:`",
        ),
    ],
    "scratch-over-limit": [
        Case(
            limited(*scratch("2Gi", medium="Memory"), Scratch(name="disk", mount_path="/disk", size="2Gi")),
            f"{RUN}.scratch",
            "scratch volumes of 2Gi exceed the limit of 1Gi of memory",
            "lower `size`, or raise the limit of `memory` (for `medium: Memory`) or `ephemeral-storage`",
            "warning",
        ),
        Case(
            limited(
                *scratch("3Gi"),
                Scratch(name="shm", mount_path="/shm", size="1Gi", medium="Memory"),
                Scratch(name="claim", mount_path="/claim", size="9Gi", storage_class="shared"),
                Scratch(name="unlimited", mount_path="/unlimited"),
            ),
            f"{RUN}.scratch",
            "scratch volumes of 3Gi exceed the limit of 2Gi of ephemeral-storage",
            "lower `size`, or raise the limit of `memory` (for `medium: Memory`) or `ephemeral-storage`",
            "warning",
        ),
    ],
    "image-user": [
        Case(
            make_settings(make_run(image=Image(build="tests/unit/preflight/root_image"))),
            f"{RUN}.image.build",
            "the image of tests/unit/preflight/root_image/Dockerfile runs as root, and its pods have runAsNonRoot",
            "set `runAsUser`, or `security: baseline` in a namespace that accepts it",
        )
    ],
    "image-unpinned": [
        Case(
            pinned(**{field: [helper("helper:1"), {**helper(f"other@{DIGEST}"), "name": "other"}]}),
            f"{RUN}.podPatch",
            "image helper:1 has no digest, and pins do not apply to a podPatch",
            "write `@sha256:` and its digest",
        )
        for field in ("containers", "initContainers")
    ]
    + [
        Case(
            pinned(volumes=[{"name": "model", "image": {"reference": "model:1"}}]),
            f"{RUN}.podPatch",
            "image model:1 has no digest, and pins do not apply to a podPatch",
            "write `@sha256:` and its digest",
        )
    ],
    "storage-class-unknown": [
        Case(
            make_settings(make_run(scratch=scratch("1Gi", storage_class="share"))),
            f"{RUN}.scratch[cache].storageClass",
            "storage class 'share' is not declared",
            "did you mean shared? (or declare it under storage.classes)",
        )
    ],
    "mount-duplicate": [
        Case(
            make_settings(make_run(scratch=(Scratch(name="cache", mount_path="/mnt/training"),))),
            f"{RUN}.volumes",
            "/mnt/training is the mount path of 2 volumes",
            "give each volume, and the code, its own path; Trainstack reserves some paths",
        )
    ],
    "amount-odd": [
        Case(
            make_settings(make_manifest_run(make_manifest_job(resources={"requests": {"cpu": "1", "memory": 512}}))),
            f"{RUN}.manifest.spec.template.spec.containers[main].resources.requests.memory",
            "512 of memory is less than 1Mi (without a unit, an amount is in bytes; m is thousandths)",
            "add a unit, such as 512Mi or 10Gi",
            "warning",
        ),
        Case(
            make_settings(make_run(scratch=scratch("64"))),
            f"{RUN}.scratch[cache].size",
            "64 of storage is less than 1Mi (without a unit, an amount is in bytes; m is thousandths)",
            "add a unit, such as 512Mi or 10Gi",
            "warning",
        ),
    ],
}
"""Cases by the id of the rule that finds the fault."""
