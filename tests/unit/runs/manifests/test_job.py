"""Workloads as Jobs."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_mount, make_run
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import LAUNCH_LABELS, OBJECT_LABELS, make_launch
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS, identity
from trainstack.runs.manifests.build import longest_derived_name, manifest
from trainstack.settings.base import Toleration
from trainstack.settings.sections.secrets import SecretValue
from trainstack.settings.sections.workloads import Data, Image, Mount, Resources, Role, Workload

UNMANAGED: dict[str, Any] = {"managed": False, "record": None}


def environment(workload: Workload, **facts: Any) -> dict[str, str]:
    """Return the container's variables that have a value."""
    built = manifest(workload, "dev", make_launch(**facts))
    (container,) = built["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


def test_a_managed_job() -> None:
    """The wrapper runs the command, with variables for the record. The pod has no token and no service links."""
    workload = make_run(
        args=("--output=$TRAINSTACK_OUTPUT",),
        env={"LR": "0.1"},
        seed=7,
        data=Data(manifest="data.json", volume="training", path="data/digits"),
        shared_memory="256Mi",
        run_as_user=1000,
        labels={"team": "a"},
        annotations={"note": "b"},
        working_dir="/work",
        active_deadline_seconds=3600,
        ttl_seconds_after_finished=60,
    )
    record = (
        '{"args":["--output=$$TRAINSTACK_OUTPUT"],"attempt":1,"command":["python3","train.py"],"commit":"abc",'
        '"data":"d1","env":{"LR":"0.1"},"image":"python:3.11","seed":7,"workload":"train"}'
    )
    assert manifest(workload, "dev", make_launch(data_digest="d1")) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train-1-2",
            "namespace": "research",
            "labels": {"team": "a", **OBJECT_LABELS},
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "activeDeadlineSeconds": 3600,
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "ttlSecondsAfterFinished": 60,
            "template": {
                "metadata": {"labels": {"team": "a", **LAUNCH_LABELS}, "annotations": {"note": "b"}},
                "spec": {
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "training",
                            "image": "python:3.11",
                            "imagePullPolicy": "IfNotPresent",
                            "command": [
                                "python3",
                                "/opt/trainstack/run.py",
                                "--",
                                "python3",
                                "train.py",
                                "--output=$TRAINSTACK_OUTPUT",
                            ],
                            "workingDir": "/work",
                            "env": [
                                {"name": "LR", "value": "0.1"},
                                {"name": "TRAINSTACK_RUN_ID", "value": "train-1"},
                                {"name": "TRAINSTACK_LAUNCH", "value": "train-1-2"},
                                {"name": "TRAINSTACK_RECORD", "value": "/mnt/training/runs"},
                                {"name": "TRAINSTACK_RUN", "value": record},
                                {
                                    "name": "TRAINSTACK_DATA",
                                    "value": '{"manifest":"d1","path":"/mnt/training/data/digits"}',
                                },
                                {"name": "TRAINSTACK_SEED", "value": "7"},
                                {
                                    "name": "TRAINSTACK_POD",
                                    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                                },
                            ],
                            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": [
                                {"name": "training", "mountPath": "/mnt/training"},
                                {"name": "trainstack-wrapper", "mountPath": "/opt/trainstack", "readOnly": True},
                                {"name": "trainstack-shared-memory", "mountPath": "/dev/shm"},
                            ],
                        }
                    ],
                    "enableServiceLinks": False,
                    "restartPolicy": "Never",
                    "securityContext": {
                        "fsGroup": 1000,
                        "runAsNonRoot": True,
                        "runAsUser": 1000,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "terminationGracePeriodSeconds": 60,
                    "volumes": [
                        {"name": "training", "persistentVolumeClaim": {"claimName": "training"}},
                        {"name": "trainstack-wrapper", "configMap": {"name": "trainstack-wrapper-0"}},
                        {
                            "name": "trainstack-shared-memory",
                            "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"},
                        },
                    ],
                },
            },
        },
    }


def test_an_unmanaged_job_has_only_the_users_values() -> None:
    """The training Job of a shared GPU service has its users' image, program and limits, and nothing else."""
    workload = make_run(
        name="train",
        priority=None,
        managed=False,
        record=None,
        image=Image(name="pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel"),
        command=("python3", "/mnt/ceph/example_pytorch_code.py"),
        backoff_limit=1,
        completions=1,
        ttl_seconds_after_finished=1800,
        security="baseline",
        resources=Resources(
            requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "1"}
        ),
        node_selector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
        tolerations=(Toleration(key="gpu", operator="Exists"),),
        volumes=(Mount(volume="pytorch-pvc", mount_path="/mnt/ceph"),),
    )
    labels = {key: value for key, value in OBJECT_LABELS.items() if key != "kueue.x-k8s.io/priority-class"}
    assert manifest(workload, "dev", make_launch(image="pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel")) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train-1-2",
            "namespace": "research",
            "labels": labels,
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "backoffLimit": 1,
            "completions": 1,
            "ttlSecondsAfterFinished": 1800,
            "template": {
                "metadata": {"labels": LAUNCH_LABELS},
                "spec": {
                    "containers": [
                        {
                            "name": "training",
                            "image": "pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel",
                            "command": ["python3", "/mnt/ceph/example_pytorch_code.py"],
                            "resources": {
                                "requests": {"cpu": "2", "memory": "1Gi"},
                                "limits": {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "1"},
                            },
                            "volumeMounts": [{"name": "pytorch-pvc", "mountPath": "/mnt/ceph"}],
                        }
                    ],
                    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
                    "restartPolicy": "Never",
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "volumes": [{"name": "pytorch-pvc", "persistentVolumeClaim": {"claimName": "pytorch-pvc"}}],
                },
            },
        },
    }


def test_a_data_loader_waits_and_stops_at_once() -> None:
    """Its shell handles SIGTERM, which `sleep` as the first process would ignore."""
    workload = make_run(
        kind="DataLoader", managed=False, record=None, command=(), image=Image(name="busybox"), run_as_user=1000
    )
    spec = manifest(workload, "dev", make_launch(image="busybox"))["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["name"] == "data-loader"
    assert container["command"] == ["sh", "-c", "trap 'exit 143' TERM; while :; do sleep 3600 & wait $!; done"]
    assert container["volumeMounts"] == [{"name": "training", "mountPath": "/mnt/training"}]
    assert violations(spec["template"]["spec"]) == []


def test_a_data_loader_may_have_its_own_command() -> None:
    """The reference system uses this one."""
    workload = make_run(kind="DataLoader", managed=False, record=None, command=("sleep", "infinity"))
    (container,) = manifest(workload, "dev", make_launch())["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["sleep", "infinity"]


@pytest.mark.parametrize(("managed", "completions", "mode"), [(True, 1, None), (True, 3, "Indexed"), (False, 3, None)])
def test_a_managed_job_of_several_runs_gives_each_an_index(managed: bool, completions: int, mode: str | None) -> None:
    """Each index has its own record. An unmanaged Job keeps its author's values."""
    spec = manifest(make_run(managed=managed, completions=completions), "dev", make_launch())["spec"]
    assert (spec["completions"], spec.get("completionMode")) == (completions, mode)


@pytest.mark.parametrize("managed", [True, False])
def test_a_job_that_may_start_with_fewer_pods_has_kueues_annotation(managed: bool) -> None:
    """`parallelism` is not changed: Kueue writes the admitted number into the live object."""
    built = manifest(make_run(managed=managed, completions=4, parallelism=3, min_parallelism=2), "dev", make_launch())
    assert built["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] == "2"
    assert built["spec"]["parallelism"] == 3


@pytest.mark.parametrize(("completions", "parallelism", "minimum"), [(1, 1, 1), (4, 2, 2), (2, 4, 3)])
def test_min_parallelism_must_be_below_the_number_of_pods(completions: int, parallelism: int, minimum: int) -> None:
    """Kueue refuses other values when the object is created."""
    at_once = min(completions, parallelism)
    message = f"minParallelism is {minimum}, but must be less than {at_once}"
    with pytest.raises(ValueError, match=message):
        make_run(completions=completions, parallelism=parallelism, min_parallelism=minimum)


def test_an_unmanaged_job_may_be_indexed_with_names_in_a_service() -> None:
    """Its controller names the pods by their index, of which the longest is validated."""
    indexed = make_run(**UNMANAGED, completions=3, completion_mode="Indexed", subdomain="peers")
    spec = manifest(indexed, "dev", make_launch())["spec"]
    assert (spec["completionMode"], spec["template"]["spec"]["subdomain"]) == ("Indexed", "peers")
    assert longest_derived_name(indexed, "train-1-2") == "train-1-2-2-xxxxx"
    plain = make_run(**UNMANAGED, completion_mode="NonIndexed")
    assert manifest(plain, "dev", make_launch())["spec"]["completionMode"] == "NonIndexed"
    assert identity(indexed, PLACEHOLDER_FACTS) != identity(make_run(**UNMANAGED, completions=3), PLACEHOLDER_FACTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"completion_mode": "Indexed"}, "a managed Job is indexed if it has several completions"),
        ({"subdomain": "peers"}, "the pods of a managed Job or Pod do not find each other: leave out subdomain"),
        ({**UNMANAGED, "completion_mode": "Indexed", "parallelism": 2}, "an indexed Job needs completions: add them"),
        ({**UNMANAGED, "kind": "Pod", "completion_mode": "Indexed"}, "a Pod has no completionMode"),
        ({"object_annotations": {"pulumi.com/x": "y"}}, "pulumi.com/x, which Trainstack or the engine reads"),
        (
            {"object_annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}},
            "objectAnnotations set kueue.x-k8s.io/job-min-parallelism: set minParallelism instead",
        ),
    ],
)
def test_indexes_and_annotations_without_effect_are_refused(changes: dict[str, Any], message: str) -> None:
    """The API server would refuse them, or Trainstack would replace them."""
    with pytest.raises(ValidationError, match=message):
        make_run(**changes)


@pytest.mark.parametrize("kind", ["Job", "Pod", "PyTorchJob", "TrainJob"])
def test_the_object_has_annotations_of_its_own(kind: str) -> None:
    """Those of the pods stay in the pods, except for a Pod, which is both."""
    roles = {} if kind in ("Job", "Pod") else {"Master": Role()}
    resume = {"sagemaker.amazonaws.com/enable-job-auto-resume": "true"}
    run = make_run(kind=kind, roles=roles, object_annotations=resume, annotations={"a": "b"})
    annotations = manifest(run, "dev", make_launch())["metadata"]["annotations"]
    assert annotations.items() >= resume.items()
    assert ("a" in annotations) is (kind == "Pod")


def test_a_bare_pod_is_managed_too() -> None:
    """It has the template of a Job's pods."""
    workload = make_run(kind="Pod", annotations={"note": "b"}, active_deadline_seconds=60)
    built, job = manifest(workload, "dev", make_launch()), manifest(make_run(), "dev", make_launch())
    assert built == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**job["metadata"], "annotations": {"note": "b", "pulumi.com/skipAwait": "true"}},
        "spec": {**job["spec"]["template"]["spec"], "activeDeadlineSeconds": 60},
    }


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        ({"managed": False}, None),
        ({"managed": False, "restart_policy": "Always"}, "Always"),
        ({"managed": False, "restart_policy": "Never"}, "Never"),
        ({"managed": False, "restart_policy": "OnFailure"}, "OnFailure"),
        ({}, "Never"),
        ({"restart_policy": "OnFailure"}, "OnFailure"),
    ],
)
def test_a_pod_has_the_restart_policy_of_the_settings(changes: dict[str, Any], policy: str | None) -> None:
    """An unmanaged Pod without one has no such field, so the cluster's default applies: Always."""
    run = make_run(kind="Pod", **changes)
    assert manifest(run, "dev", make_launch())["spec"].get("restartPolicy") == policy
    assert run.restarts_always == (policy in (None, "Always"))


def test_the_pods_of_an_unmanaged_job_have_a_restart_policy() -> None:
    """The API server refuses a Job without one, because the default would be Always."""
    run = make_run(managed=False)
    assert manifest(run, "dev", make_launch())["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert not run.restarts_always


def test_suspend_is_not_declared() -> None:
    """Otherwise every refresh would conflict with Kueue, which sets it."""
    assert "suspend" not in manifest(make_run(), "dev", make_launch())["spec"]


def test_the_record_survives_the_expansion_of_variables() -> None:
    """Kubernetes replaces `$$` by `$` and expands $(NAME) in values: the wrapper gets the original values."""
    variable = environment(make_run(args=("--a=$(HOME)", "--b=$$", "--c=$X")))["TRAINSTACK_RUN"]
    record = json.loads(variable.replace("$$", "$"))
    assert record["args"] == ["--a=$(HOME)", "--b=$$", "--c=$X"]


def test_the_wrapper_does_not_wait_for_data_on_a_volume_that_is_not_mounted() -> None:
    """It would wait in vain."""
    data = Data(manifest="data.json", volume="other", path="data")
    assert "TRAINSTACK_DATA" not in environment(make_run(data=data), data_digest="d1")


def test_a_reserved_variable_cannot_be_set() -> None:
    """Two values of one name would be ambiguous. The wrapper's own settings may be set."""
    with pytest.raises(WorkloadError, match="env sets TRAINSTACK_OUTPUT, TRAINSTACK_RUN_ID, which"):
        environment(make_run(env={"TRAINSTACK_RUN_ID": "x", "TRAINSTACK_OUTPUT": "y"}))
    assert environment(make_run(env={"TRAINSTACK_DATA_TIMEOUT": "60"}))["TRAINSTACK_DATA_TIMEOUT"] == "60"


def test_the_record_is_on_the_writable_mount_of_its_volume() -> None:
    """The first mount of the same claim may be read-only, for data."""
    mounts = (make_mount(mount_path="/data", read_only=True), make_mount(mount_path="/out"))
    assert environment(make_run(volumes=mounts))["TRAINSTACK_RECORD"] == "/out/runs"


@pytest.mark.parametrize(
    ("volumes", "state"), [((), "does not mount"), ((make_mount(read_only=True),), "mounts read-only")]
)
def test_a_managed_pod_must_be_able_to_write_its_record(volumes: tuple[Mount, ...], state: str) -> None:
    """The error names the volume and the remedy."""
    with pytest.raises(WorkloadError, match=f"{state} volume training.*without `readOnly`"):
        manifest(make_run(volumes=volumes), "dev", make_launch())


def test_a_claim_can_be_mounted_twice() -> None:
    """The pod has one volume with two mounts."""
    volumes = (make_mount(), make_mount(mount_path="/data", read_only=True))
    pod = manifest(make_run(volumes=volumes), "dev", make_launch())["spec"]["template"]["spec"]
    assert pod["containers"][0]["volumeMounts"][:2] == [
        {"name": "training", "mountPath": "/mnt/training"},
        {"name": "training", "mountPath": "/data", "readOnly": True},
    ]
    assert [volume["name"] for volume in pod["volumes"]] == ["training", "trainstack-wrapper"]


@pytest.mark.parametrize("managed", [True, False])
def test_pods_are_built_for_a_restricted_namespace_by_default(managed: bool) -> None:
    """This applies to managed and unmanaged runs."""
    workload = make_run(managed=managed, run_as_user=1000, shared_memory="1Gi")
    assert violations(manifest(workload, "dev", make_launch())["spec"]["template"]["spec"]) == []


def test_credentials_are_only_referenced() -> None:
    """Those of a registry, and in variables. A duplicate name of a variable is refused."""
    value = SecretValue(secret="object-store", key="id")
    workload = make_run(image_pull_secrets=("registry",), secret_env={"AWS_ACCESS_KEY_ID": value})
    pod = manifest(workload, "dev", make_launch())["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert {
        "name": "AWS_ACCESS_KEY_ID",
        "valueFrom": {"secretKeyRef": {"name": "object-store", "key": "id"}},
    } in pod["containers"][0]["env"]
    with pytest.raises(WorkloadError, match="env sets TRAINSTACK_RUN_ID, which is reserved for a managed workload"):
        manifest(make_run(secret_env={"TRAINSTACK_RUN_ID": value}), "dev", make_launch())
    with pytest.raises(ValidationError, match="env and secretEnv both set A: leave them out of one"):
        make_run(env={"A": "1"}, secret_env={"A": value})


def test_variables_from_secrets_precede_those_that_refer_to_them() -> None:
    """Kubernetes expands only references to earlier variables. Other variables keep their places."""
    secret = {name: SecretValue(secret="git", key=name) for name in ("TOKEN", "OTHER")}
    run = make_run(env={"A": "1", "URL": "https://$(TOKEN)@a", "B": "$$(OTHER)"}, secret_env=secret)
    env = manifest(run, "dev", make_launch())["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [variable["name"] for variable in env][:5] == ["TOKEN", "A", "URL", "B", "OTHER"]


def test_only_pods_whose_volumes_trainstack_writes_have_a_group() -> None:
    """An unmanaged run has only what its settings declare; a data loader copies files."""

    def security(**changes: Any) -> dict[str, Any]:
        body = manifest(make_run(run_as_user=1000, **changes), "dev", make_launch())
        context: dict[str, Any] = body["spec"]["template"]["spec"]["securityContext"]
        return context

    assert security()["fsGroup"] == 1000
    assert security(kind="DataLoader", managed=False, record=None)["fsGroup"] == 1000
    assert security(managed=False, record=None) == {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.parametrize("managed", [True, False])
def test_pods_have_an_api_token_only_with_a_service_account(managed: bool) -> None:
    """This applies to managed and unmanaged runs. An unmanaged baseline pod has no such field."""

    def account_fields(**changes: Any) -> list[Any]:
        pod = manifest(make_run(managed=managed, **changes), "dev", make_launch())["spec"]["template"]["spec"]
        return [pod.get("automountServiceAccountToken"), pod.get("serviceAccountName")]

    assert account_fields() == [False, None]
    assert account_fields(service_account="reader") == [None, "reader"]
    assert account_fields(security="baseline") == [False if managed else None, None]


def test_building_changes_no_input() -> None:
    """A change of a built manifest does not affect the next one."""
    workload = make_run(env={"A": "b"}, labels={"c": "d"}, node_selector={"e": "f"})
    before, first = workload.model_dump(), manifest(workload, "dev", make_launch())
    first["metadata"]["labels"]["c"] = first["spec"]["template"]["spec"]["nodeSelector"]["e"] = "changed"
    assert workload.model_dump() == before
    assert manifest(workload, "dev", make_launch())["metadata"]["labels"]["c"] == "d"
