"""Operators are recognized on a cluster whatever owns the pods of their controllers."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run, make_settings
from trainstack.live import environment
from trainstack.live.client import Answer
from trainstack.live.controllers import DEPLOYMENTS, LISTS, PODS, Controllers, controllers, split_image
from trainstack.platform.operators.kueue import CONFIG_KEY
from trainstack.preflight.live_context import Operator
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.settings.sections.operators import Operators

Body = dict[str, Any]
CHARM = "registry.jujucharms.com/charm/5t9i/training-operator-image@sha256:ab"
JUJU = {"app.kubernetes.io/name": "training-operator"}
TRAINING = OPERATORS["training-operator"]


def make_deployment(name: str, image: str, *, labels: Mapping[str, str] | None = None, ready: int = 1) -> Body:
    """A controller as its release installs it, in a namespace of somebody's choice."""
    pod = {"containers": [{"name": "kube-rbac-proxy", "image": "proxy:v1"}, {"name": "manager", "image": image}]}
    return {
        "metadata": {"name": name, "namespace": "ops", "labels": dict(labels or {})},
        "spec": {"selector": {}, "template": {"spec": pod}},
        "status": {"readyReplicas": ready},
    }


def make_controller_pod(
    name: str, *images: str, labels: Mapping[str, str] = JUJU, ready: bool = True, **metadata: Any
) -> Body:
    """A pod with a container for each image, the first of them a supervisor's."""
    containers = [{"name": f"container-{number}", "image": image} for number, image in enumerate(images)]
    return {
        "metadata": {"name": name, "namespace": "kubeflow", "labels": dict(labels), **metadata},
        "spec": {"containers": containers},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


STATEFUL = make_controller_pod("training-operator-0", "jujusolutions/charm-base:ubuntu-20.04", CHARM)


def test_an_operator_in_a_stateful_set_is_found_by_its_pod() -> None:
    """By the image of one of its containers; the other one supervises it."""
    found = Controllers((), (STATEFUL,)).find(TRAINING)
    assert found is not None
    assert (found.kind, found.namespace, found.ready) == ("Pod", "kubeflow", True)
    assert found.container["image"] == CHARM


@pytest.mark.parametrize(
    "pod",
    [
        make_controller_pod("mirrored", "mirror/operator:1", labels={"control-plane": "kubeflow-training-operator"}),
        make_controller_pod("renamed", "host:5000/kubeflow/training-operator:v1-855e096"),
        {
            **make_controller_pod("training-operator-0"),
            "spec": {"containers": [{"name": "training-operator", "image": "mirror/operator:1"}]},
        },
    ],
    ids=["by its label", "by its image", "by its container"],
)
def test_a_pod_is_an_operators_by_any_of_its_marks(pod: Body) -> None:
    """Whoever mirrors its image under another name leaves its labels or its container's name."""
    found = Controllers((), (pod,)).find(TRAINING)
    assert found is not None
    assert found.body is pod


def test_a_pod_that_only_installs_an_operator_is_not_taken_for_it() -> None:
    """A newer charm has a pod of the operator's name, and makes a Deployment for the operator itself."""
    charm = make_controller_pod("training-operator-0", "jujusolutions/charm-base:ubuntu-22.04")
    assert Controllers((), (charm,)).find(TRAINING) is None
    deployment = make_deployment("training-operator", "docker.io/kubeflow/training-operator:v1-aaaaaaa")
    found = Controllers((deployment,), (charm,)).find(TRAINING)
    assert found is not None
    assert found.body is deployment


def test_a_deployment_comes_before_its_own_pods() -> None:
    """The one of the release's name first, in whatever namespace; the proxy in its pods is not its controller."""
    other = make_deployment("my-kueue", "registry.k8s.io/kueue/kueue:v0.15.2")
    named = make_deployment("kueue-controller-manager", "mirror/queues:1", ready=0)
    pod = make_controller_pod("kueue-controller-manager-5d", "registry.k8s.io/kueue/kueue:v0.15.2")
    for deployments, body in (((other, named), named), ((other,), other)):
        found = Controllers(deployments, (pod,)).find(OPERATORS["kueue"])
        assert found is not None
        assert (found.kind, found.body["metadata"]["name"]) == ("Deployment", body["metadata"]["name"])
        assert found.container["name"] == "manager"
        assert found.ready is (body is other)


def test_a_pod_that_is_ready_stands_for_all() -> None:
    """One that is being deleted does not: a StatefulSet of two in the middle of an update still works."""
    going = make_controller_pod("training-operator-0", CHARM, deletionTimestamp="2026-01-02T03:04:05Z")
    starting = make_controller_pod("training-operator-1", CHARM, ready=False)
    found = Controllers((), (going, starting)).find(TRAINING)
    assert found is not None
    assert (found.ready, found.pods) == (False, (starting,))
    found = Controllers((), (going, starting, STATEFUL)).find(TRAINING)
    assert found is not None
    assert (found.ready, found.body) == (True, STATEFUL)


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}},
        {"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "training-operator-5d"}]}},
        {"status": {"phase": "Failed"}},
    ],
)
def test_a_pod_that_is_left_of_an_operator_is_not_taken_for_it(changes: Body) -> None:
    """After a teardown, or on a node that was lost."""
    pod = {key: {**value, **changes.get(key, {})} for key, value in STATEFUL.items()}
    assert Controllers((), (pod,)).find(TRAINING) is None


def test_operators_are_told_apart() -> None:
    """Many controllers have kubebuilder's label; of whom a pod is, its image says."""
    labels = {"control-plane": "controller-manager"}
    images = {
        "kueue": "registry.k8s.io/kueue/kueue:v0.15.2",
        "jobset": "registry.k8s.io/jobset/jobset:v0.10.1",
        "trainer": "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.1.0",
    }
    pods = tuple(make_controller_pod(name, image, labels=labels) for name, image in images.items())
    others = (make_controller_pod("cert-manager", "quay.io/jetstack/cert-manager:v1", labels=labels),)
    found = {name: Controllers((), (*others, *pods)).find(facts) for name, facts in OPERATORS.items()}
    assert {name: each and each.body["metadata"]["name"] for name, each in found.items()} == {
        **{name: name for name in images},
        **dict.fromkeys(("training-operator", "kuberay", "mpi-operator")),
    }


def test_operators_that_are_not_installed_here_are_recognized() -> None:
    """As their own manifests and charts install them."""
    ray = make_deployment("kuberay-operator", "quay.io/kuberay/operator:v1.5.1")
    named = make_deployment("ray", "mirror/operator:1", labels=OPERATORS["kuberay"].labels)
    mpi = make_deployment("mpi-operator", "mpioperator/mpi-operator:0.7.0")
    for name, body in (("kuberay", ray), ("kuberay", named), ("mpi-operator", mpi)):
        found = Controllers((body,), ()).find(OPERATORS[name])
        assert found is not None
        assert found.body is body


def test_lists_that_may_not_be_read_are_not_taken_for_empty() -> None:
    """Neither Deployments nor pods; a pod that both lists hold is one."""
    answers = {DEPLOYMENTS: Answer(200, {"items": []}), **{path: Answer(200, {"items": [STATEFUL]}) for path in PODS}}
    assert controllers(answers) == Controllers((), (STATEFUL,))
    for path in LISTS:
        assert controllers({**answers, path: Answer(403, {})}) is None


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("busybox", ("busybox", "")),
        ("host:5000/kueue/kueue:v0.15.2@sha256:ab", ("kueue", "v0.15.2")),
        ("host:5000/training-operator@sha256:ab", ("training-operator", "")),
    ],
)
def test_an_image_is_split_into_its_last_part_and_its_tag(image: str, parts: tuple[str, str]) -> None:
    """A colon before the last slash is a port's."""
    assert split_image(image) == parts


def make_cluster(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Answer]) -> list[str]:
    """A cluster with these answers, empty otherwise; returns what it will be asked."""
    asked: list[str] = []

    async def connect(_: str | None) -> object:
        async def version() -> dict[str, str]:
            await asyncio.sleep(0)
            return {"gitVersion": "v1.34.4"}

        return SimpleNamespace(version=version)

    async def get_all(_: object, paths: Iterable[str], **__: bool) -> dict[str, Answer]:
        asked.extend(paths)
        return {path: answers.get(path, Answer(200, {"items": []})) for path in paths}

    async def read_lists(*_: object) -> dict[str, None]:
        await asyncio.sleep(0)
        return {}

    async def dry_run(*_: object) -> list[tuple[int, str]]:
        await asyncio.sleep(0)
        return []

    for function in (connect, get_all, read_lists, dry_run):
        monkeypatch.setattr(environment, function.__name__, function)
    return asked


@pytest.mark.parametrize(
    ("configuration", "shared"),
    [
        ('{"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["/opt"]}]}', False),
        ('{"sharedFileSystemPath": "/shared"}', True),
        (None, None),
    ],
)
def test_whether_local_path_volumes_are_shared(
    monkeypatch: pytest.MonkeyPatch, configuration: str | None, shared: bool | None
) -> None:
    """Its ConfigMap shows it, wherever the provisioner is installed."""
    volumes = [{"name": "config", "configMap": {"name": "local-path-config"}}]
    container = {"name": "provisioner", "image": "docker.io/rancher/local-path-provisioner:v0.0.30"}
    deployment = {
        "metadata": {"namespace": "local-path-storage", "name": "local-path-provisioner"},
        "spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}},
    }
    answers = {DEPLOYMENTS: Answer(200, {"items": [deployment]})}
    if configuration is not None:
        path = "/api/v1/namespaces/local-path-storage/configmaps/local-path-config"
        answers[path] = Answer(200, {"data": {"config.json": configuration}})
    make_cluster(monkeypatch, answers)
    assert environment.read_environment(make_settings(make_run()), ()).local_path_shared is shared


@pytest.mark.parametrize(("status", "exists"), [(200, True), (404, False), (403, None)])
def test_whether_a_secret_exists(monkeypatch: pytest.MonkeyPatch, status: int, exists: bool | None) -> None:
    """Unknown if the user may not read it."""
    path = "/api/v1/namespaces/research/secrets/registry"
    make_cluster(monkeypatch, {path: Answer(status, {})})
    live = environment.read_environment(make_settings(make_run(image_pull_secrets=("registry",))), ())
    assert live.secrets == {("research", "registry"): exists}


def test_an_environment_reads_an_operator_in_a_stateful_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the image that runs, and why it is not ready; its pods are not asked for again."""
    starting = {"name": "training-operator", "state": {"waiting": {"reason": "ImagePullBackOff"}}, "image": "image:1"}
    sick = {**STATEFUL, "status": {"conditions": [], "containerStatuses": [starting]}}
    settings = make_settings(make_distributed(), operators=Operators())
    operator = Operator("kubeflow", "training-operator-0", CHARM, ready=True, kind="Pod")
    why = "ImagePullBackOff (the image image:1 cannot be pulled: build and push it, or correct the run's `image`)"
    for pod, expected in (
        (STATEFUL, operator),
        (sick, replace(operator, ready=False, problems=(why,))),
    ):
        asked = make_cluster(monkeypatch, {PODS[1]: Answer(200, {"items": [pod]})})
        live = environment.read_environment(settings, ())
        assert live.operators is not None
        assert live.operators["training-operator"] == expected
        assert [path for path in asked if "/pods" in path] == list(PODS)


def test_kueues_configuration_is_read_from_whatever_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the ConfigMap that its pods mount; feature gates also from the container's arguments."""
    kueue = {"app.kubernetes.io/name": "kueue"}
    pod = make_controller_pod("kueue-0", "registry.k8s.io/kueue/kueue:v0.15.2", labels=kueue)
    pod["spec"]["volumes"] = [{"name": "config", "configMap": {"name": "kueue-config"}}]
    pod["spec"]["containers"][0]["args"] = ["--config=/x.yaml", "--feature-gates=LendingLimit=false"]
    text = "{integrations: {frameworks: [kubeflow.org/pytorchjob]}, featureGates: {PartialAdmission: false}}"
    answers = {
        PODS[1]: Answer(200, {"items": [pod]}),
        "/api/v1/namespaces/kubeflow/configmaps/kueue-config": Answer(200, {"data": {CONFIG_KEY: text}}),
    }
    make_cluster(monkeypatch, answers)
    live = environment.read_environment(make_settings(make_distributed()), ())
    assert live.frameworks == frozenset({"kubeflow.org/pytorchjob"})
    assert live.kueue is not None
    assert live.kueue["featureGates"] == {"PartialAdmission": False, "LendingLimit": False}
