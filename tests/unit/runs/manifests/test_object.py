"""Workloads as objects of kinds without their own module."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.live_objects import NOW
from tests.unit.make import make_run, make_settings
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import LAUNCH_LABELS, OBJECT_LABELS, make_launch
from trainstack.live.paths import collection_path
from trainstack.objects.labels import OBJECT
from trainstack.runs.identity import identity
from trainstack.runs.launches import live_launch
from trainstack.runs.ledgers import Ledger, ledger_config_map
from trainstack.runs.manifests.build import check_names, is_dispatched, manifest
from trainstack.runs.manifests.kind import Replicas
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.recorded_launches import RUNS_TYPE, recorded_launches, state_resource
from trainstack.runs.status.launch_kinds import (
    framework_of,
    kind_of_launch,
    launch_resource,
    mounted_claims,
    optional_kinds,
)
from trainstack.runs.status.pods import pod_views
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.runs.status.run_view import bare_view
from trainstack.settings.sections.kueue_object import KueueObject, ObjectPods, StatusValues
from trainstack.settings.sections.workloads import Role, Workload

WORKERS = ObjectPods(
    name="worker",
    template="spec.jaxReplicaSpecs.Worker.template",
    replicas="spec.jaxReplicaSpecs.Worker.replicas",
)
JAX: dict[str, Any] = {
    "api_version": "kubeflow.org/v1",
    "kind": "JAXJob",
    "framework": "kubeflow.org/jaxjob",
    "spec": {"runPolicy": {"cleanPodPolicy": "Running"}, "jaxReplicaSpecs": {"Worker": {"restartPolicy": "OnFailure"}}},
    "pods": (WORKERS,),
}
WRAPPED: dict[str, Any] = {
    "api_version": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "framework": "workload.codeflare.dev/appwrapper",
    "spec": {"components": [{"template": {"apiVersion": "v1", "kind": "Pod"}}]},
    "pods": (ObjectPods(name="one", template="spec.components[0].template.spec.template"),),
}


def make_object(declared: dict[str, Any] | None = None, **changes: Any) -> Workload:
    """Return `make_run` as a JAXJob with two workers and without volumes."""
    base = {"kind": "Object", "managed": False, "record": None, "volumes": (), "container": "jax"}
    roles = {"worker": Role(replicas=2)}
    return make_run(**{**base, "object": KueueObject(**{**JAX, **(declared or {})}), "roles": roles, **changes})


def make_live(**status: Any) -> dict[str, Any]:
    """Return a live JAXJob with this status."""
    body = manifest(make_object(), "dev", make_launch())
    return {**body, "metadata": {**body["metadata"], "creationTimestamp": NOW, "uid": "1"}, "status": status}


def test_templates_are_inserted_at_the_declared_paths() -> None:
    """They are built as for any kind; the declared spec is not changed."""
    workload = make_object(security="baseline")
    assert workload.object is not None
    container: dict[str, Any] = {"name": "jax", "image": "python:3.11", "command": ["python3", "train.py"]}
    container |= {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    labels = {**LAUNCH_LABELS, "trainstack.dev/role": "worker"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    paths = [{"name": "worker", "template": WORKERS.template, "replicas": WORKERS.replicas}]
    before = workload.object.model_dump()
    launch = manifest(workload, "dev", make_launch())
    assert json.loads(launch["metadata"].pop("annotations")[OBJECT]) == {"pods": paths}
    assert launch == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "JAXJob",
        "metadata": {"name": "train-1-2", "namespace": "research", "labels": OBJECT_LABELS},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running"},
            "jaxReplicaSpecs": {"Worker": {"restartPolicy": "OnFailure", "template": template, "replicas": 2}},
        },
    }
    assert workload.object.model_dump() == before


def test_pods_are_read_by_the_declared_paths() -> None:
    """The settings are not needed: the launch and its ledger have the paths."""
    launch = manifest(make_object(run_as_user=1), "dev", make_launch())
    (pods,) = launched_pods(launch)
    assert (pods.name, pods.count, violations({**pods.spec})) == ("worker", 2, [])
    assert mounted_claims(launch) == ()
    del launch["spec"]["jaxReplicaSpecs"]["Worker"]["replicas"]
    assert [pods.count for pods in launched_pods(launch)] == [1]
    (single,) = launched_pods(manifest(make_object(WRAPPED, roles={"one": Role()}), "dev", make_launch()))
    assert (single.name, single.count, single.spec["containers"][0]["name"]) == ("one", 1, "jax")
    assert [(pod_set.path, pod_set.name, pod_set.count) for pod_set in pod_sets("run", make_object())] == [
        ("run.roles.worker", "worker", 2)
    ]
    assert not is_dispatched(launch)


@pytest.mark.parametrize("path", ["spec.components[1].template", "spec.components[0]"])
def test_paths_into_lists_of_files(path: str) -> None:
    """The loader converts lists to tuples."""
    declared = {"spec": {"components": (None, {"a": 1})}, "pods": (ObjectPods(name="one", template=path),)}
    launch = manifest(make_object(declared, roles={"one": Role()}), "dev", make_launch())
    assert [pods.name for pods in launched_pods(launch)] == ["one"]
    with pytest.raises(ValidationError, match=r"already sets spec\.components\[1\]\.a"):
        make_object({**declared, "pods": (ObjectPods(name="one", template="spec.components[1].a"),)})


@pytest.mark.parametrize(
    ("spec", "status", "phase"),
    [
        ({"runPolicy": {"suspend": True}}, {}, "queued"),
        ({"suspend": True}, {"phase": "Suspended"}, "queued"),
        ({}, {"conditions": [{"type": "Running", "status": "True"}]}, "running"),
        ({}, {"conditions": [{"type": "Succeeded", "status": "True"}]}, "succeeded"),
        ({}, {"phase": "Succeeded"}, "succeeded"),
        ({}, {"phase": "Failed"}, "failed"),
    ],
)
def test_the_phase_of_an_object(spec: dict[str, Any], status: dict[str, Any], phase: str) -> None:
    """It is derived from the fields that kinds of jobs share."""
    body = make_live(**status)
    body["spec"] |= spec
    assert live_launch(body).phase == phase


@pytest.mark.parametrize(
    ("state", "phase"), [("RUNNING", "running"), ("COMPLETED", "succeeded"), ("FAILED", "failed"), ("LOST", "failed")]
)
def test_the_phase_by_declared_fields(state: str, phase: str) -> None:
    """The kind does not have the usual conditions. Only the launch is read."""
    path = "status.applicationState.state"
    ends = {
        "succeeded": StatusValues(path=path, values=("COMPLETED",)),
        "failed": StatusValues(path=path, values=("FAILED", "LOST")),
    }
    body = {**manifest(make_object(ends), "dev", make_launch()), "status": {"applicationState": {"state": state}}}
    body["metadata"]["creationTimestamp"] = NOW
    assert live_launch(body).phase == phase
    # The declared fields replace the usual ones.
    body["status"] |= {"phase": "Succeeded", "conditions": [{"type": "Failed", "status": "True"}]}
    assert live_launch(body).phase == phase


@pytest.mark.parametrize("annotation", [None, "no JSON", "[]", '{"pods": null}', '{"pods": [{}]}', '{"failed": {}}'])
def test_an_edited_annotation_leaves_its_pods_unknown(annotation: str | None) -> None:
    """The launch can still be read."""
    body = make_live(conditions=[{"type": "Failed", "status": "True"}])
    body["metadata"]["annotations"] = {OBJECT: annotation} if annotation else None
    assert (launched_pods(body), live_launch(body).phase, bare_view(body).replicas) == ((), "failed", ())


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": {"Ready": True}},
        {"conditions": ["Ready", {"reason": "Ready"}]},
        {"phase": {"name": "Running"}},
        {"replicaStatuses": [{"name": "Worker"}]},
        {"replicaStatuses": {"Worker": 2}},
    ],
)
def test_a_status_of_another_form(status: dict[str, Any]) -> None:
    """A definition may use the usual names with any type; then the launch counts as running."""
    view = bare_view(make_live(**status))
    assert (view.launch.phase, view.replicas) == ("running", (Replicas("worker", 2),))


def test_pods_that_the_api_server_dropped() -> None:
    """The kind does not have the path. Every command can still read the launch."""
    body = make_live()
    del body["spec"]["jaxReplicaSpecs"]["Worker"]["template"]
    assert (launched_pods(body), mounted_claims(body), bare_view(body).replicas) == ((), (), ())


def test_the_replicas_and_pods_of_an_object() -> None:
    """The counts are read from the status if it has the form of Kubeflow's kinds."""
    assert bare_view(make_live(replicaStatuses={"Worker": {"active": 2}})).replicas == (
        Replicas("worker", 2, active=2),
    )
    assert kind_of_launch("JAXJob").replicas(make_live()) == (Replicas("worker", 2),)
    pods = [
        {"metadata": {"name": name, "uid": name, "labels": {"trainstack.dev/role": "worker"}}} for name in ("b", "a")
    ]
    assert [(view.role, view.index, view.name) for view in pod_views(pods, "JAXJob")] == [
        ("worker", 0, "a"),
        ("worker", 1, "b"),
    ]


def test_an_object_is_found_on_a_cluster() -> None:
    """Through its ledger and through the engine's state, with the rights for its kind."""
    launch = manifest(make_object(), "dev", make_launch())
    ledger = Ledger(
        run_id="train-1", workload="train", namespace="research", attempt=1, launch_name="train-1-2", launch=launch
    )
    assert ledger_config_map("dev", ledger)["metadata"]["labels"]["trainstack.dev/kind"] == "JAXJob"
    urn = f"urn:pulumi:dev::trainstack::{RUNS_TYPE}$kubernetes:kubeflow.org/v1:JAXJob::train-1-2"
    (recorded,) = recorded_launches("dev", [state_resource(urn, launch)])
    assert (recorded.api_version, recorded.kind, recorded.name) == ("kubeflow.org/v1", "JAXJob", "train-1-2")
    bare = {**launch, "metadata": {**launch["metadata"], "annotations": {}}}
    assert recorded_launches("dev", [state_resource(urn, bare)]) == ()
    (refreshed,) = recorded_launches("dev", [state_resource(urn, {**bare, "__inputs": launch})])
    assert refreshed == recorded
    assert launch_resource(make_object()) == ("kubeflow.org", "jaxjobs")
    assert optional_kinds(make_settings(make_object())) == (("kubeflow.org", "jaxjobs"),)
    assert framework_of(make_object()) == "kubeflow.org/jaxjob"
    assert collection_path("kubeflow.org/v1", "JAXJob", "a") == "/apis/kubeflow.org/v1/namespaces/a/jaxjobs"
    with pytest.raises(KeyError):
        collection_path("apps/v1", "Unknown", "a")


def test_the_declared_spec_is_part_of_the_identity() -> None:
    """The number of pods is part of it too."""

    def identity_of(**changes: Any) -> Any:
        return identity(make_object(**changes), make_launch().facts)

    assert identity_of() != identity_of(roles={"worker": Role(replicas=3)})
    assert identity_of() != identity_of(declared={"spec": {}})
    assert identity_of() == identity_of(declared={"framework": "example.com/jaxjob"})
    check_names(make_object(), "train-1-2")


@pytest.mark.parametrize(
    ("declared", "changes", "problem"),
    [
        (
            {},
            {"managed": True},
            "an Object may start its processes outside the wrapper: set managed",
        ),
        ({}, {"object": None}, "an Object needs object, with its apiVersion, kind, framework and pods: add it"),
        ({}, {"kind": "Job", "roles": {}}, "a Job has no object"),
        ({"kind": "RayJob"}, {}, "RayJob is a kind of its own: set kind to it, and leave out object"),
        (
            {"framework": "leaderworkerset.x-k8s.io/leaderworkerset"},
            {},
            "Kueue makes several Workloads of one object of framework leaderworkerset",
        ),
        ({}, {"active_deadline_seconds": 60}, "activeDeadlineSeconds has no known place in an Object"),
        ({}, {"roles": {}}, r"object\.pods has the role worker, which roles lacks: add roles\.worker"),
        (
            {},
            {"roles": {"worker": Role(), "workr": Role()}},
            r"roles has workr, which object\.pods lacks: did you mean",
        ),
        (
            {},
            {"roles": {"worker": Role(restart_policy="ExitCode")}},
            "pods of worker cannot have restartPolicy ExitCode",
        ),
        ({"pods": (WORKERS, WORKERS)}, {}, "several entries named worker"),
        (
            {"pods": (ObjectPods(name="worker", template=WORKERS.template),)},
            {},
            "worker has 2 replicas: set the path of their number",
        ),
        (
            {"spec": {"jaxReplicaSpecs": {"Worker": {"template": {}}}}},
            {},
            r"already sets spec\.jaxReplicaSpecs\.Worker\.template",
        ),
        (
            {"pods": (ObjectPods(name="worker", template="spec.a[0]"),), "spec": {"a": "text"}},
            {"roles": {"worker": Role()}},
            r"spec\.a\[0\] leads to no field, since spec\.a is not a list: add it",
        ),
        (
            {"spec": {"jaxReplicaSpecs": []}},
            {},
            r"since spec\.jaxReplicaSpecs is a list, whose elements are written as spec\.jaxReplicaSpecs\[0\]: add it",
        ),
        (
            {
                "pods": (ObjectPods(name="worker", template="spec.components[1].template"),),
                "spec": {"components": [{}]},
            },
            {"roles": {"worker": Role()}},
            r"\[1\]\.template leads to no field, since spec\.components has 1 element, counted from 0: add it to spec",
        ),
        (
            {"pods": (ObjectPods(name="worker", template="spec.components[0].template"),)},
            {"roles": {"worker": Role()}},
            r"leads to no field, since spec\.components is missing: add it to spec",
        ),
    ],
)
def test_an_invalid_object_is_refused(declared: dict[str, Any], changes: dict[str, Any], problem: str) -> None:
    """Each fault has its remedy."""
    with pytest.raises(ValidationError, match=problem):
        make_object(declared, **changes)


@pytest.mark.parametrize(
    ("field", "value"),
    [("api_version", "apps/v1"), ("api_version", "v1"), ("kind", "jaxJob"), ("pods", ()), ("framework", "JAX job")],
)
def test_an_invalid_kind_is_refused(field: str, value: Any) -> None:
    """Kubernetes' own kinds are refused too: they have other settings."""
    with pytest.raises(ValidationError):
        KueueObject(**{**JAX, field: value})
