"""Objects of other owners: they are not changed, unless the settings adopt them."""

import copy
import json
import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import pytest

from tests.cluster.project import CommandResult, Project, eventually

pytestmark = pytest.mark.cluster

Manifest = dict[str, Any]
NAME = "taken"


def make_config(*, adopt: bool) -> dict[str, Any]:
    """Return a small environment in which all objects have the same name."""
    adoption = {"adopt": True} if adopt else {}
    volume = {"name": NAME, "namespace": NAME, "storageClass": NAME, "size": "1Gi", "accessModes": ["ReadWriteMany"]}
    quotas = [{"name": "cpu", "nominalQuota": 2}, {"name": "memory", "nominalQuota": "2Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": NAME, "resources": quotas}]}
    run = {
        "name": NAME,
        "kind": "Job",
        "namespace": NAME,
        "queue": NAME,
        "managed": False,
        "image": {"name": "busybox:1.35"},
        "command": ["true"],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
        "runAsUser": 1000,
    }
    return {
        "trainstack:environment": {"namespaces": [{"name": NAME, **adoption}]},
        "trainstack:storage": {
            "classes": [{"name": NAME, "provisioner": "rancher.io/local-path", **adoption}],
            "volumes": [{**volume, "retain": False, **adoption}],
        },
        "trainstack:queues": {
            "flavors": [{"name": NAME, **adoption}],
            "clusterQueues": [{"name": NAME, "resourceGroups": [group], **adoption}],
            "localQueues": [{"name": NAME, "namespace": NAME, "clusterQueue": NAME, **adoption}],
            "priorityClasses": None,
        },
        "trainstack:workloads": {"runs": [run]},
    }


@pytest.fixture
def foreign(dev: Project) -> Iterator[Project]:
    """Yield a second stack, not deployed yet; its objects and the other owner's are deleted afterwards."""
    project = dev.other_stack("foreign", make_config(adopt=False))
    try:
        yield project
    finally:
        # The other owner's objects are first: a flavor is not deleted while a queue uses it.
        kinds = "clusterqueue,resourceflavor,storageclass,namespace"
        deleted = project.kubectl("delete", kinds, NAME, "--ignore-not-found", "--timeout=60s")
        assert deleted.code == 0, deleted.text
        project.take_down()


def test_objects_of_another_owner_are_refused_until_they_are_adopted(foreign: Project) -> None:
    """The message names all of them, and nothing is written; with `adopt: true` they become part of the stack."""
    made = create_as_another_owner(foreign)
    before = {name: uid_and_version(foreign, *name) for name in made}
    for done in (foreign.pulumi("preview"), foreign.up(), foreign.trainstack("up", "--yes", "--no-wait")):
        assert_refused(done, made)
        assert {name: uid_and_version(foreign, *name) for name in made} == before
        assert stack_objects(foreign) == []

    foreign.write_stack(foreign.stack, make_config(adopt=True))
    ledgers = {name for name in made if name[0] == "ConfigMap"}
    assert_refused(foreign.up(), ledgers)
    assert {name: uid_and_version(foreign, *name) for name in made} == before
    for kind, namespace, ledger in ledgers:
        foreign.kubectl("delete", kind, ledger, "-n", namespace)

    done = foreign.up()
    assert done.code == 0, done.text
    for name in made.keys() - ledgers:
        now = foreign.get(name[0], name[2], name[1])
        assert now["metadata"]["uid"] == before[name][0], "the same object, not another one of its name"
        assert now["metadata"]["labels"]["trainstack.dev/stack"] == foreign.stack
        assert now["metadata"]["labels"]["team"] == "theirs"
    quotas = foreign.get("clusterqueue", NAME)["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert quotas[0]["nominalQuota"] == "2"
    assert foreign.changes("--refresh") == {}


def test_objects_of_another_stack_are_refused_with_its_name(dev: Project) -> None:
    """Two environments cannot share a namespace by accident."""
    twin = dev.other_stack("twin", {"trainstack:environment": {"namespaces": [{"name": "research"}]}})
    before = uid_and_version(dev, "namespace", "", "research")
    try:
        done = twin.up()
        assert done.code != 0
        assert "Namespace research exists and belongs to stack 'dev'; nothing was changed" in done.text
        assert uid_and_version(dev, "namespace", "", "research") == before
        assert stack_objects(twin) == []
    finally:
        twin.take_down()


def create_as_another_owner(project: Project) -> dict[tuple[str, str, str], Manifest]:
    """Create objects with the stack's names with plain kubectl, and return them by kind, namespace and name."""
    done = project.pulumi("preview", "--json")
    assert done.code == 0, done.text
    steps = json.loads(done.out)["steps"]
    planned = [step["newState"].get("inputs", {}) for step in steps if step["op"] == "create"]
    made = {}
    for manifest in planned:
        # The stack creates no NetworkPolicies in adopted namespaces.
        if "kind" in manifest and manifest["kind"] not in ("Job", "NetworkPolicy"):
            theirs = copy.deepcopy(manifest)
            theirs["metadata"]["labels"] = {"team": "theirs"}
            if theirs["kind"] == "ClusterQueue":
                theirs["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "1"
            metadata = theirs["metadata"]
            made[theirs["kind"], metadata.get("namespace", ""), metadata["name"]] = theirs
    assert {kind for kind, _, _ in made} >= {"Namespace", "ClusterQueue", "PersistentVolumeClaim", "ConfigMap"}
    for manifest in sorted(made.values(), key=lambda body: body["kind"] != "Namespace"):
        created = project.kubectl("create", stdin=json.dumps(manifest))
        assert created.code == 0, created.text
    for kind in ("clusterqueue", "localqueue"):
        eventually(f"Kueue has judged the {kind}", partial(is_active, project, kind))
    return made


def is_active(project: Project, kind: str) -> bool:
    """Return whether Kueue has set the queue active, after which its status does not change."""
    conditions = project.get(kind, NAME, NAME)["status"].get("conditions", [])
    return any(condition["type"] == "Active" and condition["status"] == "True" for condition in conditions)


def uid_and_version(project: Project, kind: str, namespace: str, name: str) -> tuple[str, str]:
    """Return an object's UID and resource version."""
    metadata = project.get(kind, name, namespace)["metadata"]
    return metadata["uid"], metadata["resourceVersion"]


def assert_refused(done: CommandResult, names: Collection[tuple[str, str, str]]) -> None:
    """Assert that the command failed and named exactly these objects as another owner's."""
    assert done.code != 0, done.text
    assert "Traceback" not in done.text
    pattern = r"^(?:error: )?(\w+) (?:(\S+)/)?(\S+) exists and was created by another owner; nothing was changed"
    refused_names = {match.groups("") for line in done.text.splitlines() if (match := re.match(pattern, line.strip()))}
    assert refused_names == set(names)
    assert done.text.count("Choose another name") >= len(names)


def stack_objects(project: Project) -> list[Manifest]:
    """Return the objects in the cluster that have the stack's label."""
    kinds = "namespaces,storageclasses,persistentvolumeclaims,configmaps,jobs,clusterqueues,localqueues,resourceflavors"
    return project.select(kinds, f"trainstack.dev/stack={project.stack}")
