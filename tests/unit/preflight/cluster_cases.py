"""For each rule over a cluster, an environment and a snapshot of a cluster with the one fault that the rule finds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.unit.live_objects import Body, make_queue
from tests.unit.make import (
    make_distributed,
    make_manifest_job,
    make_manifest_run,
    make_mount,
    make_queues,
    make_run,
    make_settings,
    make_storage,
    make_volume,
)
from tests.unit.runs.manifests.test_mpijob import make_mpijob
from tests.unit.runs.manifests.test_object import make_object
from trainstack.objects.labels import STACK
from trainstack.preflight.cluster_checks import examine
from trainstack.preflight.downgrades import DOWNGRADE_RISK
from trainstack.preflight.finding import Finding
from trainstack.preflight.live_context import (
    DryRun,
    ImageUser,
    LiveCluster,
    LiveContext,
    LiveOperator,
    UnreadImage,
    UnservedImage,
)
from trainstack.preflight.worker_needs import Need, WorkerCluster
from trainstack.settings.model import Cluster as ClusterSettings
from trainstack.settings.model import Loader, Settings
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.environment import Environment, Existing, ExistingVolume, Namespace
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.queues import Topology
from trainstack.settings.sections.secrets import EnvSource, SecretValue
from trainstack.settings.sections.storage import StorageClass
from trainstack.settings.sections.workloads import Resources, Workload
from trainstack.stack_objects.stack_objects import StackObjects

KUEUE = LiveOperator("kueue-system", "kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.15.2", ready=True)
TRAINING = LiveOperator("kubeflow", "training-operator", "ghcr.io/kubeflow/training-operator:v1-d6eb98e", ready=True)
CHARM = LiveOperator("kubeflow", "training-operator-0", "registry.local/operator@sha256:ab", ready=True, kind="Pod")
"""The training operator in a StatefulSet."""
IMAGES = {"kueue": KUEUE.image, "training-operator": TRAINING.image}
GPU = Resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "1"})
NEEDS = (
    Need("Namespace", "research", "research"),
    Need("Job", "research", "", "batch/v1"),
    Need("LocalQueue", "research", "research", "kueue.x-k8s.io/v1beta2"),
    Need("Secret", "research", "token"),
)
"""What a dispatched run needs in a worker cluster."""
ELSEWHERE = {"operators": Operators(), "queues": make_queues(local_queues=(), priority_classes=())}
"""The sections of a stack whose queues and operators another stack or owner declares."""


def check(settings: Settings, live: LiveCluster, images: Mapping[str, str] = IMAGES) -> list[Finding]:
    """Return the findings about an environment and its cluster."""
    stack_objects = StackObjects(settings, runtimes=live.countable_runtimes)
    return examine(LiveContext(stack_objects, live, images)).findings


def named(name: str, **changes: Any) -> Body:
    """Return an object with this name."""
    return {"metadata": {"name": name, "labels": {}}, **changes}


def make_node(name: str = "local", *, labels: Mapping[str, str] | None = None, **allocatable: str) -> Body:
    """Return a node with 2 cpu and 8Gi; `allocatable` adds or replaces resources."""
    resources = {"cpu": "2", "memory": "8Gi", **allocatable}
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "status": {"allocatable": resources}}


def make_class(**changes: Any) -> Body:
    """Return the StorageClass `shared` with the declared values; `changes` replace some."""
    declared = {
        "provisioner": "rancher.io/local-path",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    }
    return named("shared", **{**declared, **changes})


def make_cluster_queue(reason: str = "Ready", **spec: Any) -> Body:
    """Return the cluster queue `research` with 2 cpu and 8Gi on the flavor `cpu`."""
    quotas = [{"name": "cpu", "nominalQuota": "2"}, {"name": "memory", "nominalQuota": "8Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "cpu", "resources": quotas}]}
    body = make_queue("research", reason, kind="ClusterQueue")
    return {**body, "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec}}


def make_local_queue(reason: str = "Ready") -> Body:
    """Return the local queue `research`, which points at the cluster queue of that name."""
    return {**make_queue("research", reason), "spec": {"clusterQueue": "research"}}


def make_claim(name: str, *modes: str) -> Body:
    """Return a claim of another owner."""
    return named(name, spec={"accessModes": [*modes]})


def with_existing_volume(run: Workload) -> Settings:
    """Return an environment whose run also mounts the claim `data` of another owner."""
    mounts = (*run.volumes, make_mount(volume="data", mount_path="/data"))
    existing = Existing(volumes=(ExistingVolume(name="data", namespace="research"),))
    return make_settings(
        run.model_copy(update={"volumes": mounts}),
        environment=Environment(namespaces=(Namespace(name="research"),), existing=existing),
    )


def make_unserved(*, missing: bool, reason: str = "", host_path: str = "") -> UnservedImage:
    """Return an image of the run `train` that the nodes may fail to pull."""
    command = "trainstack image push train -s test"
    return UnservedImage(RUN, ("train",), "r.example.org/train:1", command, missing, reason, host_path)


def make_live(lists: Mapping[str, tuple[Body, ...] | None] | None = None, **changes: Any) -> LiveCluster:
    """Return a cluster with everything that `make_settings` needs; `lists` replaces some objects."""
    objects: dict[str, tuple[Body, ...] | None] = {
        "Namespace": (named("research"),),
        "Node": (make_node(),),
        "StorageClass": (make_class(),),
        "PersistentVolume": (),
        "ClusterQueue": (make_cluster_queue(),),
        "ResourceFlavor": (named("cpu"),),
        "WorkloadPriorityClass": (named("normal", value=1000),),
        "LocalQueue research": (make_local_queue(),),
        "PersistentVolumeClaim research": (),
        **(lists or {}),
    }
    base = {
        "version": "v1.34.4",
        "lists": objects,
        "namespaces": {"research": True},
        "operators": {"kueue": KUEUE, "training-operator": TRAINING},
        "admission": make_admission(objects),
        "frameworks": frozenset({"batch/job", "kubeflow.org/pytorchjob"}),
        "kueue": {"integrations": {"frameworks": ["batch/job", "kubeflow.org/pytorchjob"]}},
    }
    return LiveCluster(**{**base, **changes})


def make_admission(objects: Mapping[str, tuple[Body, ...] | None]) -> dict[str, tuple[Body, ...] | None]:
    """Return the same objects as the input of an admission: by kind alone, with kind and namespace in each object."""
    by_kind: dict[str, tuple[Body, ...] | None] = {"Workload": ()}
    for key, bodies in objects.items():
        kind, _, namespace = key.partition(" ")
        by_kind[kind] = bodies and tuple(
            {**body, "kind": kind, "metadata": {**body["metadata"], **({"namespace": namespace} if namespace else {})}}
            for body in bodies
        )
    return by_kind


def operators(**changes: LiveOperator | None) -> dict[str, LiveOperator | None]:
    """Return Kueue and the training operator; `changes` replace or add operators."""
    return {"kueue": KUEUE, "training-operator": TRAINING, **{k.replace("_", "-"): v for k, v in changes.items()}}


def refused(status: int, message: str) -> LiveCluster:
    """Return a cluster that answers the dry run with this status and message."""
    return make_live(dry_runs=(DryRun(RUN, "Job", "research", status, message),))


@dataclass(frozen=True)
class Case:
    """An environment on a cluster with one fault."""

    settings: Settings
    live: LiveCluster
    path: str
    message: str
    remedy: str
    severity: str = "error"


def enforcing(name: str, level: str) -> Body:
    """Return a namespace that enforces a Pod Security level."""
    return {"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}}}


OWN = "the environment declares it: run `trainstack up -s test`"
RUN = "workloads.runs[train]"
CASES: dict[str, list[Case]] = {
    "server-version": [
        Case(
            make_settings(make_run()),
            make_live(version="v1.28.9+k3s1"),
            "operators.kueue",
            "the cluster runs Kubernetes v1.28.9+k3s1, but Kueue requires v1.29 or later",
            "upgrade the cluster, or use another one",
        )
    ],
    "kind-missing": [
        Case(
            make_settings(make_distributed(), operators=Operators()),
            make_live(unserved=frozenset({"PyTorchJob"})),
            f"{RUN}.kind",
            "the cluster does not serve kind PyTorchJob (pytorchjobs.kubeflow.org) in the required version",
            "have the training operator installed, or declare operators.trainingOperator",
        ),
        Case(
            make_settings(make_mpijob(queue=None, priority=None), operators=Operators()),
            make_live(unserved=frozenset({"MPIJob"}), operators=operators(mpi_operator=TRAINING)),
            f"{RUN}.kind",
            "the cluster does not serve kind MPIJob (mpijobs.kubeflow.org) in the required version",
            "have the MPI operator installed",
        ),
        Case(
            make_settings(make_object(queue=None, priority=None), operators=Operators()),
            make_live(unserved=frozenset({"JAXJob"})),
            f"{RUN}.kind",
            "the cluster does not serve kind JAXJob (jaxjobs.kubeflow.org) in the required version",
            "have its operator installed",
        ),
        Case(
            make_settings(make_run()),
            make_live(unserved=frozenset({"LocalQueue"})),
            f"{RUN}.queue",
            "the cluster does not serve kind LocalQueue (localqueues.kueue.x-k8s.io) in the required version yet",
            OWN,
            "warning",
        ),
    ],
    "operator-unready": [
        Case(
            make_settings(make_mpijob(queue=None, priority=None), operators=Operators()),
            make_live(operators=operators(mpi_operator=None)),
            f"{RUN}.kind",
            "no Deployment or pod of the MPI operator was found, although the cluster serves MPIJob",
            "check whether it runs in another form: kubectl get pods -A; only if it does not, have it installed",
        ),
        Case(
            make_settings(make_run(), operators=Operators()),
            make_live(operators=operators(kueue=None)),
            f"{RUN}.queue",
            "no Deployment or pod of Kueue was found, although the cluster serves LocalQueue",
            "check whether it runs in another form: kubectl get pods -A; only if it does not, have it installed, or "
            "declare operators.kueue",
        ),
        Case(
            make_settings(make_run()),
            make_live(operators=operators(kueue=None)),
            "operators.kueue",
            "no Deployment or pod of Kueue was found yet",
            OWN,
            "warning",
        ),
        Case(
            make_settings(make_run()),
            make_live(operators=operators(training_operator=replace(TRAINING, ready=False, problems=("it crashes",)))),
            "operators.trainingOperator",
            "the training operator, Deployment kubeflow/training-operator, has no ready pod: it crashes",
            "read its logs: kubectl logs -n kubeflow deployment/training-operator",
        ),
        Case(
            make_settings(make_run(), environment=Environment(profile="tenant"), **ELSEWHERE),
            make_live(operators=None),
            f"{RUN}.queue",
            "whether Kueue is ready is unknown: an environment with profile 'tenant' does not read Deployments and "
            "pods",
            "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
            "unknown",
        ),
        Case(
            make_settings(make_distributed(), operators=Operators()),
            make_live(operators=operators(training_operator=replace(CHARM, ready=False, problems=("it crashes",)))),
            f"{RUN}.kind",
            "the training operator, Pod kubeflow/training-operator-0, is not ready: it crashes",
            "read its logs: kubectl logs -n kubeflow pod/training-operator-0 --all-containers",
        ),
    ],
    "operator-duplicate": [
        Case(
            make_settings(make_run()),
            make_live(operators=operators(training_operator=CHARM)),
            "operators.trainingOperator",
            "the training operator already runs as Pod kubeflow/training-operator-0, outside a Deployment: `up` "
            "would install a second one",
            "remove operators.trainingOperator from the settings, and use the one that runs",
        ),
    ],
    "version-clash": [
        Case(
            make_settings(make_run(), operators=Operators()),
            make_live(operators=operators(kueue=replace(KUEUE, image="registry.k8s.io/kueue/kueue:v0.14.4@sha256:ab"))),
            f"{RUN}.queue",
            "Kueue v0.14.4 does not serve kueue.x-k8s.io/v1beta2",
            "use Kueue v0.15.0 or later",
        ),
    ],
    "operator-version": [
        Case(
            make_settings(make_run()),
            make_live(operators=operators(kueue=replace(KUEUE, image="registry.k8s.io/kueue/kueue:v0.15.1"))),
            "operators.kueue",
            f"Kueue runs image registry.k8s.io/kueue/kueue:v0.15.1, but {KUEUE.image} is pinned",
            "run `trainstack up -s test` to replace it, or pin the image that runs",
            "warning",
        ),
        Case(
            make_settings(make_run()),
            make_live(operators=operators(kueue=replace(KUEUE, image="registry.k8s.io/kueue/kueue:v0.16.0"))),
            "operators.kueue",
            f"Kueue v0.16.0 runs, but the older v0.15.2 is declared: {DOWNGRADE_RISK}",
            "set operators.kueue.manifest to v0.16.0 or a later release",
        ),
        Case(
            make_settings(make_run()),
            # The tag of its image is a commit.
            make_live(operators=operators(training_operator=replace(TRAINING, release="v1.9.3"))),
            "operators.trainingOperator",
            f"the training operator v1.9.3 runs, but the older v1.2.3 is declared: {DOWNGRADE_RISK}",
            "set operators.trainingOperator.manifest to v1.9.3 or a later release",
        ),
    ],
    "kueue-unmodelled": [
        Case(
            make_settings(make_run(), operators=Operators()),
            make_live(operators=operators(kueue=replace(KUEUE, image="registry.k8s.io/kueue/kueue:v0.20.0"))),
            f"{RUN}.queue",
            "Kueue v0.20.0 admits the runs, and the verdicts are by the rules of v0.19; v0.20 is not compared",
            "submit the run, and read `trainstack status`",
            "unknown",
        )
    ],
    "webhook-silent": [
        Case(
            make_settings(make_run()),
            refused(500, "failed calling webhook mjob.kb.io"),
            RUN,
            "a dry run of a Job failed: failed calling webhook mjob.kb.io",
            "check the controller's pods: `kubectl get pods -A`",
        )
    ],
    "launch-refused": [
        Case(
            make_settings(make_run()),
            refused(403, 'jobs.batch is forbidden: User "x" cannot create resource "jobs" in API group "batch"'),
            RUN,
            "these credentials may not create a Job in namespace research",
            "ask the administrator of the namespace for the right",
        ),
        Case(
            make_settings(make_run()),
            refused(422, "ValidatingAdmissionPolicy 'queue' denied request: no queue"),
            RUN,
            "the cluster refuses its Job: ValidatingAdmissionPolicy 'queue' denied request: no queue",
            "correct what the message names, or ask the cluster's owner",
        ),
    ],
    "image-missing": [
        Case(
            make_settings(make_run()),
            make_live(unserved_images=(make_unserved(missing=True),)),
            f"{RUN}.image",
            "the registry does not have r.example.org/train:1",
            "run `trainstack image push train -s test`",
        ),
        Case(
            make_settings(make_run()),
            make_live(named_images=(UnreadImage(f"{RUN}.image.name", "r.example.org/a:1", "missing", "no"),)),
            f"{RUN}.image.name",
            "the registry does not have r.example.org/a:1",
            "correct the name, or have the image pushed",
        ),
        Case(
            make_settings(make_run()),
            make_live(unserved_images=(make_unserved(missing=False, reason="r.example.org does not answer"),)),
            f"{RUN}.image",
            "whether the registry has r.example.org/train:1 is unknown: r.example.org does not answer",
            "push it with `trainstack image push train -s test`",
            "unknown",
        ),
    ],
    "image-user": [
        Case(
            make_settings(make_run()),
            make_live(image_users=(ImageUser(f"{RUN}.image.name", "python:3.11", user),)),
            f"{RUN}.image.name",
            f"python:3.11 {problem}",
            "set `runAsUser`, or `security: baseline` in a namespace that accepts it",
        )
        for user, problem in (
            ("", "runs as root, and its pods have runAsNonRoot"),
            ("app:app", "has the user app, whose id the kubelet does not know"),
        )
    ],
    "registry-unreachable": [
        Case(
            make_settings(make_run()),
            make_live(named_images=(UnreadImage(f"{RUN}.image.name", "r.local/a:1", "unreachable", "host r.local"),)),
            f"{RUN}.image.name",
            "r.local/a:1: host r.local",
            "correct the host, or set `cluster.registry` and push the image with `trainstack image push`",
        ),
        Case(
            make_settings(make_run()),
            make_live(unserved_images=(make_unserved(missing=False, reason="host r", host_path=f"{RUN}.image.name"),)),
            f"{RUN}.image.name",
            "r.example.org/train:1: host r",
            "correct the host, then run `trainstack image push train -s test`",
        ),
    ],
    "pull-secret-unset": [
        Case(
            make_settings(make_run()),
            make_live(named_images=(UnreadImage(f"{RUN}.image.name", "r.example.org/a:1", "denied", "no"),)),
            f"{RUN}.image.name",
            "r.example.org/a:1: r.example.org requires a login",
            "create a Secret of type `kubernetes.io/dockerconfigjson`, and name it under `imagePullSecrets`",
            "warning",
        )
    ],
    "secret-missing": [
        Case(
            make_settings(make_run(image_pull_secrets=("registry",))),
            make_live(secrets={("research", "registry"): False}),
            f"{RUN}.imagePullSecrets[0]",
            "namespace research does not have Secret 'registry'",
            "create it in namespace research, or declare it under secrets",
        ),
        Case(
            make_settings(make_run(secret_env={"KEY": SecretValue(secret="store", key="key")})),
            make_live(secrets={("research", "store"): None}),
            f"{RUN}.secretEnv[KEY].secret",
            "whether namespace research has Secret 'store' is unknown: these credentials cannot read its metadata",
            "ask the cluster's owner to run `trainstack check --cluster` on the platform's environment",
            "unknown",
        ),
        Case(
            make_settings(
                make_run(
                    code=Code(git="https://git.example.org/a.git", revision="a" * 40, mount_path="/code", secret="git")
                )
            ),
            make_live(secrets={("research", "git"): False}),
            f"{RUN}.code.secret",
            "namespace research does not have Secret 'git'",
            "create it in namespace research, or declare it under secrets",
        ),
        Case(
            make_settings(
                make_run(managed=False, record=None, env_from=(EnvSource(config_map="plain"), EnvSource(secret="all")))
            ),
            make_live(secrets={("research", "all"): False}),
            f"{RUN}.envFrom[1].secret",
            "namespace research does not have Secret 'all'",
            "create it in namespace research, or declare it under secrets",
        ),
        Case(
            make_settings(make_manifest_run(make_manifest_job({"imagePullSecrets": [{"name": "registry"}]}))),
            make_live(secrets={("research", "registry"): False}),
            f"{RUN}.manifest.spec.template.spec.imagePullSecrets[0]",
            "namespace research does not have Secret 'registry'",
            "create it in namespace research, or declare it under secrets",
        ),
        Case(
            make_settings(cluster=ClusterSettings(loader=Loader(image_pull_secrets=("registry",)))),
            make_live(secrets={("research", "registry"): False}),
            "cluster.loader.imagePullSecrets[0]",
            "namespace research does not have Secret 'registry'",
            "create it in namespace research, or declare it under secrets",
        ),
    ],
    "namespace-unknown": [
        Case(
            make_settings(storage=make_storage(volumes=(make_volume(),)), environment=Environment()),
            make_live(namespaces={"research": False}),
            "storage.volumes[training].namespace",
            "the cluster does not have namespace 'research'",
            "have it created, or declare it under environment.namespaces",
        )
    ],
    "pods-forbidden": [
        Case(
            make_settings(
                make_run(capabilities=Capabilities(add=("CHOWN",))),
                environment=Environment(namespaces=(Namespace(name="research", adopt=True),)),
            ),
            make_live({"Namespace": (enforcing("research", "restricted"), named("other"))}),
            f"{RUN}.capabilities",
            "adds CHOWN: namespace research enforces Pod Security restricted",
            "remove it, or set the namespace's label pod-security.kubernetes.io/enforce: baseline",
        )
    ],
    "storage-class-unknown": [
        Case(
            make_settings(storage=make_storage(volumes=(make_volume(storage_class=None),))),
            make_live(),
            "storage.volumes[training].storageClass",
            "the cluster has no default StorageClass, and the claim names none",
            "set storageClass to one of: shared",
        ),
        Case(
            make_settings(storage=make_storage(classes=(), volumes=(make_volume(storage_class="share"),))),
            make_live(),
            "storage.volumes[training].storageClass",
            "the cluster does not have StorageClass 'share'",
            "did you mean shared? (or ask the cluster's owner to create it)",
        ),
        Case(
            make_settings(
                make_run(scratch=(Scratch(name="cache", mount_path="/cache", size="1Gi", storage_class="share"),)),
                environment=Environment(
                    namespaces=(Namespace(name="research"),), existing=Existing(storage_classes=("share",))
                ),
            ),
            make_live(),
            "workloads.runs[train].scratch[cache].storageClass",
            "the cluster does not have StorageClass 'share'",
            "did you mean shared? (or ask the cluster's owner to create it)",
        ),
        Case(
            make_settings(),
            make_live({"StorageClass": ()}),
            "storage.volumes[training].storageClass",
            "the cluster does not have StorageClass 'shared' yet",
            OWN,
            "warning",
        ),
    ],
    "class-differs": [
        Case(
            make_settings(),
            make_live({"StorageClass": (make_class(volumeBindingMode="Immediate"),)}),
            "storage.classes[shared].volumeBindingMode",
            "class shared has volumeBindingMode Immediate, but WaitForFirstConsumer is declared",
            "rename the declared class, or copy the live values",
        ),
        Case(
            make_settings(
                storage=make_storage(
                    classes=(
                        StorageClass(name="shared", provisioner="rancher.io/local-path", parameters={"type": "ssd"}),
                    )
                )
            ),
            make_live({"StorageClass": (make_class(parameters={"type": "disk"}),)}),
            "storage.classes[shared].parameters",
            "class shared has parameters {'type': 'disk'}, but {'type': 'ssd'} is declared",
            "rename the declared class, or copy the live values",
        ),
        Case(
            make_settings(),
            make_live(
                {
                    "StorageClass": (
                        make_class(metadata={"name": "shared", "labels": {STACK: "test"}}, parameters={"type": "disk"}),
                    )
                }
            ),
            "storage.classes[shared].parameters",
            "class shared has parameters {'type': 'disk'}, but none is declared",
            "`up` replaces the object; undo the edit if it must stay",
            "warning",
        ),
    ],
    "field-immutable": [
        Case(
            make_settings(queues=make_queues(topologies=(Topology(name="racks", levels=("block", "rack")),))),
            make_live({"Topology": (named("racks", spec={"levels": [{"nodeLabel": "rack"}]}),)}),
            "queues.topologies[racks].levels",
            "Topology racks has levels rack, but block, rack is declared",
            "undo the edit, or declare the object under another name",
        ),
        Case(
            make_settings(),
            make_live(
                {
                    "LocalQueue research": (
                        {
                            **make_local_queue(),
                            "metadata": {"name": "research", "labels": {STACK: "test"}},
                            "spec": {"clusterQueue": "old"},
                        },
                    )
                }
            ),
            "queues.localQueues[research].clusterQueue",
            "LocalQueue research/research has clusterQueue old, but research is declared",
            "`up` replaces the object; undo the edit if it must stay",
            "warning",
        ),
    ],
    "volume-unknown": [
        Case(
            with_existing_volume(make_run()),
            make_live({"PersistentVolumeClaim research": (make_claim("dataset", "ReadWriteMany"),)}),
            "environment.existing.volumes[data].name",
            "namespace research does not have PersistentVolumeClaim 'data'",
            "did you mean dataset? (or ask the cluster's owner to create it)",
        ),
    ],
    "volume-one-pod": [
        Case(
            with_existing_volume(make_distributed()),
            make_live({"PersistentVolumeClaim research": (make_claim("data", "ReadWriteOncePod"),)}),
            "workloads.runs[train].volumes[1].volume",
            "3 pods mount volume data, but only one can (ReadWriteOncePod)",
            "give the volume `ReadWriteMany`, or mount it in one role with one pod",
        ),
    ],
    "volume-one-node": [
        Case(
            with_existing_volume(make_distributed()),
            make_live({"PersistentVolumeClaim research": (make_claim("data", "ReadWriteOnce"),)}),
            "workloads.runs[train].volumes[1].volume",
            "3 pods mount volume data, which only one node can mount (ReadWriteOnce)",
            "give the volume `ReadWriteMany`, or make sure that the pods fit on one node",
            "warning",
        ),
    ],
    "volume-read-only": [
        Case(
            with_existing_volume(make_run()),
            make_live({"PersistentVolumeClaim research": (make_claim("data", "ReadOnlyMany"),)}),
            "workloads.runs[train].volumes[1].readOnly",
            "volume data is read-only (ReadOnlyMany), but it is mounted for writing",
            "set `readOnly: true` on the mount, or give the volume `ReadWriteMany`",
            "warning",
        ),
    ],
    "volume-access-mode": [
        Case(
            make_settings(storage=make_storage(classes=())),
            make_live({"StorageClass": (make_class(provisioner="rook-ceph.rbd.csi.ceph.com"),)}),
            "storage.volumes[training].accessModes",
            "class shared (rook-ceph.rbd.csi.ceph.com) does not support ReadWriteMany file systems",
            "use a class of shared storage (NFS, CephFS, …), or `ReadWriteOnce`",
        ),
        Case(
            make_settings(),
            make_live(local_path_shared=False),
            "storage.volumes[training].accessModes",
            "class shared (rancher.io/local-path) keeps volumes on one node: ReadWriteMany is not supported",
            "use accessModes: [ReadWriteOnce], or have sharedFileSystemPath added to its configuration",
        ),
    ],
    "queue-unknown": [
        Case(
            make_settings(make_run(queue="reserch"), **ELSEWHERE),
            make_live(),
            f"{RUN}.queue",
            "namespace research does not have LocalQueue 'reserch'",
            "did you mean research? (or ask the cluster's owner to create it)",
        )
    ],
    "queue-inactive": [
        Case(
            make_settings(make_run()),
            make_live({"ClusterQueue": (make_cluster_queue("Terminating"),)}),
            f"{RUN}.queue",
            "cluster queue research is being deleted",
            "the run waits until the owner of the queue corrects this",
        ),
        Case(
            make_settings(make_run()),
            make_live({"LocalQueue research": (make_local_queue("Stopped"),)}),
            f"{RUN}.queue",
            "queue research is stopped (stopPolicy): ask its owner to resume it",
            "the run waits until the owner of the queue corrects this",
            "warning",
        ),
    ],
    "priority-unknown": [
        Case(
            make_settings(make_run(priority="norml"), **ELSEWHERE),
            make_live(),
            f"{RUN}.priority",
            "the cluster does not have WorkloadPriorityClass 'norml'",
            "did you mean normal? (or ask the cluster's owner to create it)",
        )
    ],
    "flavor-nodes": [
        Case(
            make_settings(make_run()),
            make_live({"ResourceFlavor": (named("cpu", spec={"nodeLabels": {"pool": "a"}}),)}),
            f"{RUN}.queue",
            "the run would be assigned flavor cpu, but no node has its labels (pool=a)",
            "label the nodes, or correct the flavor's `nodeLabels`",
        )
    ],
    "node-resources": [
        Case(
            make_settings(make_run(resources=GPU)),
            make_live(),
            f"{RUN}.resources",
            "a pod requests 1 nvidia.com/gpu; the largest node has 0",
            "request less in each pod, or use larger nodes",
        ),
        Case(
            make_settings(make_run(node_selector={"nvidia.com/gpu.product": "A100"})),
            make_live({"Node": (make_node(labels={"nvidia.com/gpu.product": "H100"}), make_node("other"))}),
            f"{RUN}.nodeSelector",
            "no node of flavor cpu has the labels that the pods select (nvidia.com/gpu.product=A100); existing labels: "
            "nvidia.com/gpu.product=H100",
            "correct nodeSelector, or label the nodes",
        ),
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "3", "memory": "9Gi"}))),
            make_live({"Node": (make_node(cpu="4"), make_node("other", memory="16Gi"))}),
            f"{RUN}.resources",
            "no single node has everything that a pod requests (cpu=3, memory=9Gi)",
            "request less in each pod, or use larger nodes",
        ),
    ],
    "worker-incomplete": [
        Case(
            make_settings(make_run()),
            make_live(
                worker_needs={RUN: {"west": NEEDS}},
                workers={"west": WorkerCluster(missing=frozenset(NEEDS[2:]))},
            ),
            f"{RUN}.queue",
            "worker cluster west does not have LocalQueue research/research, Secret research/token",
            "declare it in that cluster's environment, with the namespace in `workloads.receives`, and deploy it there",
        ),
        Case(
            make_settings(make_run()),
            make_live(worker_needs={RUN: {"west": NEEDS}}, workers={"west": WorkerCluster(missing=frozenset(NEEDS))}),
            f"{RUN}.queue",
            "worker cluster west does not have Namespace research",
            "declare it in that cluster's environment, with the namespace in `workloads.receives`, and deploy it there",
        ),
        Case(
            make_settings(make_run()),
            make_live(
                worker_needs={RUN: {"west": NEEDS}}, workers={"west": WorkerCluster(unreadable=frozenset(NEEDS[3:]))}
            ),
            f"{RUN}.queue",
            "whether worker cluster west has Secret research/token is unknown",
            "ask its owner: these credentials may not read them",
            "unknown",
        ),
        Case(
            make_settings(make_run()),
            make_live(
                worker_needs={RUN: {"west": NEEDS}, "other": {"west": NEEDS}},
                workers={"west": WorkerCluster(problem="it cannot be reached", remedy="start it")},
            ),
            "queues.multiKueueClusters[west]",
            "it cannot be reached. It was not checked for what the runs need: LocalQueue research/research, Namespace "
            "research, Secret research/token, kind Job",
            "start it",
            "unknown",
        ),
    ],
}
