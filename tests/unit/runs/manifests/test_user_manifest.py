"""Launches of workloads that are manifests: every field is kept, and the additions are those of the decision."""

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.make import make_manifest_job, make_manifest_run
from tests.unit.runs.launches import LAUNCH_LABELS, make_launch
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import Facts, run_id
from trainstack.runs.manifests.build import longest_derived_name, manifest
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.manifests.user_manifest import (
    images_of_manifest,
    manifest_pod_sets,
    needs_image_user,
    roles_of_manifest,
    secrets_of_manifest,
)
from trainstack.settings.sections.workloads import Record, Workload

FACTS = Facts(image="busybox:1.37", data_digest=None, wrapper="trainstack-wrapper-0", commit="")


def build(workload: Workload, **facts: Any) -> dict[str, Any]:
    return manifest(workload, "lab", make_launch(**facts))


def make_pytorchjob(workers: int = 2, **container: Any) -> dict[str, Any]:
    template = make_manifest_job(name="pytorch", **container)["spec"]["template"]
    specs = {"Master": {"template": template}, "Worker": {"replicas": workers, "template": deepcopy(template)}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": specs}}


def make_appwrapper() -> dict[str, Any]:
    components = [{"template": {"apiVersion": "v1", "kind": "Service", "spec": {}}}, {"template": make_manifest_job()}]
    return {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": {"components": components}}


def test_a_job_gets_its_name_labels_and_annotations() -> None:
    launch = build(make_manifest_run())
    assert launch["metadata"] == {
        "name": "train-1-2",
        "namespace": "research",
        "labels": {
            "app": "mine",
            **LAUNCH_LABELS,
            "kueue.x-k8s.io/queue-name": "research",
            "app.kubernetes.io/managed-by": "trainstack",
            "trainstack.dev/stack": "lab",
        },
        "annotations": {"note": "kept", "pulumi.com/skipAwait": "true"},
    }
    template = make_manifest_job()["spec"]["template"]
    assert launch["spec"] == {"backoffLimit": 1, "template": {**template, "metadata": {"labels": LAUNCH_LABELS}}}


def test_a_job_without_labels_gets_those_of_its_template() -> None:
    """The API server adds them to a Job that has none, and `kubectl get jobs -l` finds it by them."""
    body = make_manifest_job()
    body["metadata"] = {}
    body["spec"]["template"]["metadata"] = {"labels": {"team": "a"}}
    assert build(make_manifest_run(body))["metadata"]["labels"]["team"] == "a"
    body["metadata"] = {"labels": {"app": "mine"}}
    assert "team" not in build(make_manifest_run(body))["metadata"]["labels"]


def test_kueue_suspends_a_queued_launch() -> None:
    body = make_manifest_job()
    body["spec"]["suspend"] = True
    assert "suspend" not in build(make_manifest_run(body))["spec"]
    assert build(make_manifest_run(body, queue=None))["spec"]["suspend"] is True
    job = make_pytorchjob()
    job["spec"]["runPolicy"] = {"suspend": True, "cleanPodPolicy": "None"}
    assert build(make_manifest_run(job))["spec"]["runPolicy"] == {"cleanPodPolicy": "None"}


def test_all_pods_of_a_pytorchjob_get_the_labels() -> None:
    specs = build(make_manifest_run(make_pytorchjob()))["spec"]["pytorchReplicaSpecs"]
    assert [spec["template"]["metadata"]["labels"] for spec in specs.values()] == [LAUNCH_LABELS] * 2
    sets = [*manifest_pod_sets("workloads.runs[train]", make_manifest_run(make_pytorchjob()))]
    assert [(pods.name, pods.count, pods.resources.requests["cpu"]) for pods in sets] == [
        ("master", 1, "500m"),
        ("worker", 2, "500m"),
    ]
    assert sets[1].resources_path == (
        "workloads.runs[train].manifest.spec.pytorchReplicaSpecs.Worker.template.spec.containers[pytorch].resources"
    )


def test_an_object_without_a_module_names_the_paths_of_its_pods() -> None:
    pods = [{"name": "main", "template": "spec.components[1].template.spec.template"}]
    section = {"framework": "workload.codeflare.dev/appwrapper", "pods": tuple(pods)}
    run = make_manifest_run(make_appwrapper(), object=section)
    assert run.kind == "Object"
    launch = build(run)
    assert launch["kind"] == "AppWrapper"
    labels = launch["spec"]["components"][1]["template"]["spec"]["template"]["metadata"]["labels"]
    assert labels == {**LAUNCH_LABELS, "trainstack.dev/role": "main"}
    assert launch["spec"]["components"][0] == make_appwrapper()["spec"]["components"][0]


def test_amounts_have_the_form_of_the_api_server() -> None:
    body = make_manifest_job(resources={"requests": {"cpu": 0.5, "memory": "1024Mi"}, "limits": {"nvidia.com/gpu": 1}})
    (container,) = build(make_manifest_run(body))["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}}


def test_a_patch_is_merged_by_the_keys_of_the_api() -> None:
    patch = {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "2"}]}]}}
    body = make_manifest_job(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}])
    (container,) = build(make_manifest_run(body, podPatch=patch))["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "A", "value": "2"}, {"name": "B", "value": "1"}]
    assert container["image"] == "busybox:1.37"


def test_pins_apply_to_all_images() -> None:
    body = make_manifest_job({"initContainers": [{"name": "fetch", "image": "git:1"}]})
    run = make_manifest_run(body)
    images = [(image.path, image.reference) for image in images_of_manifest("run", run)]
    spec = "run.manifest.spec.template.spec"
    assert images == [
        (f"{spec}.initContainers[fetch].image", "git:1"),
        (f"{spec}.containers[main].image", "busybox:1.37"),
    ]
    pins = {"git:1": "git:1@sha256:1", "busybox:1.37": "busybox:1.37@sha256:2"}
    spec = build(run, pinned_images=pins)["spec"]["template"]["spec"]
    assert [item["image"] for item in (*spec["initContainers"], *spec["containers"])] == [*pins.values()]


MANAGED = {"managed": True, "record": Record(volume="training")}


def test_the_wrapper_starts_the_program_of_the_main_container() -> None:
    sidecar = {"name": "sidecar", "image": "log:1"}
    body = make_manifest_job()
    body["spec"]["template"]["spec"]["containers"].insert(0, sidecar)
    launch = build(make_manifest_run(body, container="main", **MANAGED))
    spec = launch["spec"]["template"]["spec"]
    unchanged, main = spec["containers"]
    annotations = launch["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"kubectl.kubernetes.io/default-container": "main"}
    assert unchanged == sidecar
    assert main["command"] == ["python3", "/opt/trainstack/run.py", "--", "sh", "-c", "echo $HOME"]
    assert "args" not in main
    env = {variable["name"]: variable.get("value") for variable in main["env"]}
    assert env["TRAINSTACK_RECORD"] == "/mnt/training/runs"
    assert main["volumeMounts"] == [
        {"name": "training", "mountPath": "/mnt/training"},
        {"name": "trainstack-wrapper", "mountPath": "/opt/trainstack", "readOnly": True},
    ]
    assert [volume["name"] for volume in spec["volumes"]] == ["training", "trainstack-wrapper"]


def test_the_own_mount_of_the_record_is_used() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "training"}}
    body = make_manifest_job({"volumes": [claim]}, volumeMounts=[{"name": "data", "mountPath": "/work"}])
    (main,) = build(make_manifest_run(body, **MANAGED))["spec"]["template"]["spec"]["containers"]
    env = {variable["name"]: variable.get("value") for variable in main["env"]}
    assert env["TRAINSTACK_RECORD"] == "/work/runs"
    assert [mount["name"] for mount in main["volumeMounts"]] == ["data", "trainstack-wrapper"]


def test_a_managed_program_needs_its_command() -> None:
    with pytest.raises(WorkloadError, match="has no command"):
        build(make_manifest_run(make_manifest_job(command=[]), **MANAGED))


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"image": "busybox:1.38"}, False),
        ({"args": ["other"]}, False),
        ({"env": [{"name": "A", "value": "1"}]}, False),
        ({"resources": {"requests": {"cpu": "2"}}}, True),
        ({"securityContext": {"privileged": True}}, True),
    ],
)
def test_the_run_id_is_that_of_the_program(change: dict[str, Any], is_same: bool) -> None:
    first, second = make_manifest_run(), make_manifest_run(make_manifest_job(**change))
    assert (run_id(first, FACTS) == run_id(second, FACTS)) == is_same


def test_the_run_id_depends_on_the_object_around_the_pods() -> None:
    """Retries and deadlines do not change a result; the number of completions does."""
    ids = set()
    for changes in ({}, {"backoffLimit": 5}, {"activeDeadlineSeconds": 60}, {"completions": 3}):
        body = make_manifest_job()
        body["spec"] |= changes
        ids.add(run_id(make_manifest_run(body), FACTS))
    assert len(ids) == 2


def test_roles_have_the_program() -> None:
    (role,) = roles_of_manifest(make_manifest_run())
    assert (role.command, role.args, role.replicas) == (("sh", "-c"), ("echo $HOME",), 1)


def test_names_are_derived_from_the_object() -> None:
    assert longest_derived_name(make_manifest_run(), "x") == "x-xxxxx"
    body = make_manifest_job()
    body["spec"] |= {"completionMode": "Indexed", "completions": 20}
    assert longest_derived_name(make_manifest_run(body), "x") == "x-19-xxxxx"
    assert longest_derived_name(make_manifest_run(make_pytorchjob(11)), "x") == "x-worker-10"


def test_a_manifest_without_pods_is_refused() -> None:
    body = make_manifest_job()
    del body["spec"]["template"]
    with pytest.raises(WorkloadError, match="its manifest of kind Job lacks template"):
        build(make_manifest_run(body))


def test_secrets_are_found_wherever_pods_refer_to_them() -> None:
    container = {
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "variable", "key": "a"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "optional", "key": "b", "optional": True}}},
        ],
        "envFrom": [{"secretRef": {"name": "source"}}, {"configMapRef": {"name": "none"}}],
    }
    volumes = [
        {"name": "volume", "secret": {"secretName": "mounted"}},
        {"name": "all", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
    ]
    body = make_manifest_job({"volumes": volumes, "imagePullSecrets": [{"name": "pull"}]}, **container)
    spec = "run.manifest.spec.template.spec"
    assert [*secrets_of_manifest("run", make_manifest_run(body))] == [
        (f"{spec}.imagePullSecrets[0]", "pull"),
        (f"{spec}.containers[main].env[A].valueFrom.secretKeyRef", "variable"),
        (f"{spec}.containers[main].envFrom[0].secretRef", "source"),
        (f"{spec}.volumes[volume].secret", "mounted"),
        (f"{spec}.volumes[all].projected.sources[0].secret", "projected"),
    ]


def make_pod(**container: Any) -> dict[str, Any]:
    spec = make_manifest_job(**container)["spec"]["template"]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "mine"}}, "spec": spec}


def test_a_pod_is_its_own_template() -> None:
    """Amounts, pins, patches and the wrapper apply to it as to the pods of other kinds."""
    run = make_manifest_run(
        make_pod(resources={"requests": {"cpu": 0.5}}), podPatch={"spec": {"dnsPolicy": "Default"}}, **MANAGED
    )
    launch = build(run, pinned_images={"busybox:1.37": "busybox@sha256:1"})
    (container,) = launch["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "500m"}
    assert container["image"] == "busybox@sha256:1"
    assert container["command"][:3] == ["python3", "/opt/trainstack/run.py", "--"]
    assert launch["spec"]["dnsPolicy"] == "Default"
    assert launch["metadata"]["labels"].items() >= LAUNCH_LABELS.items()


def test_a_jobset_may_mount_the_claims_that_it_creates() -> None:
    claims = [{"templates": [{"metadata": {"name": "shared"}, "spec": {}}]}]
    launch = {"spec": {"volumeClaimPolicies": claims, "replicatedJobs": []}}
    assert [*WORKLOAD_KINDS["JobSet"].operator_volumes(launch)] == ["shared"]
    assert not WORKLOAD_KINDS["JobSet"].operator_volumes({"spec": {"replicatedJobs": []}})


@pytest.mark.parametrize(
    ("pod", "container", "expected"),
    [
        ({"runAsNonRoot": True}, {}, True),
        ({}, {"runAsNonRoot": True}, True),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, False),
        ({"runAsNonRoot": True, "runAsUser": 1000}, {}, False),
        ({"runAsNonRoot": True}, {"runAsUser": 1000}, False),
        ({}, {}, False),
    ],
)
def test_the_image_needs_a_user_if_the_pod_has_none(
    pod: dict[str, Any], container: dict[str, Any], expected: bool
) -> None:
    """The context of a container takes precedence."""
    body = make_manifest_job({"securityContext": pod}, securityContext=container)
    assert needs_image_user(make_manifest_run(body)) == expected
