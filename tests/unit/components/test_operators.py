"""Operator: objects depend on a controller whose webhooks answer."""

import time
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from tests.registrations.recorder import Registration, record
from tests.unit.components.declare import declare
from tests.unit.make import make_kueue, make_manifest, make_training_operator
from trainstack.components import operators
from trainstack.components.definitions import Definitions
from trainstack.components.operators import Operator, Operators, install_operators
from trainstack.live import kubeconfig
from trainstack.live.client import ClusterError
from trainstack.platform.operators.install import OperatorManifests
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators as OperatorsSettings
from trainstack.stack_objects.operators import operator_component as component_of
from trainstack.stack_objects.stack_objects import StackObjects


def make_object(kind: str, name: str, api_version: str = "v1", **metadata: str) -> dict[str, Any]:
    """Return a manifest with the labels that the builders set."""
    labels = {"app.kubernetes.io/managed-by": "trainstack"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels, **metadata}}


MANIFESTS = OperatorManifests(
    crds=(make_object("CustomResourceDefinition", "pytorchjobs.kubeflow.org", "apiextensions.k8s.io/v1"),),
    setup=(
        make_object("Namespace", "kubeflow"),
        make_object("ServiceAccount", "training-operator", namespace="kubeflow"),
    ),
    deployments=(make_object("Deployment", "training-operator", "apps/v1", namespace="kubeflow"),),
    extensions=(make_object("APIService", "v1beta1.visibility.kueue.x-k8s.io", "apiregistration.k8s.io/v1"),),
)
COMPONENT, NAMESPACE = "Operator training-operator", "Namespace kubeflow"
ACCOUNT, CONTROLLER = (f"{kind} kubeflow/training-operator" for kind in ("ServiceAccount", "Deployment"))
EXTENSION = "APIService v1beta1.visibility.kueue.x-k8s.io"


@pytest.fixture(autouse=True)
def _migrate_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the migration of stored objects to its own tests."""
    monkeypatch.setattr(operators, "migrate_stored_objects", lambda *_: [])


def operator(
    manifests: OperatorManifests = MANIFESTS, *, retained: frozenset[str] = frozenset(), last: list[int] | None = None
) -> tuple[dict[str, Registration], list[object]]:
    """Return the registrations of an operator, and what `up` does after them.

    It waits for the admission of probes, listed by kind, and migrates the objects of definitions, listed by name.

    The number of objects on which others depend, without `available`, is appended to `last`.
    """
    probes: list[object] = []

    def component(opts: pulumi.ResourceOptions) -> Operator:
        install = make_training_operator(manifest=make_manifest(version="v1.9.3"))
        declared = StackObjects(Settings(stack="dev", operators=OperatorsSettings(training_operator=install)))
        declared.installs = {"training-operator": component_of(manifests, retained)}
        declared.operators = {"training-operator": manifests}
        declared_operator = Operator("training-operator", declared, opts)
        if last is not None:
            last.append(len(declared_operator.dependencies) - 1)
        return declared_operator

    def migrate(definitions: tuple[dict[str, Any], ...], _context: str | None) -> list[str]:
        probes.extend(definition["metadata"]["name"] for definition in definitions)
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "wait_until_accepted", lambda probe, _context: probes.append(probe["kind"]))
        patch.setattr(operators, "migrate_stored_objects", migrate)
        return declare(component, with_teardown=True), probes


def test_the_controller_follows_its_rights_and_precedes_its_extensions() -> None:
    """Each part of the release depends on the previous one. Another component has the definitions."""
    found, _ = operator()
    assert {*found} == {COMPONENT, NAMESPACE, ACCOUNT, CONTROLLER, EXTENSION}
    assert found[COMPONENT].type == "trainstack:platform:Operator"
    assert {registration.parent for key, registration in found.items() if key != COMPONENT} == {"training-operator"}
    assert found[ACCOUNT].dependencies == ["kubeflow"]
    assert found[CONTROLLER].dependencies == ["kubeflow/training-operator"]
    assert found[EXTENSION].dependencies == ["kubeflow/training-operator"]


@pytest.mark.parametrize(("manifests", "count"), [(MANIFESTS, 2), (replace(MANIFESTS, deployments=()), 3)])
def test_others_depend_on_the_controller_and_its_extensions(manifests: OperatorManifests, count: int) -> None:
    """Without a controller they depend on all objects."""
    last: list[int] = []
    operator(manifests, last=last)
    assert last == [count]


def test_webhooks_answer_before_the_version_is_known() -> None:
    """The output waits in every `up`. A hook of the controller would stop the engine's other steps."""
    found, answered = operator()
    assert found[CONTROLLER].hooks == {"before_delete": ["teardown-deletion", "teardown-controller"]}
    assert answered == ["PyTorchJob", "pytorchjobs.kubeflow.org"]
    assert found[COMPONENT].outputs == {"version": "v1.9.3"}


KUEUE = OperatorManifests(
    crds=(),
    setup=(make_object("Namespace", "kueue-system"),),
    deployments=(make_object("Deployment", "kueue-controller-manager", "apps/v1", namespace="kueue-system"),),
    extensions=(),
)


def install_both(*frameworks: str, events: list[str] | None = None) -> dict[str, Registration]:
    """Return the registrations of Kueue, which manages these frameworks, of the training operator, and of `follower`.

    Component `follower` depends on the webhooks of both, and is appended to `events` when it is registered.
    """

    def component(opts: pulumi.ResourceOptions) -> pulumi.ComponentResource:
        settings = OperatorsSettings(
            kueue=make_kueue(frameworks=frameworks), training_operator=make_training_operator()
        )
        declared = StackObjects(Settings(stack="dev", operators=settings))
        declared.installs = {"kueue": component_of(KUEUE), "training-operator": component_of(MANIFESTS)}
        declared.operators = {"kueue": KUEUE, "training-operator": MANIFESTS}
        installed = install_operators(declared, opts, ())
        after = pulumi.ResourceOptions(depends_on=[operator.available for operator in installed.values()])
        follower = pulumi.ComponentResource("test:Follower", "follower", {}, after)
        follower.urn.apply(lambda _: (events or []).append("follower"))
        return follower

    return declare(component)


@pytest.mark.parametrize(
    ("frameworks", "dependencies"),
    [
        (("batch/job", "kubeflow.org/pytorchjob"), []),
        (("batch/job", "pod"), ["kueue-system/kueue-controller-manager"]),
        (("deployment",), ["kueue-system/kueue-controller-manager"]),
    ],
)
def test_operators_follow_kueue_only_if_it_manages_pods(
    monkeypatch: pytest.MonkeyPatch, frameworks: tuple[str, ...], dependencies: list[str]
) -> None:
    """Its webhook would refuse their pods until it runs. Otherwise all controllers start side by side."""
    monkeypatch.setattr(operators, "wait_until_accepted", lambda *_: None)
    assert install_both(*frameworks)[COMPONENT].dependencies == dependencies


def test_others_follow_the_webhooks_of_all_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kueue's webhooks receive PyTorchJobs, too, so they are probed first, however long they take."""
    events = ["begin"]

    def accept(probe: dict[str, Any], _context: str | None) -> None:
        if probe["kind"] == "ResourceFlavor":
            time.sleep(0.1)
        events.append(probe["kind"])

    monkeypatch.setattr(operators, "wait_until_accepted", accept)
    found = install_both("batch/job", events=events)
    assert events == ["begin", "ResourceFlavor", "PyTorchJob", "follower"]
    controllers = ["kubeflow/training-operator", "kueue-system/kueue-controller-manager"]
    assert {*controllers} <= {*found["Follower follower"].dependencies}


@pytest.mark.usefixtures("unread_outputs")
def test_the_error_of_kueue_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training operator, whose probe Kueue's webhooks would receive, is not probed."""
    events = ["begin"]

    def refuse(probe: dict[str, Any], _context: str | None) -> None:
        events.append(probe["kind"])
        raise ClusterError(f"no webhook answered for a {probe['kind']}")

    monkeypatch.setattr(operators, "wait_until_accepted", refuse)
    with pytest.raises(pulumi.RunError, match="no webhook answered for a ResourceFlavor"):
        install_both("batch/job", events=events)
    assert events == ["begin", "ResourceFlavor"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_preview_dry_runs_the_definitions_unless_the_program_creates_the_cluster(
    monkeypatch: pytest.MonkeyPatch, *, exists: bool
) -> None:
    """Other programs may use the component before their cluster exists."""
    install = make_training_operator(manifest=make_manifest(version="v1.9.3"))
    environment = StackObjects(Settings(stack="dev", operators=OperatorsSettings(training_operator=install)))
    environment.operators = {"training-operator": MANIFESTS}
    preparations: list[Any] = []
    forgotten: list[bool] = []

    def read_metadata(*_: object) -> dict[Any, Any]:
        if exists:
            return {}
        raise ClusterError("no kubeconfig")

    class Recorded(Definitions):
        def __init__(self, *args: Any, **options: Any) -> None:
            preparations.append(options["preparations"])
            super().__init__(*args, **options)

    monkeypatch.setattr(kubeconfig, "clear_cache", lambda: forgotten.append(True))
    monkeypatch.setattr(operators, "fetch", lambda installs, _: (installs, ()))
    monkeypatch.setattr(operators, "release_path", lambda *_: None)
    monkeypatch.setattr(operators, "read_release", lambda *_: ())
    monkeypatch.setattr(operators, "build_stack_objects", lambda *_, **__: environment)
    monkeypatch.setattr(operators, "read_metadata", read_metadata)
    monkeypatch.setattr(operators, "install_operators", lambda *_: {})
    monkeypatch.setattr(operators, "Definitions", Recorded)
    record(lambda: Operators("operators", environment.settings.operators, stack="dev"), "dev")
    assert preparations == [{} if exists else {"pytorchjobs.kubeflow.org": ()}]
    # The cluster's kubeconfig is read again once the cluster exists.
    assert forgotten == ([] if exists else [True])


def test_the_namespace_of_an_operator_with_a_retained_volume_is_retained() -> None:
    """Without such a volume the engine deletes it."""
    plain, _ = operator()
    kept, _ = operator(retained=frozenset({"kubeflow"}))
    assert plain[NAMESPACE].options["retainOnDelete"] is False
    assert kept[NAMESPACE].options["retainOnDelete"] is True
    assert kept[NAMESPACE].hooks == {"before_delete": ["teardown-namespace"]}
