"""Operators are upgraded under queued and running runs; a downgrade is refused."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    OPEN,
    await_end,
    await_pods,
    exec_in_pod,
    launch,
    uid,
    uids,
    unmanaged_run,
)
from tests.cluster.project import ROOT, Project, eventually
from tests.faults import outages
from tests.faults.outages import SECONDS, Record
from tests.faults.predecessors import RELEASES, Predecessors
from trainstack.local_cluster import cluster as devcluster
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, helpers, operators, workload
from trainstack.objects import labels
from trainstack.platform import namespaces, probes, storage
from trainstack.settings.sections.environment import Namespace
from trainstack.settings.sections.storage import StorageClass
from trainstack.toolchain.manifests import MANIFESTS, ReleaseManifest

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GROUP = "kueue.x-k8s.io"
GROUPS = (GROUP, "kubeflow.org")
CURRENT = {
    key: next(manifest for manifest in MANIFESTS if manifest.name == older.name) for key, older in RELEASES.items()
}
"""The releases that are installed here, by the key of `trainstack:operators`."""
QUEUES = ("resourceflavors", "clusterqueues", "localqueues")
CONTROLLERS = (("kueue-controller-manager", "kueue-system"), ("training-operator", "kubeflow"))
WAIT_SCRIPT = f"until [ -e {MOUNT}/go ]; do sleep 0.2; done"
"""The script of the replicas of a PyTorchJob."""


def declare_older(project: Project, operator: str, version: str) -> None:
    """Edit the stack to an older version of an operator; the digest of the manifest does not matter."""

    def edit(config: dict[str, Any]) -> None:
        config["trainstack:operators"][operator]["manifest"] = {"version": version}
        # Where it is too old for our API version, the files say so first.
        silenced = {"rule": "version-clash", "path": f"operators.{operator}", "reason": "The test is of the cluster."}
        config["trainstack:checks"] = {"silenced": [silenced]}

    project.edit_stack(edit)


def assert_downgrade_refused(project: Project, operator: str, version: str) -> None:
    """Check that `up` and `preview` with the older version are refused with the reason, and write no object."""
    file = project.root / f"Pulumi.{project.stack}.yaml"
    settings, before = file.read_text(), installed_specs(project)
    try:
        declare_older(project, operator, version)
        for words in (("up", "--yes", "--skip-preview"), ("preview",)):
            done = project.pulumi(*words)
            assert done.code != 0
            assert f"this change would downgrade it to {version}: an older controller may not understand" in done.text
            assert f"set operators.{operator}.manifest to {CURRENT[operator].version} or a later release" in done.text
            assert "Traceback" not in done.text
    finally:
        file.write_text(settings)
    assert installed_specs(project) == before


def installed_specs(project: Project) -> dict[str, str]:
    """The operators' definitions and Deployments by name."""
    found = [*definitions(project).values(), *(project.get("deployment", *controller) for controller in CONTROLLERS)]
    return {body["metadata"]["name"]: json.dumps(body["spec"], sort_keys=True) for body in found}


def definitions(project: Project) -> dict[str, dict[str, Any]]:
    """The operators' definitions."""
    items = project.get("customresourcedefinitions")["items"]
    return {body["metadata"]["name"]: body for body in items if body["spec"]["group"] in GROUPS}


@pytest.mark.parametrize(("operator", "version"), [("kueue", "v0.15.1"), ("trainingOperator", "v1.9.2")])
def test_an_older_operator_is_refused(platform: Project, operator: str, version: str) -> None:
    """The release on the live definitions and Deployment decides."""
    assert_downgrade_refused(platform, operator, version)


@pytest.fixture(scope="module")
def predecessors() -> Predecessors:
    """Kueue v0.14.0 and the training operator v1.8.1."""
    return Predecessors()


@pytest.fixture(scope="module")
def older_cluster(predecessors: Predecessors, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a cluster with the images of both releases of each operator."""
    with devcluster.temporary_cluster(tmp_path_factory.mktemp("older")) as running:
        images = [
            *operators(["kueue", "training-operator"]),
            *predecessors.recipes,
            *helpers(),
            workload(ROOT / "workloads" / "digits"),
        ]
        ensure_images(images, running.registry, lambda _: None)
        yield running


def test_operators_are_upgraded_under_runs(
    older_cluster: LocalCluster, predecessors: Predecessors, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Running runs continue, queued ones are admitted later; definitions are kept, and v1beta1 is served."""
    project = Project.copy(tmp_path_factory.mktemp("upgrade"), older_cluster)
    platform = project.other_stack("platform", outages.platform())
    install(platform, predecessors)
    team = queued_and_running(platform)
    record = Record(team, older_cluster)
    record.await_epoch(3)
    replicas = await_pods(team, "joins", 2)
    before, kinds = uids(team), {name: uid(body) for name, body in definitions(team).items()}
    others = {kind: v1beta1_uids(team, kind) for kind in QUEUES}
    assert images(team) == image_names(RELEASES.values())

    done = platform.up(seconds=SECONDS)
    assert done.code == 0, done.text
    assert images(team) == image_names(CURRENT.values())

    assert kinds.items() <= {name: uid(body) for name, body in definitions(team).items()}.items()
    assert {kind: v1beta1_uids(team, kind) for kind in QUEUES} == others
    assert uids(team) == before
    record.assert_expected_result()
    assert record.attempts() == 1
    assert container_ids(await_pods(team, "joins", 2)) == container_ids(replicas)
    exec_in_pod(team, replicas[0], "touch", f"{MOUNT}/go")
    await_end(team, "joins", "Succeeded")
    assert all(is_suspended(body) for body in waiting_launches(team))
    done = team.up("--refresh", "--expect-no-changes", seconds=SECONDS)
    assert done.code == 0, done.text

    platform.edit_stack(open_queues)
    done = platform.up(seconds=SECONDS)
    assert done.code == 0, done.text
    for run in WAITING_RUNS:
        await_end(team, run, "Complete", "Succeeded")
    assert uids(team) == before

    for operator, release in RELEASES.items():
        assert_downgrade_refused(platform, operator, release.version)


def open_queues(config: dict[str, Any]) -> None:
    """Edit a stack: all its queues admit."""
    for queue in queues_of(config):
        queue.pop("stopPolicy", None)


def queues_of(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The cluster queues of a stack's configuration."""
    found: list[dict[str, Any]] = config["trainstack:queues"]["clusterQueues"]
    return found


def install(platform: Project, predecessors: Predecessors) -> None:
    """Have the older operators as this stack would, and the lab's queues in the only version that Kueue v0.14.0 serves.

    It is done by kubectl in the engine's name: with v0.14.0, which does not serve v1beta2, no queue can be declared.
    """
    mark = labels.ownership_labels(platform.stack)
    apply(platform, [namespaces.namespace(Namespace(name=NAMESPACE), platform.stack)])
    shared = StorageClass(name="shared", provisioner="rancher.io/local-path")
    apply(platform, [storage.storage_class(shared, platform.stack)])
    before, other = predecessors.install(platform.stack)
    apply(platform, (*before.crds, *other.crds))
    apply(platform, before.after_crds())
    cluster_queues = [
        v1beta1_object("ClusterQueue", queue["name"], mark, {key: queue[key] for key in queue if key != "name"})
        for queue in queues_of(outages.platform())
    ]
    for queue in cluster_queues:
        queue["spec"]["namespaceSelector"] = {}
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
    # Until its webhooks answer, the API server refuses what they watch, the other operator's pods too.
    eventually("Kueue takes queues", lambda: try_apply(platform, queues), SECONDS)
    apply(platform, other.after_crds())
    probe = [probes.training_operator(platform.stack)]
    eventually("the training operator takes jobs", lambda: try_apply(platform, probe, "--dry-run=server"), SECONDS)


def v1beta1_object(
    kind: str, name: str, labels: dict[str, str], spec: dict[str, Any], **metadata: str
) -> dict[str, Any]:
    """An object of Kueue in its older version."""
    meta = {"name": name, "labels": labels, **metadata}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": meta, "spec": spec}


def apply(project: Project, objects: Any) -> None:
    """Apply objects, and check that the cluster accepts them."""
    assert try_apply(project, objects)


def try_apply(project: Project, objects: Any, *options: str) -> bool:
    """Apply objects as ours, and return whether the cluster accepts them; `options` are more options of `kubectl`."""
    file = project.root / ".trainstack" / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    done = project.run(["kubectl", "apply", "--server-side", "--field-manager=trainstack", *options, "-f", str(file)])
    print(done.err)
    return done.code == 0


WAITING_RUNS = ("waits-0", "waits-1", "waits-2")
"""Runs in the queue that holds everything."""


def queued_and_running(platform: Project) -> Project:
    """Deploy a team's stack with a Job and a PyTorchJob that run, and three runs that wait."""
    team = outages.team(platform)

    def edit(config: dict[str, Any]) -> None:
        # No platform stack exists yet whose outputs would have its queues.
        config["trainstack:environment"] = {"state": "embedded", "layers": ["training"]}
        roles = {"Master": {"restartPolicy": "Never"}, "Worker": {"restartPolicy": "Never"}}
        config["trainstack:workloads"]["runs"] += [
            unmanaged_run("joins", "PyTorchJob", command=["sh", "-c", WAIT_SCRIPT], roles=roles),
            *(unmanaged_run(name, queue=HELD, command=["true"], volumes=[]) for name in WAITING_RUNS[:2]),
            unmanaged_run(WAITING_RUNS[2], "PyTorchJob", queue=HELD, command=["true"], roles=roles, volumes=[]),
        ]

    team.edit_stack(edit)
    done = team.up(seconds=SECONDS)
    assert done.code == 0, done.text
    return team


def waiting_launches(team: Project) -> list[dict[str, Any]]:
    """The runs that wait."""
    return [launch(team, name) for name in WAITING_RUNS]


def is_suspended(body: dict[str, Any]) -> bool:
    """Return whether a Job or a PyTorchJob is suspended."""
    return bool(body["spec"].get("runPolicy", body["spec"])["suspend"])


def container_ids(pods: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The containers of pods, by the pods' UIDs: another one has taken the place of one that ended."""
    return {uid(pod): [container["containerID"] for container in pod["status"]["containerStatuses"]] for pod in pods}


def image_names(releases: Iterable[ReleaseManifest]) -> set[str]:
    """Return the names of the releases' images."""
    return {release.release_image.format(version=release.version) for release in releases}


def images(project: Project) -> set[str]:
    """Return the images of the controllers."""
    found = (
        project.get("deployment", *controller)["spec"]["template"]["spec"]["containers"] for controller in CONTROLLERS
    )
    # A digest may follow.
    return {container["image"].partition("@")[0] for containers in found for container in containers}


def v1beta1_uids(project: Project, kind: str) -> dict[str, str]:
    """Return the UIDs of the objects of a kind by name, read as v1beta1."""
    items = project.get(f"{kind}.v1beta1.{GROUP}")["items"]
    assert all(body["apiVersion"] == f"{GROUP}/v1beta1" for body in items)
    return {body["metadata"]["name"]: uid(body) for body in items}
