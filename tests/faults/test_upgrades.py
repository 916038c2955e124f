"""A newer operator takes an older one's place under queued and running runs; an older one never takes a newer one's."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import cluster as devcluster
from devcluster.cluster import Cluster
from devcluster.images import ensure_images, helpers, operators, workload
from manifests import labels, namespaces, storage
from settings.environment import Namespace
from settings.storage import StorageClass
from tests.cluster.lab import HELD, NAMESPACE, OPEN, await_end, await_pods, bare, uid, uids
from tests.cluster.project import ROOT, Project, eventually
from tests.faults import outages
from tests.faults.outages import SECONDS, Record
from tests.faults.predecessors import VERSION, Predecessor

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GROUP = "kueue.x-k8s.io"
QUEUES = ("resourceflavors", "clusterqueues", "localqueues")


def declare_older(project: Project, version: str) -> None:
    """Edit the stack to an older Kueue; that its bytes are not that release's does not come into it."""

    def edit(config: dict[str, Any]) -> None:
        config["trainstack:operators"]["kueue"]["manifest"] = {"version": version}
        # Where it is too old for our API version, the files say so first.
        silenced = {"rule": "version-clash", "path": "operators.kueue", "reason": "The test is about the cluster."}
        config["trainstack:checks"] = {"silenced": [silenced]}

    project.edit_stack(edit)


def refused_as_older(project: Project, version: str) -> None:
    """`up` and `preview` say why, and no object is touched."""
    before = kueue_of(project)
    for words in (("up", "--yes", "--skip-preview"), ("preview",)):
        done = project.pulumi(*words)
        assert done.code != 0
        assert f"this change would go back to {version}: an older controller does not know" in done.text
        assert "declare operators.kueue.manifest of v0.15.2 or a later release" in done.text
        assert "Traceback" not in done.text
    assert kueue_of(project) == before


def kueue_of(project: Project) -> dict[str, str]:
    """Kueue's definitions and Deployment by name, with their resource versions."""
    found = [*definitions(project).values(), project.get("deployment", "kueue-controller-manager", "kueue-system")]
    return {each["metadata"]["name"]: json.dumps(each["spec"], sort_keys=True) for each in found}


def definitions(project: Project) -> dict[str, dict[str, Any]]:
    """Kueue's definitions."""
    items = project.get("customresourcedefinitions")["items"]
    return {each["metadata"]["name"]: each for each in items if each["spec"]["group"] == GROUP}


def test_an_older_kueue_is_refused(platform: Project) -> None:
    """By the release that stands on the live definitions and Deployment."""
    file = platform.root / f"Pulumi.{platform.stack}.yaml"
    before = file.read_text()
    try:
        declare_older(platform, "v0.15.1")
        refused_as_older(platform, "v0.15.1")
    finally:
        file.write_text(before)


@pytest.fixture(scope="module")
def predecessor() -> Predecessor:
    """Kueue v0.14.0."""
    return Predecessor()


@pytest.fixture(scope="module")
def older(predecessor: Predecessor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that has both releases' images."""
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = Path(f"{kept}-older") if kept else tmp_path_factory.mktemp("older")
    try:
        running = devcluster.reset(state)
        images = [
            *operators(["kueue", "training-operator"]),
            predecessor.recipe,
            *helpers(),
            workload(ROOT / "workloads" / "digits"),
        ]
        ensure_images(images, running.registry, lambda _: None)
        yield running
    finally:
        devcluster.down(state, keep_data=False)


def test_kueue_is_upgraded_under_runs(
    older: Cluster, predecessor: Predecessor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A running run goes on, queued ones stay queued and are admitted later; no definition goes, v1beta1 is served."""
    project = Project.copy(tmp_path_factory.mktemp("upgrade"), older)
    platform = project.other("platform", outages.platform())
    install(platform, predecessor)
    team = queued_and_running(platform)
    record = Record(team, older)
    record.trains(3)
    before, kinds = uids(team), {name: uid(each) for name, each in definitions(team).items()}
    others = {kind: v1beta1(team, kind) for kind in QUEUES}
    (pod,) = await_pods(team, "trains", 1)

    done = platform.up(seconds=SECONDS)
    assert done.code == 0, done.text
    deployment = team.get("deployment", "kueue-controller-manager", "kueue-system")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.k8s.io/kueue/kueue:v0.15.2")

    assert kinds.items() <= {name: uid(each) for name, each in definitions(team).items()}.items()
    assert {kind: v1beta1(team, kind) for kind in QUEUES} == others
    assert uids(team) == before
    record.ends_as_undisturbed()
    assert record.attempts() == 1
    assert pod["metadata"]["name"].startswith(next(name for name in before if name.startswith("trains-")))
    assert all(body["spec"]["suspend"] for body in waiting(team))
    done = team.up("--refresh", "--expect-no-changes", seconds=SECONDS)
    assert done.code == 0, done.text

    platform.edit_stack(open_all)
    done = platform.up(seconds=SECONDS)
    assert done.code == 0, done.text
    for number in range(2):
        await_end(team, f"waits-{number}", "Complete")
    assert uids(team) == before

    declare_older(platform, VERSION)
    refused_as_older(platform, VERSION)


def open_all(config: dict[str, Any]) -> None:
    """Edit a stack: all its queues admit."""
    for each in queues_of(config):
        each.pop("stopPolicy", None)


def queues_of(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The cluster queues of a stack's configuration."""
    found: list[dict[str, Any]] = config["trainstack:queues"]["clusterQueues"]
    return found


def install(platform: Project, predecessor: Predecessor) -> None:
    """Have Kueue v0.14.0 as this stack would, and the lab's queues in the only version that it serves.

    It is done by kubectl in the engine's name: with v0.14.0, which does not serve v1beta2, no queue can be declared.
    """
    mark = labels.mark(platform.stack)
    apply(platform, [namespaces.namespace(Namespace(name=NAMESPACE), platform.stack)])
    shared = StorageClass(name="shared", provisioner="rancher.io/local-path")
    apply(platform, [storage.storage_class(shared, platform.stack)])
    before, other = predecessor.install(platform.stack)
    apply(platform, (*before.crds, *other.crds))
    apply(platform, before.after_crds())
    cluster_queues = [
        v1beta1_object("ClusterQueue", each["name"], mark, {key: each[key] for key in each if key != "name"})
        for each in queues_of(outages.platform())
    ]
    for each in cluster_queues:
        each["spec"]["namespaceSelector"] = {}
    queues = [
        v1beta1_object("ResourceFlavor", NAMESPACE, mark, {}),
        *cluster_queues,
        *(
            v1beta1_object("LocalQueue", name, mark, {"clusterQueue": f"{NAMESPACE}-{name}"}, namespace=NAMESPACE)
            for name in (OPEN, HELD)
        ),
        # Somebody else's, who knows no other version.
        v1beta1_object("ResourceFlavor", "theirs", {}, {"nodeLabels": {"theirs": "yes"}}),
    ]
    # Until its webhooks answer, nothing of what they watch is taken: the other operator's pods too.
    eventually("Kueue takes queues", lambda: applied(platform, queues), SECONDS)
    apply(platform, other.after_crds())


def v1beta1_object(
    kind: str, name: str, labels: dict[str, str], spec: dict[str, Any], **metadata: str
) -> dict[str, Any]:
    """An object of Kueue in its older version."""
    meta = {"name": name, "labels": labels, **metadata}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": meta, "spec": spec}


def apply(project: Project, objects: Any) -> None:
    """Have objects."""
    assert applied(project, objects)


def applied(project: Project, objects: Any) -> bool:
    """Whether the cluster takes the objects, as ours."""
    file = project.root / ".trainstack" / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    done = project.run(["kubectl", "apply", "--server-side", "--field-manager=trainstack", "-f", str(file)])
    print(done.err)
    return done.code == 0


def queued_and_running(platform: Project) -> Project:
    """A team's stack with a run that trains and two that wait, up."""
    team = outages.team(platform)

    def edit(config: dict[str, Any]) -> None:
        # There is no stack yet whose outputs would tell its queues.
        config["trainstack:environment"] = {"halves": ["training"]}
        runs = [bare(f"waits-{number}", queue=HELD, command=["true"], volumes=[]) for number in range(2)]
        config["trainstack:workloads"]["runs"] += runs

    team.edit_stack(edit)
    done = team.up(seconds=SECONDS)
    assert done.code == 0, done.text
    return team


def waiting(team: Project) -> list[dict[str, Any]]:
    """The runs that wait."""
    found = team.get("jobs", namespace=NAMESPACE)["items"]
    return [each for each in found if each["metadata"]["labels"]["trainstack.dev/workload"].startswith("waits-")]


def v1beta1(project: Project, kind: str) -> dict[str, str]:
    """The objects of a kind as v1beta1 gives them, by name."""
    items = project.get(f"{kind}.v1beta1.{GROUP}")["items"]
    assert all(each["apiVersion"] == f"{GROUP}/v1beta1" for each in items)
    return {each["metadata"]["name"]: uid(each) for each in items}
