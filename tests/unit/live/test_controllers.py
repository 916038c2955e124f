"""Operators are recognized on a cluster by their pods and Deployments, for any owner of the pods."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run, make_settings
from trainstack.live import environment
from trainstack.live.client import Answer
from trainstack.live.controllers import (
    CONTROLLER_LISTS,
    CONTROLLER_POD_LISTS,
    DEPLOYMENTS,
    InstalledControllers,
    parse_controllers,
    split_image,
)
from trainstack.objects.labels import RELEASE
from trainstack.platform.operators.kueue import CONFIG_KEY
from trainstack.preflight.live_context import LiveOperator
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.settings.sections.operators import Operators

Body = dict[str, Any]
CHARM = "registry.jujucharms.com/charm/5t9i/training-operator-image@sha256:ab"
JUJU = {"app.kubernetes.io/name": "training-operator"}
TRAINING = OPERATORS["training-operator"]


def make_deployment(name: str, image: str, *, labels: Mapping[str, str] | None = None, ready: int = 1) -> Body:
    """Return a controller as its release installs it, in the namespace `ops`."""
    pod = {"containers": [{"name": "kube-rbac-proxy", "image": "proxy:v1"}, {"name": "manager", "image": image}]}
    return {
        "metadata": {"name": name, "namespace": "ops", "labels": dict(labels or {})},
        "spec": {"selector": {}, "template": {"spec": pod}},
        "status": {"readyReplicas": ready},
    }


def make_controller_pod(
    name: str, *images: str, labels: Mapping[str, str] = JUJU, ready: bool = True, **metadata: Any
) -> Body:
    """Return a pod with a container for each image; the first container is a supervisor."""
    containers = [{"name": f"container-{number}", "image": image} for number, image in enumerate(images)]
    return {
        "metadata": {"name": name, "namespace": "kubeflow", "labels": dict(labels), **metadata},
        "spec": {"containers": containers},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


STATEFUL = make_controller_pod("training-operator-0", "jujusolutions/charm-base:ubuntu-20.04", CHARM)


def test_an_operator_in_a_stateful_set_is_found_by_its_pod() -> None:
    """The image of one container identifies the operator; the other container supervises it."""
    found = InstalledControllers((), (STATEFUL,)).find(TRAINING)
    assert found is not None
    assert (found.kind, found.namespace, found.is_ready) == ("Pod", "kubeflow", True)
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
def test_a_label_an_image_or_a_container_name_identifies_an_operators_pod(pod: Body) -> None:
    """A mirror may rename the image, but keeps the labels or the container's name."""
    found = InstalledControllers((), (pod,)).find(TRAINING)
    assert found is not None
    assert found.body is pod


def test_a_pod_that_only_installs_an_operator_is_not_the_operator() -> None:
    """A newer charm has a pod with the operator's name, and creates a Deployment for the operator."""
    charm = make_controller_pod("training-operator-0", "jujusolutions/charm-base:ubuntu-22.04")
    assert InstalledControllers((), (charm,)).find(TRAINING) is None
    deployment = make_deployment("training-operator", "docker.io/kubeflow/training-operator:v1-aaaaaaa")
    found = InstalledControllers((deployment,), (charm,)).find(TRAINING)
    assert found is not None
    assert found.body is deployment


def test_a_deployment_has_precedence_over_its_pods() -> None:
    """The Deployment with the release's name is first, in any namespace. The proxy container is not the controller."""
    other = make_deployment("my-kueue", "registry.k8s.io/kueue/kueue:v0.15.2")
    named = make_deployment("kueue-controller-manager", "mirror/queues:1", ready=0)
    pod = make_controller_pod("kueue-controller-manager-5d", "registry.k8s.io/kueue/kueue:v0.15.2")
    for deployments, body in (((other, named), named), ((other,), other)):
        found = InstalledControllers(deployments, (pod,)).find(OPERATORS["kueue"])
        assert found is not None
        assert (found.kind, found.body["metadata"]["name"]) == ("Deployment", body["metadata"]["name"])
        assert found.container["name"] == "manager"
        assert found.is_ready is (body is other)


def test_one_ready_pod_is_enough() -> None:
    """A terminating pod does not count: a StatefulSet with two pods works during an update."""
    terminating = make_controller_pod("training-operator-0", CHARM, deletionTimestamp="2026-01-02T03:04:05Z")
    starting = make_controller_pod("training-operator-1", CHARM, ready=False)
    found = InstalledControllers((), (terminating, starting)).find(TRAINING)
    assert found is not None
    assert (found.is_ready, found.pods) == (False, (starting,))
    found = InstalledControllers((), (terminating, starting, STATEFUL)).find(TRAINING)
    assert found is not None
    assert (found.is_ready, found.body) == (True, STATEFUL)


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}},
        {"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "training-operator-5d"}]}},
        {"status": {"phase": "Failed"}},
    ],
)
def test_a_leftover_pod_of_an_operator_is_not_the_operator(changes: Body) -> None:
    """A teardown or a lost node leaves such a pod."""
    pod = {key: {**value, **changes.get(key, {})} for key, value in STATEFUL.items()}
    assert InstalledControllers((), (pod,)).find(TRAINING) is None


def test_operators_are_distinguished() -> None:
    """Many controllers have kubebuilder's label; the image identifies the operator."""
    labels = {"control-plane": "controller-manager"}
    images = {
        "kueue": "registry.k8s.io/kueue/kueue:v0.15.2",
        "jobset": "registry.k8s.io/jobset/jobset:v0.10.1",
        "trainer": "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.1.0",
    }
    pods = tuple(make_controller_pod(name, image, labels=labels) for name, image in images.items())
    others = (make_controller_pod("cert-manager", "quay.io/jetstack/cert-manager:v1", labels=labels),)
    found = {name: InstalledControllers((), (*others, *pods)).find(facts) for name, facts in OPERATORS.items()}
    assert {name: controller and controller.body["metadata"]["name"] for name, controller in found.items()} == {
        **{name: name for name in images},
        **dict.fromkeys(("training-operator", "kuberay", "mpi-operator")),
    }


def test_operators_that_this_project_does_not_install_are_recognized() -> None:
    """Their own manifests and charts install them."""
    ray = make_deployment("kuberay-operator", "quay.io/kuberay/operator:v1.5.1")
    named = make_deployment("ray", "mirror/operator:1", labels=OPERATORS["kuberay"].labels)
    mpi = make_deployment("mpi-operator", "mpioperator/mpi-operator:0.7.0")
    for name, body in (("kuberay", ray), ("kuberay", named), ("mpi-operator", mpi)):
        found = InstalledControllers((body,), ()).find(OPERATORS[name])
        assert found is not None
        assert found.body is body


def test_unreadable_lists_do_not_count_as_empty() -> None:
    """The lists are of Deployments and pods. A pod in both lists counts once."""
    answers = {
        DEPLOYMENTS: Answer(200, {"items": []}),
        **{path: Answer(200, {"items": [STATEFUL]}) for path in CONTROLLER_POD_LISTS},
    }
    assert parse_controllers(answers) == InstalledControllers((), (STATEFUL,))
    for path in CONTROLLER_LISTS:
        assert parse_controllers({**answers, path: Answer(403, {})}) is None


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("busybox", ("busybox", "")),
        ("host:5000/kueue/kueue:v0.15.2@sha256:ab", ("kueue", "v0.15.2")),
        ("host:5000/training-operator@sha256:ab", ("training-operator", "")),
    ],
)
def test_an_image_is_split_into_its_last_part_and_its_tag(image: str, parts: tuple[str, str]) -> None:
    """A colon before the last slash separates a port."""
    assert split_image(image) == parts


def make_cluster(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Answer]) -> list[str]:
    """Patch the reads with these answers, or empty lists; return the list of the paths that will be read."""
    requests: list[str] = []

    async def connect(_: str | None) -> object:
        async def version() -> dict[str, str]:
            await asyncio.sleep(0)
            return {"gitVersion": "v1.34.4"}

        return SimpleNamespace(version=version)

    async def get_all(_: object, paths: Iterable[str], **__: bool) -> dict[str, Answer]:
        requests.extend(paths)
        return {path: answers.get(path, Answer(200, {"items": []})) for path in paths}

    async def read_admission_objects(*_: object) -> dict[str, None]:
        await asyncio.sleep(0)
        return {}

    async def dry_run(*_: object) -> list[tuple[int, str]]:
        await asyncio.sleep(0)
        return []

    for function in (connect, get_all, read_admission_objects, dry_run):
        monkeypatch.setattr(environment, function.__name__, function)
    return requests


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
    """The provisioner's ConfigMap shows it, in any namespace."""
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
    """The result is unknown if the user may not read the Secret."""
    path = "/api/v1/namespaces/research/secrets/registry"
    make_cluster(monkeypatch, {path: Answer(status, {})})
    live = environment.read_environment(make_settings(make_run(image_pull_secrets=("registry",))), ())
    assert live.secrets == {("research", "registry"): exists}


def test_an_environment_reads_an_operator_in_a_stateful_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result has the running image, and the reason if it is not ready. Its pods are not read again."""
    starting = {"name": "training-operator", "state": {"waiting": {"reason": "ImagePullBackOff"}}, "image": "image:1"}
    unready = {**STATEFUL, "status": {"conditions": [], "containerStatuses": [starting]}}
    settings = make_settings(make_distributed(), operators=Operators())
    operator = LiveOperator("kubeflow", "training-operator-0", CHARM, ready=True, kind="Pod")
    problem = "ImagePullBackOff (the image image:1 cannot be pulled: build and push it, or correct the run's `image`)"
    for pod, expected in (
        (STATEFUL, operator),
        (unready, replace(operator, ready=False, problems=(problem,))),
    ):
        requests = make_cluster(monkeypatch, {CONTROLLER_POD_LISTS[1]: Answer(200, {"items": [pod]})})
        live = environment.read_environment(settings, ())
        assert live.operators is not None
        assert live.operators["training-operator"] == expected
        assert [path for path in requests if "/pods" in path] == list(CONTROLLER_POD_LISTS)


def test_kueues_configuration_is_read_from_a_pod_without_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods mount its ConfigMap; the container's arguments may also set feature gates."""
    kueue = {"app.kubernetes.io/name": "kueue"}
    pod = make_controller_pod("kueue-0", "registry.k8s.io/kueue/kueue:v0.15.2", labels=kueue)
    pod["spec"]["volumes"] = [{"name": "config", "configMap": {"name": "kueue-config"}}]
    pod["spec"]["containers"][0]["args"] = ["--config=/x.yaml", "--feature-gates=LendingLimit=false"]
    text = "{integrations: {frameworks: [kubeflow.org/pytorchjob]}, featureGates: {PartialAdmission: false}}"
    answers = {
        CONTROLLER_POD_LISTS[1]: Answer(200, {"items": [pod]}),
        "/api/v1/namespaces/kubeflow/configmaps/kueue-config": Answer(200, {"data": {CONFIG_KEY: text}}),
    }
    make_cluster(monkeypatch, answers)
    live = environment.read_environment(make_settings(make_distributed()), ())
    assert live.frameworks == frozenset({"kubeflow.org/pytorchjob"})
    assert live.kueue is not None
    assert live.kueue["featureGates"] == {"PartialAdmission": False, "LendingLimit": False}


def test_the_release_of_the_running_kueue_is_that_of_its_label_or_its_image() -> None:
    """A tag that is no version, as of a build of one's own, is no release."""
    deployment = make_deployment("kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.20.7")
    own = make_deployment("kueue-controller-manager", "mirror/queues:main")
    labeled = {**own, "metadata": {**own["metadata"], "labels": {RELEASE: "v0.20.7"}}}
    found = [environment.kueue_release(InstalledControllers((body,), ())) for body in (deployment, labeled, own)]
    assert found == ["v0.20.7", "v0.20.7", ""]
    assert (environment.kueue_release(InstalledControllers((), ())), environment.kueue_release(None)) == ("", "")
