"""Inputs of tests: small complete environments, of which a test sets only its subject."""

from collections.abc import Mapping
from typing import Any

from trainstack.settings.model import Settings
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import Expansion, number_sets, space_digest
from trainstack.settings.search_space.space import Objective, Parameter, Space
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import Kueue, KueueConfiguration, Manifest, Operators, TrainingOperator
from trainstack.settings.sections.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    PriorityClass,
    Queues,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
)
from trainstack.settings.sections.secrets import Encrypted, Secret
from trainstack.settings.sections.storage import Storage, StorageClass, Volume
from trainstack.settings.sections.sweeps import Sweep, Sweeps
from trainstack.settings.sections.workload_manifest import with_settings_of_manifest
from trainstack.settings.sections.workloads import (
    API_VERSIONS,
    Image,
    Mount,
    Record,
    Resources,
    Role,
    Workload,
    Workloads,
)

CIPHERTEXT = "v1:mEllewlEmDQ=:zRBUashAhE/c2+zN2piMTWYrywE="
"""A value in the form that the engine writes."""


def make_quota(name: str, nominal: str, **changes: Any) -> ResourceQuota:
    """Return the quota of one resource."""
    return ResourceQuota(name=name, nominal_quota=nominal, **changes)


def make_group(*flavors: tuple[str, dict[str, str]]) -> ResourceGroup:
    """Return a group of flavors, each with its quotas by resource."""
    return ResourceGroup(
        covered_resources=tuple(flavors[0][1]),
        flavors=tuple(
            FlavorQuotas(name=name, resources=tuple(make_quota(*quota) for quota in quotas.items()))
            for name, quotas in flavors
        ),
    )


def make_cluster_queue(**changes: Any) -> ClusterQueue:
    """Return the cluster queue `research`: 2 cpu and 8Gi on the flavor `cpu`, in the cohort `local`."""
    group = make_group(("cpu", {"cpu": "2", "memory": "8Gi"}))
    return ClusterQueue(**{"name": "research", "cohort": "local", "resource_groups": (group,), **changes})


def make_queues(**changes: Any) -> Queues:
    """Return the flavor, cohort, queues and priority of `make_settings`."""
    base = {
        "flavors": (ResourceFlavor(name="cpu"),),
        "cohorts": (Cohort(name="local"),),
        "cluster_queues": (make_cluster_queue(),),
        "local_queues": (LocalQueue(name="research", namespace="research", cluster_queue="research"),),
        "priority_classes": (PriorityClass(name="normal", value=1000),),
    }
    return Queues(**{**base, **changes})


def make_volume(**changes: Any) -> Volume:
    """Return the claim `training`: 2Gi of the class `shared`, for many writers."""
    base = {"name": "training", "namespace": "research", "storage_class": "shared", "size": "2Gi"}
    return Volume(**{**base, "access_modes": ("ReadWriteMany",), **changes})


def make_storage(**changes: Any) -> Storage:
    """Return the class and the claim of `make_settings`."""
    classes = (StorageClass(name="shared", provisioner="rancher.io/local-path"),)
    return Storage(**{"classes": classes, "volumes": (make_volume(),), **changes})


def make_mount(**changes: Any) -> Mount:
    """Return the claim `training` at /mnt/training."""
    return Mount(**{"volume": "training", "mount_path": "/mnt/training", **changes})


def make_secret(**changes: Any) -> Secret:
    """Return the Secret `git` of a user and a password."""
    values = {"username": Encrypted(secure=CIPHERTEXT), "password": Encrypted(secure=CIPHERTEXT)}
    base = {"name": "git", "namespace": "research", "type": "kubernetes.io/basic-auth", "values": values}
    return Secret(**{**base, **changes})


def make_manifest_job(spec: Mapping[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    """Return the manifest of a Job whose pods comply with `restricted`. `spec`: fields of its pods."""
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod_context = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    main = {
        "name": "main",
        "image": "busybox:1.37",
        "command": ["sh", "-c"],
        "args": ["echo $HOME"],
        "resources": resources,
        "securityContext": context,
        **container,
    }
    pod = {"restartPolicy": "Never", "securityContext": pod_context, "containers": [main], **(spec or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "pasted", "labels": {"app": "mine"}, "annotations": {"note": "kept"}},
        "spec": {"backoffLimit": 1, "template": {"spec": pod}},
    }


def make_manifest_run(manifest: Mapping[str, Any] | None = None, **changes: Any) -> Workload:
    """Return a run of a manifest, by default a Job, as it is loaded from files."""
    fields = {"name": "train", "namespace": "research", "queue": "research", **changes}
    fields["manifest"] = make_manifest_job() if manifest is None else manifest
    return Workload.model_validate(with_settings_of_manifest(fields, API_VERSIONS), by_alias=True, by_name=True)


def make_run(**changes: Any) -> Workload:
    """Return a managed Job on the queue `research`, of one pod with 1 cpu and 1Gi, recorded on `training`."""
    base = {
        "name": "train",
        "kind": "Job",
        "namespace": "research",
        "queue": "research",
        "priority": "normal",
        "image": Image(name="python:3.11"),
        "command": ("python3", "train.py"),
        "record": Record(volume="training"),
        "volumes": (make_mount(),),
        "resources": Resources(requests={"cpu": "1", "memory": "1Gi"}),
    }
    return Workload(**{**base, **changes})


def make_distributed(workers: int = 2, **changes: Any) -> Workload:
    """Return `make_run` as a PyTorchJob of a master and workers, each pod with 500m and 1Gi."""
    roles = {"Master": Role(), "Worker": Role(replicas=workers)}
    resources = Resources(requests={"cpu": "500m", "memory": "1Gi"})
    return make_run(**{"kind": "PyTorchJob", "roles": roles, "resources": resources, **changes})


def make_runtime_run(workers: int = 2, **changes: Any) -> Workload:
    """Return an unmanaged TrainJob of `make_distributed` whose pods the runtime `torch-distributed` defines."""
    unmanaged = {"managed": False, "record": None, "volumes": ()}
    return make_distributed(workers, **{"kind": "TrainJob", "runtime": "torch-distributed", **unmanaged, **changes})


def make_space(**changes: Any) -> Space:
    """Return a grid of four batch sizes, passed to the program as an argument, compared by validation accuracy."""
    base = {
        "method": "grid",
        "parameters": {"batch_size": Parameter(values=(32, 64, 128, 512))},
        "objective": Objective(metric="val_accuracy", direction="maximize"),
        "args": ("--batch-size=${parameters.batch_size}",),
    }
    return Space(**{**base, **changes})


def make_expansion(*sets: Mapping[str, Value], space: Space | None = None) -> Expansion:
    """Return the expansion of this space with these sets, by default those of `make_space`."""
    parameter_sets = sets or tuple({"batch_size": size} for size in (32, 64, 128, 512))
    return Expansion(space=space_digest(space or make_space()), sets=number_sets(parameter_sets))


def make_sweep(**changes: Any) -> Sweep:
    """Return the sweep `search` of `make_space`, expanded, in form `jobs`, of the program of `make_run`."""
    base = {"name": "search", "run": make_run(name="search"), "space": make_space(), "expansion": make_expansion()}
    return Sweep(**{**base, **changes})


def make_sweeps(**changes: Any) -> Sweeps:
    """Return the section with `make_sweep` alone."""
    return Sweeps(sweeps=(make_sweep(**changes),))


def make_manifest(**changes: Any) -> Manifest:
    """Return a release manifest at an address, so that no file is read."""
    return Manifest(**{"version": "v1.2.3", "url": "https://example.org/release.yaml", "sha256": "0" * 64, **changes})


def make_kueue(**configuration: Any) -> Kueue:
    """Return an install of Kueue with this configuration."""
    return Kueue(manifest=make_manifest(version="v0.15.2"), configuration=KueueConfiguration(**configuration))


def make_training_operator(**changes: Any) -> TrainingOperator:
    """Return an install of the training operator."""
    return TrainingOperator(**{"manifest": make_manifest(), "init_container_image": "busybox:1.35.0", **changes})


def make_settings(*runs: Workload, **changes: Any) -> Settings:
    """Return an environment of an owner with both layers, sufficient for `make_run` and `make_distributed`."""
    base = {
        "stack": "test",
        "environment": Environment(namespaces=(Namespace(name="research"),)),
        "storage": make_storage(),
        "queues": make_queues(),
        "operators": Operators(kueue=make_kueue(), training_operator=make_training_operator()),
        "workloads": Workloads(runs=runs),
    }
    return Settings(**{**base, **changes})
