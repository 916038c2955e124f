"""A teardown of a drawn environment leaves only the listed volumes.

They are drawn from TRAINSTACK_FAULTS_SEED, which is printed; `-k "stack-07"` repeats one.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.inventory import ObjectKey, all_objects
from tests.cluster.people import Person
from tests.cluster.project import Project, await_empty, eventually
from tests.faults.clusters import own_cluster
from tests.faults.drawn_stacks import STACK, DrawnStack, draw, operators_config
from tests.seeds import chosen_seed
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import helpers, operators

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

STACKS = 20
SECONDS = 60
"""The timeout for the removal of a stack's objects."""
SEED = chosen_seed("TRAINSTACK_FAULTS_SEED")
ORDER = sorted(range(STACKS), key=lambda number: (draw(SEED, number).operators, number))
"""The stacks without operators are first, so that one installation of Kueue serves them all."""


@pytest.fixture(scope="module")
def dedicated_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with Kueue's image and a small one."""
    with own_cluster(tmp_path_factory, "drawn", [*operators(["kueue"]), *helpers()]) as running:
        yield running


@pytest.fixture(scope="module")
def copy(dedicated_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project, and the seed."""
    print(f"TRAINSTACK_FAULTS_SEED={SEED}")
    return Project.copy(tmp_path_factory.mktemp("drawn"), dedicated_cluster)


@pytest.fixture(scope="module")
def kueue_stacks(copy: Project) -> Iterator[list[Project]]:
    """Yield a list with the stack of Kueue alone while it is deployed."""
    up: list[Project] = []
    yield up
    for project in up:
        destroy_and_verify(project)


@pytest.mark.parametrize("number", ORDER, ids=lambda number: f"stack-{number:02}")
def test_nothing_is_left_but_the_listed_volumes(
    copy: Project, kueue_stacks: list[Project], number: int, request: pytest.FixtureRequest
) -> None:
    """The plan lists them before the teardown; afterwards all objects in the API server are compared."""
    drawn = draw(SEED, number)
    ensure_kueue(copy, kueue_stacks, drawn)
    before = all_objects(copy)
    project = copy.other_stack(STACK, drawn.config)
    done = project.up(seconds=900)
    assert done.code == 0, done.text
    eventually("Kueue has seen every run", lambda: len(project.get("workloads")["items"]) >= drawn.runs)
    await_garbage_collector(project)
    if drawn.protected:
        remove_protection(project, drawn)

    teardown_plan = read_plan(project)
    claims = frozenset(line.split()[1] for line in teardown_plan["stays"] if line.startswith("PersistentVolumeClaim"))
    assert claims == drawn.retained
    began = time.monotonic()
    stops = [word for run in teardown_plan["stops"] for word in ("--stop", run)]
    done = project.trainstack("destroy", "--yes", *stops, seconds=900)
    took = time.monotonic() - began
    assert done.code == 0, done.text
    stays = {parse_object(line) for line in teardown_plan["stays"]}
    await_empty("what is not listed", lambda: remaining_objects(project, before, stays), SECONDS)
    print(f"{request.node.name}: {len(teardown_plan['stops'])} active runs, {len(claims)} volumes stay: {took:.0f} s")
    assert stays <= all_objects(project)
    assert took <= SECONDS
    delete_remaining(project, stays)


def remove_protection(project: Project, drawn: DrawnStack) -> None:
    """Check that a teardown of protected volumes is refused and deletes nothing, and then remove the protection."""
    before = all_objects(project, f"trainstack.dev/stack={STACK}")
    done = project.trainstack("destroy", "--yes")
    assert done.code == 3
    for claim in drawn.protected:
        assert f"PersistentVolumeClaim {claim} is protected, so nothing is deleted" in done.text
    assert all_objects(project, f"trainstack.dev/stack={STACK}") == before

    def unprotect(config: dict[str, Any]) -> None:
        for volume in config["trainstack:storage"]["volumes"]:
            volume["protect"] = False

    project.edit_stack(unprotect)
    done = project.up()
    assert done.code == 0, done.text


def ensure_kueue(copy: Project, kueue_stacks: list[Project], drawn: DrawnStack) -> None:
    """Install Kueue for a stack that does not install it, and remove it for one that does."""
    if drawn.operators:
        while kueue_stacks:
            destroy_and_verify(kueue_stacks.pop())
    elif not kueue_stacks:
        project = copy.other_stack("operators", operators_config())
        done = project.up(seconds=900)
        assert done.code == 0, done.text
        kueue_stacks.append(project)


def await_garbage_collector(project: Project) -> None:
    """Wait until the garbage collector knows Kueue's Workloads: it asks for new kinds every 30 s, and what is of a kind
    that it does not know outlives its owner.
    """
    person = Person(project.kubeconfig)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap"}
    owner = person.create({**config_map, "metadata": {"name": "owner", "namespace": "default"}})["metadata"]
    pod = {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}
    workload: dict[str, Any] = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "owned",
            "namespace": "default",
            "ownerReferences": [{**config_map, "name": owner["name"], "uid": owner["uid"]}],
        },
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]},
    }
    person.create(workload)
    done = person.kubectl("delete", "configmap", "owner", "-n", "default")
    assert done.code == 0, done.text
    words = ("workloads.kueue.x-k8s.io", "owned", "default")
    eventually("the Workload went with its owner", lambda: not person.get(*words))


def destroy_and_verify(project: Project) -> None:
    """Destroy a stack without volumes, and check that nothing is left."""
    done = project.trainstack("destroy", "--yes", seconds=900)
    assert done.code == 0, done.text
    await_empty("the stack", lambda: all_objects(project, f"trainstack.dev/stack={project.stack}"), SECONDS)


def read_plan(project: Project) -> dict[str, Any]:
    """Return the plan of a teardown."""
    done = project.trainstack("destroy", "--json")
    teardown_plan: dict[str, Any] = json.loads(done.out)
    assert all(" (run " in refusal for refusal in teardown_plan["refusals"]), teardown_plan["refusals"]
    return teardown_plan


def parse_object(description: str) -> ObjectKey:
    """Return the name of an object in a plan."""
    kind, _, place = description.partition(" ")
    namespace, _, name = place.rpartition("/")
    return kind, namespace or "<none>", name


def remaining_objects(project: Project, before: frozenset[ObjectKey], stays: set[ObjectKey]) -> set[ObjectKey]:
    """Return the remaining objects of the stack that are not listed, except those of Kubernetes."""
    namespaces = {name for kind, _, name in stays if kind == "Namespace"}
    created_by_kubernetes = {("ConfigMap", namespace, "kube-root-ca.crt") for namespace in namespaces}
    created_by_kubernetes |= {("ServiceAccount", namespace, "default") for namespace in namespaces}
    # A dynamic volume is its claim's.
    return {
        item for item in all_objects(project) - before - created_by_kubernetes - stays if item[0] != "PersistentVolume"
    }


def delete_remaining(project: Project, stays: set[ObjectKey]) -> None:
    """Delete the remaining objects, as a person who no longer needs the data."""
    for kind, _, name in stays:
        if kind == "Namespace":
            done = project.kubectl("delete", "namespace", name, "--timeout=120s")
            assert done.code == 0, done.text
