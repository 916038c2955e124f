"""A team next to the dev environment, with rights in its own namespace only."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.lab import true_conditions
from tests.cluster.project import Project, eventually

pytestmark = pytest.mark.cluster

PLATFORM, TEAM = "desk", "vision"
EXEC = ("create", "pods", "exec")


def platform_config() -> dict[str, object]:
    """Return a platform without teams: a flavor and an existing StorageClass."""
    return {
        "trainstack:environment": {"layers": ["platform"], "existing": {"storageClasses": ["shared"]}},
        "trainstack:queues": {"flavors": [{"name": PLATFORM}], "priorityClasses": None},
    }


@pytest.fixture(scope="module")
def platform(dev: Project) -> Iterator[Project]:
    """Yield a platform's stack to which `add-team` has added a team, deployed."""
    project = dev.other_stack(PLATFORM, platform_config())
    done = project.trainstack("add-team", TEAM, "--quota", "cpu=1", "--quota", "memory=1Gi")
    assert done.code == 0, done.text
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()
        done = project.kubectl("delete", "namespace", TEAM, "--timeout=60s", "--ignore-not-found")
        assert done.code == 0, done.text


@pytest.fixture(scope="module")
def team(platform: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield the team's stack, with the kubeconfig of its service account."""
    kubeconfig = tmp_path_factory.mktemp("team") / "kubeconfig"
    _for_service_account(platform, kubeconfig)
    project = Project(platform.root, kubeconfig, TEAM)
    project._use_environment()
    try:
        yield project
    finally:
        project.take_down()


def _for_service_account(platform: Project, to: Path) -> None:
    done = platform.kubectl("create", "token", TEAM, "-n", TEAM, "--duration=1h")
    assert done.code == 0, done.text
    config = yaml.safe_load(platform.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": done.out.strip()}}]
    to.write_text(yaml.safe_dump(config))


def can(project: Project, verb: str, resource: str, subresource: str = "", namespace: str = "") -> bool:
    """Return whether the API server allows a verb on a kind or its subresource to the kubeconfig's user."""
    words = [*([f"--subresource={subresource}"] if subresource else []), *(["-n", namespace] if namespace else [])]
    return project.kubectl("auth", "can-i", verb, resource, *words).out.strip().startswith("yes")


def test_a_team_has_its_rights_and_no_others(team: Project) -> None:
    """Everything in other namespaces or cluster-wide is forbidden, and the team cannot grant rights."""
    for verb, resource, subresource in (("create", "jobs.batch", ""), ("patch", "jobsets.jobset.x-k8s.io", ""), EXEC):
        assert can(team, verb, resource, subresource, TEAM)
        assert not can(team, verb, resource, subresource, "research")
    path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{TEAM}/localqueues/{TEAM}/pendingworkloads"
    done = team.kubectl("get", "--raw", path)
    assert (done.code, json.loads(done.out)["items"]) == (0, []), done.text
    for resource in ("namespaces", "storageclasses", "clusterqueues", "resourceflavors", "customresourcedefinitions"):
        assert not can(team, "list", resource)
        assert not can(team, "get", resource)
    for resource in ("secrets", "roles", "rolebindings", "localqueues.kueue.x-k8s.io"):
        assert not can(team, "create", resource, namespace=TEAM)
    assert not can(team, "create", "serviceaccounts", "token", namespace=TEAM)


def test_a_team_trains_with_its_own_rights_alone(team: Project, tmp_path: Path) -> None:
    """Its example completes, a refresh changes nothing, and the daily commands need rights in one namespace only."""
    done = team.trainstack("up", "--yes")
    assert done.code == 0, done.text
    eventually("hello is complete", lambda: all(map(_is_complete, _jobs(team))))
    workloads = team.get("workloads.kueue.x-k8s.io", "", TEAM)["items"]
    assert [(workload["spec"]["queueName"], "Finished" in true_conditions(workload)) for workload in workloads] == [
        (TEAM, True)
    ]
    assert team.changes("--refresh") == {}

    (run,) = json.loads(team.trainstack("status", "--json").out)
    assert (run["launch"]["phase"], run["last_line"][:10]) == ("succeeded", "hello from")
    done = team.trainstack("logs", "hello")
    assert done.code == 0, done.text
    assert "hello from" in done.out
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "file").write_text("brought")
    for words in (
        ("upload", str(folder), "training:data"),
        ("fetch", "training:data", "--to", str(tmp_path / "back")),
        ("ls", "training:data"),
    ):
        done = team.trainstack(*words)
        assert done.code == 0, done.text
    assert done.out.endswith("  file\n")
    assert (tmp_path / "back" / "file").read_text() == "brought"


def test_a_missing_right_is_reported_before_any_change(platform: Project, team: Project) -> None:
    """The error names the user, the right, the namespace and who grants it.

    It has no stack trace, and nothing is written.
    """
    rules = platform.get("role", f"tenant-{TEAM}", TEAM)["rules"]
    narrow = [rule for rule in rules if rule["apiGroups"] != ["jobset.x-k8s.io"]]
    before = _job_names(team)
    assert len(before) == 1
    file = team.root / f"Pulumi.{TEAM}.yaml"
    text = file.read_text()
    try:
        _set_rules(platform, narrow)
        eventually("the right is gone", lambda: not can(team, "create", "jobsets.jobset.x-k8s.io", namespace=TEAM))
        # A team needs no rights on kinds that it does not use.
        assert team.changes("--refresh") == {}
        team.edit_stack(
            lambda config: config["trainstack:workloads"]["runs"][0].update(
                kind="JobSet", replicatedJobs=[{"name": "node"}]
            )
        )
        for done in (team.pulumi("preview"), team.up()):
            assert done.code != 0
            assert (
                f"system:serviceaccount:{TEAM}:{TEAM} may not create or patch jobsets.jobset.x-k8s.io in namespace "
                f"{TEAM}; the platform's owner gives a team all rights that it needs"
            ) in done.text
            assert "Traceback" not in done.text
        assert _job_names(team) == before
    finally:
        file.write_text(text)
        _set_rules(platform, rules)
        eventually("the right is back", lambda: can(team, "create", "jobsets.jobset.x-k8s.io", namespace=TEAM))


def test_a_platform_without_a_readable_state_is_refused(team: Project) -> None:
    """The error names the platform, without a stack trace.

    Without the reference, the team's stack can be deployed.
    """
    file = team.root / f"Pulumi.{TEAM}.yaml"
    text = file.read_text()
    elsewhere = "organization/trainstack/elsewhere"
    try:
        team.edit_stack(lambda config: config["trainstack:environment"].update(platform=elsewhere))
        done = team.pulumi("preview")
        assert done.code != 0
        assert elsewhere in done.text
        assert "Traceback" not in done.text
        team.edit_stack(lambda config: config["trainstack:environment"].pop("platform"))
        # Only the stack reference is discarded.
        assert set(team.changes("--refresh")) == {"discard"}
    finally:
        file.write_text(text)


def _jobs(team: Project) -> list[dict[str, Any]]:
    return team.select("jobs", f"trainstack.dev/stack={TEAM}", TEAM)


def _job_names(team: Project) -> set[str]:
    return {job["metadata"]["name"] for job in _jobs(team)}


def _is_complete(job: dict[str, Any]) -> bool:
    return "Complete" in true_conditions(job)


def _set_rules(platform: Project, rules: list[dict[str, object]]) -> None:
    patch = json.dumps([{"op": "replace", "path": "/rules", "value": rules}])
    done = platform.kubectl("patch", "role", f"tenant-{TEAM}", "-n", TEAM, "--type=json", "--patch", patch)
    assert done.code == 0, done.text
