"""Operators are upgraded under queued and running runs; a downgrade is refused."""

import json
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from tests.cluster import search
from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    await_pods,
    exec_in_pod,
    managed_run,
    run_id,
    true_conditions,
    uid,
    unmanaged_run,
)
from tests.cluster.project import ROOT, Project, eventually
from tests.faults import outages
from tests.faults.former_releases import FORMER_RELEASES, FormerOperators
from tests.faults.outages import SECONDS, Record
from trainstack.local_cluster import cluster as local_cluster
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, helpers, operators, workload
from trainstack.toolchain.manifests import MANIFESTS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GROUPS = ("kueue.x-k8s.io", "kubeflow.org", "jobset.x-k8s.io", "trainer.kubeflow.org")
CURRENT = {
    key: next(manifest for manifest in MANIFESTS if manifest.name == former.name)
    for key, former in FORMER_RELEASES.items()
}
"""The default releases, by the key of `trainstack:operators`."""
CONTROLLERS = {
    "kueue": ("kueue-controller-manager", "kueue-system"),
    "trainingOperator": ("training-operator", "kubeflow"),
    "jobset": ("jobset-controller-manager", "jobset-system"),
    "trainer": ("kubeflow-trainer-controller-manager", "kubeflow-system"),
}
"""Name and namespace of each operator's Deployment."""
FRAMEWORKS = ["batch/job", "kubeflow.org/pytorchjob", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]
LAUNCH_KINDS = "jobs,jobsets,pytorchjobs,trainjobs"
WAIT_SCRIPT = f"until [ -e {MOUNT}/go ]; do sleep 0.2; done"
"""The script of runs that end when a file exists."""
ROLES = {"Master": {"restartPolicy": "Never"}, "Worker": {"restartPolicy": "Never"}}
SWEEP = "half"
TRIAL = f"""\
import os, pathlib, time
while os.environ["WHAT"] == "long" and not pathlib.Path("{MOUNT}/go").exists():
    time.sleep(0.1)
print("val_accuracy=0.5", flush=True)
"""
"""A trial that ends at once, or when a file exists."""


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
    """Return the specs of the operators' definitions and of Deployments, by name."""
    deployments = (project.get("deployment", *CONTROLLERS[key]) for key in ("kueue", "trainingOperator"))
    return {
        body["metadata"]["name"]: json.dumps(body["spec"], sort_keys=True)
        for body in (*definitions(project).values(), *deployments)
    }


def definitions(project: Project) -> dict[str, dict[str, Any]]:
    """Return the operators' definitions by name."""
    items = project.get("customresourcedefinitions")["items"]
    return {body["metadata"]["name"]: body for body in items if body["spec"]["group"] in GROUPS}


@pytest.mark.parametrize(("operator", "version"), [("kueue", "v0.19.1"), ("trainingOperator", "v1.9.3")])
def test_an_older_operator_is_refused(platform: Project, operator: str, version: str) -> None:
    """The release on the live definitions and Deployment decides."""
    assert_downgrade_refused(platform, operator, version)


@pytest.fixture(scope="module")
def former_operators() -> FormerOperators:
    """Build the former releases."""
    return FormerOperators()


@pytest.fixture(scope="module")
def older_cluster(
    former_operators: FormerOperators, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Yield a cluster with the images of both releases of each operator."""
    with local_cluster.temporary_cluster(tmp_path_factory.mktemp("older")) as running:
        images = [*operators(), *former_operators.recipes, *helpers(), workload(ROOT / "workloads" / "digits")]
        ensure_images(images, running.registry, lambda _: None)
        yield running


def test_the_former_releases_are_upgraded_under_runs(
    older_cluster: LocalCluster, former_operators: FormerOperators, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Running runs and trials continue, queued ones are admitted later, and none is launched twice."""
    project = Project.copy(tmp_path_factory.mktemp("upgrade"), older_cluster)
    platform = project.other_stack("platform", platform_config(former_operators.write(project.root)))
    up(platform)
    team = queued_and_running(platform)
    record = Record(team, older_cluster)
    record.await_epoch(3)
    running_pods = {name: await_pods(team, name, count) for name, count in RUNNING.items()}
    eventually("half of the sweep has ended", lambda: len(ended_trials(team)) == 2)
    before, definitions_before = uids(team), {name: uid(body) for name, body in definitions(team).items()}
    assert images(team) == released_images(FORMER_RELEASES)
    assert "v1beta1" in stored_versions(team)["workloads.kueue.x-k8s.io"]

    platform.edit_stack(install_defaults)
    up(platform)
    assert images(team) == released_images(CURRENT)
    assert definitions_before.items() <= {name: uid(body) for name, body in definitions(team).items()}.items()
    assert {name: versions for name, versions in stored_versions(team).items() if len(versions) > 1} == {}
    assert uids(team) == before
    assert_no_changes(platform)
    assert_no_changes(team)

    record.assert_expected_result()
    assert record.attempts() == 1
    for name, pods in running_pods.items():
        assert container_ids(await_pods(team, name, len(pods))) == container_ids(pods)
    exec_in_pod(team, running_pods["joins"][0], "touch", f"{MOUNT}/go")
    await_success(team, RUNNING)
    eventually("the sweep has ended", lambda: len(ended_trials(team)) == 4)
    assert all(is_suspended(body) for body in launches(team) if workload_name(body) in WAITING_RUNS)

    platform.edit_stack(open_queues)
    up(platform)
    await_success(team, WAITING_RUNS)
    assert uids(team) == before
    assert_no_changes(team)
    for operator, release in FORMER_RELEASES.items():
        assert_downgrade_refused(platform, operator, release.version)


def platform_config(former_manifests: dict[str, Any]) -> dict[str, Any]:
    """Return a platform with the former releases."""
    requests = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    installs = {key: {**requests, "manifest": manifest} for key, manifest in former_manifests.items()}
    installs["kueue"]["configuration"] = {"frameworks": FRAMEWORKS}
    return {**outages.platform(), "trainstack:operators": installs}


def install_defaults(config: dict[str, Any]) -> None:
    """Edit a stack to the releases of `defaults.yaml`."""
    for install in config["trainstack:operators"].values():
        del install["manifest"]


def open_queues(config: dict[str, Any]) -> None:
    """Edit a stack: all its queues admit."""
    for queue in config["trainstack:queues"]["clusterQueues"]:
        queue.pop("stopPolicy", None)


RUNNING = {"joins": 2, "nodes": 2, "set": 1}
"""The runs that wait for a file, with the number of their pods."""
WAITING_RUNS = ("waits-job", "waits-pytorchjob", "waits-trainjob", "waits-set")
"""The runs in the queue that admits nothing."""


def queued_and_running(platform: Project) -> Project:
    """Deploy a team's stack with runs of each kind that run and that wait, and a sweep."""
    team = outages.team(platform)
    search.write_space(
        platform,
        SWEEP,
        {"what": {"categorical": ["short", "long"]}, "n": search.values(1, 2)},
        env={"WHAT": "${parameters.what}", "N": "${parameters.n}"},
    )

    def edit(config: dict[str, Any]) -> None:
        waiting: dict[str, Any] = {"command": ["sh", "-c", WAIT_SCRIPT]}
        held: dict[str, Any] = {"queue": HELD, "command": ["true"], "volumes": []}
        nodes: dict[str, Any] = {"roles": ROLES}
        config["trainstack:workloads"]["runs"] += [
            unmanaged_run("joins", "PyTorchJob", **waiting, **nodes),
            unmanaged_run("nodes", "TrainJob", **waiting, **nodes),
            unmanaged_run("set", "JobSet", replicatedJobs=[{"name": "node", **waiting}]),
            unmanaged_run("waits-job", **held),
            unmanaged_run("waits-pytorchjob", "PyTorchJob", **held, **nodes),
            unmanaged_run("waits-trainjob", "TrainJob", **held, **nodes),
            unmanaged_run("waits-set", "JobSet", **held, replicatedJobs=[{"name": "node"}]),
        ]
        run = managed_run(SWEEP, TRIAL, backoffLimit=0)
        config["trainstack:sweeps"] = {
            "sweeps": [{"name": SWEEP, "form": "jobs", "run": {key: run[key] for key in run if key != "name"}}]
        }

    team.edit_stack(edit)
    up(team)
    return team


def up(project: Project) -> None:
    """Deploy a stack, and assert that it succeeds."""
    done = project.up(seconds=SECONDS)
    assert done.code == 0, done.text


def assert_no_changes(project: Project) -> None:
    """Assert that a further `up`, which reads all live objects, changes nothing."""
    done = project.up("--refresh", "--expect-no-changes", seconds=SECONDS)
    assert done.code == 0, done.text


def launches(team: Project) -> list[dict[str, Any]]:
    """Return the stack's live launches."""
    return team.select(LAUNCH_KINDS, f"trainstack.dev/stack={team.stack},trainstack.dev/run", NAMESPACE)


def workload_name(body: dict[str, Any]) -> str:
    """Return the name of the workload of a launch."""
    return str(body["metadata"]["labels"]["trainstack.dev/workload"])


def uids(team: Project) -> dict[str, str]:
    """Return the UIDs of the stack's launches, by run id."""
    return {run_id(body): uid(body) for body in launches(team)}


def await_success(team: Project, names: Collection[str]) -> None:
    """Wait until the launch of each workload has succeeded."""

    def remaining() -> list[str]:
        succeeded = {"Complete", "Completed", "Succeeded"}
        ended = {workload_name(body) for body in launches(team) if true_conditions(body) & succeeded}
        return [name for name in names if name not in ended]

    eventually(f"the end of {', '.join(names)}", lambda: not remaining(), SECONDS)


def ended_trials(team: Project) -> list[dict[str, Any]]:
    """Return the Jobs of the sweep that have succeeded."""
    return [body for body in launches(team) if workload_name(body) == SWEEP and "Complete" in true_conditions(body)]


def is_suspended(body: dict[str, Any]) -> bool:
    """Return whether a launch is suspended."""
    return bool(body["spec"].get("runPolicy", body["spec"])["suspend"])


def container_ids(pods: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the ids of the containers of pods, by the pods' UIDs: a restarted container has another id."""
    return {uid(pod): [container["containerID"] for container in pod["status"]["containerStatuses"]] for pod in pods}


def released_images(releases: dict[str, Any]) -> set[str]:
    """Return the names of the releases' images."""
    return {release.release_image.format(version=release.version) for release in releases.values()}


def images(project: Project) -> set[str]:
    """Return the images of the controllers."""
    pod_specs = (
        project.get("deployment", *controller)["spec"]["template"]["spec"] for controller in CONTROLLERS.values()
    )
    # A digest may follow.
    return {container["image"].partition("@")[0] for spec in pod_specs for container in spec["containers"]}


def stored_versions(project: Project) -> dict[str, list[str]]:
    """Return the versions in which objects may be stored, by the name of the definition."""
    return {name: body["status"]["storedVersions"] for name, body in definitions(project).items()}
