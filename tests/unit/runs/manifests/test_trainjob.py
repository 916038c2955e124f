"""Workloads as TrainJobs, each with its TrainingRuntime."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_distributed, make_mount, make_runtime_run
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import LAUNCH_LABELS, OBJECT_LABELS, make_launch
from tests.unit.runs.runtimes import make_cluster_runtime, make_job
from trainstack.runs.errors import WorkloadError
from trainstack.runs.ledgers import Ledger, mounted_wrapper
from trainstack.runs.manifests.build import companions, manifest, plan_launch
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.trainjob import TRAINJOB
from trainstack.settings.sections.secrets import SecretValue
from trainstack.settings.sections.workloads import Record, Resources, Role, Workload

RANKS = [
    {"name": "MASTER_ADDR", "value": "train-1-2-node-0-0.train-1-2"},
    {"name": "MASTER_PORT", "value": "29500"},
    {"name": "WORLD_SIZE", "value": "3"},
    {
        "name": "RANK",
        "valueFrom": {
            "fieldRef": {
                "apiVersion": "v1",
                "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
            }
        },
    },
]
"""The variables of each of three nodes, which are those of a PyTorchJob's pods."""


def make_trainjob(**changes: Any) -> Workload:
    """Return `make_distributed` as a TrainJob."""
    return make_distributed(kind="TrainJob", **changes)


def runtime_of(workload: Workload) -> dict[str, Any]:
    """Return the workload's only companion."""
    (runtime,) = companions(workload, "dev", make_launch())
    return runtime


def job_of(workload: Workload) -> dict[str, Any]:
    """Return the Job in the workload's runtime."""
    (job,) = runtime_of(workload)["spec"]["template"]["spec"]["replicatedJobs"]
    spec: dict[str, Any] = job["template"]["spec"]
    return spec


def test_the_trainjob_has_the_program_and_the_runtime_has_the_pods() -> None:
    """Kueue sets `suspend` and `podTemplateOverrides`; volumes would be lost there, so the runtime has them."""
    workload = make_trainjob(managed=False, record=None, args=("--a",), env={"A": "1"}, annotations={"n": "m"})
    assert manifest(workload, "dev", make_launch()) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train-1-2", "namespace": "research", "labels": OBJECT_LABELS},
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "train-1-2"},
            "trainer": {
                "numNodes": 3,
                "numProcPerNode": 1,
                "image": "python:3.11",
                "command": ["python3", "train.py"],
                "args": ["--a"],
                "env": [{"name": "A", "value": "1"}, *RANKS],
                "resourcesPerNode": {"requests": {"cpu": "500m", "memory": "1Gi"}},
            },
        },
    }
    container = {
        "name": "node",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "training", "mountPath": "/mnt/training"}],
    }
    pod = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "training", "persistentVolumeClaim": {"claimName": "training"}}],
    }
    template = {"metadata": {"labels": LAUNCH_LABELS, "annotations": {"n": "m"}}, "spec": pod}
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": template},
    }
    own = {key: OBJECT_LABELS[key] for key in ("app.kubernetes.io/managed-by", "trainstack.dev/stack")}
    assert companions(workload, "dev", make_launch()) == (
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainingRuntime",
            "metadata": {"name": "train-1-2", "namespace": "research", "labels": {**LAUNCH_LABELS, **own}},
            "spec": {
                "mlPolicy": {"numNodes": 3, "torch": {}},
                "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}},
            },
        },
    )


def test_a_managed_run_is_recorded_by_node_0() -> None:
    """The wrapper uses RANK, as in a PyTorchJob. The runtime mounts it, and refers to its version."""
    workload = make_trainjob(run_as_user=1000, backoff_limit=3, active_deadline_seconds=60)
    launched = manifest(workload, "dev", make_launch())
    trainer = launched["spec"]["trainer"]
    assert trainer["command"] == ["python3", "/opt/trainstack/run.py", "--", "python3", "train.py"]
    variables = {entry["name"]: entry.get("value") for entry in trainer["env"]}
    assert variables["TRAINSTACK_RECORD"] == "/mnt/training/runs"
    assert (variables["WORLD_SIZE"], variables["RANK"], variables["TRAINSTACK_POD"]) == ("3", None, None)
    job = job_of(workload)
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (3, 60)
    assert violations(job["template"]["spec"]) == []
    ledger = Ledger(
        run_id="train-1",
        workload="train",
        namespace="research",
        attempt=1,
        launch_name="train-1-2",
        launch=launched,
        companions=companions(workload, "dev", make_launch()),
    )
    assert mounted_wrapper(ledger.objects) == "trainstack-wrapper-0"


def test_a_launch_is_named_after_both_of_its_objects() -> None:
    """A change of a field that only the runtime has makes another launch of the same run."""
    facts = make_launch().facts
    once, again = (plan_launch(make_trainjob(shared_memory=size), "dev", facts) for size in (None, "1Gi"))
    assert once.run_id == again.run_id
    assert once.name != again.name


@pytest.mark.parametrize(
    ("worker", "field"),
    [
        ({"args": ("--b",)}, "args"),
        ({"env": {"A": "2"}}, "env"),
        ({"volumes": ()}, "volumes"),
        ({"resources": Resources(limits={"nvidia.com/gpu": "1"})}, "resources"),
        ({"annotations": {"n": "m"}}, "annotations"),
        ({"restart_policy": "Never"}, "restartPolicy"),
    ],
)
def test_roles_that_differ_are_refused_with_the_field(worker: dict[str, Any], field: str) -> None:
    """All nodes of a TrainJob are equal."""
    workload = make_trainjob(roles={"Master": Role(), "Worker": Role(replicas=2, **worker)})
    message = (
        rf"^workload train: roles\.Worker\.{field} differs from Master's, but a TrainJob has one kind of node; use the "
        r"same value in all roles, or set kind to PyTorchJob$"
    )
    with pytest.raises(WorkloadError, match=message):
        manifest(workload, "dev", make_launch())
    with pytest.raises(WorkloadError, match=message):
        companions(workload, "dev", make_launch())


def test_equal_values_in_all_roles_are_no_difference() -> None:
    """The values of the pods count, not their place in the settings."""
    output = make_mount(volume="output", mount_path="/output")
    role: dict[str, Any] = {"env": {"A": "1"}, "volumes": (make_mount(), output)}
    workload = make_trainjob(roles={"Master": Role(**role), "Worker": Role(replicas=2, **role)})
    assert manifest(workload, "dev", make_launch())["spec"]["trainer"]["env"][0] == {"name": "A", "value": "1"}
    assert [volume["name"] for volume in job_of(workload)["template"]["spec"]["volumes"]][:2] == ["training", "output"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": {"PET_NNODES": "1"}}, "env sets PET_NNODES, which is reserved for Trainer; remove it"),
        ({"env": {"RANK": "1"}}, "env sets RANK, which is reserved for a TrainJob"),
        ({"roles": {"Master": Role(restart_policy="Always")}}, r"roles\.Master\.restartPolicy is Always"),
    ],
)
def test_values_that_a_trainjob_cannot_have_are_refused(changes: dict[str, Any], message: str) -> None:
    """They are never dropped silently."""
    with pytest.raises(WorkloadError, match=f"^workload train: {message}"):
        manifest(make_trainjob(**changes), "dev", make_launch())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ttl_seconds_after_finished": 60}, "a TrainJob has no ttlSecondsAfterFinished: leave it out"),
        ({"container": "pytorch"}, r"must be named node \(got pytorch\): leave out container"),
        ({"naming": "generated"}, "the nodes of a TrainJob resolve the first node's name: set naming to derived or"),
        ({"roles": {"Worker": Role()}}, r"a TrainJob needs roles\.Master: add it"),
    ],
)
def test_an_invalid_trainjob_is_refused(changes: dict[str, Any], message: str) -> None:
    """The settings refuse it before it is built."""
    with pytest.raises(ValidationError, match=message):
        make_trainjob(**changes)


def test_nodes_resolve_the_first_node_by_the_objects_name() -> None:
    """With `naming: fixed` it differs from the launch's name, which the runtime still has."""
    spec = manifest(make_trainjob(naming="fixed"), "dev", make_launch())["spec"]
    variables = {entry["name"]: entry.get("value") for entry in spec["trainer"]["env"]}
    assert variables["MASTER_ADDR"] == "train-node-0-0.train"
    assert spec["runtimeRef"]["name"] == "train-1-2"


def test_the_runtime_of_the_cluster_defines_the_pods() -> None:
    """The TrainJob has the program, the number of nodes and their resources, and no runtime of its own."""
    workload = make_runtime_run(
        args=("--a",), env={"A": "1"}, secret_env={"B": SecretValue(secret="s", key="k")}, seed=3, labels={"team": "a"}
    )
    assert manifest(workload, "dev", make_launch()) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train-1-2", "namespace": "research", "labels": {"team": "a", **OBJECT_LABELS}},
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
                "name": "torch-distributed",
            },
            "trainer": {
                "numNodes": 3,
                "image": "python:3.11",
                "command": ["python3", "train.py"],
                "args": ["--a"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "TRAINSTACK_SEED", "value": "3"},
                ],
                "resourcesPerNode": {"requests": {"cpu": "500m", "memory": "1Gi"}},
            },
        },
    }
    assert companions(workload, "dev", make_launch()) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"managed": True, "record": Record(volume="training")}, "do not contain the wrapper: set managed to false"),
        (
            {"shared_memory": "1Gi", "backoff_limit": 3, "volumes": (make_mount(),)},
            "runtime torch-distributed defines the pods: leave out backoffLimit, sharedMemory, volumes, or leave out",
        ),
        ({"roles": {"Master": Role(args=("--a",))}}, r"defines the pods: leave out roles\.Master\.args"),
        ({"kind": "PyTorchJob"}, "a PyTorchJob has no runtime"),
    ],
)
def test_settings_that_the_runtime_defines_are_refused(changes: dict[str, Any], message: str) -> None:
    """They are never dropped silently."""
    with pytest.raises(ValidationError, match=message):
        make_runtime_run(**changes)


def test_the_pods_of_a_runtime_have_the_settings_of_the_trainjob() -> None:
    """Trainer applies them to the container of the nodes alone. Variables of the runtime stay."""
    launch = manifest(make_runtime_run(env={"A": "1"}), "dev", make_launch())
    node = {"name": "node", "image": "pytorch", "env": [{"name": "A", "value": "0"}, {"name": "B", "value": "2"}]}
    proxy = {"name": "proxy", "image": "proxy"}
    runtime = make_cluster_runtime(
        make_job("dataset-initializer", {"name": "dataset-initializer", "image": "download"}),
        make_job("node", node, proxy, step="trainer"),
    )
    initializer, nodes = launched_pods(launch, (runtime,))
    assert (initializer.name, initializer.count) == ("dataset-initializer", 1)
    assert initializer.spec["containers"] == [{"name": "dataset-initializer", "image": "download"}]
    trainer = launch["spec"]["trainer"]
    changed_node = {
        "name": "node",
        "image": "python:3.11",
        "command": ["python3", "train.py"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": trainer["resourcesPerNode"],
    }
    assert (nodes.name, nodes.count, nodes.spec["containers"]) == ("node", 3, [changed_node, proxy])


def test_a_trainjob_without_a_number_of_nodes_has_that_of_its_runtime() -> None:
    """Its author may set neither the number nor a `trainer`, as for a runtime that fine-tunes a model."""
    launch = {"kind": "TrainJob", "metadata": {}, "spec": {"runtimeRef": {"name": "torchtune"}}}
    assert [pods.count for pods in launched_pods(launch)] == [1]
    runtime = make_cluster_runtime(make_job("node", {"name": "node", "image": "torchtune"}, step="trainer"))
    runtime["spec"]["mlPolicy"] = {"numNodes": 2}
    assert [pods.count for pods in launched_pods(launch, (runtime,))] == [2]


def test_the_pods_of_a_runtime_are_found_by_their_jobset() -> None:
    """They have no label of the launch. Its own runtime is read with a live launch, the cluster's is not."""
    launches = [manifest(workload, "dev", make_launch()) for workload in (make_trainjob(), make_runtime_run())]
    others = {**launches[0], "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "torch"}}}
    assert [TRAINJOB.pod_label(launch) for launch in (*launches, others)] == [
        ("trainstack.dev/launch", "train-1-2"),
        ("jobset.sigs.k8s.io/jobset-name", "train-1-2"),
        ("jobset.sigs.k8s.io/jobset-name", "train-1-2"),
    ]
    own, shared = map(TRAINJOB.companion_reference, launches)
    assert (own is None, shared) == (False, None)
