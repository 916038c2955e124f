"""Objects that somebody else made: never touched unasked, taken over when the settings say so."""

import copy
import json
import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import pytest

from tests.cluster.project import Done, Project, eventually

pytestmark = pytest.mark.cluster

Manifest = dict[str, Any]
NAME = "taken"


def ours(*, adopt: bool) -> dict[str, Any]:
    """A small environment, every part of which has the same name."""
    mark = {"adopt": True} if adopt else {}
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
        "trainstack:environment": {"namespaces": [{"name": NAME, **mark}]},
        "trainstack:storage": {
            "classes": [{"name": NAME, "provisioner": "rancher.io/local-path", **mark}],
            "volumes": [{**volume, "retain": False, **mark}],
        },
        "trainstack:queues": {
            "flavors": [{"name": NAME, **mark}],
            "clusterQueues": [{"name": NAME, "resourceGroups": [group], **mark}],
            "localQueues": [{"name": NAME, "namespace": NAME, "clusterQueue": NAME, **mark}],
            "priorityClasses": None,
        },
        "trainstack:workloads": {"runs": [run]},
    }


@pytest.fixture
def foreign(dev: Project) -> Iterator[Project]:
    """A stack beside dev that has never been up; what it and the others made goes afterwards."""
    project = dev.other("foreign", ours(adopt=False))
    try:
        yield project
    finally:
        # Theirs before ours: a flavor waits for the queue that uses it, whosever that is.
        kinds = "clusterqueue,resourceflavor,storageclass,namespace"
        gone = project.kubectl("delete", kinds, NAME, "--ignore-not-found", "--timeout=60s")
        assert gone.code == 0, gone.text
        project.take_down()


def test_what_somebody_else_made_is_refused_by_name_until_it_is_adopted(foreign: Project) -> None:
    """Each object is named, none is changed, nothing else is written; `adopt: true` takes it over as it stands."""
    made = somebody_makes(foreign)
    before = {name: state(foreign, *name) for name in made}
    for done in (foreign.pulumi("preview"), foreign.up(), foreign.trainstack("up", "--yes", "--no-wait")):
        refused(done, made)
        assert {name: state(foreign, *name) for name in made} == before
        assert written(foreign) == []

    foreign.write_stack(foreign.stack, ours(adopt=True))
    ledgers = {name for name in made if name[0] == "ConfigMap"}
    refused(foreign.up(), ledgers)
    assert {name: state(foreign, *name) for name in made} == before
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


def test_what_another_stack_made_is_refused_with_its_name(dev: Project) -> None:
    """Two environments do not share a namespace by accident."""
    twin = dev.other("twin", {"trainstack:environment": {"namespaces": [{"name": "research"}]}})
    before = state(dev, "namespace", "", "research")
    try:
        done = twin.up()
        assert done.code != 0
        assert "Namespace research exists and belongs to stack 'dev'; nothing was changed" in done.text
        assert state(dev, "namespace", "", "research") == before
        assert written(twin) == []
    finally:
        twin.take_down()


def somebody_makes(project: Project) -> dict[tuple[str, str, str], Manifest]:
    """Objects of the names that the stack would use, by kind, namespace and name; made with plain kubectl."""
    done = project.pulumi("preview", "--json")
    assert done.code == 0, done.text
    steps = json.loads(done.out)["steps"]
    planned = [step["newState"].get("inputs", {}) for step in steps if step["op"] == "create"]
    made = {}
    for manifest in planned:
        # A namespace that is adopted gets no policies of ours.
        if "kind" in manifest and manifest["kind"] not in ("Job", "NetworkPolicy"):
            theirs = copy.deepcopy(manifest)
            theirs["metadata"]["labels"] = {"team": "theirs"}
            if theirs["kind"] == "ClusterQueue":
                theirs["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "1"
            metadata = theirs["metadata"]
            made[theirs["kind"], metadata.get("namespace", ""), metadata["name"]] = theirs
    assert {kind for kind, _, _ in made} >= {"Namespace", "ClusterQueue", "PersistentVolumeClaim", "ConfigMap"}
    for manifest in sorted(made.values(), key=lambda each: each["kind"] != "Namespace"):
        created = project.kubectl("create", stdin=json.dumps(manifest))
        assert created.code == 0, created.text
    for kind in ("clusterqueue", "localqueue"):
        eventually(f"Kueue has judged the {kind}", partial(judged, project, kind))
    return made


def judged(project: Project, kind: str) -> bool:
    """Whether Kueue has said that the queue is open, after which nothing changes it."""
    conditions = project.get(kind, NAME, NAME)["status"].get("conditions", [])
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)


def state(project: Project, kind: str, namespace: str, name: str) -> tuple[str, str]:
    """An object's identity and version."""
    metadata = project.get(kind, name, namespace)["metadata"]
    return metadata["uid"], metadata["resourceVersion"]


def refused(done: Done, names: Collection[tuple[str, str, str]]) -> None:
    """The command named these objects, and no others, as somebody else's."""
    assert done.code != 0, done.text
    assert "Traceback" not in done.text
    pattern = r"^(?:error: )?(\w+) (?:(\S+)/)?(\S+) exists and was created by another owner; nothing was changed"
    told = {match.groups("") for line in done.text.splitlines() if (match := re.match(pattern, line.strip()))}
    assert told == set(names)
    assert done.text.count("Choose another name") >= len(names)


def written(project: Project) -> list[Manifest]:
    """What bears the stack's mark in the cluster."""
    kinds = "namespaces,storageclasses,persistentvolumeclaims,configmaps,jobs,clusterqueues,localqueues,resourceflavors"
    return project.select(kinds, f"trainstack.dev/stack={project.stack}")
