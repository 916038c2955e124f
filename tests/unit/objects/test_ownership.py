"""Objects of other owners are refused by name, unless they are adopted."""

from typing import Any

import pytest

from tests.unit.make import (
    make_cluster_queue,
    make_queues,
    make_settings,
    make_storage,
    make_training_operator,
    make_volume,
)
from tests.unit.platform.operators.test_training_operator import make_release
from trainstack.objects.ownership import Identity, adopted_identities, adoption_notes, identity, refusals
from trainstack.platform.operators.training_operator import training_operator
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.objects import Objects
from trainstack.settings.sections.queues import Cohort, LocalQueue, PriorityClass, ResourceFlavor
from trainstack.settings.sections.storage import PersistentVolume, StorageClass

CLAIM: Identity = ("PersistentVolumeClaim", "research", "training")
CLASS: Identity = ("StorageClass", None, "shared")
REMEDY = (
    "; nothing was changed. Choose another name, remove it from this environment, or set `adopt: true` on it, if its "
    "settings have that key, to adopt it"
)


def make_object(who: Identity) -> dict[str, Any]:
    """Return a manifest with this identity."""
    kind, namespace, name = who
    scope = {} if namespace is None else {"namespace": namespace}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **scope}}


@pytest.mark.parametrize("who", [CLAIM, CLASS])
def test_an_identity_is_read_from_a_manifest(who: Identity) -> None:
    """The identity has the namespace, if there is one."""
    assert identity(make_object(who)) == who


@pytest.mark.parametrize(
    ("live", "adopted", "expected"),
    [
        pytest.param({}, frozenset(), (), id="nothing exists"),
        pytest.param({CLAIM: {"trainstack.dev/stack": "dev"}}, frozenset(), (), id="ours"),
        pytest.param(
            {CLAIM: {}},
            frozenset(),
            (f"PersistentVolumeClaim research/training exists and was created by another owner{REMEDY}",),
            id="unmarked",
        ),
        pytest.param(
            {CLASS: {"trainstack.dev/stack": "prod"}, CLAIM: {"app": "x"}},
            frozenset(),
            (
                f"PersistentVolumeClaim research/training exists and was created by another owner{REMEDY}",
                f"StorageClass shared exists and belongs to stack 'prod'{REMEDY}",
            ),
            id="each by name, sorted",
        ),
        pytest.param({CLASS: {}, CLAIM: {}}, frozenset({CLASS, CLAIM}), (), id="taken over"),
        pytest.param({CLASS: {"trainstack.dev/prepared-for": "dev"}}, frozenset(), (), id="prepared for this stack"),
        pytest.param(
            {CLASS: {"trainstack.dev/prepared-for": "prod"}},
            frozenset(),
            (f"StorageClass shared exists and belongs to stack 'prod'{REMEDY}",),
            id="prepared for another stack",
        ),
        pytest.param(
            {CLASS: {"trainstack.dev/prepared-for": "dev", "trainstack.dev/stack": "prod"}},
            frozenset(),
            (f"StorageClass shared exists and belongs to stack 'prod'{REMEDY}",),
            id="prepared for this stack, declared by another",
        ),
        pytest.param(
            {CLASS: {"trainstack.dev/stack": "prod"}}, frozenset({CLASS}), (), id="taken over from another stack"
        ),
    ],
)
def test_existing_objects_of_other_owners_are_refused(
    live: dict[Identity, dict[str, str]], adopted: frozenset[Identity], expected: tuple[str, ...]
) -> None:
    """The stack `dev` declares a class and a claim."""
    assert refusals([make_object(CLASS), make_object(CLAIM)], live, adopted, "dev") == expected


def test_adopt_is_read_from_every_section_that_has_it() -> None:
    """Objects without `adopt` are not adopted."""
    place: dict[str, Any] = {"storage_class": "shared", "access_modes": ("ReadWriteMany",)}
    settings = make_settings(
        environment=Environment(namespaces=(Namespace(name="research", adopt=True), Namespace(name="other"))),
        storage=make_storage(
            classes=(StorageClass(name="shared", provisioner="x", adopt=True),),
            persistent_volumes=(PersistentVolume(name="static", adopt=True, size="1Gi", host_path="/x", **place),),
            volumes=(make_volume(adopt=True), make_volume(name="other")),
        ),
        queues=make_queues(
            flavors=(ResourceFlavor(name="cpu", adopt=True),),
            cohorts=(Cohort(name="local", adopt=True),),
            cluster_queues=(make_cluster_queue(adopt=True),),
            local_queues=(LocalQueue(name="research", namespace="research", cluster_queue="research", adopt=True),),
            priority_classes=(PriorityClass(name="normal", value=1, adopt=True), PriorityClass(name="low", value=0)),
        ),
    )
    assert adopted_identities(settings) == {
        ("Namespace", None, "research"),
        CLASS,
        ("PersistentVolume", None, "static"),
        CLAIM,
        ("ResourceFlavor", None, "cpu"),
        ("Cohort", None, "local"),
        ("ClusterQueue", None, "research"),
        ("LocalQueue", "research", "research"),
        ("WorkloadPriorityClass", None, "normal"),
    }


def test_an_adopted_object_is_reported_until_it_has_the_label() -> None:
    """A new object is not reported."""
    claims = [("PersistentVolumeClaim", "research", name) for name in ("theirs", "ours", "new")]
    foreign, own, new = map(make_object, claims)
    live = {identity(foreign): {"team": "a"}, identity(own): {"trainstack.dev/stack": "dev"}}
    adopted = frozenset(map(identity, (foreign, own, new)))
    message = "PersistentVolumeClaim research/theirs exists and is adopted (adopt: true); it is not re-created"
    assert adoption_notes([foreign, own, new], live, adopted, "dev") == (message,)


def test_a_second_operator_is_refused_by_the_definitions_of_the_first() -> None:
    """A StatefulSet in any namespace may run the first one; the definitions of its kinds have the same names."""
    declared = training_operator(make_release(), make_training_operator())
    definition: Identity = ("CustomResourceDefinition", None, "pytorchjobs.kubeflow.org")
    assert refusals(declared, {definition: {"app.juju.is/created-by": "training-operator"}}, frozenset(), "dev") == (
        f"CustomResourceDefinition pytorchjobs.kubeflow.org exists and was created by another owner{REMEDY}",
    )


def test_an_object_of_section_objects_is_adopted_by_its_name() -> None:
    """Its file may be other people's, so it has no key `adopt`."""
    manifest = {
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "research", "labels": {"trainstack.dev/section": "objects"}},
    }
    (refusal,) = refusals([manifest], {identity(manifest): {}}, frozenset(), "dev")
    assert refusal.endswith("or list 'ServiceAccount research/default' in `objects.adopt` to adopt it")
    settings = make_settings(objects=Objects(adopt=("ServiceAccount research/default",)))
    adopted = adopted_identities(settings)
    assert adopted == {identity(manifest)}
    assert refusals([manifest], {identity(manifest): {}}, adopted, "dev") == ()
